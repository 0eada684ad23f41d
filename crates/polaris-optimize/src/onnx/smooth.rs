//! Scale migration: what a few channels of a normalisation have too much of becomes a part of the weights behind it.
//!
//! Activations of transformers have a few channels that are far larger than the others, and one scale for all. A
//! normalisation multiplies each channel by a constant anyway: that is divided, and the columns of all products that read
//! its result are multiplied by the same. Nothing changes for floats.

use std::collections::BTreeMap;

use polaris_graph::Options;
use polaris_onnx::{Tensor, Value, ValueId};
use polaris_runtime::Runtime;

use super::graph::{Index, is_one_of, only_result, operand};
use super::{Batch, Float, Observer};
use crate::migration::{divisors, extremes};
use crate::{Error, Result};

/// Operators that end with a product with a constant for each channel.
const NORMS: &[&str] = &["LayerNormalization", "RMSNormalization"];

/// A normalisation with the products that read it.
#[derive(Debug, Clone)]
struct Norm {
    /// What it multiplies channels with, and what it adds to them.
    constants: Vec<ValueId>,
    y: ValueId,
    channels: usize,
    /// Places of its readers among the layers.
    readers: Vec<usize>,
}

/// The largest magnitudes of the channels of normalisations.
#[derive(Debug)]
pub struct Magnitudes {
    observer: Observer,
    largest: BTreeMap<String, Vec<f32>>,
}

impl Magnitudes {
    /// Prepares a float model for measuring what its normalisations make.
    ///
    /// # Errors
    /// If the model cannot be run.
    pub fn new(float: &Float, runtime: &Runtime, session: &Options) -> Result<Self> {
        let name = |norm: &Norm| float.model.graph.value(norm.y).name.clone();
        let largest: BTreeMap<_, _> =
            norms(float).iter().map(|norm| (name(norm), vec![0.0; norm.channels])).collect();
        let names: Vec<&String> = largest.keys().collect();
        let observer = Observer::new(runtime, &float.model, &names, session)?;
        Ok(Self { observer, largest })
    }

    /// Measures with some samples.
    ///
    /// # Errors
    /// If the samples do not fit the model, or it fails.
    pub fn add(&mut self, batch: &Batch) -> Result<()> {
        for (name, tensor) in self.observer.tensors(batch)? {
            if let Some(largest) = self.largest.get_mut(&name) {
                extremes(&tensor.values::<f32>()?, largest);
            }
        }
        Ok(())
    }

    /// How many normalisations there are whose channels can be scaled.
    pub fn norms(&self) -> usize {
        self.largest.len()
    }
}

impl Float {
    /// Scales the channels of normalisations so that they and the weights behind them share what is large: by the power
    /// `strength` of the largest magnitude of a channel. Histograms and levels that were made before are of another model.
    ///
    /// # Errors
    /// If the magnitudes are not finite, or the strength is none from 0 to 1.
    pub fn smooth(&mut self, magnitudes: &Magnitudes, strength: f32) -> Result<usize> {
        self.chosen.clear();
        let mut scaled = 0;
        for norm in norms(self) {
            let name = &self.model.graph.value(norm.y).name;
            let Some(inputs) = magnitudes.largest.get(name) else { continue };
            let mut weights = vec![0.0f32; norm.channels];
            for &reader in &norm.readers {
                let linear = &self.linears[reader];
                extremes(&linear.rows(&self.model.graph)?, &mut weights);
            }
            let factors = divisors(inputs, &weights, strength).map_err(|error| match error {
                Error::NotFinite { value, .. } => {
                    Error::Activation { tensor: name.clone(), why: format!("a value is {value}") }
                }
                other => other,
            })?;
            for &constant in &norm.constants {
                self.scale(constant, |at| 1.0 / f64::from(factors[at]))?;
            }
            for reader in norm.readers {
                let (weight, form) = (self.linears[reader].weight, self.linears[reader].form);
                let column = |at: usize| match form.axis {
                    0 => at % form.inner,
                    _ => at / form.channels,
                };
                self.scale(weight, |at| f64::from(factors[column(at)]))?;
            }
            scaled += 1;
        }
        Ok(scaled)
    }

    /// Multiplies each element of a constant.
    fn scale(&mut self, id: ValueId, factor: impl Fn(usize) -> f64) -> Result<()> {
        let slot = &mut self.model.graph.values[id.index()];
        if let Some(Value::Tensor(tensor)) = &slot.constant {
            let values = tensor.values::<f32>()?;
            let scaled = |(at, value): (usize, &f32)| (f64::from(*value) * factor(at)) as f32;
            let scaled: Vec<f32> = values.iter().enumerate().map(scaled).collect();
            slot.constant = Some(Tensor::new(tensor.shape(), scaled)?.into());
        }
        Ok(())
    }
}

/// Normalisations over the last axis that nobody reads but products with weights of their own.
fn norms(float: &Float) -> Vec<Norm> {
    let graph = &float.model.graph;
    let index = Index::new(graph);
    let own = |id: ValueId| index.users(id).len() == 1 && !index.is_output(id);
    let mut found = Vec::new();
    for node in graph.nodes.iter().filter(|node| is_one_of(node, NORMS)) {
        let norm = || {
            let y = only_result(node)?;
            let scale = operand(node, 1)?;
            let channels = match index.constant(scale)?.shape() {
                &[channels] => channels,
                _ => return None,
            };
            // A bias that is spread over rows belongs to no channel.
            let bias = operand(node, 2);
            let fits = |id: ValueId| {
                own(id) && index.constant(id).is_some_and(|tensor| tensor.shape() == [channels])
            };
            let constants: Vec<ValueId> = [Some(scale), bias].into_iter().flatten().collect();
            if !constants.iter().all(|&id| fits(id)) || index.is_output(y) {
                return None;
            }
            let reader = |&at: &usize| {
                let place = float.linears.iter().position(|linear| linear.node == at)?;
                let linear = &float.linears[place];
                let is_product = is_one_of(&graph.nodes[at], &["Gemm", "MatMul"]);
                let fits = linear.x == y && linear.form.columns() == channels;
                (is_product && fits && own(linear.weight)).then_some(place)
            };
            let readers: Vec<usize> = index.users(y).iter().map(reader).collect::<Option<_>>()?;
            (!readers.is_empty()).then_some(Norm { constants, y, channels, readers })
        };
        found.extend(norm());
    }
    found
}
