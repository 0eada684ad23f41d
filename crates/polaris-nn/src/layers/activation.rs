//! Activations as layers.

use polaris_tensor::Tensor;

use crate::{Layer, Module, Parts, Pass, Result};

/// A function of each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `max(x, 0)`
    Relu,
    /// GELU by its definition.
    Gelu,
    /// GELU by its approximation with tanh.
    GeluTanh,
    /// `x * sigmoid(x)`
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
}

impl Layer for Activation {
    fn visit(&self, _parts: &mut Parts) {}
}

impl Module for Activation {
    fn forward(&self, x: &Tensor, _pass: &Pass<'_>) -> Result<Tensor> {
        Ok(match self {
            Self::Relu => x.relu(),
            Self::Gelu => x.gelu(),
            Self::GeluTanh => x.gelu_tanh(),
            Self::Silu => x.silu(),
            Self::Tanh => x.tanh(),
            Self::Sigmoid => x.sigmoid(),
        }?)
    }
}
