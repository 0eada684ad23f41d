//! Reductions by definition, in `f64`.

use polaris_core::{DType, Shape};

use super::{Reduce, Reduction};

pub fn reduce(
    op: &Reduce,
    values: &[f64],
    shape: &Shape,
    dtype: DType,
    output: &Shape,
) -> Vec<f64> {
    let mut groups: Vec<Vec<f64>> = vec![Vec::new(); output.elements()];
    for (index, &value) in values.iter().enumerate() {
        // The digits of the kept axes, in order, are the index of the output.
        let (mut rest, mut scale, mut target) = (index, 1, 0);
        for axis in (0..shape.rank()).rev() {
            let digit = rest % shape[axis];
            rest /= shape[axis];
            if !op.axes[axis] {
                target += digit * scale;
                scale *= shape[axis];
            }
        }
        groups[target].push(value);
    }
    groups.iter().map(|group| one(op.reduction, group, dtype)).collect()
}

fn one(reduction: Reduction, group: &[f64], dtype: DType) -> f64 {
    let count = group.len() as f64;
    let nan = group.iter().position(|value| value.is_nan());
    match reduction {
        Reduction::Sum if dtype.is_float() => group.iter().sum(),
        Reduction::Sum => group.iter().map(|&value| value as i128).sum::<i128>() as i64 as f64,
        Reduction::Mean => group.iter().sum::<f64>() / count,
        Reduction::Max | Reduction::Min if nan.is_some() => f64::NAN,
        Reduction::Max => group.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Reduction::Min => group.iter().copied().fold(f64::INFINITY, f64::min),
        Reduction::ArgMax => {
            let largest = group.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let first = || group.iter().position(|&value| value == largest);
            nan.or_else(first).unwrap_or_default() as f64
        }
    }
}
