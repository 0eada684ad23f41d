//! Expressions by definition, point by point in `f64`.

use polaris_core::{Collapsed, Layout};

use super::expression::{Expression, Node};
use crate::Array;

/// `inputs` hold each array's own elements in row-major order; broadcasting is done here.
pub fn evaluate(
    expression: &Expression,
    inputs: &[Vec<f64>],
    arrays: &[&Array],
    output: &Array,
) -> Vec<f64> {
    let shape = output.shape();
    let spaces: Vec<Collapsed<1>> = arrays
        .iter()
        .map(|array| {
            let broadcast = Layout::contiguous(*array.shape()).broadcast_to(super::NAME, shape);
            Collapsed::new(shape, [&broadcast.expect("shapes should have been checked")])
        })
        .collect();
    let at_point = |point: usize| {
        let mut values: Vec<f64> = Vec::with_capacity(expression.nodes().len());
        for node in expression.nodes() {
            values.push(match *node {
                Node::Input(index) => inputs[index][spaces[index].point(point)[0]],
                Node::Scalar(index) => expression.scalars()[index],
                Node::Constant(bits) => f64::from_bits(bits),
                Node::Apply(function, arguments) => {
                    function.of_numbers(arguments.map(|argument| values[argument]))
                }
            });
        }
        values.pop().expect("an expression should have a node")
    };
    (0..shape.elements()).map(at_point).collect()
}
