//! Padding, its gradient and flips by definition.

use polaris_core::{DType, Shape};

use super::{PadGradient, PadMode, Remap};
use crate::{Array, copy};

/// The index of the input for an index along a padded axis of `n`, counted from the first element.
fn source(mode: PadMode, index: isize, n: isize) -> Option<isize> {
    match mode {
        _ if (0..n).contains(&index) => Some(index),
        PadMode::Constant(_) => None,
        PadMode::Reflect if index < 0 => Some(-index),
        PadMode::Reflect => Some(2 * (n - 1) - index),
        PadMode::Replicate => Some(index.clamp(0, n - 1)),
        PadMode::Circular => Some(index.rem_euclid(n)),
    }
}

pub fn remap(op: &Remap, x: &[f64], shape: &Shape, output: &Array) -> Vec<f64> {
    let constant = match op.mode() {
        PadMode::Constant(value) => copy::convert(value, DType::F64, output.dtype()),
        _ => 0.0,
    };
    let element = |point: usize| {
        let (mut rest, mut scale, mut from) = (point, 1, 0);
        for axis in (0..shape.rank()).rev() {
            let n = shape[axis] as isize;
            let index = (rest % output.shape()[axis]) as isize - op.before(axis) as isize;
            rest /= output.shape()[axis];
            let index = source(op.mode(), index, n)?;
            let index = if op.is_flipped(axis) { n - 1 - index } else { index };
            from += index as usize * scale;
            scale *= shape[axis];
        }
        Some(x[from])
    };
    (0..output.elements()).map(|point| element(point).unwrap_or(constant)).collect()
}

pub fn fold(op: &PadGradient, g: &[f64], shape: &Shape) -> Vec<f64> {
    let n = shape[op.axis];
    let inner: usize = shape[op.axis + 1..].iter().product();
    let long = n + op.before + op.after;
    let mut results = vec![0.0; shape.elements()];
    for (at, value) in g.iter().enumerate() {
        let (outer, index, behind) = (at / inner / long, at / inner % long, at % inner);
        let index = index as isize - op.before as isize;
        if let Some(index) = source(op.mode, index, n as isize) {
            results[(outer * n + index as usize) * inner + behind] += value;
        }
    }
    results
}
