//! Experts of few tokens: lines of their weights are decoded a few at a time into the L1 cache, and multiplied with
//! all rows that the expert is used for. The lines of all experts are shared among the threads at once.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use polaris_core::DType;
use polaris_runtime::cpu::{CpuDevice, SimdLevel};

use super::Sizes;
use super::cpu::Group;
use crate::cpu::blocks::Row;
use crate::cpu::map::SendPointer;
use crate::cpu::simd::multiversion;
use crate::cpu::vectors::dots;
use crate::format::{Elements, Stored, read_blocks, with_block_type};

/// The most tokens of an expert for which its weight is not worth a matmul.
pub(super) const MOST_PAIRS: usize = 8;
/// Lines that are multiplied together.
const LINES: usize = 4;
/// Elements of a weight that are worth a task.
pub(super) const TASK: usize = 1 << 15;

/// An array of lines, by up to two axes. Strides are in elements.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub start: SendPointer,
    pub stored: Stored,
    pub offset: usize,
    pub strides: [usize; 3],
}

impl Lines {
    pub fn element(&self, outer: usize, line: usize) -> usize {
        self.offset + outer * self.strides[0] + line * self.strides[1]
    }

    /// Whether lines can be read where they lie.
    fn is_in_place(&self) -> bool {
        self.stored == Stored::Dense(DType::F32) && self.strides[2] == 1
    }

    /// A line of `length` elements: in place, without need of scratch, or copied into it.
    ///
    /// # Safety
    /// The line must lie inside the array, which must be registered as read while the result is used.
    unsafe fn load<'a>(
        &self,
        level: SimdLevel,
        element: usize,
        length: usize,
        scratch: &'a mut [f32],
    ) -> &'a [f32] {
        if self.is_in_place() {
            let start = self.start.get().cast::<f32>().wrapping_add(element);
            // SAFETY: by the caller's word.
            return unsafe { std::slice::from_raw_parts(start, length) };
        }
        let scratch = &mut scratch[..length];
        // SAFETY: by the caller's word.
        unsafe {
            match self.stored {
                Stored::Dense(dtype) => {
                    let start = self.start.get().wrapping_add(element * dtype.size());
                    let row = Row { start, dtype, stride: self.strides[2] };
                    return row.load(0, length, scratch);
                }
                Stored::Block(block) => with_block_type!(block, B => {
                    let elements = Elements { first: element, stride: self.strides[2], count: length };
                    read_blocks::<B>(level, self.start.get(), elements, scratch.as_mut_ptr(), 1);
                }),
            }
        }
        scratch
    }
}

multiversion! {
    /// The products of a row with some lines.
    fn multiply<>(lines: &[&[f32]], row: &[f32], to: &mut [f32]) {
        match (lines, to) {
            (&[a, b, c, d], [w, x, y, z]) => {
                [*w, *x, *y, *z] = dots::<LINES, VECTOR_BYTES>([a, b, c, d], row);
            }
            (lines, to) => {
                for (&line, to) in lines.iter().zip(to) {
                    [*to] = dots::<1, VECTOR_BYTES>([line], row);
                }
            }
        }
    }
}

/// Experts of few tokens, as the threads see them.
pub(super) struct Job {
    pub sizes: Sizes,
    pub x: Lines,
    pub weight: Lines,
    pub bias: Option<Lines>,
    pub output: Lines,
}

impl Job {
    pub fn run(&self, cpu: &CpuDevice, groups: &[Group]) {
        let Sizes { n, k, .. } = self.sizes;
        let pool = cpu.pool();
        // Lines of a task, and tasks of an expert.
        let lines = (TASK / k.max(1)).clamp(1, n).next_multiple_of(LINES);
        let parts = n.div_ceil(lines);
        let tasks = groups.len() * parts;
        let next = AtomicUsize::new(0);
        pool.run(pool.threads().min(tasks), |_| {
            let mut weights = vec![0.0; if self.weight.is_in_place() { 0 } else { LINES * k }];
            let mut rows = vec![0.0; if self.x.is_in_place() { 0 } else { MOST_PAIRS * k }];
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    return;
                }
                let first = task % parts * lines;
                let group = &groups[task / parts];
                self.lines(cpu.simd(), group, first..n.min(first + lines), &mut weights, &mut rows);
            }
        });
    }

    /// Some lines of an expert.
    fn lines(
        &self,
        level: SimdLevel,
        group: &Group,
        lines: Range<usize>,
        weights: &mut [f32],
        rows: &mut [f32],
    ) {
        let Sizes { used, k, shared, .. } = self.sizes;
        let place = |pair: usize| if shared { 0 } else { pair % used };
        let mut rows = rows.chunks_mut(k.max(1));
        let rows: Vec<&[f32]> = (group.pairs.iter())
            .map(|&pair| {
                let element = self.x.element(pair / used, place(pair));
                let scratch = rows.next().unwrap_or_default();
                // SAFETY: the row lies inside x, which is registered as read.
                unsafe { self.x.load(level, element, k, scratch) }
            })
            .collect();
        for first in lines.clone().step_by(LINES) {
            let count = LINES.min(lines.end - first);
            let mut scratch = weights.chunks_mut(k.max(1));
            let some: [&[f32]; LINES] = std::array::from_fn(|line| {
                let scratch = scratch.next().unwrap_or_default();
                if line >= count {
                    return &[][..];
                }
                let element = self.weight.element(group.expert, first + line);
                // SAFETY: the line lies inside the weight, which is registered as read.
                unsafe { self.weight.load(level, element, k, scratch) }
            });
            for (&pair, row) in group.pairs.iter().zip(&rows) {
                let mut sums = [0.0; LINES];
                multiply(level, &some[..count], row, &mut sums[..count]);
                for (line, &sum) in sums[..count].iter().enumerate() {
                    // SAFETY: each element of the output is written by one task.
                    unsafe { self.write(group.expert, pair, first + line, sum) };
                }
            }
        }
    }

    /// Adds the bias to a result and stores it.
    ///
    /// # Safety
    /// The element of the output must be this thread's alone; the arrays must be registered.
    pub unsafe fn write(&self, expert: usize, pair: usize, line: usize, sum: f32) {
        let used = self.sizes.used;
        let at =
            |lines: &Lines, element: usize| lines.start.get().cast::<f32>().wrapping_add(element);
        let out = self.output.element(pair / used, pair % used) + line * self.output.strides[2];
        // SAFETY: the bias and the output have such elements; see above.
        unsafe {
            let bias = self.bias.as_ref().map_or(0.0, |bias| *at(bias, bias.element(expert, line)));
            *at(&self.output, out) = sum + bias;
        }
    }
}
