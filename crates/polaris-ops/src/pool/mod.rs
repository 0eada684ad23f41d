//! Maxima and averages of windows along the last one or two axes, and their gradients. Arrays are
//! `[N, C, L]` or `[N, C, H, W]`, with or without N. Half precisions are computed in `f32`.
//!
//! A NaN counts as the largest element. Where several elements of a window are the largest, the
//! first one in row-major order is meant. Padding is never the largest element; a window of a dilated
//! maximum that meets nothing but padding has the maximum `-inf`, and nobody gets its gradient.

mod cpu;
mod cpu_bytes;
mod cpu_channels;
mod cpu_find;
mod cpu_gradient;
mod cpu_loops;
mod geometry;
mod opencl;
mod operations;
mod reference;
mod suite;
#[cfg(test)]
mod tests;
mod windows;

pub use opencl::Kernel;
pub(crate) use opencl::shipped_programs;
pub use operations::{Pool, PoolGradient};
pub(crate) use suite::FAMILY;
pub use windows::{Window, Windows};

use polaris_core::{DType, Error as CoreError, Layout, Shape};

use crate::operation::{Operation, run};
use crate::reduce::{Reduction, reduce};
use crate::{Array, Result};

/// What becomes of a window's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The largest.
    Max,
    /// Where the largest is: its index in the plane of the pooled axes, as `i64`; 0 if there is none.
    ArgMax,
    /// Their mean. A window that leaves the array is divided by the elements it covers inside, or, if
    /// padding counts, by those in the padding too; what lies beyond the padding never counts.
    Average {
        /// Whether elements in the padding count, as zeros.
        count_padding: bool,
    },
}

/// The largest element of each window.
///
/// # Errors
/// If the windows do not fit x, its type is not a floating-point one, or there is no room for the
/// result.
pub fn max_pool(x: &Array, windows: &Windows) -> Result<Array> {
    pool(Pooling::Max, x, windows)
}

/// Where the largest element of each window is: its index in its plane, as `i64`.
///
/// # Errors
/// As for [`max_pool`].
pub fn max_pool_indices(x: &Array, windows: &Windows) -> Result<Array> {
    pool(Pooling::ArgMax, x, windows)
}

/// The mean of each window; `count_padding` says whether padding counts as zeros.
///
/// # Errors
/// As for [`max_pool`], or if a window is dilated.
pub fn average_pool(x: &Array, windows: &Windows, count_padding: bool) -> Result<Array> {
    pool(Pooling::Average { count_padding }, x, windows)
}

/// The gradient of [`max_pool`] with respect to x, from the gradient `g` of its result: the first of
/// the largest elements of a window gets it.
///
/// # Errors
/// As for [`max_pool`], or if `g` has another shape or type than its result.
pub fn max_pool_gradient(x: &Array, g: &Array, windows: &Windows) -> Result<Array> {
    let op = PoolGradient { pooling: Pooling::Max, windows: *windows };
    let output = Array::empty(x.device(), x.dtype(), *x.shape())?;
    run(&op, &[x, g], &output)?;
    Ok(output)
}

/// The gradient of [`average_pool`] of an array of this shape, from the gradient `g` of its result.
///
/// # Errors
/// As for [`average_pool`], or if `g` has another shape than its result.
pub fn average_pool_gradient(
    g: &Array,
    shape: &Shape,
    windows: &Windows,
    count_padding: bool,
) -> Result<Array> {
    let op = PoolGradient { pooling: Pooling::Average { count_padding }, windows: *windows };
    let output = Array::empty(g.device(), g.dtype(), *shape)?;
    run(&op, &[g], &output)?;
    Ok(output)
}

fn pool(pooling: Pooling, x: &Array, windows: &Windows) -> Result<Array> {
    let op = Pool { pooling, windows: *windows };
    let shape = windows.output_shape(operations::name(pooling, false), x.shape())?;
    if !x.dtype().is_float() {
        let (op, dtype) = (op.name(), x.dtype());
        let hint = "cast to f32 first";
        return Err(CoreError::UnsupportedDType { op, dtype, hint }.into());
    }
    let reduction = match pooling {
        Pooling::Max => Some(Reduction::Max),
        Pooling::Average { .. } => Some(Reduction::Mean),
        Pooling::ArgMax => None,
    };
    if let Some(reduction) = reduction.filter(|_| windows.cover_all()) {
        // One window over everything is a reduction, which is shared out better.
        let axes: Vec<usize> = (shape.rank() - windows.axes..shape.rank()).collect();
        let reduced = reduce(reduction, x, &axes)?;
        return Array::new(reduced.buffer().clone(), Layout::contiguous(shape));
    }
    let dtype = if pooling == Pooling::ArgMax { DType::I64 } else { x.dtype() };
    let output = Array::empty(x.device(), dtype, shape)?;
    run(&op, &[x], &output)?;
    Ok(output)
}
