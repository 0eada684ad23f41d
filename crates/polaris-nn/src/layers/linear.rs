//! `x W^T + b`.

use polaris_tensor::Tensor;

use crate::export::{Value, Writer};
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

    /// Elements of a row that it takes.
    pub(crate) fn inputs(&self) -> usize {
        self.weight.tensor().dims().last().copied().unwrap_or(0)
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

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let weight = graph.parameter("weight", &self.weight)?;
        let bias = self.bias.as_ref().map(|bias| graph.parameter("bias", bias)).transpose()?;
        Ok(export_linear(x, &weight, bias.as_deref(), graph))
    }
}

/// `x W^T + b` of parameters that the graph has. The weight stays as it is in the model.
pub(crate) fn export_linear(
    x: &Value,
    weight: &str,
    bias: Option<&str>,
    graph: &mut Writer,
) -> Value {
    if x.rank() == 2 {
        let inputs: Vec<&str> = [x.name(), weight].into_iter().chain(bias).collect();
        return x.like(graph.node("Gemm", &inputs, &[("transB", 1.into())]));
    }
    // Gemm is of matrices alone. Engines transpose a constant once.
    let weight = graph.node("Transpose", &[weight], &[("perm", vec![1, 0].into())]);
    let product = graph.node("MatMul", &[x.name(), &weight], &[]);
    match bias {
        Some(bias) => x.like(graph.node("Add", &[&product, bias], &[])),
        None => x.like(product),
    }
}
