//! Convolutions along one or two axes, and their transposes.

use polaris_ops::Convolution;
use polaris_tensor::Tensor;

use crate::export::{Attribute, Value, Writer};
use crate::quantize::InputPoint;
use crate::{Error, Init, Layer, Module, Parameter, Parts, Pass, Result};

/// A convolution of `[N, C, L]` or `[N, C, H, W]`; its weight is `[outputs, C / groups, ...]`.
#[derive(Debug)]
pub struct Conv {
    weight: Parameter,
    bias: Option<Parameter>,
    problem: Convolution,
    input: InputPoint,
}

impl Conv {
    /// A layer as PyTorch begins it, with a kernel of one or two axes.
    ///
    /// # Errors
    /// If channels cannot be cut into groups, or there is no room.
    pub fn new(
        [inputs, outputs]: [usize; 2],
        kernel: &[usize],
        problem: Convolution,
        bias: bool,
        init: &mut Init,
    ) -> Result<Self> {
        let first = [outputs, inputs];
        let (weight, bias) = begin(first, kernel, problem.groups, bias.then_some(outputs), init)?;
        Ok(Self { weight, bias, problem, input: InputPoint::default() })
    }
}

impl Layer for Conv {
    fn visit(&self, parts: &mut Parts) {
        parts.parameter("weight", &self.weight);
        if let Some(bias) = &self.bias {
            parts.parameter("bias", bias);
        }
        parts.product(&self.weight, &self.input);
    }
}

impl Module for Conv {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(|bias| bias.value(pass)).transpose()?;
        let weight = self.weight.value(pass)?;
        let x = self.input.value(x, pass)?;
        Ok(x.convolution(&weight, bias.as_ref(), &self.problem)?)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let attributes = attributes(&self.weight, &self.problem);
        let x = graph.input(&self.input, x)?;
        export("Conv", &x, &self.weight, self.bias.as_ref(), &attributes, graph)
    }
}

/// The transpose of a convolution; its weight is `[C, outputs / groups, ...]`.
#[derive(Debug)]
pub struct TransposedConv {
    weight: Parameter,
    bias: Option<Parameter>,
    problem: Convolution,
    output_padding: [usize; 2],
}

impl TransposedConv {
    /// A layer as PyTorch begins it, with a kernel of one or two axes.
    ///
    /// # Errors
    /// If channels cannot be cut into groups, or there is no room.
    pub fn new(
        [inputs, outputs]: [usize; 2],
        kernel: &[usize],
        problem: Convolution,
        output_padding: [usize; 2],
        bias: bool,
        init: &mut Init,
    ) -> Result<Self> {
        let first = [inputs, outputs];
        let (weight, bias) = begin(first, kernel, problem.groups, bias.then_some(outputs), init)?;
        Ok(Self { weight, bias, problem, output_padding })
    }
}

impl Layer for TransposedConv {
    fn visit(&self, parts: &mut Parts) {
        parts.parameter("weight", &self.weight);
        if let Some(bias) = &self.bias {
            parts.parameter("bias", bias);
        }
    }
}

impl Module for TransposedConv {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(|bias| bias.value(pass)).transpose()?;
        let (weight, padding) = (self.weight.value(pass)?, self.output_padding);
        let x = pass.cast(x)?;
        Ok(x.transposed_convolution(&weight, bias.as_ref(), padding, &self.problem)?)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let mut attributes = attributes(&self.weight, &self.problem);
        let behind = along_axes(&self.weight, &self.output_padding);
        attributes.push(("output_padding", behind.into()));
        export("ConvTranspose", x, &self.weight, self.bias.as_ref(), &attributes, graph)
    }
}

/// The entries of a pair that belong to the kernel's axes: kernels of one axis have columns only.
fn along_axes<'a>(weight: &Parameter, pair: &'a [usize; 2]) -> &'a [usize] {
    &pair[4usize.saturating_sub(weight.tensor().rank()).min(2)..]
}

fn attributes(weight: &Parameter, problem: &Convolution) -> Vec<(&'static str, Attribute)> {
    let padding = along_axes(weight, &problem.padding);
    vec![
        ("kernel_shape", weight.tensor().dims()[2..].into()),
        ("strides", along_axes(weight, &problem.stride).into()),
        ("pads", [padding, padding].concat()[..].into()),
        ("dilations", along_axes(weight, &problem.dilation).into()),
        ("group", (problem.groups as i64).into()),
    ]
}

fn export(
    operator: &str,
    x: &Value,
    weight: &Parameter,
    bias: Option<&Parameter>,
    attributes: &[(&str, Attribute)],
    graph: &mut Writer,
) -> Result<Value> {
    let weight = graph.weight("weight", weight)?;
    let bias = bias.map(|bias| graph.parameter("bias", bias)).transpose()?;
    let inputs: Vec<&str> = [x.name(), &weight].into_iter().chain(bias.as_deref()).collect();
    Ok(x.like(graph.node(operator, &inputs, attributes)))
}

/// A weight of `[first, second / groups, kernel...]` and a bias of this length. As in PyTorch, all axes
/// but the first are counted as inputs, for transposes too.
fn begin(
    [first, second]: [usize; 2],
    kernel: &[usize],
    groups: usize,
    bias: Option<usize>,
    init: &mut Init,
) -> Result<(Parameter, Option<Parameter>)> {
    if groups == 0 || !first.is_multiple_of(groups) || !second.is_multiple_of(groups) {
        let what = format!("{first} and {second} channels cannot be cut into {groups} groups");
        return Err(Error::invalid(what));
    }
    let dims = [&[first, second / groups], kernel].concat();
    let fan_in = dims[1..].iter().product();
    let weight = init.kaiming(&dims, fan_in)?;
    let bias = bias.map(|length| init.kaiming(&[length], fan_in)).transpose()?;
    Ok((weight, bias))
}
