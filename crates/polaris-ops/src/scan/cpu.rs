//! Running sums on the CPU: lanes over all threads, blocks of lanes that lie side by side, or segments
//! of a few long lanes. Sums are kept in `f64`.

use polaris_core::DType;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::CumSum;
use crate::cpu::blocks::{BLOCK, Compute, ComputeType, Row};
use crate::cpu::map::SendPointer;
use crate::lanes::Lanes;
use crate::{Array, Result};

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 16 * 1024;
/// Elements of a long lane that are summed by one thread.
const SEGMENT: usize = 32 * 1024;
/// From so many lanes on each thread has enough of them.
const MANY_LANES: usize = 64;
/// Lanes side by side that are worked on at once, and the fewest that are.
const WIDTH: usize = 256;
const LEAST_SIDE_BY_SIDE: usize = 8;

/// A compute type that can be summed in `f64`.
trait Number: ComputeType {
    fn wide(self) -> f64;
    fn of(sum: f64) -> Self;
}

impl Number for f32 {
    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn of(sum: f64) -> Self {
        sum as Self
    }
}

impl Number for f64 {
    fn wide(self) -> f64 {
        self
    }

    fn of(sum: f64) -> Self {
        sum
    }
}

pub fn run(op: &CumSum, cpu: &CpuDevice, x: &Array, output: &Array) -> Result<()> {
    let lanes = op.lanes(x, output)?;
    let buffers = [x.buffer()];
    let operands = HostOperands::new("cumsum", &buffers, output.buffer())?;
    let memory = [SendPointer(operands.output()), SendPointer(operands.input(0).cast_mut())];
    let job = Job { lanes, cpu, dtype: output.dtype(), memory, reverse: op.reverse };
    match Compute::of(output.dtype()) {
        Compute::F64 => job.run::<f64>(),
        _ => job.run::<f32>(),
    }
    Ok(())
}

/// Elements that are added up before they meet the sum, so that only one addition in four has to wait
/// for the one before it.
const FOUR: usize = 4;

/// Writes the running sums from either end, on top of a sum, and returns the last one.
fn running_sums<C: Number, const REVERSE: bool>(
    values: &[C],
    results: &mut [C],
    before: f64,
) -> f64 {
    let mut sum = before;
    let whole = values.len() / FOUR * FOUR;
    let (values, rest) = values.split_at(whole);
    let (results, rest_results) = results.split_at_mut(whole);
    let mut one_by_one = |sum: &mut f64| {
        for step in 0..rest.len() {
            let at = if REVERSE { rest.len() - 1 - step } else { step };
            *sum += rest[at].wide();
            rest_results[at] = C::of(*sum);
        }
    };
    if REVERSE {
        one_by_one(&mut sum);
    }
    let fours = whole / FOUR;
    for step in 0..fours {
        let at = FOUR * if REVERSE { fours - 1 - step } else { step };
        let (values, results) = (&values[at..at + FOUR], &mut results[at..at + FOUR]);
        let [a, b, c, d] =
            std::array::from_fn(|i| values[if REVERSE { FOUR - 1 - i } else { i }].wide());
        let parts = [a, a + b, a + b + c, a + b + c + d];
        for (i, part) in parts.into_iter().enumerate() {
            results[if REVERSE { FOUR - 1 - i } else { i }] = C::of(sum + part);
        }
        sum += parts[FOUR - 1];
    }
    if !REVERSE {
        one_by_one(&mut sum);
    }
    sum
}

/// The sum of some elements, in several parts that do not wait for each other.
fn total<C: Number>(values: &[C]) -> f64 {
    const PARTS: usize = 8;
    let mut parts = [0.0; PARTS];
    let chunks = values.chunks_exact(PARTS);
    let rest: f64 = chunks.remainder().iter().map(|value| value.wide()).sum();
    for chunk in chunks {
        for (part, value) in parts.iter_mut().zip(chunk) {
            *part += value.wide();
        }
    }
    parts.iter().sum::<f64>() + rest
}

/// One operation, as its threads see it. Operands are the output and the input.
struct Job<'a> {
    lanes: Lanes<2>,
    cpu: &'a CpuDevice,
    dtype: DType,
    memory: [SendPointer; 2],
    reverse: bool,
}

impl Job<'_> {
    fn run<C: Number>(&self) {
        let Lanes { length, .. } = self.lanes;
        let count = self.lanes.count();
        if self.lanes.are_side_by_side(1, LEAST_SIDE_BY_SIDE) {
            return self.side_by_side::<C>();
        }
        if length > SEGMENT && count < MANY_LANES {
            return self.in_segments::<C>();
        }
        self.cpu.pool().for_chunks(count, (GRAIN / length).max(1), |chunk| {
            for lane in chunk {
                self.stretch::<C>(lane, 0, length, 0.0, true);
            }
        });
    }

    /// A stretch of an operand that begins at an element.
    fn row(&self, operand: usize, at: usize, stride: usize) -> Row {
        // SAFETY: the layouts were checked against their buffers, so every index lies inside.
        let start = unsafe { self.memory[operand].get().add(at * self.dtype.size()) };
        Row { start, dtype: self.dtype, stride }
    }

    /// Where a step of the walk along a lane is.
    fn index(&self, step: usize) -> usize {
        if self.reverse { self.lanes.length - 1 - step } else { step }
    }

    /// Adds up some steps along a lane, and writes the running sums if `writes` is set. Returns the
    /// last one.
    fn stretch<C: Number>(
        &self,
        lane: usize,
        first: usize,
        count: usize,
        before: f64,
        writes: bool,
    ) -> f64 {
        let [to, from] = self.lanes.starts.point(lane);
        let [to_stride, from_stride] = self.lanes.strides;
        let (to, from) = (self.row(0, to, to_stride), self.row(1, from, from_stride));
        let (mut scratch, mut results) = ([C::default(); BLOCK], [C::default(); BLOCK]);
        let mut sum = before;
        for step in (first..first + count).step_by(BLOCK) {
            let count = BLOCK.min(first + count - step);
            let start = if self.reverse { self.index(step + count - 1) } else { step };
            let results = &mut results[..count];
            // SAFETY: the stretch lies inside its buffer, which is registered as read and is not the
            // output.
            let values = unsafe { from.load(start, count, &mut scratch) };
            if !writes {
                sum += total(values);
                continue;
            }
            sum = match self.reverse {
                true => running_sums::<C, true>(values, results, sum),
                false => running_sums::<C, false>(values, results, sum),
            };
            // SAFETY: the stretch lies inside the output, which is registered as written, and belongs
            // to one thread.
            unsafe { to.store(start, results) };
        }
        sum
    }

    /// Long lanes: the sum of each segment first, then each from the sum of all before it.
    fn in_segments<C: Number>(&self) {
        let length = self.lanes.length;
        let segments = length.div_ceil(SEGMENT);
        let extent = |segment: usize| {
            let first = segment * SEGMENT;
            (first, SEGMENT.min(length - first))
        };
        for lane in 0..self.lanes.count() {
            let mut sums = vec![0.0; segments];
            let shared = SendPointer(sums.as_mut_ptr().cast());
            self.cpu.pool().run(segments, |segment| {
                let (first, count) = extent(segment);
                let sum = self.stretch::<C>(lane, first, count, 0.0, false);
                // SAFETY: there is an element for each segment, and each belongs to one thread.
                unsafe { *shared.get().cast::<f64>().add(segment) = sum };
            });
            let mut before = 0.0;
            for sum in &mut sums {
                before += std::mem::replace(sum, before);
            }
            self.cpu.pool().run(segments, |segment| {
                let (first, count) = extent(segment);
                self.stretch::<C>(lane, first, count, sums[segment], true);
            });
        }
    }

    fn side_by_side<C: Number>(&self) {
        let (inner, strides) = self.lanes.starts.inner();
        let blocks_per_row = inner.div_ceil(WIDTH);
        let blocks = self.lanes.count() / inner * blocks_per_row;
        let grain = (GRAIN / (self.lanes.length * WIDTH.min(inner))).max(1);
        self.cpu.pool().for_chunks(blocks, grain, |chunk| {
            let (mut scratch, mut results) = ([C::default(); WIDTH], [C::default(); WIDTH]);
            for block in chunk {
                let start = self.lanes.starts.row(block / blocks_per_row);
                let first = block % blocks_per_row * WIDTH;
                let count = WIDTH.min(inner - first);
                let mut sums = [0.0; WIDTH];
                for step in 0..self.lanes.length {
                    let row = |operand: usize| {
                        let along = self.index(step) * self.lanes.strides[operand];
                        self.row(operand, start[operand] + along, strides[operand])
                    };
                    // SAFETY: the stretches lie inside their buffers, which are registered as read and
                    // written; the output is not the input, and lanes belong to one thread.
                    unsafe {
                        let values = row(1).load(first, count, &mut scratch);
                        let each = values.iter().zip(&mut sums).zip(&mut results);
                        for ((&value, sum), result) in each {
                            *sum += value.wide();
                            *result = C::of(*sum);
                        }
                        row(0).store(first, &results[..count]);
                    }
                }
            }
        });
    }
}
