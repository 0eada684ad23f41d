//! Graphs of bytes, interpreted before and after the pass.

use polaris_onnx::{Attribute, GraphBuilder};

use super::super::testing::{and_dead, check_pass, check_unchanged, count};
use super::*;

fn bytes(element: ElementType, shape: &[usize]) -> Tensor {
    let elements: usize = shape.iter().product();
    let values: Vec<f64> = (0..elements).map(|at| (at * 37 % 101) as f64).collect();
    Tensor::from_f64(element, shape, &values).unwrap()
}

fn scales(draft: &mut GraphBuilder, values: &[f32]) -> ValueId {
    match values {
        [only] => draft.number(*only),
        list => draft.constant(Tensor::new(&[list.len()], list.to_vec()).unwrap()),
    }
}

/// An operator between conversions, with a bias of this scale.
fn between(
    operator: &str,
    weight: &[usize],
    of_w: &[f32],
    of_bias: Option<&[f32]>,
) -> GraphBuilder {
    let mut draft = GraphBuilder::new("test");
    let dims: &[&str] = if operator == "Conv" { &["n", "2", "5", "5"] } else { &["n", "4"] };
    let x = draft.input("x", ElementType::U8, dims);
    let (of_x, of_y) = (draft.number(0.02), draft.number(0.3));
    let x_zero = draft.constant(Tensor::scalar(7u8));
    let y_zero = draft.constant(Tensor::scalar(30u8));
    let x = draft.node("DequantizeLinear", [x, of_x, x_zero]);
    let w = draft.constant(bytes(ElementType::I8, weight));
    let scale = scales(&mut draft, of_w);
    let axis = [("axis", if operator == "Conv" { 0 } else { 1 })];
    let w = draft.node_with("DequantizeLinear", [w, scale], axis);
    let mut inputs = vec![x, w];
    if let Some(values) = of_bias {
        let numbers = draft.constant(bytes(ElementType::I32, &[weight[0]]));
        let scale = scales(&mut draft, values);
        let axis = [("axis", 0)];
        inputs.push(draft.node_with("DequantizeLinear", [numbers, scale], axis));
    }
    let y = draft.node(operator, &inputs);
    let y = draft.node("QuantizeLinear", [y, of_y, y_zero]);
    draft.output_as(y, "y");
    draft
}

#[test]
fn convolutions_and_products_of_integers_are_found() {
    let image = [("x", bytes(ElementType::U8, &[2, 2, 5, 5]))];
    let rows = [("x", bytes(ElementType::U8, &[3, 4]))];
    let each = [0.01, 0.02, 0.03];
    let of_bias = each.map(|scale| scale * 0.02f32);
    for (draft, inputs, operator) in [
        (between("Conv", &[3, 2, 3, 3], &[0.01], None), &image, "QLinearConv"),
        (between("Conv", &[3, 2, 3, 3], &each, Some(&of_bias)), &image, "QLinearConv"),
        (between("MatMul", &[4, 3], &each, None), &rows, "QLinearMatMul"),
        (between("Gemm", &[4, 3], &[0.01], None), &rows, "QLinearMatMul"),
    ] {
        // Ties may be rounded otherwise: one step of 255.
        let graph = check_pass(draft, and_dead(run), inputs, 1.01 / 30.0);
        assert_eq!((graph.nodes.len(), count(&graph, operator)), (1, 1), "{graph}");
    }
}

#[test]
fn weights_of_four_bits_are_those_of_quantised_operators_too() {
    let image = [("x", bytes(ElementType::U8, &[2, 2, 5, 5]))];
    for (element, zero) in [(ElementType::I4, None), (ElementType::U4, Some(8.0))] {
        let mut draft = GraphBuilder::new("test").opset(21);
        let x = draft.input("x", ElementType::U8, ["n", "2", "5", "5"]);
        let (of_x, zeros) = (draft.number(0.02), draft.constant(Tensor::scalar(60u8)));
        let x = draft.node("DequantizeLinear", [x, of_x, zeros]);
        let levels: Vec<f64> =
            (0..54).map(|at| f64::from(at % 15 - 7) + zero.unwrap_or(0.0)).collect();
        let w = draft.constant(Tensor::from_f64(element, &[3, 2, 3, 3], &levels).unwrap());
        let scale = scales(&mut draft, &[0.01, 0.02, 0.03]);
        let mut inputs = vec![w, scale];
        if let Some(zero) = zero {
            inputs.push(draft.constant(Tensor::from_f64(element, &[3], &[zero; 3]).unwrap()));
        }
        let w = draft.node_with("DequantizeLinear", &inputs, [("axis", 0)]);
        let y = draft.node("Conv", [x, w]);
        let (scale, zeros) = (draft.number(0.3), draft.constant(Tensor::scalar(30u8)));
        let y = draft.node("QuantizeLinear", [y, scale, zeros]);
        draft.output_as(y, "y");
        let graph = check_pass(draft, and_dead(run), &image, 1.01 / 30.0);
        assert_eq!((graph.nodes.len(), count(&graph, "QLinearConv")), (1, 1), "{graph}");
    }
}

#[test]
fn products_with_a_bias_become_convolutions() {
    let rows = [("x", bytes(ElementType::U8, &[3, 4]))];
    let each = [0.01, 0.02, 0.03];
    for turned in [false, true] {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", ElementType::U8, ["n", "4"]);
        let (of_x, of_y) = (draft.number(0.02), draft.number(0.3));
        let zero = draft.constant(Tensor::scalar(7u8));
        let x = draft.node("DequantizeLinear", [x, of_x, zero]);
        let shape: &[usize] = if turned { &[3, 4] } else { &[4, 3] };
        let w = draft.constant(bytes(ElementType::I8, shape));
        let scale = scales(&mut draft, &each);
        let axis = [("axis", i64::from(!turned))];
        let w = draft.node_with("DequantizeLinear", [w, scale], axis);
        let numbers = draft.constant(bytes(ElementType::I32, &[3]));
        let scale = scales(&mut draft, &each.map(|scale| scale * 0.02f32));
        let axis = [("axis", 0)];
        let bias = draft.node_with("DequantizeLinear", [numbers, scale], axis);
        let flags = [("transB", i64::from(turned))];
        let y = draft.node_with("Gemm", [x, w, bias], flags);
        let zero = draft.constant(Tensor::scalar(30u8));
        let y = draft.node("QuantizeLinear", [y, of_y, zero]);
        draft.output_as(y, "y");
        let graph = check_pass(draft, and_dead(run), &rows, 1.01 / 30.0);
        let found = (count(&graph, "QLinearConv"), count(&graph, "Reshape"));
        assert_eq!((graph.nodes.len(), found), (3, (1, 2)), "{graph}");
    }
}

/// An operator between conversions of these zero points and scales.
fn moving(operator: &str, before: (u8, f32), after: (u8, f32)) -> GraphBuilder {
    let mut draft = GraphBuilder::new("test");
    let x = draft.input("x", ElementType::U8, ["n", "2", "6", "6"]);
    let scale = draft.number(before.1);
    let zero = draft.constant(Tensor::scalar(before.0));
    let x = draft.node("DequantizeLinear", [x, scale, zero]);
    let attribute: Option<(&str, Attribute)> = match operator {
        "MaxPool" => Some(("kernel_shape", [2, 2].into())),
        "SpaceToDepth" => Some(("blocksize", 2.into())),
        _ => None,
    };
    let y = draft.node_with(operator, [x], attribute);
    let scale = draft.number(after.1);
    let zero = draft.constant(Tensor::scalar(after.0));
    let y = draft.node("QuantizeLinear", [y, scale, zero]);
    draft.output_as(y, "y");
    draft
}

#[test]
fn what_moves_elements_moves_bytes() {
    let image = [("x", bytes(ElementType::U8, &[2, 2, 6, 6]))];
    for operator in ["MaxPool", "Flatten", "Transpose", "SpaceToDepth"] {
        let draft = moving(operator, (7, 0.1), (7, 0.1));
        let graph = check_pass(draft, and_dead(run), &image, 0.0);
        assert_eq!((graph.nodes.len(), count(&graph, operator)), (1, 1), "{graph}");
        check_unchanged(moving(operator, (7, 0.1), (8, 0.1)), run);
        check_unchanged(moving(operator, (7, 0.1), (7, 0.2)), run);
    }
}

#[test]
fn a_relu_goes_where_the_lowest_byte_is_zero() {
    let image = [("x", bytes(ElementType::U8, &[2, 2, 5, 5]))];
    for (zero, found) in [(0u8, 1), (3, 0)] {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", ElementType::U8, ["n", "2", "5", "5"]);
        let (scale, zeros) = (draft.number(0.02), draft.constant(Tensor::scalar(60u8)));
        let x = draft.node("DequantizeLinear", [x, scale, zeros]);
        let w = draft.constant(bytes(ElementType::I8, &[3, 2, 3, 3]));
        let w = draft.node("DequantizeLinear", [w, scale]);
        let y = draft.node("Conv", [x, w]);
        let y = draft.node("Relu", [y]);
        let (scale, zeros) = (draft.number(0.3), draft.constant(Tensor::scalar(zero)));
        let y = draft.node("QuantizeLinear", [y, scale, zeros]);
        draft.output_as(y, "y");
        let graph = check_pass(draft, and_dead(run), &image, 1.01 / 30.0);
        assert_eq!(count(&graph, "QLinearConv"), found, "{graph}");
        assert_eq!(count(&graph, "Relu"), 1 - found, "{graph}");
    }
}

#[test]
fn a_clip_goes_where_bytes_end_before_it() {
    let image = [("x", bytes(ElementType::U8, &[2, 2, 5, 5]))];
    // Bytes reach from -6 to 45 in steps of 0.2.
    for (low, high, found) in [
        (Some(-6.0), Some(45.0), 1),
        (Some(-6.5), None, 1),
        (None, Some(45.5), 1),
        (Some(-5.0), Some(45.0), 0),
        (Some(-6.0), Some(44.0), 0),
    ] {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", ElementType::U8, ["n", "2", "5", "5"]);
        let (scale, zeros) = (draft.number(0.2), draft.constant(Tensor::scalar(60u8)));
        let x = draft.node("DequantizeLinear", [x, scale, zeros]);
        let w = draft.constant(bytes(ElementType::I8, &[3, 2, 3, 3]));
        let of_w = draft.number(0.01);
        let w = draft.node("DequantizeLinear", [w, of_w]);
        let y = draft.node("Conv", [x, w]);
        let mut end = |end: Option<f32>| end.map(|end| draft.number(end));
        let ends = [end(low), end(high)];
        let y = draft.node("Clip", [Some(y), ends[0], ends[1]]);
        let zeros = draft.constant(Tensor::scalar(30u8));
        let y = draft.node("QuantizeLinear", [y, scale, zeros]);
        draft.output_as(y, "y");
        let graph = check_pass(draft, and_dead(run), &image, 1.01 / 45.0);
        assert_eq!(count(&graph, "QLinearConv"), found, "{low:?} {high:?} {graph}");
    }
}

#[test]
fn bytes_are_joined_and_quantised_again_where_they_mean_something_else() {
    for (zero, quantised) in [(7u8, 0), (8, 1)] {
        let mut draft = GraphBuilder::new("test");
        let scale = draft.number(0.1);
        let mut part = |name: &str, zero: u8| {
            let x = draft.input(name, ElementType::U8, ["n", "2"]);
            let zero = draft.constant(Tensor::scalar(zero));
            draft.node("DequantizeLinear", [x, scale, zero])
        };
        let parts = [part("a", 7), part("b", zero)];
        let y = draft.node_with("Concat", parts, [("axis", 1)]);
        let zero = draft.constant(Tensor::scalar(7u8));
        let y = draft.node("QuantizeLinear", [y, scale, zero]);
        draft.output_as(y, "y");
        let rows = bytes(ElementType::U8, &[3, 2]);
        let given = [("a", rows.clone()), ("b", rows)];
        let graph = check_pass(draft, and_dead(run), &given, 0.0);
        assert_eq!(count(&graph, "QuantizeLinear"), quantised, "{graph}");
        assert_eq!(graph.nodes.last().unwrap().operator, "Concat", "{graph}");
    }
}

#[test]
fn scales_that_are_no_lengths_stay() {
    for scale in [0.0, -0.1, f32::INFINITY, f32::NAN] {
        check_unchanged(between("Conv", &[3, 2, 3, 3], &[scale], None), run);
        check_unchanged(moving("Transpose", (7, scale), (7, scale)), run);
    }
}

#[test]
fn a_bias_of_another_scale_stays() {
    check_unchanged(between("Conv", &[3, 2, 3, 3], &[0.01], Some(&[0.5])), run);
}
