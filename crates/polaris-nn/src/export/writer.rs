//! Writes a graph of ONNX node by node, as layers name their parts.

use std::collections::{HashMap, HashSet};

use polaris_core::DType;
use polaris_onnx::{Attribute, ElementType, GraphBuilder, Model, Tensor as OnnxTensor, ValueId};
use polaris_tensor::Tensor;

use super::{End, refusal};
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

/// One number, as a tensor of one element.
pub fn element(value: f32) -> Attribute {
    let tensor = OnnxTensor::new(&[1], vec![value]);
    Attribute::Tensor(tensor.expect("one element should fit a shape of one"))
}

/// A graph that is being written, whose values layers know by names.
pub struct Writer {
    /// The layer that is being written, with a point behind.
    prefix: String,
    names: HashSet<String>,
    values: HashMap<String, ValueId>,
    /// Constants that are no parameters, by type, shape and elements: one of each is enough.
    constants: HashMap<(ElementType, Vec<usize>, Vec<u8>), String>,
    /// Weights with the names of their values: layers may share one.
    weights: Vec<(Parameter, String)>,
    opset: i64,
    graph: GraphBuilder,
    /// The first mistake of a layer, told at the end: layers write without asking.
    mistake: Option<Error>,
}

impl Writer {
    /// A graph of this name between what a model gets and gives.
    pub(super) fn new(name: &str, input: &End, output: &End, opset: i64) -> Self {
        let mut graph = GraphBuilder::new(name).opset(opset);
        let x = graph.input_of(input.name, input.ty());
        Self {
            prefix: String::new(),
            names: [input.name, output.name].map(str::to_owned).into(),
            values: HashMap::from([(input.name.to_owned(), x)]),
            constants: HashMap::new(),
            weights: Vec::new(),
            opset,
            graph,
            mistake: None,
        }
    }

    /// The version of operators that nodes are of: layers write those that this version has.
    pub fn opset(&self) -> i64 {
        self.opset
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
        let names = [(); N].map(|()| self.unique(operator));
        let inputs: Vec<Option<ValueId>> =
            inputs.iter().map(|name| self.operand(operator, name)).collect();
        let node = self.graph.call(operator, inputs).attributes(attributes.iter().cloned());
        let node = node.named(names.first().map_or(operator, String::as_str));
        let outputs: [ValueId; N] = node.outputs();
        for (name, id) in names.iter().zip(outputs) {
            self.graph.rename(id, name);
            self.values.insert(name.clone(), id);
        }
        names
    }

    /// The value of a name; none where an optional one is left out.
    fn operand(&mut self, operator: &str, name: &str) -> Option<ValueId> {
        let id = self.values.get(name).copied();
        if id.is_none() && !name.is_empty() {
            self.fail(format!("{operator} takes `{name}`, which nothing makes"));
        }
        id
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
        self.initializer(&name, ElementType::F32, tensor.dims(), bytes);
        Ok(name)
    }

    /// The value of a weight that was written before.
    pub(super) fn written(&self, parameter: &Parameter) -> Option<String> {
        let found = self.weights.iter().find(|(weight, _)| weight.is_same(parameter));
        found.map(|(_, name)| name.clone())
    }

    pub(super) fn write_down(&mut self, parameter: &Parameter, value: &str) {
        self.weights.push((parameter.clone(), value.to_owned()));
    }

    /// Elements under a name of the layer.
    pub(super) fn named_initializer(
        &mut self,
        name: &str,
        element: ElementType,
        dims: &[usize],
        bytes: Vec<u8>,
    ) -> String {
        let name = self.unique(name);
        self.initializer(&name, element, dims, bytes);
        name
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

    /// The model, whose last value gets the name of the output.
    pub(super) fn finish(mut self, last: &Value, output: &End) -> Result<Model> {
        let id = self.values.get(last.name()).copied();
        let made = |id: &ValueId| {
            self.graph.graph().nodes.iter().any(|node| node.outputs.contains(&Some(*id)))
        };
        let id = match id.filter(made) {
            Some(id) => id,
            // A model without layers gives what it gets.
            None => {
                let name = self.node("Identity", &[last.name()], &[]);
                self.values[&name]
            }
        };
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        self.graph.rename(id, output.name);
        self.graph.declare(id, output.ty());
        self.graph.output(id);
        self.graph.build().map_err(|error| refusal(error.to_string()))
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
        self.initializer(&name, element, dims, key.2.clone());
        self.constants.insert(key, name.clone());
        name
    }

    fn initializer(&mut self, name: &str, element: ElementType, dims: &[usize], bytes: Vec<u8>) {
        match OnnxTensor::from_bytes(element, dims, bytes.into()) {
            Ok(tensor) => {
                let id = self.graph.named_constant(name, tensor);
                self.values.insert(name.to_owned(), id);
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn fail(&mut self, why: String) {
        let mistake = self.refusal(why);
        self.mistake.get_or_insert(mistake);
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
