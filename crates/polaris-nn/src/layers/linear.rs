//! `x W^T + b`.

use polaris_tensor::Tensor;

use crate::export::{Value, Writer};
use crate::quantize::InputPoint;
use crate::{Init, Layer, Module, Parameter, Parts, Pass, Result};

/// A linear layer over the last axis; its weight is `[outputs, inputs]`.
#[derive(Debug)]
pub struct Linear {
    weight: Parameter,
    bias: Option<Parameter>,
    input: InputPoint,
}

impl Linear {
    /// A layer as PyTorch begins it.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(inputs: usize, outputs: usize, bias: bool, init: &mut Init) -> Result<Self> {
        let weight = init.kaiming(&[outputs, inputs], inputs)?;
        let bias = bias.then(|| init.kaiming(&[outputs], inputs)).transpose()?;
        Ok(Self::of(weight, bias))
    }

    /// Elements of a row that it takes.
    pub(crate) fn inputs(&self) -> usize {
        self.weight.tensor().dims().last().copied().unwrap_or(0)
    }

    /// Names the product alone, for a layer whose weight is another layer's.
    pub(crate) fn visit_product(&self, parts: &mut Parts) {
        parts.product(&self.weight, &self.input);
    }

    /// A layer of these parameters.
    pub fn of(weight: Parameter, bias: Option<Parameter>) -> Self {
        Self { weight, bias, input: InputPoint::default() }
    }
}

impl Layer for Linear {
    fn visit(&self, parts: &mut Parts) {
        parts.parameter("weight", &self.weight);
        if let Some(bias) = &self.bias {
            parts.parameter("bias", bias);
        }
        self.visit_product(parts);
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(|bias| bias.value(pass)).transpose()?;
        let x = self.input.value(x, pass)?;
        Ok(x.linear(&self.weight.value(pass)?, bias.as_ref())?)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let x = graph.input(&self.input, x)?;
        let bias = self.bias.as_ref().map(|bias| graph.parameter("bias", bias)).transpose()?;
        export_linear(&x, "weight", &self.weight, bias.as_deref(), graph)
    }
}

/// `x W^T + b` with a weight under this name, and a bias that the graph has.
pub(crate) fn export_linear(
    x: &Value,
    name: &str,
    weight: &Parameter,
    bias: Option<&str>,
    graph: &mut Writer,
) -> Result<Value> {
    if x.rank() == 2 {
        let weight = graph.weight(name, weight)?;
        let inputs: Vec<&str> = [x.name(), &weight].into_iter().chain(bias).collect();
        return Ok(x.like(graph.node("Gemm", &inputs, &[("transB", 1.into())])));
    }
    // Gemm is of matrices alone.
    let weight = graph.turned_weight(name, weight)?;
    let product = graph.node("MatMul", &[x.name(), &weight], &[]);
    Ok(match bias {
        Some(bias) => x.like(graph.node("Add", &[&product, bias], &[])),
        None => x.like(product),
    })
}
