//! Turns quantised convolutions and matmuls into float ones between DequantizeLinear and QuantizeLinear: the inverse
//! of `quantized`, for devices without int8 operators.

use polaris_onnx::{Attribute, Graph, Node, ValueId};

use super::Place;
use super::edits::{Edits, instead, with};
use super::matching::{View, is, only_result, operand};

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes() {
        let made = match is(node, "QLinearConv") {
            true => spread(&view, &mut edits, node, "Conv"),
            false if is(node, "QLinearMatMul") => spread(&view, &mut edits, node, "MatMul"),
            false => None,
        };
        if let Some(nodes) = made {
            edits.replace(at, nodes);
        }
    }
    edits.apply(graph)
}

fn spread(view: &View<'_>, edits: &mut Edits, node: &Node, operator: &str) -> Option<Vec<Node>> {
    let result = only_result(node)?;
    // Zero points of the left factor's rows have no axis that both operators call by the same name.
    let single = |index: usize| Some(view.constant(operand(node, index)?)?.elements() == 1);
    if !single(1)? || !single(6)? {
        return None;
    }
    let is_conv = operator == "Conv";
    let mut nodes = Vec::with_capacity(5);
    let mut numbers = |edits: &mut Edits, first: usize, axis: i64| -> Option<ValueId> {
        let inputs: Vec<_> = (first..first + 3).map(|index| operand(node, index)).collect();
        let made = edits.value(&node.path);
        let dequantize = instead(node, "DequantizeLinear", 13, &inputs, made);
        nodes.push(with(dequantize, "axis", Attribute::Int(axis)));
        inputs[..2].iter().all(Option::is_some).then_some(made)
    };
    let x = numbers(edits, 0, 1)?;
    let w = numbers(edits, 3, if is_conv { 0 } else { -1 })?;
    let mut inputs = vec![Some(x), Some(w)];
    if let Some(bias) = operand(node, 8).filter(|_| is_conv) {
        // Sums are in units of both scales.
        let scale = edits.value(&node.path);
        let scales = [operand(node, 1), operand(node, 4)];
        nodes.push(instead(node, "Mul", 14, &scales, scale));
        let made = edits.value(&node.path);
        let dequantize = instead(node, "DequantizeLinear", 13, &[Some(bias), Some(scale)], made);
        nodes.push(with(dequantize, "axis", Attribute::Int(0)));
        inputs.push(Some(made));
    }
    let sums = edits.value(&node.path);
    let mut linear = instead(node, operator, if is_conv { 11 } else { 13 }, &inputs, sums);
    linear.attributes = node.attributes.clone();
    nodes.push(linear);
    let inputs = [Some(sums), operand(node, 6), operand(node, 7)];
    nodes.push(instead(node, "QuantizeLinear", 13, &inputs, result));
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use polaris_onnx::{ElementType, GraphBuilder, Tensor};

    use super::super::testing::{check_pass, count};
    use super::*;

    fn bytes(element: ElementType, shape: &[usize]) -> Tensor {
        let elements: usize = shape.iter().product();
        let values: Vec<f64> = (0..elements).map(|at| (at * 37 % 101) as f64).collect();
        Tensor::from_f64(element, shape, &values).unwrap()
    }

    #[test]
    fn operators_of_integers_become_those_of_numbers() {
        for conv in [true, false] {
            let mut draft = GraphBuilder::new("test");
            let dims: &[&str] = if conv { &["n", "2", "5", "5"] } else { &["n", "4"] };
            let x = draft.input("x", ElementType::U8, dims);
            let weight: &[usize] = if conv { &[3, 2, 3, 3] } else { &[4, 3] };
            let w = draft.constant(bytes(ElementType::I8, weight));
            let (of_x, of_y) = (draft.number(0.02), draft.number(0.3));
            let of_w = draft.constant(Tensor::new(&[3], vec![0.01f32, 0.02, 0.03]).unwrap());
            let x_zero = draft.constant(Tensor::scalar(7u8));
            let w_zero = draft.constant(Tensor::new(&[3], vec![1i8, 0, -2]).unwrap());
            let y_zero = draft.constant(Tensor::scalar(30u8));
            let bias = draft.constant(bytes(ElementType::I32, &[3]));
            let all = [x, of_x, x_zero, w, of_w, w_zero, of_y, y_zero, bias];
            let (operator, inputs) =
                if conv { ("QLinearConv", &all[..]) } else { ("QLinearMatMul", &all[..8]) };
            let y = draft.node(operator, inputs);
            draft.output_as(y, "y");
            let shape: &[usize] = if conv { &[2, 2, 5, 5] } else { &[3, 4] };
            let given = [("x", bytes(ElementType::U8, shape))];
            // Ties may be rounded otherwise: one step of 255.
            let graph = check_pass(draft, run, &given, 1.01 / 30.0);
            let made = if conv { "Conv" } else { "MatMul" };
            assert_eq!((count(&graph, operator), count(&graph, made)), (0, 1), "{graph}");
        }
    }
}
