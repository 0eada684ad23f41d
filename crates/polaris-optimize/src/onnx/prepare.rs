//! The model as it is quantised.

use std::collections::HashMap;

use polaris_graph::Passes;
use polaris_graph::passes::optimise;
use polaris_onnx::{Attribute, Graph, Model, Tensor, Value};

use super::graph::{Index, is_one_of, only_result, operand};
use super::layer::{Key, Layer, Linear, WeightLevels, find};
use super::regions::Regions;
use crate::calibration::Histograms;
use crate::fnv::Fnv;
use crate::integer::{Grid, IntMatrix};
use crate::{Error, Result};

/// Bytes with scales for channels came with this version.
const OPSET: i64 = 13;
/// Integers of four bits and scales of groups came with this version.
const NARROW_OPSET: i64 = 21;

/// What rewrites a model before: normalisations become weights, and what is constant is computed.
const PASSES: [&str; 4] = ["constants", "dead", "common", "conv_norm"];

/// Operators of models that have integers already.
const QUANTISED: [&str; 7] = [
    "ConvInteger",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
];

/// A float model that is to be quantised: with normalisations folded into its layers, and written for a version of the
/// operators that has what is needed.
#[derive(Debug, Clone)]
pub struct Float {
    pub(super) model: Model,
    pub(super) layers: Vec<Layer>,
    pub(super) linears: Vec<Linear>,
    pub(super) regions: Regions,
    weights: WeightLevels,
    /// Levels that were chosen for weights, by [`Linear::key`].
    pub(super) chosen: HashMap<Key, IntMatrix>,
}

impl Float {
    /// Finds the layers of a model. Those with one of the texts of `exclude` in their names stay as they are.
    ///
    /// # Errors
    /// If it has integers already, no layer that can be quantised, or none that is excluded; if it cannot be written for a
    /// version of the operators with what is needed, with the node that prevents it.
    pub fn new(model: Model, exclude: &[String]) -> Result<Self> {
        Self::with_weights(model, exclude, WeightLevels::default())
    }

    /// The same, with levels of one's choice for weights.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if there are no such levels.
    pub fn with_weights(
        mut model: Model,
        exclude: &[String],
        weights: WeightLevels,
    ) -> Result<Self> {
        if ![4, 8].contains(&weights.bits) {
            return Err(Error::Bits { bits: weights.bits });
        }
        Grid { bits: weights.bits, group: weights.group, symmetric: true }.check()?;
        model.graph.validate()?;
        let is_quantised = |node: &&polaris_onnx::Node| is_one_of(node, &QUANTISED);
        if let Some(node) = model.graph.nodes.iter().find(is_quantised) {
            return Err(Error::QuantisedModel {
                node: node.path.clone(),
                operator: node.operator.clone(),
            });
        }
        let graph = &mut model.graph;
        if model.ir_version < 4 {
            // Files of that time had to list every constant among the inputs.
            let values = &graph.values;
            graph.inputs.retain(|id| values[id.index()].constant.is_none());
        }
        let passes = PASSES.iter().try_fold(Passes::none(), |passes, name| passes.with(name))?;
        optimise(graph, &passes);
        let is_plain = weights == WeightLevels::default();
        model.raise_opset(if is_plain { OPSET } else { NARROW_OPSET })?;
        products_with_bias(&mut model.graph);
        let (layers, linears) = find(&model.graph, exclude, weights);
        let unused = exclude.iter().find(|part| !layers.iter().any(|one| one.name.contains(*part)));
        if let Some(part) = unused {
            let some: Vec<&str> = layers.iter().take(5).map(|layer| layer.name.as_str()).collect();
            return Err(Error::NoSuchLayer { part: part.clone(), some: some.join(", ") });
        }
        if linears.is_empty() {
            let reasons: Vec<String> = layers.iter().take(5).map(Layer::in_words).collect();
            return Err(Error::NoLayers { reasons: reasons.join("; ") });
        }
        let regions = Regions::of(&model.graph, &linears);
        Ok(Self { model, layers, linears, regions, weights, chosen: HashMap::new() })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Its layers, with what becomes of each.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// What its weights become.
    pub fn weights(&self) -> WeightLevels {
        self.weights
    }

    /// The tensors whose ranges are needed.
    pub fn observed(&self) -> Vec<&str> {
        let name = |id| self.model.graph.value(id).name.as_str();
        self.regions.origins().map(name).collect()
    }

    /// No histograms yet, for what this model computes.
    pub fn histograms(&self, side: usize) -> Histograms {
        Histograms::new(&self.identity(), side)
    }

    /// A number of 16 digits that is another one for another model, and for other tensors whose ranges are needed.
    fn identity(&self) -> String {
        let mut hash = Fnv::default();
        let graph = &self.model.graph;
        for slot in &graph.values {
            hash.add(slot.name.as_bytes());
            if let Some(Value::Tensor(tensor)) = &slot.constant
                && let Ok(bytes) = tensor.bytes()
            {
                hash.add(bytes);
            }
        }
        for node in &graph.nodes {
            hash.add(node.operator.as_bytes());
            node.needs().for_each(|id| hash.add(&id.0.to_le_bytes()));
            // Where operands are left out tells which ones the others are.
            hash.add(format!("{:?} {:?}", node.inputs, node.outputs).as_bytes());
            hash.add(format!("{:?}", node.attributes).as_bytes());
        }
        hash.add(format!("{:?} {:?}", graph.inputs, graph.outputs).as_bytes());
        self.observed().iter().for_each(|name| hash.add(name.as_bytes()));
        format!("{:016x}", hash.0)
    }
}

impl Layer {
    pub(super) fn in_words(&self) -> String {
        use super::Treatment::{Float, Int8, Weight};
        match &self.treatment {
            Int8 => format!("{} ({}): int8", self.name, self.operator),
            Weight(why) | Float(why) => format!("{} ({}): {why}", self.name, self.operator),
        }
    }
}

/// Products of matrices to which a row is added become one operator with a bias. Those of more axes have none.
fn products_with_bias(graph: &mut Graph) {
    let index = Index::new(graph);
    let mut joined = Vec::new();
    for (at, node) in
        graph.nodes.iter().enumerate().filter(|(_, node)| is_one_of(node, &["MatMul"]))
    {
        let found = || {
            let (x, weight, y) = (operand(node, 0)?, operand(node, 1)?, only_result(node)?);
            let columns = match index.constant(weight)?.shape() {
                &[_, columns] => columns,
                _ => return None,
            };
            let sum = index.sole_user(y)?;
            let add = graph.nodes.get(sum).filter(|add| is_one_of(add, &["Add"]))?;
            let bias = add.inputs.iter().flatten().copied().find(|&id| id != y)?;
            let is_row =
                |tensor: &Tensor| tensor.shape() == [columns] || tensor.shape() == [1, columns];
            index.constant(bias).filter(|tensor| is_row(tensor))?;
            (index.dims(x)?.len() == 2).then_some((at, sum, bias, only_result(add)?))
        };
        joined.extend(found());
    }
    for &(at, sum, bias, result) in &joined {
        let mut gemm = graph.nodes[at].clone();
        gemm.operator = "Gemm".to_owned();
        gemm.inputs.push(Some(bias));
        gemm.outputs = vec![Some(result)];
        gemm.attributes.set("beta", Attribute::Float(1.0));
        graph.nodes[sum] = gemm;
    }
    let products: Vec<usize> = joined.iter().map(|(at, ..)| *at).collect();
    let mut at = 0;
    graph.nodes.retain(|_| {
        at += 1;
        !products.contains(&(at - 1))
    });
}
