//! The feed-forward part of LLaMA and most decoders since.

use polaris_ops::Unary;
use polaris_tensor::Tensor;

use super::{Activation, Linear};
use crate::export::{Value, Writer};
use crate::{Init, Layer, Module, Parts, Pass, Result};

/// `down(silu(gate(x)) * up(x))`, without biases.
#[derive(Debug)]
pub struct SwiGlu {
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl SwiGlu {
    /// A layer with `hidden` elements between its linear layers.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(width: usize, hidden: usize, init: &mut Init) -> Result<Self> {
        Ok(Self {
            gate: Linear::new(width, hidden, false, init)?,
            up: Linear::new(width, hidden, false, init)?,
            down: Linear::new(hidden, width, false, init)?,
        })
    }
}

impl Layer for SwiGlu {
    fn visit(&self, parts: &mut Parts) {
        parts.layer("gate", &self.gate);
        parts.layer("up", &self.up);
        parts.layer("down", &self.down);
    }
}

impl Module for SwiGlu {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let gate = pass.apply("gate", &self.gate, x)?;
        let up = pass.apply("up", &self.up, x)?;
        let hidden = Tensor::fused([&gate, &up], |[gate, up]| gate.unary(Unary::Silu) * up)?;
        pass.apply("down", &self.down, &hidden)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let gate = graph.layer("gate", &self.gate, x)?;
        let gate = graph.layer("silu", &Activation::Silu, &gate)?;
        let up = graph.layer("up", &self.up, x)?;
        let hidden = x.like(graph.node("Mul", &[gate.name(), up.name()], &[]));
        graph.layer("down", &self.down, &hidden)
    }
}
