//! The tasks and blocks of a weight gradient.

use polaris_runtime::cpu::SimdLevel;

use super::super::axis::Axis;
use super::super::geometry::Geometry;
use super::Number;
use super::gather_plan::spread;
use super::pieces::Blocks;
use super::window::{CHUNK, Window};
use crate::matmul::cpu::even;

/// Positions of a block.
const POSITIONS: usize = 256;
/// Taps of channels that are multiplied at a time: with the positions of a block, they stay in the L2 cache.
const MOST_TAPS: usize = 576;
/// Tasks that the sum is cut into if the weight is small, and the bytes that its parts may take.
const TASKS: usize = 16;
const PART_BYTES: usize = 16 << 20;

/// How the sum is cut up. The order of additions depends on `parts` and `blocks` alone.
pub(super) struct Plan {
    pub geometry: Geometry,
    pub axes: [Axis; 2],
    pub taps: usize,
    /// Channels of x in a task.
    pub channels: usize,
    pub blocks: Blocks,
    pub parts: usize,
    /// Channels of y, in whole vectors.
    pub columns: usize,
    pub part_elements: usize,
    /// From one tap to the next in what is copied together.
    pub stride: usize,
    pub window_elements: usize,
    /// Whether x is read in place.
    pub in_place: bool,
}

impl Plan {
    pub fn new<C: Number>(geometry: &Geometry, level: SimdLevel, in_place: bool) -> Self {
        let axes = geometry.lengths.each_ref().map(Axis::forward);
        let taps = axes[0].taps * axes[1].taps;
        let channels = even(geometry.inputs, (MOST_TAPS / taps).max(1)).max(1);
        let channel_blocks = geometry.inputs.div_ceil(channels).max(1);
        let mut blocks = Blocks::new(geometry.images, &axes, POSITIONS, 1);
        if in_place {
            blocks.pieces = 1;
        }
        let columns = geometry.outputs.next_multiple_of(C::kernels(level).lanes);
        let part_elements = geometry.groups * geometry.inputs * taps * columns;
        let most = (PART_BYTES / (part_elements * size_of::<C>()).max(1)).max(1);
        let wanted = TASKS.div_ceil(geometry.groups * channel_blocks).min(most);
        let stride = spread(blocks.most_positions());
        let window_elements = Window::new(axes, blocks.width).elements(blocks.pieces);
        Self {
            geometry: *geometry,
            axes,
            taps,
            channels,
            blocks,
            parts: wanted.clamp(1, blocks.count().max(1)),
            columns,
            part_elements: part_elements.next_multiple_of(CHUNK),
            stride,
            window_elements,
            in_place,
        }
    }

    pub fn patch_elements(&self) -> usize {
        if self.in_place { 0 } else { self.channels * self.taps * self.stride + CHUNK }
    }

    /// The window, what is copied from it, and the transposed gradient.
    pub fn worker_elements(&self) -> usize {
        let panels = self.columns * self.blocks.most_positions();
        let parts = [self.window_elements, self.patch_elements(), panels];
        parts.map(|elements| elements.next_multiple_of(CHUNK)).iter().sum()
    }
}
