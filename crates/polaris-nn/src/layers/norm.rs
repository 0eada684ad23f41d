//! Normalisations. Statistics and running ones are kept in the type of the parameters.

use polaris_core::DType;
use polaris_ops::fused::{Builder, evaluate_into};
use polaris_tensor::Tensor;

use crate::export::{Value, Writer};
use crate::{Error, Init, Layer, Module, Parameter, Parts, Pass, Result};

/// Normalisation of each channel of `[N, C, ...]`: by the batch in training, by running statistics
/// in evaluation.
#[derive(Debug)]
pub struct BatchNorm {
    weight: Parameter,
    bias: Parameter,
    mean: Tensor,
    variance: Tensor,
    /// What a batch's statistics count beside those that were.
    momentum: f64,
    epsilon: f64,
}

impl BatchNorm {
    /// A layer as PyTorch begins it, with its momentum of 0.1 and epsilon of 1e-5.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(channels: usize, init: &mut Init) -> Result<Self> {
        Ok(Self {
            weight: init.constant(&[channels], 1.0)?,
            bias: init.constant(&[channels], 0.0)?,
            mean: init.buffer(&[channels], 0.0)?,
            variance: init.buffer(&[channels], 1.0)?,
            momentum: 0.1,
            epsilon: 1e-5,
        })
    }

    /// Moves a running statistic towards a batch's.
    fn follow(&self, running: &Tensor, found: &Tensor, factor: f64) -> Result<()> {
        let build = Builder::new(2);
        let [before, found_] = build.inputs();
        let (keep, take) =
            (build.scalar(1.0 - self.momentum), build.scalar(self.momentum * factor));
        let step = build.finish(before * keep + found_ * take)?;
        let found = found.to_dtype(running.dtype())?;
        Ok(running.update(|array| evaluate_into(&step, &[array, found.array()], array))?)
    }
}

impl Layer for BatchNorm {
    fn visit(&self, parts: &mut Parts) {
        parts.parameter("weight", &self.weight);
        parts.parameter("bias", &self.bias);
        parts.buffer("running_mean", &self.mean);
        parts.buffer("running_var", &self.variance);
    }
}

impl Module for BatchNorm {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let x = pass.cast(x)?;
        let (weight, bias) = (self.weight.value(pass)?, self.bias.value(pass)?);
        if !pass.is_training() {
            let sums = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
            let (mean, variance) = (self.mean.to_dtype(sums)?, self.variance.to_dtype(sums)?);
            let (weight, bias) = (Some(&weight), Some(&bias));
            return Ok(x.batch_norm_with(&mean, &variance, weight, bias, self.epsilon)?);
        }
        if x.elements() <= self.mean.elements() {
            let what = "a batch norm cannot learn from one value a channel; take a larger batch";
            return Err(Error::invalid(what));
        }
        let (result, mean, variance) = x.batch_norm(Some(&weight), Some(&bias), self.epsilon)?;
        // Running variances are of the population that the batch is a sample of.
        let count = (x.elements() / self.mean.elements().max(1)) as f64;
        self.follow(&self.mean, &mean.detach(), 1.0)?;
        self.follow(&self.variance, &variance.detach(), count / (count - 1.0).max(1.0))?;
        Ok(result)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let weight = graph.parameter("weight", &self.weight)?;
        let bias = graph.parameter("bias", &self.bias)?;
        let mean = graph.buffer("running_mean", &self.mean)?;
        let variance = graph.buffer("running_var", &self.variance)?;
        let inputs = [x.name(), &weight, &bias, &mean, &variance];
        let attributes = [("epsilon", self.epsilon.into())];
        Ok(x.like(graph.node("BatchNormalization", &inputs, &attributes)))
    }
}

/// Normalisation over the last axis.
#[derive(Debug)]
pub struct LayerNorm {
    weight: Parameter,
    bias: Parameter,
    epsilon: f64,
}

impl LayerNorm {
    /// A layer as PyTorch begins it, with its epsilon of 1e-5.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(width: usize, init: &mut Init) -> Result<Self> {
        let (weight, bias) = (init.constant(&[width], 1.0)?, init.constant(&[width], 0.0)?);
        Ok(Self { weight, bias, epsilon: 1e-5 })
    }
}

impl Layer for LayerNorm {
    fn visit(&self, parts: &mut Parts) {
        parts.parameter("weight", &self.weight);
        parts.parameter("bias", &self.bias);
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let (weight, bias) = (self.weight.value(pass)?, self.bias.value(pass)?);
        Ok(pass.cast(x)?.layer_norm(Some(&weight), Some(&bias), self.epsilon)?)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let weight = graph.parameter("weight", &self.weight)?;
        let bias = graph.parameter("bias", &self.bias)?;
        let attributes = [("axis", (-1).into()), ("epsilon", self.epsilon.into())];
        Ok(x.like(graph.node("LayerNormalization", &[x.name(), &weight, &bias], &attributes)))
    }
}

/// Division by the root of the mean square over the last axis.
#[derive(Debug)]
pub struct RmsNorm {
    weight: Parameter,
    epsilon: f64,
}

impl RmsNorm {
    /// A layer whose weights are one.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(width: usize, epsilon: f64, init: &mut Init) -> Result<Self> {
        Ok(Self { weight: init.constant(&[width], 1.0)?, epsilon })
    }
}

impl Layer for RmsNorm {
    fn visit(&self, parts: &mut Parts) {
        parts.parameter("weight", &self.weight);
    }
}

impl Module for RmsNorm {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        Ok(pass.cast(x)?.rms_norm(Some(&self.weight.value(pass)?), self.epsilon)?)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let weight = graph.parameter("weight", &self.weight)?;
        let epsilon = graph.number(self.epsilon);
        let square = graph.node("Mul", &[x.name(), x.name()], &[]);
        // Axes became an operand in version 18.
        let mean = match graph.opset() {
            ..18 => graph.node("ReduceMean", &[&square], &[("axes", vec![-1].into())]),
            _ => {
                let axes = graph.integers(&[-1]);
                graph.node("ReduceMean", &[&square, &axes], &[])
            }
        };
        let mean = graph.node("Add", &[&mean, &epsilon], &[]);
        let root = graph.node("Sqrt", &[&mean], &[]);
        let divided = graph.node("Div", &[x.name(), &root], &[]);
        Ok(x.like(graph.node("Mul", &[&divided, &weight], &[])))
    }
}

/// Normalisation of groups of channels of each sample; with a group for each channel it is instance
/// normalisation.
#[derive(Debug)]
pub struct GroupNorm {
    weight: Parameter,
    bias: Parameter,
    groups: usize,
    epsilon: f64,
}

impl GroupNorm {
    /// A layer as PyTorch begins it, with its epsilon of 1e-5.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(groups: usize, channels: usize, init: &mut Init) -> Result<Self> {
        let (weight, bias) = (init.constant(&[channels], 1.0)?, init.constant(&[channels], 0.0)?);
        Ok(Self { weight, bias, groups, epsilon: 1e-5 })
    }
}

impl Layer for GroupNorm {
    fn visit(&self, parts: &mut Parts) {
        parts.parameter("weight", &self.weight);
        parts.parameter("bias", &self.bias);
    }
}

impl Module for GroupNorm {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let (weight, bias) = (self.weight.value(pass)?, self.bias.value(pass)?);
        Ok(pass.cast(x)?.group_norm(self.groups, Some(&weight), Some(&bias), self.epsilon)?)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        // A group is an instance with one channel.
        let groups = graph.integers(&[0, self.groups as i64, -1]);
        let (ones, zeros) = (vec![1.0; self.groups], vec![0.0; self.groups]);
        let ones = graph.floats(&[self.groups], &ones);
        let zeros = graph.floats(&[self.groups], &zeros);
        let cut = graph.node("Reshape", &[x.name(), &groups], &[]);
        let attributes = [("epsilon", self.epsilon.into())];
        let even = graph.node("InstanceNormalization", &[&cut, &ones, &zeros], &attributes);
        let shape = graph.node("Shape", &[x.name()], &[]);
        let even = graph.node("Reshape", &[&even, &shape], &[]);
        // Parameters of channels, along the second axis.
        let mut column = vec![1; x.rank().max(2) - 1];
        column[0] = -1;
        let column = graph.integers(&column);
        let weight = graph.parameter("weight", &self.weight)?;
        let weight = graph.node("Reshape", &[&weight, &column], &[]);
        let bias = graph.parameter("bias", &self.bias)?;
        let bias = graph.node("Reshape", &[&bias, &column], &[]);
        let scaled = graph.node("Mul", &[&even, &weight], &[]);
        Ok(x.like(graph.node("Add", &[&scaled, &bias], &[])))
    }
}
