//! Look-ups and scatters by definition, in `f64`.

use polaris_core::Shape;

use super::lookup::{Lookup, LookupRule};
use super::scatter::{Scatter, ScatterRule};
use crate::Array;

/// The digits of a point of a shape, in row-major order.
fn digits(shape: &Shape, mut point: usize) -> Vec<usize> {
    let mut digits = vec![0; shape.rank()];
    for (digit, &dim) in digits.iter_mut().zip(shape.iter()).rev() {
        *digit = point % dim;
        point /= dim;
    }
    digits
}

/// The point with these digits.
fn point(shape: &Shape, digits: &[usize]) -> usize {
    digits.iter().zip(shape.iter()).fold(0, |point, (digit, dim)| point * dim + digit)
}

/// Where the element at these digits of a `take`'s result comes from.
fn taken(axis: usize, index: &[f64], index_shape: &Shape, x: &Shape, at: &[usize]) -> usize {
    let behind = axis + index_shape.rank();
    let found = index[point(index_shape, &at[axis..behind])] as usize;
    let at = [&at[..axis], &[found], &at[behind..]].concat();
    point(x, &at)
}

/// Where the element at these digits of a `gather`'s result comes from.
fn gathered(axis: usize, index: &[f64], index_shape: &Shape, x: &Shape, at: &[usize]) -> usize {
    let mut from = at.to_vec();
    from[axis] = index[point(index_shape, at)] as usize;
    point(x, &from)
}

pub fn lookup(op: &Lookup, inputs: &[Vec<f64>], arrays: &[&Array], output: &Shape) -> Vec<f64> {
    let (index_shape, x) = (arrays[0].shape(), arrays[1].shape());
    let source = match op.rule {
        LookupRule::Take => taken,
        LookupRule::Gather => gathered,
    };
    (0..output.elements())
        .map(|at| inputs[1][source(op.axis, &inputs[0], index_shape, x, &digits(output, at))])
        .collect()
}

pub fn scatter(op: &Scatter, inputs: &[Vec<f64>], arrays: &[&Array], output: &Shape) -> Vec<f64> {
    let index_shape = arrays[0].shape();
    if op.rule == ScatterRule::TakeGradient {
        let mut results = vec![0.0; output.elements()];
        for (at, g) in inputs[1].iter().enumerate() {
            let at = digits(arrays[1].shape(), at);
            results[taken(op.axis, &inputs[0], index_shape, output, &at)] += g;
        }
        return results;
    }
    let mut results = inputs[1].clone();
    for at in 0..index_shape.elements() {
        let at = digits(index_shape, at);
        let value = inputs[2][point(arrays[2].shape(), &at)];
        let to = gathered(op.axis, &inputs[0], index_shape, output, &at);
        results[to] = if op.rule == ScatterRule::Add { results[to] + value } else { value };
    }
    results
}
