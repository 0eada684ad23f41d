//! Attention of new tokens to a paged cache of keys and values, as decoders of text need it: one call
//! serves prompts, single tokens and batches of sequences of different lengths.
//!
//! | Array | Shape | Type |
//! |---|---|---|
//! | q | `[tokens, heads, depth]` | `f32` |
//! | keys | `[blocks, block size, key heads, depth]` | `f32`, `f16`, `bf16` or a block format |
//! | values | `[blocks, block size, key heads, values]` | as keys, independently of them |
//! | table | `[sequences, most blocks]` | `i32`: the block of the cache that holds positions `b * block size ..` |
//! | tokens | `[tokens, 2]` | `i32`: the sequence of each token and its position in it |
//! | sinks | `[heads]` | `f32`, if [`CachedAttention::sinks`] |
//! | slopes | `[heads]` | `f32`, if [`CachedAttention::slopes`] |
//! | output | `[tokens, heads, values]` | `f32` |
//!
//! `heads` is a multiple of `key heads`: each group of neighbouring heads shares one of keys and values.
//! A token at position `p` sees the positions `0..=p` of its sequence, of which a window or chunk leaves
//! the last ones; or all positions, if attention is bidirectional. Keys and values may be views of the same
//! memory. Entries of the table and elements of the cache that no token sees are not looked at, so
//! that blocks behind a window can be given to others. The keys of the tokens themselves must be in the
//! cache before (see [`cache_write`](crate::cache_write)).
//!
//! A score is `scale * q k`, then `softcap * tanh(score / softcap)`, then `slope * (position of k -
//! position of q)` is added. NaN and infinities do what the formula makes of them: a NaN or positive
//! infinity among the scores of a query makes its output NaN, and minus infinity everywhere makes it zero.
//! Weights of zero are multiplied like all others: a NaN or infinity in a value may also reach other
//! tokens of the call that are of the same sequence.
//!
//! On the CPU, an index that leads nowhere is an error. OpenCL devices take the nearest one that does:
//! an error would have to be waited for.
//!
//! Results are the same run after run and with any number of threads.

mod cpu;
mod cpu_cache;
mod cpu_loops;
mod cpu_tiles;
mod cpu_tokens;
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

use crate::format::Format;
use crate::operation::{Operation, check_apart, run, writes_each_element_once};
use crate::work::elements;
use crate::{Array, ArrayType, Class, Error, Result, Work};
use geometry::Sizes;

const NAME: &str = "cached_attention";

/// Attention to a cache, as plain data. Its inputs are q, keys, values, the table, the tokens and, as far
/// as there are any, sinks and slopes; see the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CachedAttention {
    /// What scores are multiplied by; `1 / sqrt(depth)` if it is not given.
    pub scale: Option<f64>,
    /// Only the last so many positions are seen, that of the token included.
    pub window: Option<usize>,
    /// Positions are cut into chunks of so many, and only those of the token's own chunk are seen.
    pub chunk: Option<usize>,
    /// Scores are kept between plus and minus this number, by a hyperbolic tangent.
    pub softcap: Option<f64>,
    /// Whether a token sees all [`longest`](Self::longest) positions of its sequence, later ones too. Windows, chunks
    /// and slopes are for the other kind.
    pub bidirectional: bool,
    /// Whether each head has a logit that takes part in the sum of its softmax and has no value.
    pub sinks: bool,
    /// Whether each head has a slope of its scores along positions (ALiBi).
    pub slopes: bool,
    /// Positions of the longest sequence, the tokens of this call included: bounds of loops and estimates
    /// of work. Positions of tokens are below it.
    pub longest: usize,
}

/// A paged cache of keys and values; shapes and types are at the [module](self).
#[derive(Debug, Clone, Copy)]
pub struct PagedCache<'a> {
    /// The keys.
    pub keys: &'a Array,
    /// The values.
    pub values: &'a Array,
    /// The blocks of each sequence.
    pub table: &'a Array,
}

/// Attention of tokens to a cache into a new array. `sinks` and `slopes` of the problem are set by the
/// arrays that are given.
///
/// # Errors
/// If shapes or types do not fit, a parameter is outside its domain, an index leads nowhere (on the CPU),
/// or there is no room for the result.
pub fn cached_attention(
    op: &CachedAttention,
    q: &Array,
    cache: &PagedCache<'_>,
    tokens: &Array,
    sinks: Option<&Array>,
    slopes: Option<&Array>,
) -> Result<Array> {
    let op = CachedAttention { sinks: sinks.is_some(), slopes: slopes.is_some(), ..*op };
    let inputs: Vec<&Array> = [q, cache.keys, cache.values, cache.table, tokens]
        .into_iter()
        .chain(sinks)
        .chain(slopes)
        .collect();
    let sizes = Sizes::new(&op, &inputs)?;
    let shape = Shape::new(&[sizes.tokens, sizes.heads, sizes.values])?;
    let output = Array::empty(q.device(), DType::F32, shape)?;
    run(&op, &inputs, &output)?;
    Ok(output)
}

/// The inputs by their meaning.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    q: &'a Array,
    k: &'a Array,
    v: &'a Array,
    table: &'a Array,
    tokens: &'a Array,
    sinks: Option<&'a Array>,
    slopes: Option<&'a Array>,
}

impl CachedAttention {
    fn inputs<'a>(&self, inputs: &[&'a Array]) -> Result<Inputs<'a>> {
        let expected = 5 + usize::from(self.sinks) + usize::from(self.slopes);
        if inputs.len() != expected {
            return Err(Error::WrongArity { op: NAME, expected, found: inputs.len() });
        }
        Ok(Inputs {
            q: inputs[0],
            k: inputs[1],
            v: inputs[2],
            table: inputs[3],
            tokens: inputs[4],
            sinks: self.sinks.then(|| inputs[5]),
            slopes: self.slopes.then(|| inputs[expected - 1]),
        })
    }

    /// The most positions that a token sees.
    fn most_seen(&self) -> usize {
        let least = |limit: Option<usize>| limit.unwrap_or(usize::MAX);
        self.longest.min(least(self.window)).min(least(self.chunk))
    }
}

impl Operation for CachedAttention {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] =
        &[Kernel::Grouped, Kernel::Split, Kernel::Tiled, Kernel::Serial];

    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let sizes = Sizes::new(self, inputs)?;
        let expected = Shape::new(&[sizes.tokens, sizes.heads, sizes.values])?;
        if *output.shape() != expected {
            return Err(CoreError::unequal_shapes(NAME, *output.shape(), expected).into());
        }
        geometry::has_type(output, DType::F32)?;
        writes_each_element_once(NAME, output)?;
        inputs.iter().try_for_each(|input| check_apart(NAME, input, output))
    }

    fn accepts(&self, input: usize, format: Format) -> bool {
        matches!(input, 1 | 2) && matches!(format, Format::Block(_))
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        match (Sizes::new(self, inputs), self.inputs(inputs)) {
            (Ok(sizes), Ok(arrays)) => opencl::supports(kernel, device, &sizes, &arrays, output),
            _ => false,
        }
    }

    fn preferred(
        &self,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> Option<Kernel> {
        let (sizes, arrays) = (Sizes::new(self, inputs).ok()?, self.inputs(inputs).ok()?);
        opencl::preferred(self, device, &sizes, &arrays, output)
    }

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _: &Array) -> String {
        let [k, v] = [inputs[1].stored(), inputs[2].stored()];
        match k == v {
            true => format!("{NAME}_{k}_{}", kernel.name()),
            false => format!("{NAME}_{k}_{v}_{}", kernel.name()),
        }
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::run(self, cpu, inputs, output)
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

    /// Of the cache counts what is seen, once for each sequence.
    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let length = |input: usize, axis: usize| {
            let shape = inputs.get(input).map_or(&[][..], |array| array.layout.shape().dims());
            shape.get(axis).map_or(1, |&length| length as u64)
        };
        let seen = self.most_seen() as u64;
        let (tokens, heads, depth, values) =
            (length(0, 0), length(0, 1), length(0, 2), length(2, 3));
        let flops = (2 * tokens * heads * (depth + values)).saturating_mul(seen);
        // Bytes of one position.
        let row = |input: usize| {
            let Some(cache) = inputs.get(input) else { return 0 };
            let positions = (length(input, 0) * length(input, 1)).max(1);
            cache.bytes() as u64 / positions
        };
        let read = (tokens.min(length(3, 0)) * (row(1) + row(2))).saturating_mul(seen);
        let moved = 4 * (tokens * heads * depth + elements(output));
        Work { flops, bytes: read.saturating_add(moved), parallelism: elements(output).max(1) }
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], _: &Array) -> Vec<f64> {
        let sizes = Sizes::new(self, inputs).expect("the inputs should be checked");
        reference::attend(self, &sizes, values)
    }
}
