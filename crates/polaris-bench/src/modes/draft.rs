//! Graphs with what they are run on: inputs and weights that are random and always the same.

use polaris_data::Random;
use polaris_onnx::{GraphBuilder, Model, Tensor, Type, Value, ValueId};

use crate::Result;

/// A graph in the making, and its inputs.
pub struct Draft {
    pub graph: GraphBuilder,
    inputs: Vec<(String, Tensor)>,
}

/// A model with what it is run on.
pub struct Drafted {
    pub model: Model,
    pub inputs: Vec<(String, Tensor)>,
}

impl Draft {
    pub fn new() -> Self {
        Self { graph: GraphBuilder::new("workload"), inputs: Vec::new() }
    }

    /// An input of numbers from -1 to 1.
    pub fn numbers(&mut self, name: &str, shape: &[usize]) -> Result<ValueId> {
        let words: Vec<u64> = name.bytes().map(u64::from).collect();
        Ok(self.input(name, uniform(&words, shape, 1.0)?))
    }

    /// An input of indices below `end`.
    pub fn indices(&mut self, name: &str, shape: &[usize], end: u64) -> Result<ValueId> {
        let mut random = Random::new(&[end]);
        let count = shape.iter().product();
        let values: Vec<i64> = (0..count).map(|_| random.below(end) as i64).collect();
        Ok(self.input(name, Tensor::new(shape, values)?))
    }

    fn input(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let id = self.graph.input_of(name, Value::Tensor(tensor.clone()).ty());
        self.inputs.push((name.to_owned(), tensor));
        id
    }

    /// Weights from `-limit` to `limit`; each tensor of a graph has others.
    pub fn weights(&mut self, shape: &[usize], limit: f64) -> Result<ValueId> {
        let place = self.graph.graph().values.len() as u64;
        Ok(self.graph.constant(uniform(&[place], shape, limit)?))
    }

    /// Constant lengths.
    pub fn lengths(&mut self, values: &[usize]) -> ValueId {
        let values: Vec<i64> = values.iter().map(|&value| value as i64).collect();
        self.graph.integers(&values)
    }

    /// The model that gives this value.
    pub fn finish(mut self, output: ValueId) -> Result<Drafted> {
        self.graph.output(output);
        let mut model = self.graph.build()?;
        "polaris bench modes".clone_into(&mut model.producer);
        Ok(Drafted { model, inputs: self.inputs })
    }
}

impl Drafted {
    /// The inputs with their types.
    pub fn types(&self) -> Vec<(&str, Type)> {
        let ty = |tensor: &Tensor| Value::Tensor(tensor.clone()).ty();
        self.inputs.iter().map(|(name, tensor)| (name.as_str(), ty(tensor))).collect()
    }
}

/// Numbers from `-limit` to `limit`, the same for the same words.
fn uniform(words: &[u64], shape: &[usize], limit: f64) -> Result<Tensor> {
    let mut random = Random::new(words);
    let count = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|_| random.within(limit) as f32).collect();
    Ok(Tensor::new(shape, values)?)
}
