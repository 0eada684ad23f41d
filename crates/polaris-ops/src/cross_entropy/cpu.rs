//! Cross-entropy on the CPU: rows one after another, each in the caches while it is worked on.

use polaris_core::DType;
use polaris_runtime::cpu::{CpuDevice, SimdLevel};
use polaris_runtime::{Buffer, HostOperands};

use super::operations::Arrays;
use crate::cpu::blocks::{Compute, ComputeType, LINE, LONG_BLOCK, Row, end_streaming, fetch_ahead};
use crate::cpu::map::{SendPointer, streaming_threshold};
use crate::cpu::simd::multiversion;
use crate::softmax::cpu_loops::{self as loops, LogSoftmax, Number, Scale, Softmax};
use crate::{Array, Result};

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 8 * 1024;
/// Independent running sums.
const LANES: usize = 32;

multiversion! {
    /// The sum of weighted distances from the largest; without weights, of the distances.
    fn distances<C: Number>(values: &[C], weights: &[C], largest: C) -> f64 {
        let mut total = 0.0;
        for (block, values) in values.chunks(LONG_BLOCK).enumerate() {
            let weights: &[C] = weights.get(block * LONG_BLOCK..).unwrap_or(&[]);
            let mut lanes = [C::default(); LANES];
            if weights.is_empty() {
                for chunk in values.chunks(LANES) {
                    for (lane, &value) in lanes.iter_mut().zip(chunk) {
                        *lane = *lane + (largest - value);
                    }
                }
            } else {
                for (chunk, weights) in values.chunks(LANES).zip(weights.chunks(LANES)) {
                    for ((lane, &value), &weight) in lanes.iter_mut().zip(chunk).zip(weights) {
                        *lane = *lane + weight * (largest - value);
                    }
                }
            }
            total += lanes.into_iter().map(C::wide).sum::<f64>();
        }
        total
    }
}

multiversion! {
    /// Subtracts a part of each weight; without weights, the part itself.
    fn subtract<C: Number>(values: &mut [C], weights: &[C], part: C) {
        if weights.is_empty() {
            for value in values {
                *value = *value - part;
            }
        } else {
            for (value, &weight) in values.iter_mut().zip(weights) {
                *value = *value - part * weight;
            }
        }
    }
}

pub fn run(
    op: &'static str,
    arrays: &Arrays<'_>,
    cpu: &CpuDevice,
    inputs: &[&Array],
) -> Result<()> {
    let buffers: Vec<&Buffer> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new(op, &buffers, arrays.output.buffer())?;
    let place = |array: &Array| {
        let index = inputs.iter().position(|input| std::ptr::eq(*input, array));
        let start = operands.input(index.expect("the arrays should be among the inputs"));
        Place::new(start.cast_mut(), array)
    };
    let bytes = arrays.output.elements() * arrays.output.dtype().size();
    let job = Job {
        cpu,
        arrays,
        logits: place(arrays.logits),
        targets: place(arrays.targets),
        g: arrays.g.map(place),
        weights: arrays.weights.map(place),
        output: Place::new(operands.output(), arrays.output),
        stream: bytes as u64 >= streaming_threshold(cpu),
    };
    match Compute::of(arrays.logits.dtype()) {
        Compute::F64 => job.run::<f64>(),
        _ => job.run::<f32>(),
    }
    Ok(())
}

/// An array of one or two axes, as the threads see it.
#[derive(Clone, Copy)]
struct Place {
    start: SendPointer,
    dtype: DType,
    offset: usize,
    /// Of the first axis and, where there is one, of the second.
    strides: [usize; 2],
}

impl Place {
    fn new(start: *mut u8, array: &Array) -> Self {
        let layout = array.layout();
        let stride = |axis: usize| layout.strides().get(axis).copied().unwrap_or(1);
        let strides = [stride(0), stride(1)];
        Self { start: SendPointer(start), dtype: array.dtype(), offset: layout.offset(), strides }
    }

    /// A row of two axes; of one axis, what begins at an element of it.
    fn row(self, index: usize) -> Row {
        let at = self.offset + index * self.strides[0];
        // SAFETY: the layouts were checked against their buffers, so every index lies inside.
        let start = unsafe { self.start.get().add(at * self.dtype.size()) };
        Row { start, dtype: self.dtype, stride: self.strides[1] }
    }

    fn one<N: ComputeType>(self, index: usize) -> N {
        // SAFETY: the element lies inside its buffer, which is registered as read.
        unsafe { N::load_one(self.row(index).start, self.dtype) }
    }
}

struct Job<'a> {
    cpu: &'a CpuDevice,
    arrays: &'a Arrays<'a>,
    logits: Place,
    targets: Place,
    g: Option<Place>,
    weights: Option<Place>,
    output: Place,
    /// Whether the output is written past the caches.
    stream: bool,
}

/// What a row's results are made of, in `f64`.
struct Shares {
    /// What the target gets.
    target: f64,
    /// What each class gets, times its weight.
    each: f64,
    /// What all classes get together.
    all: f64,
}

impl Job<'_> {
    fn run<C: Number>(&self) {
        let (rows, classes) = (self.arrays.rows(), self.arrays.classes());
        let weights: Vec<C> = self
            .weights
            .map_or_else(Vec::new, |weights| (0..classes).map(|i| weights.one(i)).collect());
        let total = match self.weights {
            Some(_) => weights.iter().map(|weight| weight.wide()).sum(),
            None => classes as f64,
        };
        let grain = (GRAIN / classes.max(1)).max(1);
        self.cpu.pool().for_chunks(rows, grain, |chunk| {
            let mut scratch = vec![C::default(); classes];
            let mut kept = vec![C::default(); if self.g.is_some() { classes } else { 0 }];
            for row in chunk {
                let target: i64 = self.targets.one(row);
                let ignored = self.arrays.options.ignore_index == Some(target);
                let target = if ignored { None } else { Some(target as usize) };
                let shares = target.map(|target| self.shares(&weights, total, target));
                let of_row = target.zip(shares);
                match self.g {
                    None => {
                        let loss = of_row.map_or(0.0, |(target, shares)| {
                            self.loss(row, target, &shares, &weights, &mut scratch)
                        });
                        // SAFETY: each loss is written by one thread.
                        unsafe { self.output.row(row).store(0, &[C::of(loss)]) };
                    }
                    Some(g) => {
                        let g = g.one::<C>(row).wide();
                        match of_row {
                            Some(of_row) => {
                                self.gradient(row, of_row, g, &weights, &mut scratch, &mut kept);
                            }
                            // SAFETY: each row is written by one thread.
                            None => unsafe {
                                scratch.fill(C::default());
                                self.output.row(row).store(0, &scratch);
                            },
                        }
                    }
                }
            }
            if self.stream {
                end_streaming();
            }
        });
    }

    fn shares<C: Number>(&self, weights: &[C], total: f64, target: usize) -> Shares {
        let smoothing = self.arrays.options.smoothing;
        let weight = weights.get(target).map_or(1.0, |weight| weight.wide());
        let each = smoothing / self.arrays.classes() as f64;
        let target = (1.0 - smoothing) * weight;
        Shares { target, each, all: target + each * total }
    }

    /// Asks for a row that is next, if there is one.
    fn fetch_row(&self, row: usize) {
        if row < self.arrays.rows() {
            let bytes = self.arrays.classes() * self.logits.dtype.size();
            fetch_ahead(self.logits.row(row).start, bytes);
        }
    }

    fn loss<C: Number>(
        &self,
        row: usize,
        target: usize,
        shares: &Shares,
        weights: &[C],
        scratch: &mut [C],
    ) -> f64 {
        let level = self.cpu.simd();
        // SAFETY: the row lies inside its buffer, which is registered as read; the losses were
        // checked not to lie in it.
        let z = unsafe { self.logits.row(row).load(0, self.arrays.classes(), scratch) };
        let largest = loops::largest::<C>(level, z);
        self.fetch_row(row + 1);
        let log = loops::sum::<C, LogSoftmax>(level, z, z, largest, &mut []).ln();
        let loss = shares.target * ((largest - z[target]).wide() + log);
        if shares.each == 0.0 {
            return loss;
        }
        let all = (shares.all - shares.target) * log;
        loss + shares.each * distances::<C>(level, z, weights, largest) + all
    }

    fn gradient<C: Number>(
        &self,
        row: usize,
        (target, shares): (usize, Shares),
        g: f64,
        weights: &[C],
        scratch: &mut [C],
        kept: &mut [C],
    ) {
        let level = self.cpu.simd();
        // SAFETY: the row lies inside its buffer, which is registered as read; where it is the output,
        // it is not looked at any more when results are written.
        let z = unsafe { self.logits.row(row).load(0, self.arrays.classes(), scratch) };
        let largest = loops::largest::<C>(level, z);
        self.fetch_row(row + 1);
        let sum = loops::sum::<C, Softmax>(level, z, z, largest, kept);
        let factor = C::of(g * shares.all / sum);
        let into = self.output.row(row);
        if shares.each == 0.0 && shares.all != 0.0 {
            // All is the target's: it can be taken out before the exponentials become probabilities.
            kept[target] = kept[target] - C::of(sum);
            write_scaled(level, kept, factor, into, self.stream, scratch);
            return;
        }
        loops::results::<C, Scale>(level, kept, kept, largest, factor, scratch);
        subtract::<C>(level, scratch, weights, C::of(g * shares.each));
        scratch[target] = scratch[target] - C::of(g * shares.target);
        // SAFETY: the row lies inside the output, and each row is written by one thread.
        unsafe { into.store(0, scratch) };
    }
}

/// Writes values times a factor: in place, where the row is dense and of the compute type.
fn write_scaled<C: Number>(
    level: SimdLevel,
    values: &[C],
    factor: C,
    into: Row,
    stream: bool,
    scratch: &mut [C],
) {
    let zero = C::default();
    if !into.is_direct::<C>() {
        loops::results::<C, Scale>(level, values, values, zero, factor, scratch);
        // SAFETY: the row lies inside the output, and each row is written by one thread.
        unsafe { into.store(0, scratch) };
    } else if stream && into.start.addr().is_multiple_of(LINE) {
        let target = SendPointer(into.start);
        loops::streamed_results::<C, Scale>(level, values, values, zero, factor, target);
    } else {
        // SAFETY: as above; the values are other memory.
        let target = unsafe { std::slice::from_raw_parts_mut(into.start.cast(), values.len()) };
        loops::results::<C, Scale>(level, values, values, zero, factor, target);
    }
}
