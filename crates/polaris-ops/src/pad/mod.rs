//! Padding along any axes, its gradient, and flips.

mod cpu;
mod fold;
mod geometry;
mod opencl;
mod reference;
mod remap;
mod suite;

pub use fold::PadGradient;
pub use opencl::Kernel;
pub(crate) use opencl::shipped_programs;
pub use remap::Remap;
pub(crate) use suite::FAMILY;

use polaris_core::{Error as CoreError, MAX_RANK, Shape};

use crate::operation::run;
use crate::{Array, Error, Result, copy};

/// What stands in the padding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PadMode {
    /// A value, rounded or cut off to the array's type as a cast from `f64` does.
    Constant(f64),
    /// The elements mirrored at the border, which is not repeated: `c b | a b c | b a`.
    Reflect,
    /// The element at the border: `a a | a b c | c c`.
    Replicate,
    /// The elements of the other end: `b c | a b c | a b`.
    Circular,
}

impl PadMode {
    /// Whether an axis of some elements can be padded like this.
    fn reaches(self, length: usize, (before, after): (usize, usize)) -> bool {
        let most = before.max(after);
        match self {
            Self::Constant(_) => true,
            Self::Reflect => most == 0 || most < length,
            Self::Replicate => most == 0 || length > 0,
            Self::Circular => most <= length,
        }
    }
}

/// `x` with so many elements added before and after each axis.
///
/// # Errors
/// If there is not one pair of widths for each axis, a reflection or a circle would need more elements
/// than there are, or there is no room for the result.
pub fn pad(x: &Array, widths: &[(usize, usize)], mode: PadMode) -> Result<Array> {
    let (widths, shape) = padded("pad", x.shape(), widths, mode)?;
    let output = Array::empty(x.device(), x.dtype(), shape)?;
    run(&Remap::Pad { widths, mode }, &[x], &output)?;
    Ok(output)
}

/// The gradient of [`pad`] with respect to `x`: each element gets the sum of the gradients `g` of all
/// its copies. Half precisions are summed in `f32`.
///
/// # Errors
/// If `g` is not of a floating-point type or shorter than the widths, or as for [`pad`].
pub fn pad_gradient(g: &Array, widths: &[(usize, usize)], mode: PadMode) -> Result<Array> {
    let op = "pad_gradient";
    one_for_each_axis(op, g.shape(), widths)?;
    let mut result = g.clone();
    for (axis, &(before, after)) in widths.iter().enumerate() {
        let long = g.shape()[axis];
        let Some(length) = before.checked_add(after).and_then(|width| long.checked_sub(width))
        else {
            let what = format!("axis {axis} of length {long} is shorter than its padding");
            return Err(Error::InvalidParameter { op, what });
        };
        if (before, after) == (0, 0) {
            continue;
        }
        if matches!(mode, PadMode::Constant(_)) {
            result = result.slice(axis, before..before + length, 1)?;
            continue;
        }
        let mut dims = result.shape().to_vec();
        dims[axis] = length;
        let folded = Array::empty(g.device(), g.dtype(), Shape::new(&dims)?)?;
        run(&PadGradient { axis, before, after, mode }, &[&result], &folded)?;
        result = folded;
    }
    if result.layout().is_contiguous() && !result.buffer().shares_memory_with(g.buffer()) {
        return Ok(result);
    }
    copy::contiguous(&result)
}

/// The elements in the opposite order along the named axes.
///
/// # Errors
/// If an axis does not exist or is named twice, or there is no room for the result.
pub fn flip(x: &Array, axes: &[usize]) -> Result<Array> {
    let axes = x.shape().axis_mask("flip", axes)?;
    let output = Array::empty(x.device(), x.dtype(), *x.shape())?;
    run(&Remap::Flip { axes }, &[x], &output)?;
    Ok(output)
}

type Widths = [(usize, usize); MAX_RANK];

fn one_for_each_axis(op: &'static str, shape: &Shape, widths: &[(usize, usize)]) -> Result<()> {
    if widths.len() != shape.rank() {
        let what = format!("{} pairs of widths were given for {shape}", widths.len());
        return Err(Error::InvalidParameter { op, what });
    }
    Ok(())
}

/// The widths, checked, and the shape with them.
fn padded(
    op: &'static str,
    shape: &Shape,
    widths: &[(usize, usize)],
    mode: PadMode,
) -> Result<(Widths, Shape)> {
    one_for_each_axis(op, shape, widths)?;
    let mut all = [(0, 0); MAX_RANK];
    let mut dims = shape.to_vec();
    for (axis, &(before, after)) in widths.iter().enumerate() {
        let length = shape[axis];
        if !mode.reaches(length, (before, after)) {
            let what = format!(
                "{mode:?} cannot make {before} elements before and {after} after axis {axis} of the \
                 {length} that there are"
            );
            return Err(Error::InvalidParameter { op, what });
        }
        let wider = before.checked_add(after).and_then(|width| width.checked_add(length));
        dims[axis] = wider
            .ok_or_else(|| CoreError::TooLarge { what: format!("axis {axis} with its padding") })?;
        all[axis] = (before, after);
    }
    Ok((all, Shape::new(&dims)?))
}
