//! Reductions on the CPU: rows in blocks, columns side by side, long ones in segments whose
//! number depends on the shape alone.

use polaris_runtime::HostOperands;
use polaris_runtime::cpu::{CpuDevice, SimdLevel};

use super::cpu_folds::{ArgMax, Extreme, Fold, Sum};
use super::{Reduce, Reduction, Spaces};
use crate::cpu::blocks::{BLOCK, Compute, ComputeType, LONG_BLOCK, Row};
use crate::cpu::map::SendPointer;
use crate::{Array, Result};

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 16 * 1024;
/// Elements of one output that form a segment.
const SEGMENT: usize = 64 * 1024;
/// Rows of one segment when columns are reduced side by side.
const SEGMENT_ROWS: usize = 1024;

pub fn run(op: &Reduce, cpu: &CpuDevice, input: &Array, output: &Array) -> Result<()> {
    let job = Job { spaces: op.spaces(input, output)?, cpu, input, output };
    let count = job.spaces.reduced.elements();
    let largest = op.reduction == Reduction::Max;
    let mean = |sum: f64| if op.reduction == Reduction::Mean { sum / count as f64 } else { sum };
    match (op.reduction, Compute::of(input.dtype())) {
        (Reduction::Sum | Reduction::Mean, Compute::F32) => {
            job.run(Sum::<f32>::new(), |sum| mean(sum) as f32)
        }
        (Reduction::Sum | Reduction::Mean, Compute::F64) => job.run(Sum::<f64>::new(), mean),
        (Reduction::Sum | Reduction::Mean, Compute::I64) => job.run(Sum::<i64>::new(), |sum| sum),
        (Reduction::Max | Reduction::Min, Compute::F32) => {
            job.run(Extreme::<f32>::new(largest), |value| value)
        }
        (Reduction::Max | Reduction::Min, Compute::F64) => {
            job.run(Extreme::<f64>::new(largest), |value| value)
        }
        (Reduction::Max | Reduction::Min, Compute::I64) => {
            job.run(Extreme::<i64>::new(largest), |value| value)
        }
        (Reduction::ArgMax, Compute::F32) => {
            job.run(ArgMax::<f32>::new(), |(_, index)| index as i64)
        }
        (Reduction::ArgMax, Compute::F64) => {
            job.run(ArgMax::<f64>::new(), |(_, index)| index as i64)
        }
        (Reduction::ArgMax, Compute::I64) => {
            job.run(ArgMax::<i64>::new(), |(_, index)| index as i64)
        }
    }
}

struct Job<'a> {
    spaces: Spaces,
    cpu: &'a CpuDevice,
    input: &'a Array,
    output: &'a Array,
}

/// The memory of a job, as its threads see it.
struct Memory<'a> {
    job: &'a Job<'a>,
    input: SendPointer,
    output: SendPointer,
}

impl Job<'_> {
    fn run<C: ComputeType, F: Fold<C>, O: ComputeType>(
        &self,
        fold: F,
        finish: impl Fn(F::State) -> O + Sync,
    ) -> Result<()> {
        let inputs = [self.input.buffer()];
        let operands = HostOperands::new("reduce", &inputs, self.output.buffer())?;
        let memory = Memory {
            job: self,
            input: SendPointer(operands.input(0).cast_mut()),
            output: SendPointer(operands.output()),
        };
        let outputs = self.spaces.kept.elements();
        let by_columns = self.goes_by_columns();
        let piece = if self.rows_are_dense::<C>() { LONG_BLOCK } else { BLOCK };
        let segments = if by_columns { self.column_segments() } else { self.row_segments(piece) };
        let work = |range: std::ops::Range<usize>, states: &mut [F::State], segment: usize| {
            if by_columns {
                memory.columns::<C, F>(&fold, range, segment, segments, states);
            } else {
                for (output, state) in range.zip(states) {
                    *state = memory.row::<C, F>(&fold, output, piece, segment, segments);
                }
            }
        };
        let pool = self.cpu.pool();
        if segments == 1 {
            let grain = (GRAIN / self.spaces.reduced.elements().max(1)).clamp(1, BLOCK);
            pool.for_chunks(outputs, grain, |chunk| {
                let mut states = [fold.start(); BLOCK];
                for first in chunk.clone().step_by(BLOCK) {
                    let range = first..chunk.end.min(first + BLOCK);
                    let states = &mut states[..range.len()];
                    work(range, states, 0);
                    memory.store(first, states, &finish);
                }
            });
            return Ok(());
        }
        // Few outputs, many elements each: segments in parallel, then combined in their order.
        let mut partial = vec![fold.start(); outputs * segments];
        let slots = SendPointer(partial.as_mut_ptr().cast());
        pool.run(segments, |segment| {
            // SAFETY: each segment owns its own stretch of `partial`, which outlives the call.
            let states = unsafe {
                let start = slots.get().cast::<F::State>().add(segment * outputs);
                std::slice::from_raw_parts_mut(start, outputs)
            };
            work(0..outputs, states, segment);
        });
        for output in 0..outputs {
            let states = (0..segments).map(|segment| partial[segment * outputs + output]);
            let state = states.reduce(|a, b| fold.combine(a, b)).unwrap_or(fold.start());
            memory.store(output, &[state], &finish);
        }
        Ok(())
    }

    /// Neighbouring outputs read neighbouring elements, and what one output reads is spread out.
    fn goes_by_columns(&self) -> bool {
        let (length, [_, stride]) = self.spaces.kept.inner();
        stride == 1 && length >= 8 && self.spaces.reduced.inner().1 != [1]
    }

    fn column_segments(&self) -> usize {
        let enough_outputs = self.spaces.kept.elements() >= 16 * BLOCK;
        if enough_outputs {
            1
        } else {
            self.spaces.reduced.elements().div_ceil(SEGMENT_ROWS).clamp(1, 64)
        }
    }

    fn row_segments(&self, piece: usize) -> usize {
        let few_outputs = self.spaces.kept.elements() < 64;
        if few_outputs { (self.pieces(piece) * piece).div_ceil(SEGMENT).max(1) } else { 1 }
    }

    /// Whether the elements of one output can be used where they are.
    fn rows_are_dense<C: ComputeType>(&self) -> bool {
        self.spaces.reduced.inner().1 == [1] && self.input.dtype() == C::NATIVE
    }

    /// Pieces of all rows of one output.
    fn pieces(&self, piece: usize) -> usize {
        let (length, _) = self.spaces.reduced.inner();
        let rows = self.spaces.reduced.elements() / length.max(1);
        rows * length.div_ceil(piece)
    }
}

impl Memory<'_> {
    /// Reduces one segment of one output's elements, piece by piece.
    fn row<C: ComputeType, F: Fold<C>>(
        &self,
        fold: &F,
        output: usize,
        piece: usize,
        segment: usize,
        segments: usize,
    ) -> F::State {
        let Spaces { kept, reduced } = &self.job.spaces;
        let dtype = self.job.input.dtype();
        let base = kept.point(output)[1];
        let (length, [stride]) = reduced.inner();
        let per_row = length.div_ceil(piece).max(1);
        let pieces = self.job.pieces(piece);
        let each = pieces.div_ceil(segments);
        let mut scratch = [C::default(); BLOCK];
        let mut state = fold.start();
        for number in segment * each..pieces.min((segment + 1) * each) {
            let (row, first) = (number / per_row, number % per_row * piece);
            let count = piece.min(length - first);
            let start = base + reduced.row(row)[0];
            // SAFETY: the layouts were checked against their buffers, which are registered as
            // read and written by this operation.
            let values = unsafe {
                let start = self.input.get().add(start * dtype.size());
                Row { start, dtype, stride }.load(first, count, &mut scratch)
            };
            fold.block(self.job.cpu.simd(), &mut state, values, (row * length + first) as u64);
        }
        state
    }

    /// Reduces one segment of rows for a range of outputs side by side.
    fn columns<C: ComputeType, F: Fold<C>>(
        &self,
        fold: &F,
        outputs: std::ops::Range<usize>,
        segment: usize,
        segments: usize,
        states: &mut [F::State],
    ) {
        let Spaces { kept, reduced } = &self.job.spaces;
        let dtype = self.job.input.dtype();
        let (length, _) = kept.inner();
        let rows = reduced.elements();
        let each = rows.div_ceil(segments);
        let mut scratch = [C::default(); BLOCK];
        states.fill(fold.start());
        let mut done = 0;
        // A stretch of outputs within one row of the kept axes is dense in the input.
        while done < outputs.len() {
            let output = outputs.start + done;
            let count = (length - output % length).min(outputs.len() - done).min(BLOCK);
            let base = kept.point(output)[1];
            for row in segment * each..rows.min((segment + 1) * each) {
                // SAFETY: as for `row`.
                let values = unsafe {
                    let start = self.input.get().add((base + reduced.point(row)[0]) * dtype.size());
                    Row { start, dtype, stride: 1 }.load(0, count, &mut scratch)
                };
                fold.side_by_side(
                    self.job.cpu.simd(),
                    &mut states[done..done + count],
                    values,
                    row as u64,
                );
            }
            done += count;
        }
    }

    /// Stores results from output `first` on.
    fn store<S: Copy, O: ComputeType>(&self, first: usize, states: &[S], finish: &impl Fn(S) -> O) {
        let dtype = self.job.output.dtype();
        for (i, &state) in states.iter().enumerate() {
            let at = self.job.spaces.kept.point(first + i)[0];
            // SAFETY: as for `row`; each output is stored by one thread.
            unsafe { finish(state).store_one(self.output.get().add(at * dtype.size()), dtype) };
        }
    }
}

/// Used by the folds' loops.
pub(super) type Level = SimdLevel;
