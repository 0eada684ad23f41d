//! Linear attention: tokens write into a matrix of states and read from it, instead of attending to a cache that grows.
//! The recurrences of Mamba 1 and 2, gated delta nets (with decay by head or by key) and lightning attention are cases
//! of it. One call serves prompts, single tokens and batches of sequences.
//!
//! | Array | Shape | Type |
//! |---|---|---|
//! | q, k | `[tokens, groups, keys]` | `f32` |
//! | v | `[tokens, heads, values]` | `f32` |
//! | decay | `[tokens, heads, 1]`, `[.., keys]` or `[.., values]` by [`Decay`] | `f32`: the logarithm, or a step of time |
//! | states | `[slots, keys, heads, values]` | `f32` |
//! | runs | `[sequences, 3]` | `i32`: the slot of the state before (negative: zeros), the first token, the number of tokens |
//! | beta | `[tokens, heads]` | `f32`, if [`LinearAttention::delta`] |
//! | rates | `[keys, heads, values]` | `f32`, if the decay is [`Decay::Rates`] |
//! | output | `[tokens + sequences * keys, heads, values]` | `f32` |
//!
//! For each token of a run in order, and each head with the state `S[key][value]`:
//!
//! ```text
//! S = exp(decay) S
//! u = v,  or  beta (v - S^T k)  with the delta rule
//! S = S + k u^T
//! output = S^T q
//! ```
//!
//! with q and k multiplied by their scales. The first `tokens` rows of the output are the results; the others are the
//! states after the last token of each run, in the order of keys, which the caller writes where it keeps them. States are
//! not changed. `heads` is a multiple of `groups`; [`Sharing`] says which heads share a group.
//!
//! Each token is of one run. On the CPU, a run that leads nowhere, and a token of two runs or of none, are errors. On OpenCL
//! devices a slot that does not exist stands for zeros, runs end with the tokens, and the result of a token without a run
//! is not written.

mod cpu;
mod geometry;
mod opencl;
mod reference;
mod suite;
#[cfg(test)]
mod tests;

pub use opencl::Kernel;
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::operation::{Operation, check_apart, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};
use geometry::Sizes;

const NAME: &str = "linear_attention";

/// Linear attention, as plain data. Its inputs are q, k, v, the decay, the states, the runs and, as far as there are any,
/// beta and the rates; see the [module](self).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearAttention {
    /// What the decay depends on.
    pub decay: Decay,
    /// Whether a token writes what differs from what its key reads, as the delta rule does.
    pub delta: bool,
    /// Which heads share q and k.
    pub sharing: Sharing,
    /// What queries are multiplied by.
    pub query_scale: f64,
    /// What keys are multiplied by.
    pub key_scale: f64,
}

/// What the decay of a state depends on, beside the token and the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decay {
    /// Nothing: Mamba 2, gated delta nets.
    Head,
    /// The key: Kimi delta attention.
    Key,
    /// Key and value, by a step of time for each value times a rate: Mamba 1.
    Rates,
}

/// Which heads share a group of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Neighbours: head `h` has group `h / (heads / groups)`.
    Neighbours,
    /// Every so-manieth: head `h` has group `h % groups`.
    Tiled,
}

/// The inputs by their meaning.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    q: &'a Array,
    k: &'a Array,
    v: &'a Array,
    decay: &'a Array,
    states: &'a Array,
    runs: &'a Array,
    beta: Option<&'a Array>,
    rates: Option<&'a Array>,
}

impl LinearAttention {
    fn inputs<'a>(&self, inputs: &[&'a Array]) -> Result<Inputs<'a>> {
        let has_rates = self.decay == Decay::Rates;
        let expected = 6 + usize::from(self.delta) + usize::from(has_rates);
        if inputs.len() != expected {
            return Err(Error::WrongArity { op: NAME, expected, found: inputs.len() });
        }
        Ok(Inputs {
            q: inputs[0],
            k: inputs[1],
            v: inputs[2],
            decay: inputs[3],
            states: inputs[4],
            runs: inputs[5],
            beta: self.delta.then(|| inputs[6]),
            rates: has_rates.then(|| inputs[expected - 1]),
        })
    }
}

impl Operation for LinearAttention {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Grouped, Kernel::Serial];

    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let sizes = Sizes::new(self, inputs)?;
        let expected = Shape::new(&[sizes.rows()?, sizes.heads, sizes.values])?;
        if *output.shape() != expected {
            return Err(CoreError::unequal_shapes(NAME, *output.shape(), expected).into());
        }
        geometry::has_type(output, DType::F32)?;
        writes_each_element_once(NAME, output)?;
        inputs.iter().try_for_each(|input| check_apart(NAME, input, output))
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        let sizes = Sizes::new(self, inputs);
        sizes.is_ok_and(|sizes| opencl::supports(kernel, self, device, &sizes, inputs, output))
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], _: &Array) -> String {
        let rule = if self.delta { "_delta" } else { "" };
        format!("{NAME}_f32_{}{rule}_{}", self.decay.name(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::run(self, cpu, &Sizes::new(self, inputs)?, inputs, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        let sizes = Sizes::new(self, inputs)?;
        opencl::run(self, kernel, device, &sizes, &self.inputs(inputs)?, output)
    }

    fn class(&self) -> Class {
        Class::Attention
    }

    /// Each token passes over the state twice or, with the delta rule, three times; states are read and written once.
    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let length = |input: usize, axis: usize| {
            let shape = inputs.get(input).map_or(&[][..], |array| array.layout.shape().dims());
            shape.get(axis).map_or(1, |&length| length as u64)
        };
        let columns = length(2, 1).saturating_mul(length(2, 2));
        let state = columns.saturating_mul(length(0, 2));
        let passes = if self.delta { 3 } else { 2 };
        let flops = length(0, 0).saturating_mul(state).saturating_mul(2 * passes);
        let read = length(5, 0).saturating_mul(state).saturating_mul(4);
        let moved = output.layout.elements() as u64 * 4;
        let tokens = length(0, 0).saturating_mul(columns).saturating_mul(4);
        let bytes = read.saturating_add(moved).saturating_add(tokens);
        Work { flops, bytes, parallelism: length(5, 0).saturating_mul(columns).max(1) }
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], _: &Array) -> Vec<f64> {
        let sizes = Sizes::new(self, inputs).expect("the inputs should be checked");
        reference::attend(self, &sizes, values)
    }
}

impl Decay {
    /// Its part of kernels' names.
    const fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Key => "key",
            Self::Rates => "rates",
        }
    }
}
