//! Layers one after another.

use polaris_tensor::Tensor;

use crate::export::{Value, Writer};
use crate::{Layer, Module, Parts, Pass, Result};

/// Layers one after another, each with a name.
#[derive(Default)]
pub struct Sequential {
    layers: Vec<(String, Box<dyn Module>)>,
}

impl Sequential {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more, named by its number.
    pub fn then(self, layer: impl Module + 'static) -> Self {
        let name = self.layers.len().to_string();
        self.named(name, layer)
    }

    /// With one more of this name.
    pub fn named(mut self, name: impl Into<String>, layer: impl Module + 'static) -> Self {
        self.layers.push((name.into(), Box::new(layer)));
        self
    }
}

impl Layer for Sequential {
    fn visit(&self, parts: &mut Parts) {
        for (name, layer) in &self.layers {
            parts.layer(name, &**layer);
        }
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let mut x = x.clone();
        for (name, layer) in &self.layers {
            x = pass.apply(name, &**layer, &x)?;
        }
        Ok(x)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let mut x = x.clone();
        for (name, layer) in &self.layers {
            x = graph.layer(name, &**layer, &x)?;
        }
        Ok(x)
    }
}
