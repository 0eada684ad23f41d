//! Indices of the largest elements of windows on the CPU.

use std::ops::Range;

use polaris_runtime::cpu::CpuDevice;

use super::cpu::{Across, Planes};
use super::cpu_loops as loops;
use super::geometry::Geometry;
use super::windows::{Span, Window};
use crate::softmax::cpu_loops::Number;

/// In place of an index, where a window covers nothing.
pub const NOWHERE: usize = usize::MAX;

/// Finds the first of the largest elements of windows.
pub struct Finder<'a, C> {
    cpu: &'a CpuDevice,
    geometry: &'a Geometry,
    spans: &'a [Vec<Span>; 2],
    x: Planes,
    walk: Across,
    line: Vec<C>,
    scratch: Vec<C>,
    best: Vec<C>,
    taps: Vec<i32>,
    /// How far each tap is from the first one of its window.
    offsets: Vec<usize>,
}

impl<'a, C: Number> Finder<'a, C> {
    pub fn new(
        cpu: &'a CpuDevice,
        geometry: &'a Geometry,
        spans: &'a [Vec<Span>; 2],
        x: Planes,
    ) -> Self {
        let walk = Across::of(geometry);
        let block = walk.block(geometry.pooled[1]);
        Self {
            cpu,
            geometry,
            spans,
            x,
            walk,
            line: Vec::new(),
            scratch: Vec::new(),
            best: vec![C::LOWEST; block],
            taps: vec![0; block],
            offsets: Vec::new(),
        }
    }

    /// The positions in the plane, which begins at this element, for a row of windows.
    pub fn row(&mut self, plane: usize, row: usize, found: &mut [usize]) {
        let block = self.best.len().max(1);
        for (part, found) in found.chunks_mut(block).enumerate() {
            let windows = part * block..part * block + found.len();
            match self.walk {
                Across::Taps(window) => self.by_taps(plane, row, window, windows, found),
                Across::Spans => self.by_spans(plane, row, windows, found),
            }
        }
    }

    fn by_taps(
        &mut self,
        plane: usize,
        row: usize,
        window: Window,
        windows: Range<usize>,
        found: &mut [usize],
    ) {
        let [down, across] = self.spans;
        let [_, columns] = self.geometry.whole;
        let (span, across) = (down[row], &across[windows.clone()]);
        let needed = self.walk.line(windows.clone(), &self.spans[1], columns);
        self.line.resize(needed.length, C::LOWEST);
        self.scratch.resize(needed.length, C::LOWEST);
        needed.pad(&mut self.line, C::LOWEST);
        let (best, taps) = (&mut self.best[..windows.len()], &mut self.taps[..windows.len()]);
        // If nothing is larger than the padding, it is the first element of the array.
        best.fill(C::LOWEST);
        taps.iter_mut().zip(across).for_each(|(tap, span)| *tap = span.skipped as i32);
        self.offsets.clear();
        for tap in 0..span.taps {
            let from = self.x.row(plane, span.first + tap * span.step);
            let count = needed.columns.len();
            // SAFETY: the columns lie inside the row, whose buffer is registered as read.
            let values = unsafe { from.load(needed.columns.start, count, &mut self.scratch) };
            self.line[needed.before..][..count].copy_from_slice(values);
            let first = (tap * window.kernel) as i32;
            loops::find_taps::<C>(self.cpu.simd(), &self.line, window, first, best, taps);
            let offset = |column: usize| tap * span.step * columns + column * window.dilation;
            self.offsets.extend((0..window.kernel).map(offset));
        }
        for (index, (found, tap)) in found.iter_mut().zip(taps).enumerate() {
            *found = NOWHERE;
            if span.taps > 0 && across[index].taps > 0 {
                let padded = span.first * columns + (windows.start + index) * window.stride;
                *found = padded + self.offsets[*tap as usize] - window.padding;
            }
        }
    }

    fn by_spans(&mut self, plane: usize, row: usize, windows: Range<usize>, found: &mut [usize]) {
        let [down, across] = self.spans;
        let [_, columns] = self.geometry.whole;
        let (span, across) = (down[row], &across[windows.clone()]);
        let needed = self.walk.line(windows, &self.spans[1], columns);
        self.scratch.resize(needed.length, C::LOWEST);
        found.fill(NOWHERE);
        for tap in 0..span.taps {
            let y = span.first + tap * span.step;
            let from = self.x.row(plane, y);
            let count = needed.columns.len();
            // SAFETY: as above.
            let values = unsafe { from.load(needed.columns.start, count, &mut self.scratch) };
            for ((found, best), span) in found.iter_mut().zip(&mut self.best).zip(across) {
                for x in (0..span.taps).map(|tap| span.first + tap * span.step) {
                    let value = values[x - needed.columns.start];
                    let better = value > *best || value.is_nan() && !best.is_nan();
                    if *found == NOWHERE || better {
                        (*found, *best) = (y * columns + x, value);
                    }
                }
            }
        }
    }
}
