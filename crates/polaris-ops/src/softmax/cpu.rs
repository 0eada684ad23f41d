//! Softmax on the CPU: rows one after another, each in the caches while it is worked on; parts of
//! rows that lie side by side; or long rows, each shared out to all threads. The results of the first
//! and the last are the same bits, so that the number of threads may decide between them.

use std::ops::Range;

use polaris_core::DType;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::cpu_loops::{
    self as loops, LogSoftmax, LogSoftmaxGradient, Number, Rule, Scale, Softmax, SoftmaxGradient,
};
use super::{Form, Rows};
use crate::cpu::blocks::{BLOCK, Compute, LINE, LONG_BLOCK, Row, end_streaming, fetch_ahead};
use crate::cpu::map::{SendPointer, streaming_threshold};
use crate::{Array, Result};

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 8 * 1024;
/// Rows from this length on are shared out where there are fewer of them than threads.
const SHARED: usize = 4 * LONG_BLOCK;
/// Rows from this length on do not stay in a thread's caches between the passes.
const TOO_LONG: usize = 64 * LONG_BLOCK;
/// Rows that lie side by side are gathered in tiles of about this many elements, which stay in the L2 cache between
/// the passes.
const TILE: usize = 64 * 1024;
/// The fewest rows in a tile, where there are as many: two cache lines of `f32`.
const LEAST_WIDTH: usize = 32;
/// Fewer rows side by side are better gathered one by one.
const LEAST_SIDE_BY_SIDE: usize = 8;

pub fn run(form: Form, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
    let buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new(form.name(), &buffers, output.buffer())?;
    let input = |index: usize| SendPointer(operands.input(index).cast_mut());
    let bytes = output.elements() * output.dtype().size();
    let job = Job {
        rows: Rows::new(form, inputs, output)?,
        cpu,
        dtype: output.dtype(),
        memory: [SendPointer(operands.output()), input(0), input(inputs.len() - 1)],
        aliased: inputs.iter().any(|input| input.overlaps(output)),
        stream: bytes as u64 >= streaming_threshold(cpu),
    };
    match Compute::of(output.dtype()) {
        Compute::F64 => job.run_form::<f64>(form),
        _ => job.run_form::<f32>(form),
    }
    Ok(())
}

/// One operation, as its threads see it. Operands are the output and the two inputs.
struct Job<'a> {
    rows: Rows,
    cpu: &'a CpuDevice,
    dtype: DType,
    memory: [SendPointer; 3],
    /// Whether an input is the output's memory: then no slice of it may live while results are
    /// written.
    aliased: bool,
    /// Whether the output is written past the caches.
    stream: bool,
}

impl Job<'_> {
    fn run_form<C: Number>(&self, form: Form) {
        match (form.gradient, form.log) {
            (false, false) => self.run::<C, Softmax>(),
            (false, true) => self.run::<C, LogSoftmax>(),
            (true, false) => self.run::<C, SoftmaxGradient>(),
            (true, true) => self.run::<C, LogSoftmaxGradient>(),
        }
    }

    fn run<C: Number, F: Rule<C>>(&self) {
        let few = self.rows.starts.elements() < self.cpu.pool().threads();
        let is_long = self.rows.length >= if few { SHARED } else { TOO_LONG };
        if self.rows.are_side_by_side(LEAST_SIDE_BY_SIDE) {
            self.side_by_side::<C, F>();
        } else if is_long {
            self.shared::<C, F>();
        } else {
            self.one_by_one::<C, F>();
        }
    }

    /// A stretch of an operand that begins at an element.
    fn stretch(&self, operand: usize, at: usize, stride: usize) -> Row {
        // SAFETY: the layouts were checked against their buffers, so every index lies inside.
        let start = unsafe { self.memory[operand].get().add(at * self.dtype.size()) };
        Row { start, dtype: self.dtype, stride }
    }

    fn one_by_one<C: Number, F: Rule<C>>(&self) {
        let Rows { length, starts, .. } = &self.rows;
        let grain = (GRAIN / length).max(1);
        self.cpu.pool().for_chunks(starts.elements(), grain, |chunk| {
            let mut scratch: [Vec<C>; 3] = std::array::from_fn(|_| vec![C::default(); *length]);
            let end = chunk.end;
            for row in chunk {
                let next = (row + 1 < end).then(|| starts.point(row + 1));
                self.row::<C, F>(starts.point(row), next, &mut scratch);
            }
            if self.stream {
                end_streaming();
            }
        });
    }

    /// Computes one row; a single input of the next one is fetched meanwhile, while there are
    /// exponentials to compute. What has two inputs waits for memory anyway.
    fn row<C: Number, F: Rule<C>>(
        &self,
        at: [usize; 3],
        next: Option<[usize; 3]>,
        scratch: &mut [Vec<C>; 3],
    ) {
        let level = self.cpu.simd();
        let [s0, s1, s2] = scratch;
        let whole = 0..self.rows.length;
        let a = self.load(1, at, whole.clone(), s0);
        let b = if F::INPUTS == 2 { self.load(2, at, whole, s1) } else { a };
        let largest = if F::SHIFTS { loops::largest::<C>(level, a) } else { C::default() };
        if let Some(next) = next.filter(|_| F::INPUTS == 1) {
            for (operand, at) in next.into_iter().enumerate().skip(1).take(F::INPUTS) {
                let start = self.stretch(operand, at, 1).start;
                fetch_ahead(start, self.rows.length * self.dtype.size());
            }
        }
        let total = C::of(F::total(loops::sum::<C, F>(level, a, b, largest, s2)));
        if F::KEEPS {
            self.finish::<C, Scale>(s2, s2, largest, total, at[0], s0);
        } else {
            self.finish::<C, F>(a, b, largest, total, at[0], s2);
        }
    }

    /// Rows that are fewer than the threads or too long for one thread's caches, each by all threads:
    /// pass by pass, in blocks whose sums are added in the order in which one thread would add them.
    fn shared<C: Number, F: Rule<C>>(&self) {
        let level = self.cpu.simd();
        for row in 0..self.rows.starts.elements() {
            let at = self.rows.starts.point(row);
            let mut largest = C::default();
            if F::SHIFTS {
                let found = self.blocks::<C, F, C>(at, |a, _, _, _| loops::largest::<C>(level, a));
                largest = loops::largest::<C>(level, &found);
            }
            let sums = self.blocks::<C, F, f64>(at, |a, b, _, room| {
                loops::sum::<C, F>(level, a, b, largest, room)
            });
            let total = C::of(F::total(sums.iter().fold(0.0, |total, sum| total + sum)));
            self.blocks::<C, F, ()>(at, |a, b, first, room| {
                let into = at[0] + first * self.rows.strides[0];
                self.finish::<C, F>(a, b, largest, total, into, room);
            });
        }
    }

    /// What a function makes of each block of a row: it is given the inputs' elements, the index of
    /// the first one and some room.
    fn blocks<C: Number, F: Rule<C>, R: Copy + Default>(
        &self,
        at: [usize; 3],
        work: impl Fn(&[C], &[C], usize, &mut [C]) -> R + Sync,
    ) -> Vec<R> {
        let length = self.rows.length;
        let mut results = vec![R::default(); length.div_ceil(LONG_BLOCK)];
        let slots = SendPointer(results.as_mut_ptr().cast());
        self.cpu.pool().for_chunks(results.len(), 1, |chunk| {
            let mut scratch: [Vec<C>; 3] = std::array::from_fn(|_| vec![C::default(); LONG_BLOCK]);
            let [s0, s1, s2] = &mut scratch;
            for block in chunk {
                let part = block * LONG_BLOCK..length.min((block + 1) * LONG_BLOCK);
                let room = &mut s2[..part.len()];
                let a = self.load(1, at, part.clone(), s0);
                let b = if F::INPUTS == 2 { self.load(2, at, part.clone(), s1) } else { a };
                // SAFETY: each block has a result of its own, and they outlive the call.
                unsafe { *slots.get().cast::<R>().add(block) = work(a, b, part.start, room) };
            }
            if self.stream {
                end_streaming();
            }
        });
        results
    }

    /// A part of a row of an input: where it is, if it is dense, of the compute type and not
    /// overwritten while it is used.
    fn load<'a, C: Number>(
        &self,
        operand: usize,
        at: [usize; 3],
        part: Range<usize>,
        scratch: &'a mut [C],
    ) -> &'a [C] {
        let stride = self.rows.strides[operand];
        let row = self.stretch(operand, at[operand] + part.start * stride, stride);
        // SAFETY: the row lies inside its buffer, which is registered as read by this operation;
        // only this thread writes to this part of it, and not while a slice of it is in use.
        unsafe {
            if self.aliased {
                let scratch = &mut scratch[..part.len()];
                gather(&row, scratch);
                return scratch;
            }
            row.load(0, part.len(), scratch)
        }
    }

    /// Writes results from an element on.
    fn finish<C: Number, F: Rule<C>>(
        &self,
        a: &[C],
        b: &[C],
        largest: C,
        total: C,
        at: usize,
        scratch: &mut [C],
    ) {
        let level = self.cpu.simd();
        let row = self.stretch(0, at, self.rows.strides[0]);
        if !row.is_direct::<C>() {
            let scratch = &mut scratch[..a.len()];
            loops::results::<C, F>(level, a, b, largest, total, scratch);
            // SAFETY: the row lies inside the output, and each row is written by one thread.
            unsafe { row.store(0, scratch) };
        } else if self.stream && row.start.addr().is_multiple_of(LINE) {
            let target = SendPointer(row.start);
            loops::streamed_results::<C, F>(level, a, b, largest, total, target);
        } else {
            // SAFETY: as above. `a` and `b` are other memory: `load` sees to it.
            let target = unsafe { std::slice::from_raw_parts_mut(row.start.cast(), a.len()) };
            loops::results::<C, F>(level, a, b, largest, total, target);
        }
    }

    fn side_by_side<C: Number, F: Rule<C>>(&self) {
        let Rows { length, starts, .. } = &self.rows;
        let (inner, strides) = starts.inner();
        let width = (TILE / length).clamp(LEAST_WIDTH, BLOCK).min(inner);
        let per_stretch = inner.div_ceil(width);
        let blocks = starts.elements() / inner * per_stretch;
        let grain = (GRAIN / (length * width)).max(1);
        self.cpu.pool().for_chunks(blocks, grain, |chunk| {
            let tile = || vec![C::default(); length * width];
            let mut a = tile();
            let mut b = if F::INPUTS == 2 { tile() } else { Vec::new() };
            for block in chunk {
                let first = block % per_stretch * width;
                let start = starts.row(block / per_stretch);
                let at = std::array::from_fn(|i| start[i] + first * strides[i]);
                let width = width.min(inner - first);
                let elements = length * width;
                let b = if F::INPUTS == 2 { &mut b[..elements] } else { &mut b[..] };
                self.block::<C, F>(at, strides, &mut a[..elements], b);
            }
        });
    }

    /// Computes some rows that lie side by side; `at` are the first elements of the first row,
    /// `strides` the distances to the next row. In the tiles each row is a column: arrays whose rows
    /// are a power of two apart would have most of their lines in the same few places of a cache.
    fn block<C: Number, F: Rule<C>>(
        &self,
        at: [usize; 3],
        strides: [usize; 3],
        a: &mut [C],
        b: &mut [C],
    ) {
        let level = self.cpu.simd();
        let width = a.len() / self.rows.length;
        let part = |operand: usize, index: usize| {
            let at = at[operand] + index * self.rows.strides[operand];
            self.stretch(operand, at, strides[operand])
        };
        for (operand, tile) in [(1, &mut *a), (2, &mut *b)] {
            for (index, target) in tile.chunks_exact_mut(width).enumerate() {
                // SAFETY: the part lies inside its buffer, which is registered as read.
                unsafe { gather(&part(operand, index), target) };
            }
        }
        let (mut largest, mut totals) = ([C::LOWEST; BLOCK], [C::default(); BLOCK]);
        let (largest, totals) = (&mut largest[..width], &mut totals[..width]);
        let mut sums = [0.0; BLOCK];
        let sums = &mut sums[..width];
        if F::SHIFTS {
            loops::largest_of_each::<C>(level, a, largest);
        }
        loops::sum_of_each::<C, F>(level, a, b, largest, sums);
        for (total, &mut sum) in totals.iter_mut().zip(sums) {
            *total = C::of(F::total(sum));
        }
        if F::KEEPS {
            loops::result_of_each::<C, Scale>(level, a, b, largest, totals);
        } else {
            loops::result_of_each::<C, F>(level, a, b, largest, totals);
        }
        for (index, results) in a.chunks_exact(width).enumerate() {
            // SAFETY: the part lies inside the output, and each block is written by one thread,
            // which has read all of its inputs' elements there.
            unsafe { part(0, index).store(0, results) };
        }
    }
}

/// Copies elements into a dense slice, whatever their type and distance.
///
/// # Safety
/// The row must be valid for reading as many elements, and nobody may write them meanwhile.
unsafe fn gather<C: Number>(row: &Row, target: &mut [C]) {
    // SAFETY: by the caller's word.
    unsafe {
        if row.is_direct::<C>() {
            let from = row.start.cast::<C>();
            std::ptr::copy_nonoverlapping(from, target.as_mut_ptr(), target.len());
        } else {
            row.load(0, target.len(), target);
        }
    }
}
