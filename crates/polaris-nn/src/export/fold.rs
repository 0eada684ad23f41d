//! Rewrites a finished graph so that engines find the integer operators in it. Models without integers stay as they are.
//!
//! Engines compute in integers what lies between `DequantizeLinear` and `QuantizeLinear`: a convolution or product with an
//! integer bias, and perhaps a ReLU. So batch norms become part of the scales of weights, which changes no level; biases
//! become integers in the unit of the sums; and roundings go before operators that only move elements, where they give
//! the same.

use polaris_onnx::{Attribute, ElementType, Graph, Node, Tensor, Type, Value, ValueId};

use super::refusal;
use crate::Result;

/// Rewrites a graph.
///
/// # Errors
/// If constants are not what their nodes say.
pub(super) fn fold(graph: &mut Graph) -> Result<()> {
    if !graph.nodes.iter().any(|node| node.operator == "DequantizeLinear") {
        return Ok(());
    }
    let of_onnx = |error: polaris_onnx::Error| refusal(error.to_string());
    fold_norms(graph).map_err(of_onnx)?;
    round_biases(graph).map_err(of_onnx)?;
    hoist(graph);
    remove_unused(graph);
    Ok(())
}

type OnnxResult<T> = polaris_onnx::Result<T>;

fn maker(graph: &Graph, id: ValueId) -> Option<usize> {
    graph.nodes.iter().position(|node| node.outputs.contains(&Some(id)))
}

fn made_by<'g>(graph: &'g Graph, id: ValueId, operator: &str) -> Option<(usize, &'g Node)> {
    let at = maker(graph, id)?;
    Some((at, &graph.nodes[at])).filter(|(_, node)| node.operator == operator)
}

/// Whether one operand alone refers to a value.
fn is_private(graph: &Graph, id: ValueId) -> bool {
    let uses = graph.nodes.iter().flat_map(|node| &node.inputs).filter(|&&used| used == Some(id));
    uses.count() == 1 && !graph.outputs.contains(&id)
}

fn operand(node: &Node, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}

fn constant(graph: &Graph, id: ValueId) -> Option<&Tensor> {
    match &graph.value(id).constant {
        Some(Value::Tensor(tensor)) => Some(tensor),
        _ => None,
    }
}

fn add_constant(graph: &mut Graph, name: &str, tensor: Tensor) -> ValueId {
    let name = unique(graph, name);
    let value = Value::Tensor(tensor);
    graph.add_value(name, Some(value.ty()), Some(value))
}

/// A value of the type of another, or of a tensor of its shape.
fn add_like(graph: &mut Graph, name: &str, like: ValueId, element: ElementType) -> ValueId {
    let ty = match &graph.value(like).ty {
        Some(Type::Tensor(_, shape)) => Some(Type::Tensor(element, shape.clone())),
        _ => None,
    };
    let name = unique(graph, name);
    graph.add_value(name, ty, None)
}

fn unique(graph: &Graph, name: &str) -> String {
    let is_taken = |name: &str| graph.values.iter().any(|value| value.name == name);
    let names =
        (0..).map(|number| if number == 0 { name.to_owned() } else { format!("{name}_{number}") });
    names.into_iter().find(|name| !is_taken(name)).unwrap_or_default()
}

/// The integers of a convolution's weight, and their scales.
struct Integers {
    levels: ValueId,
    scale: ValueId,
}

/// Those of a weight's `DequantizeLinear`, which may be reshaped, if nothing else refers to them.
fn integers(graph: &Graph, weight: ValueId) -> Option<Integers> {
    let flat = match made_by(graph, weight, "Reshape") {
        Some((_, reshape)) => operand(reshape, 0)?,
        None => weight,
    };
    let is_private = |id: &ValueId| is_private(graph, *id);
    let (_, node) = made_by(graph, Some(flat).filter(is_private)?, "DequantizeLinear")?;
    let levels = operand(node, 0).filter(is_private)?;
    let scale = operand(node, 1).filter(is_private)?;
    constant(graph, levels).and(constant(graph, scale))?;
    Some(Integers { levels, scale })
}

/// Batch norms behind convolutions of integers.
fn fold_norms(graph: &mut Graph) -> OnnxResult<()> {
    let mut at = 0;
    while at < graph.nodes.len() {
        match fold_norm(graph, at)? {
            true => drop(graph.nodes.remove(at)),
            false => at += 1,
        }
    }
    Ok(())
}

/// A batch norm behind a convolution.
struct Norm {
    conv: usize,
    integers: Integers,
    weight: Vec<f64>,
    shift: Vec<f64>,
    mean: Vec<f64>,
    variance: Vec<f64>,
    /// That of the convolution.
    bias: Option<Vec<f64>>,
}

impl Norm {
    fn at(graph: &Graph, at: usize) -> Option<Self> {
        let norm = Some(&graph.nodes[at]).filter(|node| node.operator == "BatchNormalization")?;
        let x = operand(norm, 0).filter(|&x| is_private(graph, x))?;
        let (conv, node) = made_by(graph, x, "Conv")?;
        let weight = operand(node, 1).filter(|&weight| is_private(graph, weight))?;
        let numbers = |id: ValueId| constant(graph, id)?.to_f64().ok();
        let of_norm = |index: usize| numbers(operand(norm, index)?);
        Some(Self {
            conv,
            integers: integers(graph, weight)?,
            weight: of_norm(1)?,
            shift: of_norm(2)?,
            mean: of_norm(3)?,
            variance: of_norm(4)?,
            bias: match operand(node, 2) {
                Some(bias) => Some(numbers(bias)?),
                None => None,
            },
        })
    }
}

fn fold_norm(graph: &mut Graph, at: usize) -> OnnxResult<bool> {
    let Some(Norm { conv, integers, weight, shift, mean, variance, bias }) = Norm::at(graph, at)
    else {
        return Ok(false);
    };
    let epsilon = graph.nodes[at].attributes.float_or("epsilon", 1e-5)?;
    let factors: Vec<f64> = weight
        .iter()
        .zip(&variance)
        .map(|(weight, variance)| weight / (variance + f64::from(epsilon)).sqrt())
        .collect();
    let channels = factors.len();
    let (Some(levels), Some(scale)) =
        (constant(graph, integers.levels), constant(graph, integers.scale))
    else {
        return Ok(false);
    };
    let (element, each) = (levels.element(), levels.elements() / channels.max(1));
    let shape = levels.shape().to_vec();
    let mut new_levels = levels.to_integers()?;
    let groups = scale.elements() / channels.max(1);
    let mut scales = scale.to_f64()?;
    let of_scales = scale.shape().to_vec();
    for (channel, &factor) in factors.iter().enumerate() {
        // Levels are as many below zero as above, so that a sign is no change of scale.
        let sign = if factor == 0.0 { 0 } else { factor.signum() as i128 };
        new_levels[channel * each..][..each].iter_mut().for_each(|level| *level *= sign);
        if factor != 0.0 {
            scales[channel * groups..][..groups].iter_mut().for_each(|s| *s *= factor.abs());
        }
    }
    let biases: Vec<f64> = (0..channels)
        .map(|at| {
            let before = bias.as_ref().map_or(0.0, |bias| bias[at]);
            shift[at] + (before - mean[at]) * factors[at]
        })
        .collect();
    let name = graph.value(integers.levels).name.clone();
    let name = match name.strip_suffix("weight") {
        Some(layer) => format!("{layer}bias"),
        None => format!("{name}_bias"),
    };
    let levels = Tensor::from_integers(element, &shape, &new_levels)?;
    let scale = Tensor::from_f64(ElementType::F32, &of_scales, &scales)?;
    let biases = Tensor::from_f64(ElementType::F32, &[channels], &biases)?;
    let biases = add_constant(graph, &name, biases);
    graph.values[integers.levels.index()].constant = Some(levels.into());
    graph.values[integers.scale.index()].constant = Some(scale.into());
    let made = graph.nodes[at].outputs.first().copied();
    let conv = &mut graph.nodes[conv];
    conv.inputs.resize(3, None);
    conv.inputs[2] = Some(biases);
    conv.outputs = made.into_iter().collect();
    Ok(true)
}

/// Biases of sums of integers, as integers of the same unit.
fn round_biases(graph: &mut Graph) -> OnnxResult<()> {
    let mut at = 0;
    while at < graph.nodes.len() {
        at += if round_bias(graph, at)? { 2 } else { 1 };
    }
    Ok(())
}

fn round_bias(graph: &mut Graph, at: usize) -> OnnxResult<bool> {
    let found = || -> Option<(ValueId, Vec<f64>, Vec<f32>)> {
        let node = &graph.nodes[at];
        if !["Conv", "Gemm"].contains(&node.operator.as_str()) {
            return None;
        }
        let (_, x) = made_by(graph, operand(node, 0)?, "DequantizeLinear")?;
        let x = constant(graph, operand(x, 1)?)?.values::<f32>().ok()?.first().copied()?;
        // A sum of blocks with scales of their own has no unit.
        let (_, weight) = made_by(graph, operand(node, 1)?, "DequantizeLinear")?;
        let scales = constant(graph, operand(weight, 1)?).filter(|scale| scale.rank() == 1)?;
        let scales = scales.values::<f32>().ok()?.iter().map(|scale| scale * x).collect();
        let bias = operand(node, 2)?;
        Some((bias, constant(graph, bias)?.to_f64().ok()?, scales))
    };
    let Some((id, bias, scales)) = found() else { return Ok(false) };
    let levels: Vec<f64> = (bias.iter().zip(&scales))
        .map(|(bias, &scale)| (bias / f64::from(scale)).round_ties_even())
        .collect();
    // Half of what 32 bits hold is left to the products.
    let fits = |level: &f64| level.abs() < f64::from(i32::MAX / 2);
    if scales.len() != bias.len() || !levels.iter().all(fits) {
        return Ok(false);
    }
    let name = graph.value(id).name.clone();
    let channels = [levels.len()];
    let levels = levels.iter().map(|&level| level as i32).collect();
    let levels = add_constant(graph, &format!("{name}_integers"), Tensor::new(&channels, levels)?);
    let scale = add_constant(graph, &format!("{name}_scale"), Tensor::new(&channels, scales)?);
    let made = add_like(graph, &format!("{name}_dequantized"), id, ElementType::F32);
    let mut node = node_like(graph, at, "DequantizeLinear", &[levels, scale], made);
    node.attributes.set("axis", Attribute::Int(0));
    graph.nodes[at].inputs[2] = Some(made);
    graph.nodes.insert(at, node);
    Ok(true)
}

/// A node of the same version as another.
fn node_like(graph: &Graph, at: usize, operator: &str, inputs: &[ValueId], made: ValueId) -> Node {
    Node {
        path: graph.value(made).name.clone(),
        domain: String::new(),
        operator: operator.to_owned(),
        version: graph.nodes[at].version,
        attributes: Default::default(),
        inputs: inputs.iter().copied().map(Some).collect(),
        outputs: vec![Some(made)],
    }
}

/// Operators that give back some of their operand's elements. The largest of rounded numbers is the largest, rounded.
const MOVING: [&str; 4] = ["Flatten", "MaxPool", "Reshape", "Transpose"];

/// Rounds before operators that only move elements, too: what is behind them is then rounded already.
fn hoist(graph: &mut Graph) {
    let mut at = graph.nodes.len();
    // What is inserted before an operator may be moved on from there.
    while at > 0 {
        at -= 1;
        let found = || -> Option<(usize, ValueId, [ValueId; 2])> {
            let node = &graph.nodes[at];
            if node.operator != "QuantizeLinear" {
                return None;
            }
            let x = operand(node, 0).filter(|&x| is_private(graph, x))?;
            let moving = maker(graph, x)?;
            let before = &graph.nodes[moving];
            let is_moving = MOVING.contains(&before.operator.as_str()) && before.outputs.len() == 1;
            let from = operand(before, 0).filter(|_| is_moving)?;
            // What is given is rounded once, wherever.
            let makes_numbers = graph.nodes[maker(graph, from)?].operator != "DequantizeLinear";
            makes_numbers.then_some((moving, from, [operand(node, 1)?, operand(node, 2)?]))
        };
        let Some((moving, from, [scale, zero])) = found() else { continue };
        let name = graph.value(from).name.clone();
        let integers = add_like(graph, &format!("{name}_quantized"), from, ElementType::U8);
        let floats = add_like(graph, &format!("{name}_dequantized"), from, ElementType::F32);
        let quantize = node_like(graph, at, "QuantizeLinear", &[from, scale, zero], integers);
        let dequantize = node_like(graph, at, "DequantizeLinear", &[integers, scale, zero], floats);
        graph.nodes[moving].inputs[0] = Some(floats);
        graph.nodes.splice(moving..moving, [quantize, dequantize]);
        // This one is looked at again, then those before it: also the new one.
        at += 3;
    }
}

/// Removes values that nothing refers to any more.
fn remove_unused(graph: &mut Graph) {
    // Graphs inside nodes refer to values by their places.
    if graph.nodes.iter().any(|node| node.attributes.graphs().next().is_some()) {
        return;
    }
    let used: std::collections::HashSet<ValueId> = (graph.nodes.iter().flat_map(Node::needs))
        .chain(graph.inputs.iter().copied())
        .chain(graph.outputs.iter().copied())
        .collect();
    let mut places = vec![None; graph.values.len()];
    let mut kept = Vec::new();
    let made: std::collections::HashSet<ValueId> =
        graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten().copied()).collect();
    for (index, slot) in std::mem::take(&mut graph.values).into_iter().enumerate() {
        let id = ValueId(index as u32);
        if used.contains(&id) || made.contains(&id) {
            places[index] = Some(ValueId(kept.len() as u32));
            kept.push(slot);
        }
    }
    graph.values = kept;
    let moved = |id: &mut ValueId| *id = places[id.index()].unwrap_or(*id);
    for node in &mut graph.nodes {
        node.inputs.iter_mut().chain(&mut node.outputs).flatten().for_each(moved);
    }
    graph.inputs.iter_mut().chain(&mut graph.outputs).for_each(moved);
}
