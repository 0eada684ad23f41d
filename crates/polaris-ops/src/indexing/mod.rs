//! Elements moved by indices: look-ups (`take`, `gather`) and their opposites, which add or write
//! elements where indices say (`take_gradient`, `scatter_add`, `scatter`).
//!
//! Indices are `i32` or `i64` and count from zero; one that the axis does not have is the error
//! [`Error::IndexOutOfRange`]. On OpenCL devices, finding it out reads four bytes back, once for each
//! call: the call waits until the device has come to it.
//!
//! Results are the same run after run. Where several elements meet at one place they are added in the
//! order of their positions, or the last one stays.

mod cpu_lookup;
mod cpu_scatter;
mod cpu_take_gradient;
mod geometry;
mod indices;
mod lookup;
mod opencl_keys;
mod opencl_lookup;
mod opencl_scatter;
mod reference;
mod scatter;
mod suite;

pub use lookup::{Lookup, LookupRule};
pub use opencl_lookup::Kernel as LookupKernel;
pub use opencl_scatter::Kernel as ScatterKernel;
pub use scatter::{Scatter, ScatterRule};
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Shape};
use polaris_runtime::opencl::ProgramSource;

use crate::operation::run;
use crate::{Array, Result};

#[cfg(doc)]
use crate::Error;

/// Looks up slices of `x` along an axis by indices of any shape: `out[o.., j.., i..]` is
/// `x[o.., indices[j..], i..]`. The look-up of an embedding is `take(table, 0, tokens)`.
///
/// # Errors
/// If the axis does not exist, the result has too many axes, an index lies outside the axis, or there
/// is no room for the result.
pub fn take(x: &Array, axis: usize, indices: &Array) -> Result<Array> {
    take_as(x, axis, indices, x.dtype())
}

/// As [`take`], with a result of another type: `f32` from half precision, as weights of models may be stored.
///
/// # Errors
/// As for [`take`], and if the types do not fit.
pub fn take_as(x: &Array, axis: usize, indices: &Array, dtype: DType) -> Result<Array> {
    looked_up(&Lookup { rule: LookupRule::Take, axis }, x, indices, dtype)
}

/// The gradient of [`take`] with respect to `x`, whose shape is given: the sum of all slices of `g`,
/// the gradient with respect to the result, that came from the same index, and zero elsewhere. Half
/// precisions are summed in `f32`.
///
/// # Errors
/// If shapes do not fit, the type is not a floating-point one, or as for [`take`].
pub fn take_gradient(g: &Array, axis: usize, indices: &Array, x_shape: &Shape) -> Result<Array> {
    let output = Array::empty(g.device(), g.dtype(), *x_shape)?;
    run(&Scatter { rule: ScatterRule::TakeGradient, axis }, &[indices, g], &output)?;
    Ok(output)
}

/// Picks one element of `x` for each index: `out[a, b, c]` is `x[a, index[a, b, c], c]` along axis 1.
/// The index has as many axes as `x` and may be shorter along those that it does not look up.
///
/// # Errors
/// If the axis does not exist, shapes do not fit, an index lies outside the axis, or there is no room
/// for the result.
pub fn gather(x: &Array, axis: usize, index: &Array) -> Result<Array> {
    looked_up(&Lookup { rule: LookupRule::Gather, axis }, x, index, x.dtype())
}

/// A copy of `base` in which `source` is written where the index says: `out[a, index[a, b, c], c]`
/// becomes `source[a, b, c]` along axis 1. Of several elements for one place the last one stays.
/// Elements of `source` beyond the index's shape are not looked at.
///
/// # Errors
/// If the axis does not exist, shapes or types do not fit, an index lies outside the axis, or there is
/// no room for the result.
pub fn scatter(base: &Array, axis: usize, index: &Array, source: &Array) -> Result<Array> {
    scattered(&Scatter { rule: ScatterRule::Assign, axis }, base, index, source)
}

/// As [`scatter`], with the elements of `source` added to those of `base`. It is the gradient of
/// [`gather`]. Half precisions are summed in `f32`.
///
/// # Errors
/// If the type is not a floating-point one, or as for [`scatter`].
pub fn scatter_add(base: &Array, axis: usize, index: &Array, source: &Array) -> Result<Array> {
    scattered(&Scatter { rule: ScatterRule::Add, axis }, base, index, source)
}

fn looked_up(op: &Lookup, x: &Array, index: &Array, dtype: DType) -> Result<Array> {
    let shape = op.output_shape(index.shape(), x.shape())?;
    let output = Array::empty(x.device(), dtype, shape)?;
    run(op, &[index, x], &output)?;
    Ok(output)
}

fn scattered(op: &Scatter, base: &Array, index: &Array, source: &Array) -> Result<Array> {
    let output = Array::empty(base.device(), base.dtype(), *base.shape())?;
    run(op, &[index, base, source], &output)?;
    Ok(output)
}

/// Those of all operations here.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut programs = opencl_keys::shipped_programs();
    programs.extend(opencl_lookup::shipped_programs());
    programs.extend(opencl_scatter::shipped_programs());
    programs
}
