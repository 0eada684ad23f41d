//! Bias correction: rounded weights move the mean of each channel of a layer's results; what they move it by is taken out of
//! the bias.
//!
//! The mean is measured and not computed: the float model gets a second copy of each layer, with the weight that will be
//! written and the operands of the first, so that borders of images and activation functions before it count as they are.

use std::collections::HashMap;

use polaris_graph::Options;
use polaris_onnx::{Tensor, Value};
use polaris_runtime::Runtime;

use super::{Batch, Float, Observer, QuantizeOptions};
use crate::Result;

/// By how much each channel of layers is moved, by the names of their results: nodes need not have names of their own.
#[derive(Debug, Clone, Default)]
pub struct Shifts(HashMap<String, Vec<f64>>);

impl Shifts {
    /// That of the layer with a result.
    pub fn of(&self, result: &str) -> Option<&[f64]> {
        self.0.get(result).map(Vec::as_slice)
    }
}

/// Sums of differences between layers and their copies.
#[derive(Debug)]
pub struct Shift {
    observer: Observer,
    layers: Vec<Sums>,
}

#[derive(Debug)]
struct Sums {
    result: String,
    copy: String,
    /// Whether channels are the second axis of results, and not the last.
    second: bool,
    sums: Vec<f64>,
    count: f64,
}

impl Shift {
    /// Prepares a float model for measuring how its layers are moved.
    ///
    /// # Errors
    /// If the model cannot be run, or a weight cannot be quantised.
    pub fn new(
        float: &Float,
        options: &QuantizeOptions,
        runtime: &Runtime,
        session: &Options,
    ) -> Result<Self> {
        let mut model = float.model.clone();
        let mut layers = Vec::new();
        let mut nodes = Vec::new();
        for linear in float.linears.iter().filter(|one| one.is_int8 && one.takes_bias) {
            let matrix = float.levels(linear, options)?;
            let graph = &mut model.graph;
            let Some(Value::Tensor(weight)) = &graph.value(linear.weight).constant else {
                continue;
            };
            let rounded = Tensor::new(weight.shape(), linear.form.weight(&matrix.dequantize()))?;
            let mut node = graph.nodes[linear.node].clone();
            // Levels have the factor of products in them.
            node.attributes.remove("alpha");
            let unique = |what: &str, at: usize| format!("{}~{what}~{at}", node.path);
            let at = graph.values.len();
            let value = Value::Tensor(rounded);
            let weight = graph.add_value(unique("weight", at), Some(value.ty()), Some(value));
            let copy = unique("copy", at);
            let ty = graph.value(linear.y).ty.clone();
            let made = graph.add_value(copy.clone(), ty, None);
            layers.push(Sums {
                result: graph.value(linear.y).name.clone(),
                copy,
                second: node.operator == "Conv",
                sums: vec![0.0; linear.form.channels],
                count: 0.0,
            });
            node.inputs[1] = Some(weight);
            node.outputs = vec![Some(made)];
            nodes.push((linear.node, node));
        }
        for (at, node) in nodes.into_iter().rev() {
            model.graph.nodes.insert(at + 1, node);
        }
        let names: Vec<&str> =
            layers.iter().flat_map(|sums| [sums.result.as_str(), sums.copy.as_str()]).collect();
        let observer = Observer::new(runtime, &model, &names, session)?;
        Ok(Self { observer, layers })
    }

    /// Measures with some samples.
    ///
    /// # Errors
    /// If the samples do not fit the model, or it fails.
    pub fn add(&mut self, batch: &Batch) -> Result<()> {
        let tensors: HashMap<String, Tensor> = self.observer.tensors(batch)?.into_iter().collect();
        for sums in &mut self.layers {
            let (Some(y), Some(copy)) = (tensors.get(&sums.result), tensors.get(&sums.copy)) else {
                continue;
            };
            let (y, values, shape) = (y.values::<f32>()?, copy.values::<f32>()?, copy.shape());
            let channels = sums.sums.len();
            let inner: usize = if sums.second { shape[2..].iter().product() } else { 1 };
            for (at, (y, copy)) in y.iter().zip(values.iter()).enumerate() {
                sums.sums[at / inner % channels] += f64::from(*copy) - f64::from(*y);
            }
            sums.count += y.len() as f64 / channels as f64;
        }
        Ok(())
    }

    /// The means of what was measured.
    pub fn finish(self) -> Shifts {
        let measured = self.layers.into_iter().filter(|sums| sums.count > 0.0);
        let mean =
            |sums: Sums| (sums.result, sums.sums.into_iter().map(|sum| sum / sums.count).collect());
        Shifts(measured.map(mean).collect())
    }
}
