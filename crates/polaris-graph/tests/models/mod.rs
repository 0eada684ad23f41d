//! Small models, written as files, and where those of the standard are.
#![allow(dead_code, reason = "each test uses some of it")]

use std::path::{Path, PathBuf};

use polaris_onnx::ElementType::F32;
use polaris_onnx::messages::{self, Function, Node, OperatorSet};
use polaris_onnx::{GraphBuilder, Model, NoExternalData, Tensor};
use prost::Message;

pub fn floats(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |index: usize| ((index * 7919) % 101) as f32 / 50.0 - 1.0;
    Tensor::new(shape, (0..count).map(value).collect::<Vec<f32>>()).unwrap()
}

/// Convolution, activation, pooling, a linear layer, softmax, with an open batch.
pub fn classifier() -> Vec<u8> {
    let mut graph = GraphBuilder::new("classifier");
    let image = graph.input("image", F32, ["batch", "2", "8", "8"]);
    let (w, b) = (graph.constant(floats(&[4, 2, 3, 3])), graph.constant(floats(&[4])));
    let y = graph.node_with("Conv", [image, w, b], [("pads", [1; 4])]);
    let y = graph.node("Relu", [y]);
    let y = graph.node_with("MaxPool", [y], [("kernel_shape", [2, 2]), ("strides", [2, 2])]);
    let y = graph.node("Flatten", [y]);
    let (w, b) = (graph.constant(floats(&[5, 64])), graph.constant(floats(&[5])));
    let y = graph.node_with("Gemm", [y, w, b], [("transB", 1)]);
    let y = graph.node_with("Softmax", [y], [("axis", -1)]);
    graph.output_as(y, "output");
    file(graph)
}

/// Branches that do not wait for one another, a value that several nodes read, and an intermediate tensor that
/// is wanted.
pub fn branches() -> Vec<u8> {
    let mut graph = GraphBuilder::new("branches");
    let x = graph.input("x", F32, ["batch", "6"]);
    let w = graph.constant(floats(&[6, 6]));
    let a = graph.node("Relu", [x]);
    let c = graph.node("MatMul", [a, w]);
    let b = graph.node("Sigmoid", [x]);
    let d = graph.node("MatMul", [b, w]);
    let t = graph.node("Tanh", [d]);
    let v = graph.node_with("Transpose", [t], [("perm", [1, 0])]);
    let sum = graph.node("Add", [c, t]);
    let square = graph.node("MatMul", [sum, v]);
    let f = graph.node_with("Concat", [sum, a, t], [("axis", 1)]);
    let s = graph.node_with("Softmax", [f], [("axis", -1)]);
    let output = graph.node("Mul", [s, f]);
    for (id, name) in [(output, "output"), (sum, "sum"), (square, "square")] {
        graph.output_as(id, name);
    }
    file(graph)
}

/// Shapes computed from shapes, and a result whose shape depends on elements.
pub fn shapes() -> Vec<u8> {
    let mut graph = GraphBuilder::new("shapes");
    let x = graph.input("x", F32, ["n", "3", "2"]);
    let (zero, axis, rest) = (graph.scalar(0i64), graph.integers(&[0]), graph.integers(&[-1]));
    let shape = graph.node("Shape", [x]);
    let rows = graph.node_with("Gather", [shape, zero], [("axis", 0)]);
    let rows = graph.node("Unsqueeze", [rows, axis]);
    let shape = graph.node_with("Concat", [rows, rest], [("axis", 0)]);
    let y = graph.node("Reshape", [x, shape]);
    let t = graph.node_with("Transpose", [y], [("perm", [1, 0])]);
    let places = graph.node("NonZero", [t]);
    let places = graph.node_with("Cast", [places], [("to", F32)]);
    let output = graph.node_with("ReduceSum", [places], [("keepdims", 0)]);
    graph.output_as(output, "output");
    file(graph)
}

/// A loop around a graph that refers to values outside, and a choice.
pub fn control() -> Vec<u8> {
    let mut graph = GraphBuilder::new("control");
    let x = graph.input("x", F32, [2, 3]);
    let (count, nought) = (graph.scalar(4i64), graph.number(-1.0));
    let mut body = graph.inner("body");
    body.untyped_input("step");
    let (go, sum) = (body.untyped_input("go"), body.untyped_input("sum"));
    let outer = body.capture("outer", x);
    let next = body.node("Add", [sum, outer]);
    let go_on = body.node("Identity", [go]);
    let square = body.node("Mul", [next, next]);
    for id in [go_on, next, square] {
        body.output(id);
    }
    let body = body.finish().unwrap();
    let steps = graph.call("Loop", [Some(count), None, Some(x)]).attribute("body", body);
    let [last, all] = steps.outputs();
    let total = graph.node_with("ReduceSum", [last], [("keepdims", 0)]);
    let positive = graph.node("Greater", [total, nought]);
    let branch = |operator: &str| {
        let mut branch = graph.inner(operator);
        let last = branch.capture("last", last);
        let chosen = branch.node(operator, [last]);
        branch.output(chosen);
        branch.finish().unwrap()
    };
    let branches = [("then_branch", branch("Sqrt")), ("else_branch", branch("Neg"))];
    let output = graph.node_with("If", [positive], branches);
    graph.output_as(output, "output");
    graph.output_as(all, "all");
    file(graph)
}

/// A function of the model's own, called twice, and quantised values.
pub fn functions() -> Vec<u8> {
    // Functions exist in files only: models in memory have them written out.
    let twice = Function {
        name: "Twice".to_owned(),
        domain: "own".to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: vec![Node {
            op_type: "Add".to_owned(),
            input: vec!["a".to_owned(); 2],
            output: vec!["b".to_owned()],
            ..Node::default()
        }],
        opset_import: vec![OperatorSet { domain: String::new(), version: 17 }],
        ..Function::default()
    };
    let mut graph = GraphBuilder::new("functions");
    let x = graph.input("x", F32, [4]);
    let y = graph.call("Twice", [x]).domain("own").output();
    let z = graph.call("Twice", [y]).domain("own").output();
    let (scale, zero) = (graph.number(0.5), graph.scalar(0i8));
    let q = graph.node("QuantizeLinear", [z, scale, zero]);
    let output = graph.node("DequantizeLinear", [q, scale, zero]);
    graph.output_as(output, "output");
    let mut model = message(graph);
    model.functions.push(twice);
    model.encode_to_vec()
}

/// A recurrent network over sequences of symbolic length.
pub fn recurrent() -> Vec<u8> {
    let mut graph = GraphBuilder::new("recurrent");
    let x = graph.input("x", F32, ["steps", "batch", "2"]);
    let [w, r, b] =
        [&[1, 12, 2][..], &[1, 12, 3], &[1, 24]].map(|shape| graph.constant(floats(shape)));
    let axis = graph.integers(&[0]);
    let [_, h] = graph.call("LSTM", [x, w, r, b]).attribute("hidden_size", 3).outputs();
    let output = graph.node("Squeeze", [h, axis]);
    graph.output_as(output, "output");
    file(graph)
}

pub fn all() -> Vec<Vec<u8>> {
    vec![classifier(), shapes(), control(), functions(), recurrent()]
}

fn file(graph: GraphBuilder) -> Vec<u8> {
    graph.build().unwrap().to_bytes().unwrap()
}

/// The messages of a graph's file, for what only files have.
pub fn message(graph: GraphBuilder) -> messages::Model {
    messages::Model::decode(file(graph).as_slice()).unwrap()
}

pub fn read(file: Vec<u8>) -> Model {
    Model::from_bytes(file.into(), &NoExternalData).unwrap()
}

/// Whether a missing thing is a failure rather than a skip.
pub fn is_required(what: &str) -> bool {
    let required = std::env::var("POLARIS_REQUIRE").unwrap_or_default();
    required.split(',').any(|word| word == what)
}

/// The folder `onnx/backend/test/data` of the Python package `onnx` 1.22.0: `POLARIS_ONNX_DATA`, or below
/// `target/onnx-data`.
pub fn onnx_data() -> Option<PathBuf> {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/onnx-data/onnx/backend/test/data");
    let folder = std::env::var_os("POLARIS_ONNX_DATA").map_or(beside, PathBuf::from);
    if folder.join("node").is_dir() {
        return Some(folder);
    }
    let place = folder.display();
    assert!(!is_required("onnx"), "POLARIS_REQUIRE asks for ONNX' test data; {place} has none");
    eprintln!("skipped: ONNX' test data are not at {place}");
    None
}
