//! The gradients of pooling on the CPU. Each thread has some rows of the result to itself and adds to
//! them what their windows bring, in the order of the windows: the number of threads changes nothing.

use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::{Buffer, HostOperands};

use super::cpu::{Across, GRAIN, Planes, counts};
use super::cpu_find::{Finder, NOWHERE};
use super::cpu_loops as loops;
use super::geometry::{Geometry, POOLED, SOURCE, WHOLE};
use super::windows::Span;
use super::{Pooling, operations};
use crate::cpu::blocks::Compute;
use crate::softmax::cpu_loops::Number;
use crate::{Array, Result};

pub fn run(
    pooling: Pooling,
    geometry: &Geometry,
    cpu: &CpuDevice,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let buffers: Vec<&Buffer> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new(operations::name(pooling, true), &buffers, output.buffer())?;
    let place =
        |start, operand: usize| Planes::new(start, output.dtype(), geometry.strides[operand]);
    let job = Job {
        cpu,
        geometry,
        spans: geometry.spans(),
        x: place(operands.input(0).cast_mut(), SOURCE),
        g: place(operands.input(inputs.len() - 1).cast_mut(), POOLED),
        output: place(operands.output(), WHOLE),
    };
    match Compute::of(output.dtype()) {
        Compute::F64 => job.run::<f64>(pooling),
        _ => job.run::<f32>(pooling),
    }
    Ok(())
}

struct Job<'a> {
    cpu: &'a CpuDevice,
    geometry: &'a Geometry,
    spans: [Vec<Span>; 2],
    /// The input, of a maximum only.
    x: Planes,
    g: Planes,
    output: Planes,
}

impl Job<'_> {
    fn run<C: Number>(&self, pooling: Pooling) {
        match pooling {
            Pooling::Average { count_padding } => self.average::<C>(count_padding),
            _ => self.maximum::<C>(),
        }
    }

    /// By bands of rows. Windows that reach into two bands are looked at twice.
    fn maximum<C: Number>(&self) {
        let Geometry { planes, whole: [rows, columns], pooled, .. } = *self.geometry;
        let [down, _] = &self.spans;
        let reach = down.iter().map(|span| span.taps * span.step).max().unwrap_or(1);
        let band = (GRAIN / columns).max(4 * reach).clamp(1, rows);
        let bands = rows.div_ceil(band);
        let grain = (GRAIN / (band * columns)).max(1);
        self.cpu.pool().for_chunks(planes.elements() * bands, grain, |chunk| {
            let mut finder = Finder::<C>::new(self.cpu, self.geometry, &self.spans, self.x);
            let mut found = vec![NOWHERE; pooled[1]];
            let mut scratch = vec![C::default(); pooled[1]];
            let mut sums = vec![C::default(); band * columns];
            for unit in chunk {
                let at = planes.point(unit / bands);
                let first = unit % bands * band;
                let mine = first..rows.min(first + band);
                let sums = &mut sums[..mine.len() * columns];
                sums.fill(C::default());
                let touches = |span: &Span| {
                    span.taps > 0
                        && span.first < mine.end
                        && span.first + (span.taps - 1) * span.step >= mine.start
                };
                for (row, _) in down.iter().enumerate().filter(|(_, span)| touches(span)) {
                    finder.row(at[SOURCE], row, &mut found);
                    // SAFETY: the row lies inside its buffer, which is registered as read.
                    let g = unsafe { self.g.row(at[POOLED], row).load(0, pooled[1], &mut scratch) };
                    for (&found, &g) in found.iter().zip(g) {
                        if let Some(sum) = sums.get_mut(found.wrapping_sub(first * columns)) {
                            *sum = *sum + g;
                        }
                    }
                }
                for (row, sums) in mine.zip(sums.chunks_exact(columns)) {
                    // SAFETY: each row of the output is written by one thread.
                    unsafe { self.output.row(at[WHOLE], row).store(0, sums) };
                }
            }
        });
    }

    /// Row by row: what all windows over a row bring is added up first, and then spread.
    fn average<C: Number>(&self, count_padding: bool) {
        let Geometry { planes, whole: [rows, columns], pooled, .. } = *self.geometry;
        let [down, across] = &self.spans;
        let walk = Across::of(self.geometry);
        let level = self.cpu.simd();
        let [down_parts, across_parts] = [down, across].map(|spans| {
            let mut parts = counts::<C>(spans, count_padding);
            parts.iter_mut().for_each(|part| *part = C::of(1.0) / *part);
            parts
        });
        // The windows over each row: none before the first is known.
        let mut over = vec![down.len()..0; rows];
        for (window, span) in down.iter().enumerate() {
            for over in &mut over[span.first..span.first + span.taps] {
                *over = over.start.min(window)..window + 1;
            }
        }
        let line = walk.line(0..pooled[1], across, columns);
        let (length, before) = match walk {
            Across::Taps(window) => (line.length.max(window.padding + columns), window.padding),
            Across::Spans => (columns, 0),
        };
        let grain = (GRAIN / columns).max(1);
        self.cpu.pool().for_chunks(planes.elements() * rows, grain, |chunk| {
            let [mut sums, mut scratch] = [(); 2].map(|()| vec![C::default(); pooled[1]]);
            let mut line = vec![C::default(); length];
            for unit in chunk {
                let (plane, row) = (unit / rows, unit % rows);
                let at = planes.point(plane);
                sums.fill(C::default());
                for window in over[row].clone() {
                    let from = self.g.row(at[POOLED], window);
                    // SAFETY: the row lies inside its buffer, which is registered as read.
                    let g = unsafe { from.load(0, pooled[1], &mut scratch) };
                    loops::add_part::<C>(level, &mut sums, g, down_parts[window]);
                }
                line.fill(C::default());
                match walk {
                    Across::Taps(window) => {
                        loops::spread_taps::<C>(level, &sums, window, &across_parts, &mut line);
                    }
                    Across::Spans => {
                        loops::spread_spans::<C>(level, &sums, across, &across_parts, &mut line);
                    }
                }
                // SAFETY: each row of the output is written by one thread.
                unsafe { self.output.row(at[WHOLE], row).store(0, &line[before..][..columns]) };
            }
        });
    }
}
