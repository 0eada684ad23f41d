//! Small models, written as files, and where those of the standard are.
#![allow(dead_code, reason = "each test uses some of it")]

use std::path::{Path, PathBuf};

use polaris_onnx::messages::{
    Attribute, AttributeKind, Dimension, DimensionValue, Function, Graph, Model, Node, OperatorSet,
    Shape, Tensor, TensorType, Type, TypeValue, ValueInfo,
};
use prost::Message;

pub fn node(operator: &str, inputs: &[&str], outputs: &[&str], attributes: Vec<Attribute>) -> Node {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    Node {
        op_type: operator.to_owned(),
        name: format!("{operator}_{}", outputs.join("_")),
        input: names(inputs),
        output: names(outputs),
        attribute: attributes,
        ..Node::default()
    }
}

pub fn ints(name: &str, values: &[i64]) -> Attribute {
    let (name, kind) = (name.to_owned(), AttributeKind::Ints as i32);
    Attribute { name, kind, ints: values.to_vec(), ..Attribute::default() }
}

pub fn int(name: &str, value: i64) -> Attribute {
    let (name, kind) = (name.to_owned(), AttributeKind::Int as i32);
    Attribute { name, kind, i: value, ..Attribute::default() }
}

pub fn graph_attribute(name: &str, graph: Graph) -> Attribute {
    let (name, kind) = (name.to_owned(), AttributeKind::Graph as i32);
    Attribute { name, kind, g: Some(Box::new(graph)), ..Attribute::default() }
}

pub fn floats(name: &str, dims: &[i64]) -> Tensor {
    let count: i64 = dims.iter().product();
    let value = |index: i64| ((index * 7919) % 101) as f32 / 50.0 - 1.0;
    let raw: Vec<u8> = (0..count).flat_map(|index| value(index).to_le_bytes()).collect();
    let (name, data_type) = (name.to_owned(), 1);
    Tensor { name, data_type, dims: dims.to_vec(), raw_data: raw.into(), ..Tensor::default() }
}

pub fn longs(name: &str, values: &[i64], scalar: bool) -> Tensor {
    let dims = if scalar { Vec::new() } else { vec![values.len() as i64] };
    let (name, data_type) = (name.to_owned(), 7);
    Tensor { name, data_type, dims, int64_data: values.to_vec(), ..Tensor::default() }
}

pub fn value(name: &str, element: i32, dims: &[Dim]) -> ValueInfo {
    let dim = dims
        .iter()
        .map(|dim| Dimension {
            value: Some(match dim {
                Dim::Is(length) => DimensionValue::Value(*length),
                Dim::Open(name) => DimensionValue::Name((*name).to_owned()),
            }),
        })
        .collect();
    let tensor = TensorType { elem_type: element, shape: Some(Shape { dim }) };
    ValueInfo { name: name.to_owned(), ty: Some(Type { value: Some(TypeValue::Tensor(tensor)) }) }
}

pub enum Dim {
    Is(i64),
    Open(&'static str),
}

pub use Dim::{Is, Open};

/// A value of which only the name is declared.
pub fn unnamed(name: &str) -> ValueInfo {
    ValueInfo { name: name.to_owned(), ty: None }
}

pub fn file(graph: Graph, functions: Vec<Function>) -> Vec<u8> {
    let opset = |domain: &str, version| OperatorSet { domain: domain.to_owned(), version };
    let model = Model {
        ir_version: 8,
        graph: Some(graph),
        opset_import: vec![opset("", 17), opset("own", 1)],
        functions,
        ..Model::default()
    };
    model.encode_to_vec()
}

/// Convolution, activation, pooling, a linear layer, softmax, with an open batch.
pub fn classifier() -> Vec<u8> {
    let graph = Graph {
        name: "classifier".to_owned(),
        node: vec![
            node("Conv", &["image", "w", "b"], &["c"], vec![ints("pads", &[1, 1, 1, 1])]),
            node("Relu", &["c"], &["r"], vec![]),
            node(
                "MaxPool",
                &["r"],
                &["p"],
                vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])],
            ),
            node("Flatten", &["p"], &["f"], vec![]),
            node("Gemm", &["f", "m", "v"], &["g"], vec![int("transB", 1)]),
            node("Softmax", &["g"], &["output"], vec![int("axis", -1)]),
        ],
        initializer: vec![
            floats("w", &[4, 2, 3, 3]),
            floats("b", &[4]),
            floats("m", &[5, 64]),
            floats("v", &[5]),
        ],
        input: vec![value("image", 1, &[Open("batch"), Is(2), Is(8), Is(8)])],
        output: vec![value("output", 1, &[Open("batch"), Is(5)])],
        ..Graph::default()
    };
    file(graph, vec![])
}

/// Branches that do not wait for one another, a value that several nodes read, and one in between that is
/// wanted.
pub fn branches() -> Vec<u8> {
    let graph = Graph {
        name: "branches".to_owned(),
        node: vec![
            node("Relu", &["x"], &["a"], vec![]),
            node("MatMul", &["a", "w"], &["c"], vec![]),
            node("Sigmoid", &["x"], &["b"], vec![]),
            node("MatMul", &["b", "w"], &["d"], vec![]),
            node("Tanh", &["d"], &["t"], vec![]),
            node("Transpose", &["t"], &["v"], vec![ints("perm", &[1, 0])]),
            node("Add", &["c", "t"], &["sum"], vec![]),
            node("MatMul", &["sum", "v"], &["square"], vec![]),
            node("Concat", &["sum", "a", "t"], &["f"], vec![int("axis", 1)]),
            node("Softmax", &["f"], &["s"], vec![int("axis", -1)]),
            node("Mul", &["s", "f"], &["output"], vec![]),
        ],
        initializer: vec![floats("w", &[6, 6])],
        input: vec![value("x", 1, &[Open("batch"), Is(6)])],
        output: vec![
            value("output", 1, &[Open("batch"), Is(18)]),
            value("sum", 1, &[Open("batch"), Is(6)]),
            value("square", 1, &[Open("batch"), Open("batch")]),
        ],
        ..Graph::default()
    };
    file(graph, vec![])
}

/// Shapes computed from shapes, and a result whose shape depends on elements.
pub fn shapes() -> Vec<u8> {
    let graph = Graph {
        name: "shapes".to_owned(),
        node: vec![
            node("Shape", &["x"], &["s"], vec![]),
            node("Gather", &["s", "zero"], &["rows"], vec![int("axis", 0)]),
            node("Unsqueeze", &["rows", "axis"], &["rows1"], vec![]),
            node("Concat", &["rows1", "rest"], &["shape"], vec![int("axis", 0)]),
            node("Reshape", &["x", "shape"], &["y"], vec![]),
            node("Transpose", &["y"], &["t"], vec![ints("perm", &[1, 0])]),
            node("NonZero", &["t"], &["places"], vec![]),
            node("Cast", &["places"], &["floats"], vec![int("to", 1)]),
            node("ReduceSum", &["floats"], &["output"], vec![int("keepdims", 0)]),
        ],
        initializer: vec![
            longs("zero", &[0], true),
            longs("axis", &[0], false),
            longs("rest", &[-1], false),
        ],
        input: vec![value("x", 1, &[Open("n"), Is(3), Is(2)])],
        output: vec![value("output", 1, &[])],
        ..Graph::default()
    };
    file(graph, vec![])
}

/// A loop around a graph that refers to values outside, and a choice.
pub fn control() -> Vec<u8> {
    let body = Graph {
        name: "body".to_owned(),
        node: vec![
            node("Add", &["sum", "x"], &["next"], vec![]),
            node("Identity", &["go"], &["go_on"], vec![]),
            node("Mul", &["next", "next"], &["square"], vec![]),
        ],
        input: vec![unnamed("step"), unnamed("go"), unnamed("sum")],
        output: vec![unnamed("go_on"), unnamed("next"), unnamed("square")],
        ..Graph::default()
    };
    let branch = |operator: &str| Graph {
        name: operator.to_owned(),
        node: vec![node(operator, &["last"], &["chosen"], vec![])],
        output: vec![unnamed("chosen")],
        ..Graph::default()
    };
    let graph = Graph {
        name: "control".to_owned(),
        node: vec![
            node(
                "Loop",
                &["count", "", "x"],
                &["last", "all"],
                vec![graph_attribute("body", body)],
            ),
            node("ReduceSum", &["last"], &["total"], vec![int("keepdims", 0)]),
            node("Greater", &["total", "nought"], &["positive"], vec![]),
            node(
                "If",
                &["positive"],
                &["output"],
                vec![
                    graph_attribute("then_branch", branch("Sqrt")),
                    graph_attribute("else_branch", branch("Neg")),
                ],
            ),
        ],
        initializer: vec![
            longs("count", &[4], true),
            Tensor { dims: vec![], ..floats("nought", &[1]) },
        ],
        input: vec![value("x", 1, &[Is(2), Is(3)])],
        output: vec![value("output", 1, &[Is(2), Is(3)]), value("all", 1, &[Is(4), Is(2), Is(3)])],
        ..Graph::default()
    };
    file(graph, vec![])
}

/// A function of the model's own, called twice, and quantised values.
pub fn functions() -> Vec<u8> {
    let twice = Function {
        name: "Twice".to_owned(),
        domain: "own".to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: vec![node("Add", &["a", "a"], &["b"], vec![])],
        opset_import: vec![OperatorSet { domain: String::new(), version: 17 }],
        ..Function::default()
    };
    let own = |input: &str, output: &str| Node {
        domain: "own".to_owned(),
        ..node("Twice", &[input], &[output], vec![])
    };
    let zero =
        Tensor { name: "zero".to_owned(), data_type: 3, int32_data: vec![0], ..Tensor::default() };
    let scale = Tensor {
        dims: vec![],
        float_data: vec![0.5],
        raw_data: Default::default(),
        ..floats("scale", &[])
    };
    let graph = Graph {
        name: "functions".to_owned(),
        node: vec![
            own("x", "y"),
            own("y", "z"),
            node("QuantizeLinear", &["z", "scale", "zero"], &["q"], vec![]),
            node("DequantizeLinear", &["q", "scale", "zero"], &["output"], vec![]),
        ],
        initializer: vec![scale, zero],
        input: vec![value("x", 1, &[Is(4)])],
        output: vec![value("output", 1, &[Is(4)])],
        ..Graph::default()
    };
    file(graph, vec![twice])
}

/// A recurrent network over sequences of open length.
pub fn recurrent() -> Vec<u8> {
    let graph = Graph {
        name: "recurrent".to_owned(),
        node: vec![
            node("LSTM", &["x", "w", "r", "b"], &["y", "h"], vec![int("hidden_size", 3)]),
            node("Squeeze", &["h", "axis"], &["output"], vec![]),
        ],
        initializer: vec![
            floats("w", &[1, 12, 2]),
            floats("r", &[1, 12, 3]),
            floats("b", &[1, 24]),
            longs("axis", &[0], false),
        ],
        input: vec![value("x", 1, &[Open("steps"), Open("batch"), Is(2)])],
        output: vec![value("output", 1, &[Open("batch"), Is(3)])],
        ..Graph::default()
    };
    file(graph, vec![])
}

pub fn all() -> Vec<Vec<u8>> {
    vec![classifier(), shapes(), control(), functions(), recurrent()]
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
