//! Pooling on the CPU. The rows of a window are folded into one line, element by element, and then
//! the elements of the line: both loops run over many windows side by side.

use std::ops::Range;

use polaris_core::DType;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::cpu_channels::Channels;
use super::cpu_find::{Finder, NOWHERE};
use super::cpu_loops::{self as loops, Fold, Largest, Sum};
use super::geometry::{Geometry, POOLED, WHOLE};
use super::windows::{Along, Span, Window};
use super::{Pooling, operations};
use crate::cpu::blocks::{BLOCK, Compute, Row};
use crate::cpu::map::SendPointer;
use crate::softmax::cpu_loops::Number;
use crate::{Array, Result};

/// Fewer elements than this are not worth a second thread.
pub const GRAIN: usize = 16 * 1024;
/// Elements of a line that windows are folded into: it should stay in the L1 cache.
const LINE_ELEMENTS: usize = 4 * 1024;

/// The rows of an array's planes, as the threads see them.
#[derive(Clone, Copy)]
pub struct Planes {
    start: SendPointer,
    dtype: DType,
    strides: [usize; 2],
}

impl Planes {
    /// Of an array of the geometry whose memory begins here.
    pub fn new(start: *mut u8, dtype: DType, strides: [usize; 2]) -> Self {
        Self { start: SendPointer(start), dtype, strides }
    }

    /// Where the memory begins.
    pub fn start(self) -> SendPointer {
        self.start
    }

    /// A row of the plane that begins with this element.
    pub fn row(self, plane: usize, row: usize) -> Row {
        let at = plane + row * self.strides[0];
        // SAFETY: the layouts were checked against their buffers, so every index lies inside.
        let start = unsafe { self.start.get().add(at * self.dtype.size()) };
        Row { start, dtype: self.dtype, stride: self.strides[1] }
    }
}

/// How windows are walked along a row.
#[derive(Clone, Copy)]
pub enum Across {
    /// Tap by tap, many windows at a time, on a line with the padding in it.
    Taps(Window),
    /// Window by window: they are few, long or uneven.
    Spans,
}

impl Across {
    pub fn of(geometry: &Geometry) -> Self {
        let [_, windows] = geometry.pooled;
        match geometry.along[1] {
            Along::Sliding(window)
                if window.kernel <= windows.max(4)
                    && window.stride.max(window.kernel * window.dilation) <= LINE_ELEMENTS =>
            {
                Self::Taps(window)
            }
            _ => Self::Spans,
        }
    }

    /// How many windows are walked at a time.
    pub fn block(self, windows: usize) -> usize {
        let most = match self {
            Self::Taps(window) => (LINE_ELEMENTS / window.stride).clamp(1, BLOCK),
            Self::Spans => BLOCK,
        };
        most.min(windows)
    }

    /// The line that some windows need: the columns it holds, how many elements of padding are in
    /// front of them, and how long it is.
    pub fn line(self, windows: Range<usize>, spans: &[Span], columns: usize) -> Line {
        match self {
            Self::Taps(window) => {
                let start = windows.start * window.stride;
                let length = windows.len() * window.stride + (window.kernel - 1) * window.dilation;
                let before = window.padding.saturating_sub(start).min(length);
                let first = (start + before).saturating_sub(window.padding).min(columns);
                let end = columns.min(first + length - before);
                Line { columns: first..end, before, length }
            }
            Self::Spans => {
                let covering = || spans[windows.clone()].iter().filter(|span| span.taps > 0);
                let end = |span: &Span| span.first + (span.taps - 1) * span.step + 1;
                let first = covering().map(|span| span.first).min().unwrap_or(0);
                let end = covering().map(end).max().unwrap_or(0);
                Line { columns: first..end, before: 0, length: end - first }
            }
        }
    }
}

/// See [`Across::line`].
#[derive(Debug, Clone)]
pub struct Line {
    pub columns: Range<usize>,
    pub before: usize,
    pub length: usize,
}

impl Line {
    /// Fills what is not a column.
    pub fn pad<C: Copy>(&self, line: &mut [C], value: C) {
        line[..self.before].fill(value);
        line[self.before + self.columns.len()..].fill(value);
    }
}

pub fn run(
    pooling: Pooling,
    geometry: &Geometry,
    cpu: &CpuDevice,
    x: &Array,
    output: &Array,
) -> Result<()> {
    let buffers = [x.buffer()];
    let name = operations::name(pooling, false);
    let operands = HostOperands::new(name, &buffers, output.buffer())?;
    let place = |start, array: &Array, operand: usize| {
        Planes::new(start, array.dtype(), geometry.strides[operand])
    };
    let job = Job {
        cpu,
        geometry,
        spans: geometry.spans(),
        x: place(operands.input(0).cast_mut(), x, WHOLE),
        output: place(operands.output(), output, POOLED),
    };
    if let Some(images) = adjacent_channels(geometry, x, output) {
        match pooling {
            Pooling::Max => job.fold_channels::<f32, Largest>(&images, None),
            Pooling::Average { count_padding } => {
                job.fold_channels::<f32, Sum>(&images, Some(count_padding));
            }
            Pooling::ArgMax => job.run::<f32>(pooling),
        }
        return Ok(());
    }
    match Compute::of(x.dtype()) {
        Compute::F64 => job.run::<f64>(pooling),
        _ => job.run::<f32>(pooling),
    }
    Ok(())
}

/// The images, if their channels are adjacent, and then their columns.
fn adjacent_channels(geometry: &Geometry, x: &Array, output: &Array) -> Option<Channels> {
    let is_plain = |array: &Array| array.dtype() == DType::F32 && array.shape().rank() == 4;
    let channels = x.shape().dims().get(1).copied().unwrap_or(0);
    let fits = is_plain(x)
        && is_plain(output)
        && channels > 1
        && geometry.whole[1] > 1
        && [x, output].iter().all(|array| array.layout().strides()[1] == 1)
        && [POOLED, WHOLE].iter().all(|&operand| geometry.strides[operand][1] == channels);
    fits.then(|| {
        let arrays = [output, x];
        Channels {
            images: x.shape()[0],
            channels,
            strides: arrays.map(|array| array.layout().strides()[0]),
            offsets: arrays.map(|array| array.layout().offset()),
        }
    })
}

pub struct Job<'a> {
    pub cpu: &'a CpuDevice,
    pub geometry: &'a Geometry,
    pub spans: [Vec<Span>; 2],
    pub x: Planes,
    pub output: Planes,
}

impl Job<'_> {
    fn run<C: Number>(&self, pooling: Pooling) {
        match pooling {
            Pooling::Max => self.fold::<C, Largest>(None),
            Pooling::Average { count_padding } => self.fold::<C, Sum>(Some(count_padding)),
            Pooling::ArgMax => self.indices::<C>(),
        }
    }

    /// Folds windows, and divides the results if it is said what counts.
    fn fold<C: Number, F: Fold<C>>(&self, count_padding: Option<bool>) {
        let Geometry { planes, whole, pooled, .. } = self.geometry;
        let [down, across] = &self.spans;
        let walk = Across::of(self.geometry);
        let block = walk.block(pooled[1]);
        let blocks = pooled[1].div_ceil(block);
        let level = self.cpu.simd();
        let counts =
            count_padding.map(|padding| [counts::<C>(down, padding), counts(across, padding)]);
        // A window that lies in the padding alone has nothing that could be loaded.
        let lines: Vec<Line> = (0..blocks)
            .map(|part| {
                walk.line(part * block..pooled[1].min((part + 1) * block), across, whole[1])
            })
            .collect();
        let longest = lines.iter().map(|line| line.length).max().unwrap_or(0);
        let work = longest * down.iter().map(|span| span.taps).max().unwrap_or(1);
        let grain = (GRAIN / work.max(1)).max(1);
        self.cpu.pool().for_chunks(planes.elements() * pooled[0] * blocks, grain, |chunk| {
            let [mut line, mut scratch] = [(); 2].map(|()| vec![C::default(); longest]);
            let mut results = vec![C::default(); block];
            for unit in chunk {
                let (row, part) = (unit / blocks, unit % blocks);
                let (plane, row) = (row / pooled[0], row % pooled[0]);
                let windows = part * block..pooled[1].min((part + 1) * block);
                let at = planes.point(plane);
                let needed = &lines[part];
                let line = &mut line[..needed.length];
                let inside = needed.before..needed.before + needed.columns.len();
                needed.pad(line, F::neutral());
                let span = down[row];
                for tap in 0..span.taps {
                    let from = self.x.row(at[WHOLE], span.first + tap * span.step);
                    let count = inside.len();
                    // SAFETY: the columns lie inside the row, whose buffer is registered as read.
                    let values = unsafe { from.load(needed.columns.start, count, &mut scratch) };
                    if tap == 0 {
                        line[inside.clone()].copy_from_slice(values);
                    } else {
                        loops::fold_into::<C, F>(level, &mut line[inside.clone()], values);
                    }
                }
                if span.taps == 0 {
                    line.fill(F::neutral());
                }
                let results = &mut results[..windows.len()];
                results.fill(F::neutral());
                match walk {
                    Across::Taps(window) => loops::fold_taps::<C, F>(level, line, window, results),
                    Across::Spans => {
                        let first = needed.columns.start;
                        let spans = &across[windows.clone()];
                        loops::fold_spans::<C, F>(level, line, first, spans, results);
                    }
                }
                if let Some([rows, columns]) = &counts {
                    loops::divide::<C>(level, results, rows[row], &columns[windows.clone()]);
                }
                // SAFETY: the windows lie inside the output's row, and each block is written by one
                // thread.
                unsafe { self.output.row(at[POOLED], row).store(windows.start, results) };
            }
        });
    }

    fn indices<C: Number>(&self) {
        let Geometry { planes, pooled, .. } = self.geometry;
        let grain = (GRAIN / pooled[1].max(1)).max(1);
        self.cpu.pool().for_chunks(planes.elements() * pooled[0], grain, |chunk| {
            let mut finder = Finder::<C>::new(self.cpu, self.geometry, &self.spans, self.x);
            let mut found = vec![NOWHERE; pooled[1]];
            for unit in chunk {
                let (plane, row) = (unit / pooled[0], unit % pooled[0]);
                let at = planes.point(plane);
                finder.row(at[WHOLE], row, &mut found);
                let position = |&at: &usize| if at == NOWHERE { 0 } else { at as i64 };
                let positions: Vec<i64> = found.iter().map(position).collect();
                // SAFETY: each row of the output is written by one thread.
                unsafe { self.output.row(at[POOLED], row).store(0, &positions) };
            }
        });
    }
}

/// The numbers of elements that windows are divided by, along one axis.
pub fn counts<C: Number>(spans: &[Span], padding: bool) -> Vec<C> {
    let count = |span: &Span| if padding { span.padded } else { span.taps };
    spans.iter().map(|span| C::of(count(span).max(1) as f64)).collect()
}
