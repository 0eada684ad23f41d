//! `x W^T + b`.

use polaris_tensor::Tensor;

use crate::{Init, Layer, Module, Parameter, Parts, Pass, Result};

/// A linear layer over the last axis; its weight is `[outputs, inputs]`.
#[derive(Debug)]
pub struct Linear {
    weight: Parameter,
    bias: Option<Parameter>,
}

impl Linear {
    /// A layer as PyTorch begins it.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(inputs: usize, outputs: usize, bias: bool, init: &mut Init) -> Result<Self> {
        let weight = init.kaiming(&[outputs, inputs], inputs)?;
        let bias = bias.then(|| init.kaiming(&[outputs], inputs)).transpose()?;
        Ok(Self { weight, bias })
    }

    /// A layer of these parameters.
    pub fn of(weight: Parameter, bias: Option<Parameter>) -> Self {
        Self { weight, bias }
    }
}

impl Layer for Linear {
    fn visit(&self, parts: &mut Parts) {
        parts.parameter("weight", &self.weight);
        if let Some(bias) = &self.bias {
            parts.parameter("bias", bias);
        }
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(|bias| bias.value(pass)).transpose()?;
        Ok(pass.cast(x)?.linear(&self.weight.value(pass)?, bias.as_ref())?)
    }
}
