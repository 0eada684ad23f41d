//! The convolution and its gradients by definition, in `f64`: every product of an element of x and a tap of the
//! weight that belongs to an element of y, added to where it belongs.

use super::geometry::{Form, Roles};
use super::problem::Convolution;
use crate::Array;

pub fn convolution(
    form: Form,
    problem: &Convolution,
    values: &[Vec<f64>],
    inputs: &[&Array],
    output: &Array,
) -> Vec<f64> {
    let roles = Roles::new(form, inputs, output).expect("the arrays should have been checked");
    let [x, weight, y] = [roles.x, roles.weight, roles.y].map(dims);
    let mut result = match values.get(2) {
        Some(bias) => {
            let [_, channels, rows, columns] = if form == Form::Output { y } else { x };
            let channel = |at: usize| at / (rows * columns) % channels;
            (0..output.elements()).map(|at| bias[channel(at)]).collect()
        }
        None => vec![0.0; output.elements()],
    };
    let at = |[_, b, c, d]: [usize; 4], [i, j, k, l]: [usize; 4]| ((i * b + j) * c + k) * d + l;
    let source = |position: usize, tap: usize, axis: usize| {
        (position * problem.stride[axis] + tap * problem.dilation[axis])
            .checked_sub(problem.padding[axis])
            .filter(|&source| source < x[axis + 2])
    };
    let (group_inputs, group_outputs) = (weight[1], weight[0] / problem.groups);
    for [image, channel, row, column] in points(y) {
        for [_, input, row_tap, column_tap] in points([1, weight[1], weight[2], weight[3]]) {
            let (Some(x_row), Some(x_column)) =
                (source(row, row_tap, 0), source(column, column_tap, 1))
            else {
                continue;
            };
            let x_channel = channel / group_outputs * group_inputs + input;
            let x_at = at(x, [image, x_channel, x_row, x_column]);
            let weight_at = at(weight, [channel, input, row_tap, column_tap]);
            let y_at = at(y, [image, channel, row, column]);
            match form {
                Form::Output => result[y_at] += values[0][x_at] * values[1][weight_at],
                Form::InputGradient => result[x_at] += values[0][y_at] * values[1][weight_at],
                Form::WeightGradient => result[weight_at] += values[0][x_at] * values[1][y_at],
            }
        }
    }
    result
}

/// Lengths with a row for images that have none.
fn dims(array: &Array) -> [usize; 4] {
    match array.shape().dims() {
        [a, b, d] => [*a, *b, 1, *d],
        [a, b, c, d] => [*a, *b, *c, *d],
        _ => [0; 4],
    }
}

/// All indices in row-major order.
fn points([a, b, c, d]: [usize; 4]) -> impl Iterator<Item = [usize; 4]> {
    (0..a * b * c * d).map(move |at| [at / d / c / b, at / d / c % b, at / d % c, at % d])
}
