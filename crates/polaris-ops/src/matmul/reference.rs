//! Matmul by definition, in `f64`.

use polaris_core::{Collapsed, Layout, Shape};

use super::problem::{Activation, Bias, MatMul};
use crate::Array;
use crate::elementwise::reference::unary;

/// The result in row-major order. `values` hold each array's own elements in row-major order.
pub fn matmul(op: &MatMul, values: &[Vec<f64>], inputs: &[&Array], output: &Array) -> Vec<f64> {
    let parts = op.parts(inputs).expect("the arrays should have been checked");
    let values = Values { inputs, values };
    let dims = output.shape().dims();
    let (batch, [m, n]) = (&dims[..dims.len() - 2], [dims[dims.len() - 2], dims[dims.len() - 1]]);
    let k = parts.a.shape()[parts.a.shape().rank() - 1];
    let with_batch = |rows: usize, columns: usize| -> Vec<usize> {
        batch.iter().copied().chain([rows, columns]).collect()
    };
    let a = values.broadcast(Some(parts.a), &with_batch(m, k));
    let b = values.broadcast(Some(parts.b), &with_batch(k, n));
    let c = values.broadcast(parts.c, dims);
    let residual = values.broadcast(parts.residual, dims);
    let [row_scales, column_scales, bias] =
        [parts.row_scales, parts.column_scales, parts.bias].map(|array| values.of(array));
    let mut result = Vec::with_capacity(output.elements());
    for product in 0..batch.iter().product::<usize>() {
        for i in 0..m {
            for j in 0..n {
                let row = &a[(product * m + i) * k..][..k];
                let sum: f64 =
                    row.iter().enumerate().map(|(l, x)| x * b[(product * k + l) * n + j]).sum();
                let at = (product * m + i) * n + j;
                let mut x = sum * op.alpha;
                x *= row_scales.map_or(1.0, |scales| scales[i]);
                x *= column_scales.map_or(1.0, |scales| scales[j]);
                if parts.c.is_some() {
                    x += op.beta * c[at];
                }
                x += bias.map_or(0.0, |bias| match op.epilogue.bias {
                    Some(Bias::PerRow) => bias[i],
                    _ => bias[j],
                });
                x = activate(op.epilogue.activation, x) * op.epilogue.scale;
                if parts.residual.is_some() {
                    x += residual[at];
                }
                result.push(x);
            }
        }
    }
    result
}

/// An activation of one number.
pub fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Identity => x,
        Activation::Clamp { .. } if x.is_nan() => x,
        Activation::Clamp { low, high } => x.max(low).min(high),
        other => other.function().map_or(x, |function| unary(function, x)),
    }
}

struct Values<'a> {
    inputs: &'a [&'a Array],
    values: &'a [Vec<f64>],
}

impl<'a> Values<'a> {
    /// The elements of one of the inputs.
    fn of(&self, array: Option<&Array>) -> Option<&'a Vec<f64>> {
        let array = array?;
        let place = self.inputs.iter().position(|&input| std::ptr::eq(input, array))?;
        Some(&self.values[place])
    }

    /// The elements repeated to a shape; nothing for an array that is not there.
    fn broadcast(&self, array: Option<&Array>, dims: &[usize]) -> Vec<f64> {
        let (Some(array), Some(values)) = (array, self.of(array)) else {
            return Vec::new();
        };
        let shape = Shape::new(dims).expect("shapes should have been checked");
        let dense = Layout::contiguous(*array.shape());
        let layout = dense.broadcast_to("reference", &shape).expect("shapes should fit");
        let space = Collapsed::new(&shape, [&layout]);
        (0..shape.elements()).map(|point| values[space.point(point)[0]]).collect()
    }
}
