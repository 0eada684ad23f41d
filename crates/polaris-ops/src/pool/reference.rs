//! Pooling by definition, in `f64`.

use polaris_core::Shape;

use super::windows::{Along, MOST_AXES, Windows};
use super::{Pooling, Window};

/// Lengths of the pooled axes; of one axis, the other has length 1.
fn plane(windows: &Windows, shape: &Shape) -> [usize; MOST_AXES] {
    match shape[shape.rank() - windows.axes..] {
        [columns] => [1, columns],
        [rows, columns] => [rows, columns],
        _ => unreachable!("windows should have one or two axes"),
    }
}

/// The positions that a window covers along an axis, and how many it has with the padding.
fn positions(along: Along, index: usize, length: usize, count: usize) -> (Vec<usize>, usize) {
    match along {
        Along::Adaptive(_) => {
            let covered: Vec<usize> =
                (index * length / count..((index + 1) * length).div_ceil(count)).collect();
            let padded = covered.len();
            (covered, padded)
        }
        Along::Sliding(Window { kernel, stride, padding, dilation }) => {
            let (length, padding) = (length as i64, padding as i64);
            let start = (index * stride) as i64 - padding;
            let all = (0..kernel).map(|tap| start + (tap * dilation) as i64);
            let padded = all.clone().filter(|&at| at < length + padding).count();
            let inside = all.filter(|at| (0..length).contains(at));
            (inside.map(|at| at as usize).collect(), padded)
        }
    }
}

/// Calls a function with each window: its number, the elements that it covers, in row-major order, and
/// what their sum is divided by.
fn each_window(
    pooling: Pooling,
    windows: &Windows,
    whole: &Shape,
    pooled: &Shape,
    mut visit: impl FnMut(usize, &[usize], f64),
) {
    let ([rows, columns], [windows_down, windows_across]) =
        (plane(windows, whole), plane(windows, pooled));
    let size = rows * columns;
    let mut window = 0;
    for first in (0..whole.elements() / size.max(1)).map(|index| index * size) {
        for down in 0..windows_down {
            let (ys, padded_y) = positions(windows.along[0], down, rows, windows_down);
            for across in 0..windows_across {
                let (xs, padded_x) = positions(windows.along[1], across, columns, windows_across);
                let element = |&y: &usize| xs.iter().map(move |x| first + y * columns + x);
                let covered: Vec<usize> = ys.iter().flat_map(element).collect();
                let divisor = match pooling {
                    Pooling::Average { count_padding: true } => padded_y * padded_x,
                    _ => covered.len(),
                };
                visit(window, &covered, divisor as f64);
                window += 1;
            }
        }
    }
}

/// The first of the largest; a NaN is larger than anything.
fn first_largest(x: &[f64], covered: &[usize]) -> Option<usize> {
    let mut best = *covered.first()?;
    for &at in covered {
        if x[at] > x[best] || x[at].is_nan() && !x[best].is_nan() {
            best = at;
        }
    }
    Some(best)
}

pub fn pool(
    pooling: Pooling,
    windows: &Windows,
    x: &[f64],
    shape: &Shape,
    pooled: &Shape,
) -> Vec<f64> {
    let mut result = vec![0.0; pooled.elements()];
    let size: usize = plane(windows, shape).iter().product();
    each_window(pooling, windows, shape, pooled, |window, covered, divisor| {
        let largest = first_largest(x, covered);
        result[window] = match pooling {
            Pooling::Max => largest.map_or(f64::NEG_INFINITY, |at| x[at]),
            Pooling::ArgMax => largest.map_or(0.0, |at| (at % size) as f64),
            Pooling::Average { .. } => covered.iter().map(|&at| x[at]).sum::<f64>() / divisor,
        };
    });
    result
}

/// The inputs end with the gradient of the result.
pub fn gradient(
    pooling: Pooling,
    windows: &Windows,
    inputs: &[Vec<f64>],
    shape: &Shape,
    pooled: &Shape,
) -> Vec<f64> {
    let mut result = vec![0.0; shape.elements()];
    let g = &inputs[inputs.len() - 1];
    each_window(pooling, windows, shape, pooled, |window, covered, divisor| match pooling {
        Pooling::Average { .. } => {
            covered.iter().for_each(|&at| result[at] += g[window] / divisor);
        }
        _ => {
            if let Some(at) = first_largest(&inputs[0], covered) {
                result[at] += g[window];
            }
        }
    });
    result
}
