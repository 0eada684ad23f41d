//! The tasks and blocks of the output or the input gradient.

use polaris_runtime::cpu::SimdLevel;

use super::super::geometry::Gather;
use super::Number;
use super::pieces::Blocks;
use super::window::{CHUNK, Window};
use crate::matmul::cpu::{even, most_steps};

/// Positions of a block: with most steps, what they see stays in the L2 cache.
const POSITIONS: usize = 256;
/// The most rows of the result in a task: their accumulators must stay near, too.
const MOST_ROWS: usize = 256;
/// Tasks for each thread, where there are enough rows, so that none is waited for long.
const TASKS_PER_THREAD: usize = 3;

/// How one sum is cut up. The order of additions depends on `steps` alone.
pub(super) struct Plan {
    pub gather: Gather,
    pub blocks: Blocks,
    /// Steps of the sum that are multiplied at a time.
    pub steps: usize,
    /// Rows of a panel of weights, and of a task.
    pub panel_rows: usize,
    pub task_rows: usize,
    /// From one step to the next in what is copied together, and from row to row of the accumulators.
    pub stride: usize,
    pub window_elements: usize,
    /// Whether the source is read in place: positions see it as it is, in whole vectors.
    pub in_place: bool,
    /// Whether the result is accumulated in place.
    pub to_result: bool,
}

impl Plan {
    /// The last two say whether the source is read, and the result made, where it lies.
    pub fn new<C: Number>(
        gather: &Gather,
        level: SimdLevel,
        threads: usize,
        [in_place, to_result]: [bool; 2],
    ) -> Self {
        let kernels = C::kernels(level);
        let mut blocks = Blocks::new(gather.images, &gather.axes, POSITIONS, 1);
        if in_place {
            blocks.pieces = 1;
        }
        let taps = gather.axes[0].taps * gather.axes[1].taps;
        let most = most_steps(kernels);
        let steps = even(gather.depth(), most);
        // Whole channels, so that none is read twice.
        let steps = if 4 * taps <= most { steps.next_multiple_of(taps.max(1)) } else { steps };
        let panel_rows = even(gather.rows, kernels.rows(false));
        let panels = gather.rows.div_ceil(panel_rows);
        let wanted = threads * TASKS_PER_THREAD / (blocks.count() * gather.groups).max(1);
        let cuts = gather.rows.div_ceil(MOST_ROWS).max(wanted).clamp(1, panels);
        Self {
            gather: *gather,
            blocks,
            steps,
            panel_rows,
            task_rows: panels.div_ceil(cuts) * panel_rows,
            stride: spread(blocks.most_positions()),
            window_elements: Window::new(gather.axes, blocks.width).elements(blocks.pieces),
            in_place,
            to_result,
        }
    }

    pub fn weight_elements(&self) -> usize {
        self.gather.groups * self.gather.rows * self.gather.depth()
    }

    /// The window, what is copied from it, and the accumulators.
    pub fn worker_elements(&self) -> usize {
        let sums = if self.to_result { 0 } else { self.task_rows * self.stride };
        let parts = [self.window_elements, self.patch_elements(), sums];
        parts.map(|elements| elements.next_multiple_of(CHUNK)).iter().sum()
    }

    pub fn patch_elements(&self) -> usize {
        if self.in_place { 0 } else { self.steps * self.stride + CHUNK }
    }
}

/// A row length that holds this many numbers, with room to copy the last of them in whole chunks, and
/// that does not let the lines of many rows fall on the same few places of a cache.
pub(super) fn spread(numbers: usize) -> usize {
    ((numbers + CHUNK - 1).div_ceil(CHUNK) | 1) * CHUNK
}
