//! Linear attention on the CPU. A task takes some columns of the state of one head of one sequence, and passes over the
//! tokens of its run with the state in a scratch that fits the L1 or L2 cache.

use polaris_core::Layout;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::geometry::Sizes;
use super::{Decay, LinearAttention, NAME};
use crate::cpu::map::SendPointer;
use crate::cpu::math::Real;
use crate::cpu::simd::multiversion;
use crate::{Array, Error, Result};

/// Columns of a task: enough sums at once to hide the latency of a multiplication.
const COLUMNS: usize = 32;
/// Fewer elements of states, times tokens, than this are not worth a second thread.
const GRAIN: usize = 32 * 1024;

/// Some columns of a row of the state.
type Columns = [f32; COLUMNS];

/// An array of four-byte elements with up to four axes.
#[derive(Clone, Copy)]
struct Elements {
    start: SendPointer,
    offset: usize,
    strides: [usize; 4],
}

impl Elements {
    fn new(start: *const u8, layout: &Layout) -> Self {
        let mut strides = [0; 4];
        strides[..layout.strides().len()].copy_from_slice(layout.strides());
        Self { start: SendPointer(start.cast_mut()), offset: layout.offset(), strides }
    }

    fn at(&self, index: [usize; 4]) -> *mut f32 {
        let inside: usize = index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum();
        self.start.get().cast::<f32>().wrapping_add(self.offset + inside)
    }
}

/// Copies elements a stride apart.
///
/// # Safety
/// They must be readable.
unsafe fn load(start: *const f32, stride: usize, to: &mut [f32]) {
    for (at, to) in to.iter_mut().enumerate() {
        // SAFETY: by the caller's word.
        *to = unsafe { *start.add(at * stride) };
    }
}

/// # Safety
/// They must be writable, by this thread alone.
unsafe fn store(from: &[f32], start: *mut f32, stride: usize) {
    for (at, from) in from.iter().enumerate() {
        // SAFETY: by the caller's word.
        unsafe { *start.add(at * stride) = *from };
    }
}

/// The tokens of a sequence, and where its state is.
#[derive(Clone, Copy)]
struct Run {
    slot: Option<usize>,
    first: usize,
    tokens: usize,
}

pub fn run(
    op: &LinearAttention,
    cpu: &CpuDevice,
    sizes: &Sizes,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new(NAME, &buffers, output.buffer())?;
    let elements = |index: usize| Elements::new(operands.input(index), inputs[index].layout());
    let places = elements(5);
    // SAFETY: there are three numbers for each sequence, and the array is registered as read.
    let number = |sequence, column| unsafe { *places.at([sequence, column, 0, 0]).cast::<i32>() };
    let numbers = (0..sizes.sequences).map(|sequence| [0, 1, 2].map(|at| number(sequence, at)));
    let runs = runs(sizes, numbers)?;
    let job = Job {
        op,
        sizes: *sizes,
        q: elements(0),
        k: elements(1),
        v: elements(2),
        decay: elements(3),
        states: elements(4),
        beta: op.delta.then(|| elements(6)),
        rates: (op.decay == Decay::Rates).then(|| elements(inputs.len() - 1)),
        output: Elements::new(operands.output(), output.layout()),
        runs,
    };
    let tiles = sizes.values.div_ceil(COLUMNS);
    let longest = job.runs.iter().map(|run| run.tokens).max().unwrap_or(0);
    let each = sizes.keys.max(1) * COLUMNS * (longest + 1);
    let tasks = sizes.sequences * sizes.heads * tiles;
    cpu.pool().for_chunks(tasks, (GRAIN / each).max(1), |chunk| {
        let mut scratch = Scratch::new(sizes.keys);
        for task in chunk {
            let (row, tile) = (task / tiles, task % tiles);
            job.task(cpu, row / sizes.heads, row % sizes.heads, tile * COLUMNS, &mut scratch);
        }
    });
    Ok(())
}

/// The runs, in which each token is once.
fn runs(sizes: &Sizes, numbers: impl Iterator<Item = [i32; 3]>) -> Result<Vec<Run>> {
    let mut is_there = vec![false; sizes.tokens];
    let mut runs = Vec::with_capacity(sizes.sequences);
    for (sequence, [slot, first, tokens]) in numbers.enumerate() {
        // Without states, every sequence begins.
        let slot = usize::try_from(slot).ok().filter(|_| sizes.slots > 0);
        if let Some(slot) = slot.filter(|&slot| slot >= sizes.slots) {
            return Err(Error::IndexOutOfRange {
                op: NAME,
                index: slot as i64,
                position: sequence,
                axis: 0,
                length: sizes.slots,
            });
        }
        let range = usize::try_from(first).ok().zip(usize::try_from(tokens).ok());
        let there = range.and_then(|(first, tokens)| is_there.get_mut(first..first + tokens));
        let Some(there) = there.filter(|there| !there.contains(&true)) else {
            let what = format!(
                "sequence {sequence} has {tokens} tokens from {first} on; there are {}, each of one sequence",
                sizes.tokens
            );
            return Err(Error::InvalidParameter { op: NAME, what });
        };
        there.fill(true);
        runs.push(Run { slot, first: first as usize, tokens: tokens as usize });
    }
    match is_there.iter().position(|is_there| !is_there) {
        Some(token) => {
            let what = format!("token {token} is of no sequence");
            Err(Error::InvalidParameter { op: NAME, what })
        }
        None => Ok(runs),
    }
}

/// The memory of a thread.
struct Scratch {
    state: Vec<Columns>,
    rates: Vec<Columns>,
    q: Vec<f32>,
    k: Vec<f32>,
    /// What each row of the state is multiplied by.
    factors: Vec<f32>,
}

impl Scratch {
    fn new(keys: usize) -> Self {
        let columns = || vec![[0.0; COLUMNS]; keys];
        let zeros = || vec![0.0; keys];
        Self { state: columns(), rates: columns(), q: zeros(), k: zeros(), factors: zeros() }
    }
}

/// One call, as its threads see it.
struct Job<'a> {
    op: &'a LinearAttention,
    sizes: Sizes,
    q: Elements,
    k: Elements,
    v: Elements,
    decay: Elements,
    states: Elements,
    beta: Option<Elements>,
    rates: Option<Elements>,
    output: Elements,
    runs: Vec<Run>,
}

impl Job<'_> {
    /// The columns from `first` on of a head of a sequence.
    fn task(
        &self,
        cpu: &CpuDevice,
        sequence: usize,
        head: usize,
        first: usize,
        scratch: &mut Scratch,
    ) {
        let Sizes { tokens, keys, values, .. } = self.sizes;
        let width = COLUMNS.min(values - first);
        let run = self.runs[sequence];
        let group = self.sizes.group(self.op.sharing, head);
        let Scratch { state, rates, q, k, factors } = scratch;
        let level = cpu.simd();
        // SAFETY: the arrays were checked to have these elements and are registered; each element of the output is
        // written by one task.
        unsafe {
            for key in 0..keys {
                state[key] = [0.0; COLUMNS];
                if let Some(slot) = run.slot {
                    let from = self.states.at([slot, key, head, first]);
                    load(from, self.states.strides[3], &mut state[key][..width]);
                }
                if let Some(from) = self.rates {
                    let start = from.at([key, head, first, 0]);
                    load(start, from.strides[2], &mut rates[key][..width]);
                }
            }
            for token in run.first..run.first + run.tokens {
                load(self.q.at([token, group, 0, 0]), self.q.strides[2], q);
                load(self.k.at([token, group, 0, 0]), self.k.strides[2], k);
                scale(level, q, self.op.query_scale as f32);
                scale(level, k, self.op.key_scale as f32);
                let mut v = [0.0; COLUMNS];
                let start = self.v.at([token, head, first, 0]);
                load(start, self.v.strides[2], &mut v[..width]);
                match self.op.decay {
                    Decay::Head => {
                        factors.fill(Real::exp(*self.decay.at([token, head, 0, 0])));
                    }
                    Decay::Key => {
                        load(self.decay.at([token, head, 0, 0]), self.decay.strides[2], factors);
                        exponentials(level, factors);
                    }
                    Decay::Rates => {
                        let mut steps = [0.0; COLUMNS];
                        let start = self.decay.at([token, head, first, 0]);
                        load(start, self.decay.strides[2], &mut steps[..width]);
                        decay(level, state, rates, &steps);
                        factors.fill(1.0);
                    }
                }
                if let Some(beta) = self.beta {
                    let read = read(level, state, factors, k);
                    let beta = *beta.at([token, head, 0, 0]);
                    v = std::array::from_fn(|column| beta * (v[column] - read[column]));
                }
                let result = update(level, state, factors, k, q, &v);
                let to = self.output.at([token, head, first, 0]);
                store(&result[..width], to, self.output.strides[2]);
            }
            for (key, row) in state.iter().enumerate() {
                let to = self.output.at([tokens + sequence * keys + key, head, first, 0]);
                store(&row[..width], to, self.output.strides[2]);
            }
        }
    }
}

multiversion! {
    fn scale<>(values: &mut [f32], factor: f32) {
        values.iter_mut().for_each(|value| *value *= factor);
    }
}

multiversion! {
    fn exponentials<>(values: &mut [f32]) {
        values.iter_mut().for_each(|value| *value = Real::exp(*value));
    }
}

multiversion! {
    /// Multiplies each element of a state by the exponential of its rate times a step.
    fn decay<>(state: &mut [Columns], rates: &[Columns], steps: &Columns) {
        for (row, rates) in state.iter_mut().zip(rates) {
            for column in 0..COLUMNS {
                row[column] *= Real::exp(rates[column] * steps[column]);
            }
        }
    }
}

multiversion! {
    /// What a key reads of a state that decays.
    fn read<>(state: &[Columns], factors: &[f32], k: &[f32]) -> Columns {
        let mut sums = [0.0; COLUMNS];
        for ((row, &factor), &k) in state.iter().zip(factors).zip(k) {
            let by = factor * k;
            for column in 0..COLUMNS {
                sums[column] = row[column].multiply_add::<VECTOR_BYTES>(by, sums[column]);
            }
        }
        sums
    }
}

multiversion! {
    /// Lets a state decay, writes values at a key, and returns what a query reads.
    fn update<>(state: &mut [Columns], factors: &[f32], k: &[f32], q: &[f32], v: &Columns) -> Columns {
        let mut sums = [0.0; COLUMNS];
        for (((row, &factor), &k), &q) in state.iter_mut().zip(factors).zip(k).zip(q) {
            for column in 0..COLUMNS {
                row[column] = row[column].multiply_add::<VECTOR_BYTES>(factor, k * v[column]);
                sums[column] = row[column].multiply_add::<VECTOR_BYTES>(q, sums[column]);
            }
        }
        sums
    }
}
