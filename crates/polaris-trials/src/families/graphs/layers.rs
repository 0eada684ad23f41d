//! Products, convolutions, pools, norms, softmaxes, recurrent layers.

use polaris_onnx::messages::Attribute;

use super::build::{Builder, Made};
use super::elementwise::partner;
use crate::models::{float, graph, graph_attribute, int, ints, node, string, untyped};

pub fn propose(builder: &mut Builder) {
    match builder.random.below(14) {
        0..=2 => product(builder),
        3 => gemm(builder),
        4 | 5 => convolution(builder),
        6 => pool(builder),
        7 => softmax(builder),
        8 | 9 => norm(builder),
        10 => recurrent(builder),
        11 => resize(builder),
        12 => einsum(builder),
        _ => choice(builder),
    }
}

fn product(builder: &mut Builder) {
    let Some(x) = builder.find(|made| made.is_float() && made.rank() >= 1) else { return };
    let shape = x.tensor.shape().to_vec();
    let inner = shape[shape.len() - 1];
    let columns = builder.random.below(9);
    let mut weight = match builder.random.below(4) {
        0 => vec![inner],
        1 if shape.len() > 2 => shape[..shape.len() - 2].to_vec(),
        _ => vec![],
    };
    if weight != [inner] || shape.len() > 2 && weight == shape[..shape.len() - 2] {
        weight.extend([inner, columns]);
    }
    let w = builder.constant(x.element(), &weight);
    let other = builder.find(|made| {
        made.element() == x.element() && made.rank() == 2 && made.tensor.shape()[0] == inner
    });
    let w = other.filter(|_| builder.random.once_in(3)).unwrap_or(w);
    builder.add("MatMul", &[Some(&x), Some(&w)], 1, vec![], false);
}

fn gemm(builder: &mut Builder) {
    let Some(x) = builder.find(|made| made.is_float() && made.rank() == 2) else { return };
    let (rows, columns) = (x.tensor.shape()[0], x.tensor.shape()[1]);
    let (ta, tb) = (builder.random.below(2) as i64, builder.random.below(2) as i64);
    let (m, k) = if ta == 0 { (rows, columns) } else { (columns, rows) };
    let n = builder.random.between(0, 7);
    let w = builder.constant(x.element(), if tb == 0 { [k, n] } else { [n, k] }.as_slice());
    let shapes: [&[usize]; 5] = [&[n], &[m, n], &[1, n], &[m, 1], &[]];
    let shape = builder.random.below(shapes.len());
    let c = builder.constant(x.element(), shapes[shape]);
    let mut attributes = vec![int("transA", ta), int("transB", tb)];
    if builder.random.once_in(2) {
        attributes.extend([float("alpha", 0.5), float("beta", -1.5)]);
    }
    let operands = [Some(&x), Some(&w), Some(&c)];
    let count = builder.random.between(2, 3);
    builder.add("Gemm", &operands[..count], 1, attributes, false);
}

/// Lengths of windows that fit, with strides, dilations and padding.
fn window(builder: &mut Builder, x: &Made, most: usize) -> (Vec<usize>, Vec<Attribute>) {
    let spatial = x.rank() - 2;
    let kernel: Vec<usize> = (0..spatial).map(|_| builder.random.between(1, most)).collect();
    let list = |builder: &mut Builder, count: usize, low: usize, high: usize| -> Vec<i64> {
        (0..count).map(|_| builder.random.between(low, high) as i64).collect()
    };
    let mut attributes = vec![ints("strides", &list(builder, spatial, 1, 3))];
    match builder.random.below(4) {
        0 => {
            let mode = *builder.random.pick(&["SAME_UPPER", "SAME_LOWER", "VALID"]);
            attributes.push(string("auto_pad", mode));
        }
        1 => {
            // Padding below the window's length, as pools demand it.
            let most = kernel.iter().min().copied().unwrap_or(1) - 1;
            attributes.push(ints("pads", &list(builder, 2 * spatial, 0, most)));
        }
        _ => {}
    }
    (kernel, attributes)
}

fn convolution(builder: &mut Builder) {
    let Some(x) = builder.find(|made| made.is_float() && (3..=4).contains(&made.rank())) else {
        return;
    };
    let channels = x.tensor.shape()[1];
    let (kernel, mut attributes) = window(builder, &x, 3);
    if builder.random.once_in(4) {
        let dilations = vec![builder.random.between(1, 2) as i64; kernel.len()];
        attributes.push(ints("dilations", &dilations));
    }
    let group = if builder.random.once_in(3) { channels.max(1) } else { 1 };
    attributes.push(int("group", group as i64));
    let out = group * builder.random.between(1, 3);
    let transposed = builder.random.once_in(4);
    let mut shape = match transposed {
        true => vec![channels, out / group],
        false => vec![out, channels / group],
    };
    shape.extend(&kernel);
    let (w, b) = (builder.constant(x.element(), &shape), builder.constant(x.element(), &[out]));
    let operands = [Some(&x), Some(&w), Some(&b)];
    let count = builder.random.between(2, 3);
    let operator = if transposed { "ConvTranspose" } else { "Conv" };
    builder.add(operator, &operands[..count], 1, attributes, false);
}

fn pool(builder: &mut Builder) {
    let Some(x) = builder.find(|made| made.is_float() && made.rank() >= 3) else { return };
    if builder.random.once_in(3) {
        let operator = *builder.random.pick(&["GlobalAveragePool", "GlobalMaxPool"]);
        if x.tensor.elements() > 0 {
            builder.add(operator, &[Some(&x)], 1, vec![], operator == "GlobalMaxPool");
        }
        return;
    }
    let (kernel, mut attributes) = window(builder, &x, 3);
    let kernel: Vec<i64> = kernel.iter().map(|&length| length as i64).collect();
    attributes.push(ints("kernel_shape", &kernel));
    if builder.random.once_in(3) {
        attributes.push(int("ceil_mode", 1));
    }
    match builder.random.below(2) {
        0 => builder.add("MaxPool", &[Some(&x)], 1, attributes, true),
        _ => {
            attributes.push(int("count_include_pad", builder.random.below(2) as i64));
            builder.add("AveragePool", &[Some(&x)], 1, attributes, false)
        }
    };
}

fn softmax(builder: &mut Builder) {
    let Some(x) = builder.find(|made| made.is_float() && made.rank() >= 1) else { return };
    let axis = builder.random.below(x.rank()) as i64 - x.rank() as i64;
    let operator = *builder.random.pick(&["Softmax", "Softmax", "LogSoftmax"]);
    builder.add(operator, &[Some(&x)], 1, vec![int("axis", axis)], false);
}

/// With an epsilon that keeps equal elements from being blown up.
fn norm(builder: &mut Builder) {
    let Some(x) = builder.find(|made| made.is_float() && made.rank() >= 2) else { return };
    let (shape, element) = (x.tensor.shape().to_vec(), x.element());
    let epsilon = float("epsilon", 0.05);
    match builder.random.below(4) {
        0 | 1 => {
            let axis = builder.random.between(1, x.rank() - 1);
            let (s, b) = (
                builder.constant(element, &shape[axis..]),
                builder.constant(element, &shape[axis..]),
            );
            let axis = int("axis", axis as i64);
            builder.add(
                "LayerNormalization",
                &[Some(&x), Some(&s), Some(&b)],
                1,
                vec![axis, epsilon],
                false,
            )
        }
        2 => {
            let parts = [0; 4].map(|_| builder.constant(element, &shape[1..2]));
            if !parts[3].all(|variance| variance > 0.1) {
                return;
            }
            let [s, b, m, v] = &parts;
            let operands = [Some(&x), Some(s), Some(b), Some(m), Some(v)];
            builder.add("BatchNormalization", &operands, 1, vec![epsilon], false)
        }
        _ => {
            let (s, b) =
                (builder.constant(element, &shape[1..2]), builder.constant(element, &shape[1..2]));
            builder.add(
                "InstanceNormalization",
                &[Some(&x), Some(&s), Some(&b)],
                1,
                vec![epsilon],
                false,
            )
        }
    };
}

fn recurrent(builder: &mut Builder) {
    let Some(x) = builder.find(|made| made.is_float() && made.rank() == 3) else { return };
    let (operator, gates) = *builder.random.pick(&[("LSTM", 4), ("GRU", 3), ("RNN", 1)]);
    let (hidden, input) = (builder.random.between(1, 4), x.tensor.shape()[2]);
    let (direction, count) =
        *builder.random.pick(&[("forward", 1), ("reverse", 1), ("bidirectional", 2)]);
    let w = builder.constant(x.element(), &[count, gates * hidden, input]);
    let r = builder.constant(x.element(), &[count, gates * hidden, hidden]);
    let b = builder.constant(x.element(), &[count, 2 * gates * hidden]);
    let operands = [Some(&x), Some(&w), Some(&r), Some(&b)];
    let given = builder.random.between(3, 4);
    let attributes = vec![int("hidden_size", hidden as i64), string("direction", direction)];
    builder.add(operator, &operands[..given], 2, attributes, false);
}

fn resize(builder: &mut Builder) {
    let Some(x) = builder.find(|made| made.is_float() && made.rank() == 4) else { return };
    let lengths: Vec<i64> = (x.shape().iter().enumerate())
        .map(|(axis, &length)| if axis < 2 { length } else { builder.random.between(1, 9) as i64 })
        .collect();
    let sizes = builder.longs(&lengths);
    // Where a place falls between two pixels, rounding decides; these modes have no such ties.
    let attributes = match builder.random.once_in(2) {
        true => vec![
            string("mode", "nearest"),
            string("nearest_mode", "floor"),
            string("coordinate_transformation_mode", "asymmetric"),
        ],
        false => vec![string("mode", "linear")],
    };
    builder.add("Resize", &[Some(&x), None, None, Some(&sizes)], 1, attributes, false);
}

fn einsum(builder: &mut Builder) {
    let Some(x) = builder.find(|made| made.is_float() && made.rank() == 2) else { return };
    let equation = *builder.random.pick(&["ij,kj->ik", "ij,ij->i", "ij,kj->", "ij,ij->ji"]);
    builder.add("Einsum", &[Some(&x), Some(&x)], 1, vec![string("equation", equation)], false);
}

/// Branches, and a loop, around a value of the graph outside.
fn choice(builder: &mut Builder) {
    let Some(x) = builder.find(Made::is_float) else { return };
    let y = partner(builder, &x);
    if builder.random.once_in(2) {
        let branch = |operator: &str| {
            let inside = node(operator, &x.name, "inside", vec![]);
            graph(vec![inside], vec![], vec![], vec![untyped("inside")])
        };
        let condition = builder.constant(polaris_onnx::ElementType::Bool, &[]);
        let attributes = vec![
            graph_attribute("then_branch", branch("Relu")),
            graph_attribute("else_branch", branch("Neg")),
        ];
        builder.add_with_outer("If", &[Some(&condition)], 1, &[&x], attributes, true);
        return;
    }
    if y.tensor.rank() > x.tensor.rank() || x.tensor.shape().contains(&0) {
        return;
    }
    let body = graph(
        vec![
            node("Add", &format!("state {}", y.name), "next", vec![]),
            node("Identity", "go", "go_on", vec![]),
        ],
        vec![],
        ["step", "go", "state"].map(untyped).to_vec(),
        ["go_on", "next"].map(untyped).to_vec(),
    );
    let times = builder.random.below(4) as i64;
    let count = builder.keep(polaris_onnx::Tensor::scalar(times));
    let operands = [Some(&count), None, Some(&x)];
    builder.add_with_outer("Loop", &operands, 1, &[&y], vec![graph_attribute("body", body)], false);
}
