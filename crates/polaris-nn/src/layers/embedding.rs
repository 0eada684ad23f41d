//! A row of a table for each index.

use polaris_tensor::Tensor;

use crate::export::{Value, Writer};
use crate::{Init, Layer, Module, Parameter, Parts, Pass, Result};

/// A table `[entries, width]` that indices of any shape are looked up in.
#[derive(Debug)]
pub struct Embedding {
    weight: Parameter,
}

impl Embedding {
    /// A table of normally distributed numbers.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(entries: usize, width: usize, deviation: f64, init: &mut Init) -> Result<Self> {
        Ok(Self { weight: init.normal(&[entries, width], deviation)? })
    }

    /// The table.
    pub fn weight(&self) -> &Parameter {
        &self.weight
    }
}

impl Layer for Embedding {
    fn visit(&self, parts: &mut Parts) {
        parts.parameter("weight", &self.weight);
    }
}

impl Module for Embedding {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        Ok(self.weight.value(pass)?.embedding(x)?)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let table = graph.weight("weight", &self.weight)?;
        Ok(Value::new(graph.node("Gather", &[&table, x.name()], &[]), x.rank() + 1))
    }
}
