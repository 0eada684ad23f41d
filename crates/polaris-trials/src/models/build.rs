//! Short ways to write the messages of ONNX.

use polaris_onnx::messages::{
    Attribute, AttributeKind, Dimension, DimensionValue, Graph, Model, Node, OperatorSet, Shape,
    Tensor, TensorType, Type, TypeValue, ValueInfo,
};

pub const F32: i32 = 1;
pub const U8: i32 = 2;
pub const I8: i32 = 3;
pub const I64: i32 = 7;
pub const BOOL: i32 = 9;

/// A node; operands and results are separated by spaces, `-` stands for one that is left out.
pub fn node(operator: &str, inputs: &str, outputs: &str, attributes: Vec<Attribute>) -> Node {
    let names = |list: &str| {
        list.split_whitespace().map(|name| name.trim_start_matches('-').to_owned()).collect()
    };
    Node {
        op_type: operator.to_owned(),
        name: format!("{operator}_{}", outputs.replace(' ', "_")),
        input: names(inputs),
        output: names(outputs),
        attribute: attributes,
        ..Node::default()
    }
}

pub fn int(name: &str, value: i64) -> Attribute {
    attribute(name, AttributeKind::Int, |a| a.i = value)
}

pub fn ints(name: &str, values: &[i64]) -> Attribute {
    attribute(name, AttributeKind::Ints, |a| a.ints = values.to_vec())
}

pub fn float(name: &str, value: f32) -> Attribute {
    attribute(name, AttributeKind::Float, |a| a.f = value)
}

pub fn floats(name: &str, values: &[f32]) -> Attribute {
    attribute(name, AttributeKind::Floats, |a| a.floats = values.to_vec())
}

pub fn string(name: &str, value: &str) -> Attribute {
    attribute(name, AttributeKind::String, |a| a.s = value.as_bytes().to_vec().into())
}

pub fn strings(name: &str, values: &[&str]) -> Attribute {
    let bytes = values.iter().map(|value| value.as_bytes().to_vec().into()).collect();
    attribute(name, AttributeKind::Strings, |a| a.strings = bytes)
}

pub fn graph_attribute(name: &str, graph: Graph) -> Attribute {
    attribute(name, AttributeKind::Graph, |a| a.g = Some(Box::new(graph)))
}

fn attribute(name: &str, kind: AttributeKind, set: impl FnOnce(&mut Attribute)) -> Attribute {
    let mut attribute =
        Attribute { name: name.to_owned(), kind: kind as i32, ..Attribute::default() };
    set(&mut attribute);
    attribute
}

/// A constant of floats between -1 and 1 that its shape decides.
pub fn weights(name: &str, dims: &[i64]) -> Tensor {
    let count: i64 = dims.iter().product();
    let value = |index: i64| ((index * 7919) % 101) as f32 / 50.0 - 1.0;
    constant(name, dims, &(0..count).map(value).collect::<Vec<f32>>())
}

pub fn constant(name: &str, dims: &[i64], values: &[f32]) -> Tensor {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor { raw_data: raw.into(), ..tensor(name, F32, dims) }
}

/// A list of integers, as shapes and axes are.
pub fn longs(name: &str, values: &[i64]) -> Tensor {
    Tensor { int64_data: values.to_vec(), ..tensor(name, I64, &[values.len() as i64]) }
}

pub fn long(name: &str, value: i64) -> Tensor {
    Tensor { int64_data: vec![value], ..tensor(name, I64, &[]) }
}

/// Small integers or bools, in the field that holds them.
pub fn small(name: &str, element: i32, dims: &[i64], values: &[i32]) -> Tensor {
    Tensor { int32_data: values.to_vec(), ..tensor(name, element, dims) }
}

pub fn texts(name: &str, dims: &[i64], values: &[&str]) -> Tensor {
    let bytes = values.iter().map(|value| value.as_bytes().to_vec().into()).collect();
    Tensor { string_data: bytes, ..tensor(name, 8, dims) }
}

fn tensor(name: &str, data_type: i32, dims: &[i64]) -> Tensor {
    Tensor { name: name.to_owned(), data_type, dims: dims.to_vec(), ..Tensor::default() }
}

/// A tensor's declaration; lengths below zero are open.
pub fn value(name: &str, element: i32, dims: &[i64]) -> ValueInfo {
    let dim = |&length: &i64| Dimension {
        value: Some(match length {
            0.. => DimensionValue::Value(length),
            open => DimensionValue::Name(format!("d{}", -open)),
        }),
    };
    let shape = Shape { dim: dims.iter().map(dim).collect() };
    let tensor = TensorType { elem_type: element, shape: Some(shape) };
    ValueInfo { name: name.to_owned(), ty: Some(Type { value: Some(TypeValue::Tensor(tensor)) }) }
}

/// A value of which only the name is declared.
pub fn untyped(name: &str) -> ValueInfo {
    ValueInfo { name: name.to_owned(), ty: None }
}

pub fn graph(
    node: Vec<Node>,
    initializer: Vec<Tensor>,
    input: Vec<ValueInfo>,
    output: Vec<ValueInfo>,
) -> Graph {
    Graph { name: "graph".to_owned(), node, initializer, input, output, ..Graph::default() }
}

pub fn model(opset: i64, graph: Graph) -> Model {
    let set = |domain: &str, version| OperatorSet { domain: domain.to_owned(), version };
    Model {
        ir_version: 8,
        producer_name: "polaris-trials".to_owned(),
        graph: Some(graph),
        opset_import: vec![set("", opset), set("ai.onnx.ml", 3), set("own", 1)],
        ..Model::default()
    }
}
