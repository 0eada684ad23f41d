//! Small ONNX graphs, made node by node in memory: standard operators, weights that are random and always the
//! same.

use std::collections::HashMap;

use polaris_data::Random;
use polaris_onnx::{Attribute, Attributes, Dim, Graph, Model, Node, Tensor, Type, ValueId};

use crate::Result;

/// The version of operators that the graphs are written in.
const OPSET: i64 = 17;
/// The version of the format that came with it.
const IR_VERSION: i64 = 8;

/// A graph in the making.
#[derive(Default)]
pub struct Draft {
    graph: Graph,
    inputs: Vec<(String, Tensor)>,
}

/// A model with what it is run on.
pub struct Drafted {
    pub model: Model,
    pub inputs: Vec<(String, Tensor)>,
}

impl Draft {
    /// An input of numbers from -1 to 1.
    pub fn numbers(&mut self, name: &str, shape: &[usize]) -> Result<ValueId> {
        let words: Vec<u64> = name.bytes().map(u64::from).collect();
        self.input(name, uniform(&words, shape, 1.0)?)
    }

    /// An input of indices below `end`.
    pub fn indices(&mut self, name: &str, shape: &[usize], end: u64) -> Result<ValueId> {
        let mut random = Random::new(&[end]);
        let count = shape.iter().product();
        let values: Vec<i64> = (0..count).map(|_| random.below(end) as i64).collect();
        self.input(name, Tensor::new(shape, values)?)
    }

    fn input(&mut self, name: &str, tensor: Tensor) -> Result<ValueId> {
        let ty = tensor_type(&tensor);
        let id = self.graph.add_value(name.to_owned(), Some(ty), None);
        self.graph.inputs.push(id);
        self.inputs.push((name.to_owned(), tensor));
        Ok(id)
    }

    /// Weights from `-limit` to `limit`; each tensor of a graph has others.
    pub fn weights(&mut self, shape: &[usize], limit: f64) -> Result<ValueId> {
        let place = self.graph.values.len() as u64;
        Ok(self.constant(uniform(&[place], shape, limit)?))
    }

    /// A constant tensor.
    pub fn constant(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("constant_{}", self.graph.values.len());
        self.graph.add_value(name, None, Some(tensor.into()))
    }

    /// A constant number.
    pub fn number(&mut self, value: f32) -> ValueId {
        self.constant(Tensor::scalar(value))
    }

    /// Constant lengths.
    pub fn lengths(&mut self, values: &[usize]) -> Result<ValueId> {
        let values: Vec<i64> = values.iter().map(|&value| value as i64).collect();
        Ok(self.constant(Tensor::new(&[values.len()], values)?))
    }

    /// The result of an operator.
    pub fn node(
        &mut self,
        operator: &str,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let path = format!("{operator}_{}", self.graph.nodes.len());
        let output = self.graph.add_value(path.clone(), None, None);
        let mut given = Attributes::default();
        for (name, attribute) in attributes {
            given.set(name, attribute.clone());
        }
        self.graph.nodes.push(Node {
            path,
            domain: String::new(),
            operator: operator.to_owned(),
            version: OPSET,
            attributes: given,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
        });
        output
    }

    /// The model that gives this value.
    pub fn finish(mut self, output: ValueId) -> Drafted {
        self.graph.outputs.push(output);
        let model = Model {
            graph: self.graph,
            ir_version: IR_VERSION,
            opsets: HashMap::from([(String::new(), OPSET)]),
            producer: "polaris bench modes".to_owned(),
            metadata: Vec::new(),
        };
        Drafted { model, inputs: self.inputs }
    }
}

impl Drafted {
    /// The inputs with their types.
    pub fn types(&self) -> Vec<(&str, Type)> {
        self.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor_type(tensor))).collect()
    }
}

fn tensor_type(tensor: &Tensor) -> Type {
    let dims = tensor.shape().iter().map(|&length| Dim::Known(length)).collect();
    Type::Tensor(tensor.element(), Some(dims))
}

/// Numbers from `-limit` to `limit`, the same for the same words.
fn uniform(words: &[u64], shape: &[usize], limit: f64) -> Result<Tensor> {
    let mut random = Random::new(words);
    let count = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|_| random.within(limit) as f32).collect();
    Ok(Tensor::new(shape, values)?)
}
