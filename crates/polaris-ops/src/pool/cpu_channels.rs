//! Pooling of NHWC images: rows of an image are folded into one line of all its columns and channels, and then the
//! columns of each window, all channels at a time.

use super::cpu::{GRAIN, Job, counts};
use super::cpu_loops::{self as loops, Fold};
use super::geometry::{Geometry, POOLED, WHOLE};
use super::windows::Span;
use crate::softmax::cpu_loops::Number;

/// Images, as they follow one another, and their channels.
#[derive(Debug, Clone, Copy)]
pub struct Channels {
    pub images: usize,
    pub channels: usize,
    /// From one image to the next.
    pub strides: [usize; 2],
    /// The first elements.
    pub offsets: [usize; 2],
}

impl Job<'_> {
    /// Folds windows, and divides the results if it is said what counts. Elements are of the type that
    /// is computed in, and the columns of an image's row follow one another.
    pub fn fold_channels<C: Number, F: Fold<C>>(
        &self,
        images: &Channels,
        count_padding: Option<bool>,
    ) {
        let Geometry { whole, pooled, strides, .. } = self.geometry;
        let [down, across] = &self.spans;
        let channels = images.channels;
        let starts = [self.output.start(), self.x.start()];
        let level = self.cpu.simd();
        let counts =
            count_padding.map(|padding| [counts::<C>(down, padding), counts(across, padding)]);
        let at = |operand: usize, image: usize, row: usize| {
            let element = images.offsets[operand]
                + image * images.strides[operand]
                + row * strides[operand][0];
            starts[operand].get().cast::<C>().wrapping_add(element)
        };
        let (width, pooled_width) = (whole[1] * channels, pooled[1] * channels);
        let grain = (GRAIN / width.max(1)).max(1);
        self.cpu.pool().for_chunks(images.images * pooled[0], grain, |chunk| {
            let mut line = vec![C::default(); width];
            for unit in chunk {
                let (image, row) = (unit / pooled[0], unit % pooled[0]);
                let span = down[row];
                for tap in 0..span.taps {
                    let from = at(WHOLE, image, span.first + tap * span.step);
                    // SAFETY: the row lies inside the input, which is registered as read.
                    let from = unsafe { std::slice::from_raw_parts(from, width) };
                    match tap {
                        0 => line.copy_from_slice(from),
                        _ => loops::fold_into::<C, F>(level, &mut line, from),
                    }
                }
                if span.taps == 0 {
                    line.fill(F::neutral());
                }
                let to = at(POOLED, image, row);
                // SAFETY: the row lies inside the output, and is this thread's alone.
                let results = unsafe { std::slice::from_raw_parts_mut(to, pooled_width) };
                for (column, (window, to)) in
                    across.iter().zip(results.chunks_exact_mut(channels)).enumerate()
                {
                    fold_window::<C, F>(level, &line, window, to);
                    if let Some([rows, columns]) = &counts {
                        let count = rows[row] * columns[column];
                        to.iter_mut().for_each(|value| *value = *value / count);
                    }
                }
            }
        });
    }
}

/// Folds the columns of a window.
fn fold_window<C: Number, F: Fold<C>>(
    level: polaris_runtime::cpu::SimdLevel,
    line: &[C],
    window: &Span,
    to: &mut [C],
) {
    let channels = to.len();
    let column = |tap: usize| &line[(window.first + tap * window.step) * channels..][..channels];
    if window.taps == 0 {
        return to.fill(F::neutral());
    }
    to.copy_from_slice(column(0));
    for tap in 1..window.taps {
        loops::fold_into::<C, F>(level, to, column(tap));
    }
}
