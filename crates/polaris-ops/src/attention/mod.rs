//! Scaled dot-product attention and its gradient: `softmax(scale * q kᵀ + mask) v`, computed tile by
//! tile with a running softmax, so that the matrix of scores never exists in memory.
//!
//! | Array | Shape |
//! |---|---|
//! | q | `[batch, heads, queries, depth]` |
//! | k | `[batch, key heads, keys, depth]` |
//! | v | `[batch, key heads, keys, values]` |
//! | mask | anything that broadcasts to `[batch, heads, queries, keys]` |
//! | output | `[batch, heads, queries, values]` |
//! | log-sum-exp | `[batch, heads, queries]` |
//!
//! All are of one floating-point type, but for the log-sum-exp, which is `f64` for `f64` and `f32`
//! otherwise. `heads` is a multiple of `key heads`: each group of neighbouring heads shares one of k
//! and v. Half precisions are computed in `f32`.
//!
//! A query that sees nothing, because every key is masked by minus infinity or lies beyond the
//! causal border or because there is no key, has zeros as its output, minus infinity as its
//! log-sum-exp, and no part in any gradient. Otherwise NaN and infinities do what the formula makes
//! of them: a NaN or positive infinity among a query's scores makes its output NaN. Weights of zero
//! are multiplied like all others, so that a NaN or infinity in v may also reach queries that do not
//! see its key, and one in q or k the gradients of the others.
//!
//! Results are the same run after run and with any number of threads.

mod cpu;
mod cpu_gradient;
mod cpu_gradient_block;
pub(crate) mod cpu_loops;
mod cpu_tiles;
mod geometry;
mod opencl;
mod opencl_program;
mod operations;
mod reference;
mod suite;
#[cfg(test)]
mod tests;

pub(crate) use cpu_tiles::for_tasks;
pub use opencl::Kernel;
pub(crate) use opencl_program::shipped_programs;
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Layout, Shape};

use crate::operation::run;
use crate::operation::sum_dtype;
use crate::{Array, Result, copy};

/// Attention, as plain data. As an operation its inputs are q, k, v and, if there is one, the mask.
/// Its output is one dense array without further axes: the elements of the output, then those of the
/// log-sum-exp, both in row-major order. It is `f64` for `f64` and `f32` otherwise, since the
/// log-sum-exp needs the digits and an operation has one output; [`attention`] makes arrays of the
/// expected types of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Attention {
    /// What scores are multiplied by; `1 / sqrt(depth)` if it is not given.
    pub scale: Option<f64>,
    /// Whether query `i` sees the keys up to `i + causal_offset` only.
    pub causal: bool,
    /// Where the causal border lies: 0 for queries and keys that begin together, the number of keys
    /// less that of queries for those that end together, as in decoding.
    pub causal_offset: i64,
}

/// The gradient of [`Attention`]. Its inputs are q, k, v, the output, the log-sum-exp, the gradient
/// with respect to the output and, if there is one, the mask. Its output is one dense array without
/// further axes: the gradients with respect to q, k and v, each in row-major order, of the same type
/// as that of [`Attention`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AttentionGradient {
    /// The forward operation.
    pub forward: Attention,
}

/// What attention gives.
#[derive(Debug, Clone)]
pub struct Attended {
    /// `[batch, heads, queries, values]`, of the inputs' type.
    pub output: Array,
    /// The logarithm of the sum of each query's exponentials, which the gradient needs:
    /// `[batch, heads, queries]`, in `f64` for `f64` and in `f32` otherwise.
    pub log_sum_exp: Array,
}

/// The gradients of attention, each of the shape and type of the array it belongs to. They may share
/// one buffer.
#[derive(Debug, Clone)]
pub struct AttentionGradients {
    /// With respect to q.
    pub q: Array,
    /// With respect to k, summed over the heads that share it.
    pub k: Array,
    /// With respect to v, summed over the heads that share it.
    pub v: Array,
}

/// Attention of queries to keys, with an optional mask that is added to the scores (see the
/// [module](self) for shapes and special cases).
///
/// # Errors
/// If shapes or types do not fit, a parameter is not a number, or there is no room for the result.
pub fn attention(
    op: &Attention,
    q: &Array,
    k: &Array,
    v: &Array,
    mask: Option<&Array>,
) -> Result<Attended> {
    let inputs: Vec<&Array> = [q, k, v].into_iter().chain(mask).collect();
    let sizes = op.sizes(&inputs)?;
    let flat = Array::empty(q.device(), sum_dtype(q.dtype()), sizes.forward_shape()?)?;
    run(op, &inputs, &flat)?;
    let output = part(&flat, &sizes.output_dims(), 0)?;
    let log_sum_exp = part(&flat, &sizes.row_dims(), sizes.rows() * sizes.values)?;
    if q.dtype() == flat.dtype() {
        return Ok(Attended { output, log_sum_exp });
    }
    // A view would keep the wide output alive.
    Ok(Attended { output: cast(&output, q.dtype())?, log_sum_exp: copy::contiguous(&log_sum_exp)? })
}

/// The gradients of [`attention`] with respect to q, k and v, from its arguments, what it gave, and
/// the gradient `g` of its output. There is none with respect to the mask.
///
/// # Errors
/// As for [`attention`].
pub fn attention_gradient(
    op: &Attention,
    q: &Array,
    k: &Array,
    v: &Array,
    mask: Option<&Array>,
    attended: &Attended,
    g: &Array,
) -> Result<AttentionGradients> {
    let gradient = AttentionGradient { forward: *op };
    let inputs: Vec<&Array> =
        [q, k, v, &attended.output, &attended.log_sum_exp, g].into_iter().chain(mask).collect();
    let sizes = gradient.sizes(&inputs)?;
    let flat = Array::empty(q.device(), sum_dtype(q.dtype()), sizes.gradient_shape()?)?;
    run(&gradient, &inputs, &flat)?;
    let [of_k, of_v] = sizes.gradient_starts();
    let own = |array: &Array, start: usize| cast(&part(&flat, array.shape(), start)?, q.dtype());
    Ok(AttentionGradients { q: own(q, 0)?, k: own(k, of_k)?, v: own(v, of_v)? })
}

/// A dense part of a flat array, from an element on.
fn part(flat: &Array, dims: &[usize], start: usize) -> Result<Array> {
    let shape = Shape::new(dims)?;
    let strides = Layout::contiguous(shape);
    // Nothing lies nowhere: its offset could only be outside.
    let offset = if shape.elements() == 0 { 0 } else { start };
    Array::new(flat.buffer().clone(), Layout::new(shape, strides.strides(), offset)?)
}

/// The same elements in another type, or as they are.
fn cast(array: &Array, dtype: DType) -> Result<Array> {
    if array.dtype() == dtype {
        return Ok(array.clone());
    }
    copy::cast(array, dtype)
}
