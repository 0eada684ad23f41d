//! Writes a graph of ONNX node by node, as layers name their parts.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use polaris_core::DType;
use polaris_onnx::ElementType;
use polaris_onnx::messages::{self, AttributeKind};
use polaris_tensor::Tensor;

use crate::tensors_file::bytes_of;
use crate::{Error, Module, Parameter, Pass, Result};

/// A value of the graph: its name, and how many axes it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    name: String,
    rank: usize,
}

impl Value {
    /// A value of this name with so many axes.
    pub fn new(name: impl Into<String>, rank: usize) -> Self {
        Self { name: name.into(), rank }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many axes it has.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// A value of as many axes.
    pub fn like(&self, name: impl Into<String>) -> Self {
        Self::new(name, self.rank)
    }
}

/// A parameter of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// Integers.
    Ints(Vec<i64>),
    /// A number.
    Float(f32),
    /// One number, as a tensor of one element.
    Element(f32),
}

impl From<i64> for Attribute {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<Vec<i64>> for Attribute {
    fn from(values: Vec<i64>) -> Self {
        Self::Ints(values)
    }
}

impl From<&[usize]> for Attribute {
    fn from(values: &[usize]) -> Self {
        Self::Ints(values.iter().map(|&value| value as i64).collect())
    }
}

impl From<f64> for Attribute {
    fn from(value: f64) -> Self {
        Self::Float(value as f32)
    }
}

/// A graph that is being written.
#[derive(Default)]
pub struct Writer {
    /// The layer that is being written, with a point behind.
    prefix: String,
    names: HashSet<String>,
    /// Constants that are no parameters, by type, shape and elements: one of each is enough.
    constants: HashMap<(ElementType, Vec<usize>, Vec<u8>), String>,
    graph: messages::Graph,
}

impl Writer {
    /// A graph of this name, in which these names of values are taken.
    pub(super) fn new(name: &str, taken: &[&str]) -> Self {
        let names = taken.iter().map(|&name| name.to_owned()).collect();
        let graph = messages::Graph { name: name.to_owned(), ..Default::default() };
        Self { names, graph, ..Self::default() }
    }

    /// A layer's result, under the layer's name.
    ///
    /// # Errors
    /// What the layer says.
    pub fn layer(&mut self, name: &str, layer: &dyn Module, x: &Value) -> Result<Value> {
        let length = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('.');
        let result = layer.export(x, self);
        self.prefix.truncate(length);
        result
    }

    /// The result of a node.
    pub fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: &[(&str, Attribute)],
    ) -> String {
        let [output] = self.nodes(operator, inputs, attributes);
        output
    }

    /// The results of a node that has several.
    pub fn nodes<const N: usize>(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: &[(&str, Attribute)],
    ) -> [String; N] {
        let outputs = [(); N].map(|()| self.unique(operator));
        self.graph.node.push(messages::Node {
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: outputs.to_vec(),
            name: outputs.first().cloned().unwrap_or_default(),
            op_type: operator.to_owned(),
            attribute: attributes.iter().map(|(name, value)| attribute(name, value)).collect(),
            ..Default::default()
        });
        outputs
    }

    /// What layers see of a parameter, in `f32`.
    ///
    /// # Errors
    /// If its elements cannot be read.
    pub fn parameter(&mut self, name: &str, parameter: &Parameter) -> Result<String> {
        self.buffer(name, &parameter.value(&Pass::evaluation())?)
    }

    /// A tensor of the state, in `f32`.
    ///
    /// # Errors
    /// If its elements cannot be read.
    pub fn buffer(&mut self, name: &str, tensor: &Tensor) -> Result<String> {
        let bytes = bytes_of(&tensor.detach().to_dtype(DType::F32)?)?;
        let name = self.unique(name);
        self.initializer(name.clone(), ElementType::F32, tensor.dims(), bytes);
        Ok(name)
    }

    /// Numbers that are part of a layer's definition.
    pub fn floats(&mut self, dims: &[usize], values: &[f64]) -> String {
        let bytes = values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect();
        self.constant(ElementType::F32, dims, bytes)
    }

    /// A number that is part of a layer's definition.
    pub fn number(&mut self, value: f64) -> String {
        self.floats(&[], &[value])
    }

    /// Lengths, axes or indices.
    pub fn integers(&mut self, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(ElementType::I64, &[values.len()], bytes)
    }

    /// An index, as a tensor without axes.
    pub fn index(&mut self, value: i64) -> String {
        self.constant(ElementType::I64, &[], value.to_le_bytes().to_vec())
    }

    /// Why the layer that is being written cannot be.
    pub fn refusal(&self, why: impl Into<String>) -> Error {
        let layer = match self.prefix.strip_suffix('.') {
            Some(path) => format!("the layer `{path}`"),
            None => "the model".to_owned(),
        };
        Error::NoExport { layer, why: why.into() }
    }

    /// The graph, whose last value gets the name of the output.
    pub(super) fn finish(mut self, last: &Value, output: &str) -> messages::Graph {
        let made =
            self.graph.node.iter().any(|node| node.output.iter().any(|name| name == last.name()));
        // A model without layers gives what it gets.
        if !made {
            let name = self.node("Identity", &[last.name()], &[]);
            return self.finish(&last.like(name), output);
        }
        for node in &mut self.graph.node {
            for name in node.input.iter_mut().chain(&mut node.output) {
                if name == last.name() {
                    output.clone_into(name);
                }
            }
        }
        self.graph
    }

    fn constant(&mut self, element: ElementType, dims: &[usize], bytes: Vec<u8>) -> String {
        let key = (element, dims.to_vec(), bytes);
        if let Some(name) = self.constants.get(&key) {
            return name.clone();
        }
        // Constants belong to no layer.
        let prefix = std::mem::take(&mut self.prefix);
        let name = self.unique("constant");
        self.prefix = prefix;
        self.initializer(name.clone(), element, dims, key.2.clone());
        self.constants.insert(key, name.clone());
        name
    }

    fn initializer(&mut self, name: String, element: ElementType, dims: &[usize], bytes: Vec<u8>) {
        self.graph.initializer.push(tensor(name, element, dims, bytes));
    }

    /// A name within the layer that nothing has yet.
    fn unique(&mut self, name: &str) -> String {
        let wanted = format!("{}{name}", self.prefix);
        let (mut name, mut number) = (wanted.clone(), 0);
        while self.names.contains(&name) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        self.names.insert(name.clone());
        name
    }
}

fn tensor(name: String, element: ElementType, dims: &[usize], bytes: Vec<u8>) -> messages::Tensor {
    messages::Tensor {
        dims: dims.iter().map(|&length| length as i64).collect(),
        data_type: element.code(),
        name,
        raw_data: Bytes::from(bytes),
        ..Default::default()
    }
}

fn attribute(name: &str, value: &Attribute) -> messages::Attribute {
    let mut message = messages::Attribute { name: name.to_owned(), ..Default::default() };
    message.kind = match value {
        Attribute::Int(value) => {
            message.i = *value;
            AttributeKind::Int
        }
        Attribute::Ints(values) => {
            message.ints.clone_from(values);
            AttributeKind::Ints
        }
        Attribute::Float(value) => {
            message.f = *value;
            AttributeKind::Float
        }
        Attribute::Element(value) => {
            let bytes = value.to_le_bytes().to_vec();
            message.t = Some(tensor(String::new(), ElementType::F32, &[1], bytes));
            AttributeKind::Tensor
        }
    } as i32;
    message
}
