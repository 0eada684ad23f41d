//! Experts of few tokens whose rows are rounded to bytes: lines of their weights are multiplied as they lie in memory.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use polaris_core::DType;
use polaris_runtime::cpu::CpuDevice;

use super::Sizes;
use super::cpu::Group;
use super::cpu_lines::{Job, TASK};
use crate::cpu::int8::activations::{Rows, Tile, Tiles};
use crate::cpu::int8::{Instructions, WeightRows, dots};
use crate::cpu::map::SendPointer;
use crate::format::{Block, Blocks, Stored, with_block_type};

/// Lines that are multiplied in one call.
const LINES: usize = 16;

impl Job {
    /// The format of the weight, if lines are whole blocks and rows of x dense.
    pub fn block(&self) -> Option<Block> {
        let Stored::Block(block) = self.weight.stored else { return None };
        let whole = |elements: usize| elements.is_multiple_of(block.elements());
        let weight = &self.weight;
        let lines = weight.strides[2] == 1 && whole(self.sizes.k);
        let starts = whole(weight.offset) && whole(weight.strides[0]) && whole(weight.strides[1]);
        let rows = self.x.stored == Stored::Dense(DType::F32) && self.x.strides[2] == 1;
        (lines && starts && rows).then_some(block)
    }

    /// Multiplies with a weight in this format, which must be that of [`Self::block`].
    pub fn run_int8(&self, block: Block, cpu: &CpuDevice, groups: &[Group]) {
        with_block_type!(block, B => self.run_blocks::<B>(cpu, groups));
    }

    fn run_blocks<B: Blocks>(&self, cpu: &CpuDevice, groups: &[Group]) {
        let Sizes { n, k, .. } = self.sizes;
        let pool = cpu.pool();
        let one = Tiles::new(1, k, 1, B::GROUP);
        let rows: Vec<&usize> = groups.iter().flat_map(|group| &group.pairs).collect();
        let mut memory = vec![0u32; rows.len() * one.bytes().div_ceil(size_of::<u32>())];
        let place = SendPointer(memory.as_mut_ptr().cast());
        let instructions = Instructions::of(cpu.simd());
        let row_place = |row: usize| place.get().wrapping_add(row * one.bytes());
        pool.for_chunks(rows.len(), 1 + TASK / k.max(1), |range| {
            for row in range {
                let start = self.x.start.get().cast::<f32>().wrapping_add(self.row(*rows[row]));
                let x = Rows { start, stride: k, count: 1, length: k };
                // SAFETY: the row lies inside x, which is registered as read; each has memory of its own.
                unsafe { one.write(instructions, x, 0, row_place(row)) };
            }
        });
        // The first row of each group.
        let firsts: Vec<usize> = (groups.iter())
            .scan(0, |next, group| {
                let first = *next;
                *next += group.pairs.len();
                Some(first)
            })
            .collect();
        let kernels = dots::kernels::<B>(instructions);
        let lines = (TASK / k.max(1)).clamp(1, n);
        let parts = n.div_ceil(lines);
        let tasks = groups.len() * parts;
        let next = AtomicUsize::new(0);
        pool.run(pool.threads().min(tasks), |_| {
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    return;
                }
                let (group, first) = (task / parts, task % parts * lines);
                let tile = |pair: usize| one.tile(row_place(firsts[group] + pair), 0);
                self.dots::<B>(kernels, &groups[group], first..n.min(first + lines), &tile);
            }
        });
    }

    /// The element of x at which the row of a pair begins.
    fn row(&self, pair: usize) -> usize {
        let Sizes { used, shared, .. } = self.sizes;
        self.x.element(pair / used, if shared { 0 } else { pair % used })
    }

    /// Some lines of an expert, for all its pairs.
    fn dots<B: Blocks>(
        &self,
        kernels: [dots::Dots; dots::TOKENS],
        group: &Group,
        lines: Range<usize>,
        tile: &dyn Fn(usize) -> Tile,
    ) {
        let k = self.sizes.k;
        let bytes = |elements: usize| elements / B::ELEMENTS * B::BYTES;
        let stride = bytes(self.weight.strides[1]);
        for line in lines.clone().step_by(LINES) {
            let place = bytes(self.weight.element(group.expert, line));
            let start = self.weight.start.get().wrapping_add(place).cast_const();
            let rows = WeightRows { start, stride, count: LINES.min(lines.end - line) };
            for first in (0..group.pairs.len()).step_by(dots::TOKENS) {
                let count = dots::TOKENS.min(group.pairs.len() - first);
                let tokens: [Tile; dots::TOKENS] =
                    std::array::from_fn(|i| tile(first + i.min(count - 1)));
                let mut sums = [0.0; LINES * dots::TOKENS];
                // SAFETY: the lines lie inside the weight, which is registered as read, and the tokens are as long.
                unsafe {
                    kernels[count - 1](rows, k, &tokens[..count], sums.as_mut_ptr(), LINES);
                }
                for (&pair, sums) in group.pairs[first..].iter().zip(sums.chunks(LINES)).take(count)
                {
                    for (i, &sum) in sums[..rows.count].iter().enumerate() {
                        // SAFETY: each element of the output is written by one task.
                        unsafe { self.write(group.expert, pair, line + i, sum) };
                    }
                }
            }
        }
    }
}
