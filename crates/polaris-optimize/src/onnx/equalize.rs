//! Cross-layer equalisation: between two layers that follow one another a channel may be made smaller by one and larger by the
//! other, which changes nothing for floats; channels that are equally wide lose less when they share a scale.

use polaris_onnx::{Graph, Tensor, Value, ValueId};

use super::Float;
use super::graph::{Index, is_one_of, only_result, operand};
use super::layer::{Form, Linear};
use crate::Result;

/// Rounds over all pairs: those in a row depend on one another.
const ROUNDS: usize = 20;

/// A factor closer to 1 than this is none.
const CLOSE: f64 = 1e-3;

/// What may lie between: factors pass through it.
const BETWEEN: &[&str] = &["LeakyRelu", "Relu"];

/// What may also lie between convolutions: it acts on each channel by itself where the second axis is that of channels.
const POOLS: &[&str] = &["AveragePool", "GlobalAveragePool", "MaxPool"];

/// Two layers, by their places among the layers.
struct Pair {
    first: usize,
    second: usize,
}

impl Float {
    /// Evens out the channels between layers that follow one another, and says how many pairs there are. Histograms that were
    /// made before are those of another model.
    ///
    /// # Errors
    /// If a weight cannot be read.
    pub fn equalize(&mut self) -> Result<usize> {
        // Levels are of weights as they were.
        self.chosen.clear();
        let pairs = pairs(&self.model.graph, &self.linears);
        let mut weights: Vec<Option<Vec<f32>>> = vec![None; self.linears.len()];
        for pair in &pairs {
            for at in [pair.first, pair.second] {
                let linear = &self.linears[at];
                if weights[at].is_none()
                    && let Some(Value::Tensor(tensor)) =
                        &self.model.graph.value(linear.weight).constant
                {
                    weights[at] = Some(tensor.values::<f32>()?.into_owned());
                }
            }
        }
        let mut biases: Vec<Option<Vec<f64>>> =
            self.linears.iter().map(|linear| linear.bias.clone()).collect();
        for _ in 0..ROUNDS {
            let mut moved = false;
            for pair in &pairs {
                moved |= even_out(self, pair, &mut weights, &mut biases);
            }
            if !moved {
                break;
            }
        }
        for (at, weight) in weights.into_iter().enumerate() {
            let Some(weight) = weight else { continue };
            let linear = &mut self.linears[at];
            let bias = biases[at].take();
            replace(&mut self.model.graph, linear, weight, bias)?;
        }
        Ok(pairs.len())
    }
}

/// Layers between which nobody else looks on, and whose weights are theirs alone.
fn pairs(graph: &Graph, linears: &[Linear]) -> Vec<Pair> {
    let index = Index::new(graph);
    let is_own = |linear: &Linear| {
        let bias = operand(&graph.nodes[linear.node], 2);
        let users = |id: ValueId| index.users(id).len();
        users(linear.weight) == 1 && bias.is_none_or(|id| users(id) == 1)
    };
    let mut pairs = Vec::new();
    for (first, linear) in linears.iter().enumerate().filter(|(_, linear)| is_own(linear)) {
        let is_image = is_one_of(&graph.nodes[linear.node], &["Conv"]);
        let mut value = linear.y;
        let next = loop {
            let Some(at) = index.sole_user(value) else { break None };
            let node = &graph.nodes[at];
            if let Some(next) = linears.iter().position(|other| other.node == at) {
                break (linears[next].x == value).then_some(next);
            }
            let passes = is_one_of(node, BETWEEN) || is_image && is_one_of(node, POOLS);
            if !passes || operand(node, 0) != Some(value) {
                break None;
            }
            let Some(result) = only_result(node) else { break None };
            value = result;
        };
        let Some(second) = next.filter(|&next| is_own(&linears[next])) else { continue };
        let operators =
            [linear, &linears[second]].map(|one| graph.nodes[one.node].operator.as_str());
        // Images and rows have their channels at different places.
        let fits = matches!(operators, ["Conv", "Conv"])
            || operators.iter().all(|name| matches!(*name, "Gemm" | "MatMul"));
        if fits && inputs_of(graph, &linears[second]) == Some(linear.form.channels) {
            pairs.push(Pair { first, second });
        }
    }
    pairs
}

fn groups_of(graph: &Graph, linear: &Linear) -> usize {
    let groups = graph.nodes[linear.node].attributes.int_or("group", 1).unwrap_or(1);
    usize::try_from(groups).unwrap_or(1).max(1)
}

/// The channels that a layer takes.
fn inputs_of(graph: &Graph, linear: &Linear) -> Option<usize> {
    let shape = match &graph.value(linear.weight).constant {
        Some(Value::Tensor(tensor)) => tensor.shape(),
        _ => return None,
    };
    Some(match graph.nodes[linear.node].operator.as_str() {
        "Conv" => {
            let groups = groups_of(graph, linear);
            // Of what is no convolution, nothing says which channels belong together.
            linear.form.channels.is_multiple_of(groups).then(|| shape[1].checked_mul(groups))??
        }
        _ => shape[1 - linear.form.axis],
    })
}

/// The channel of a layer's input that an element of its weight counts for.
fn input_of(form: Form, shape_of_group: usize, groups: usize, at: usize, is_conv: bool) -> usize {
    if is_conv {
        let (channel, rest) = (at / form.inner, at % form.inner);
        let per_group = form.channels / groups;
        let taps = form.inner / shape_of_group;
        return channel / per_group * shape_of_group + rest / taps;
    }
    if form.axis == 0 { at % form.inner } else { at / form.channels }
}

/// Gives a pair the factors that make its channels equally wide on both sides. Says whether any mattered.
fn even_out(
    float: &Float,
    pair: &Pair,
    weights: &mut [Option<Vec<f32>>],
    biases: &mut [Option<Vec<f64>>],
) -> bool {
    let (first, second) = (&float.linears[pair.first], &float.linears[pair.second]);
    let graph = &float.model.graph;
    let channels = first.form.channels;
    let is_conv = graph.nodes[second.node].operator == "Conv";
    let groups = groups_of(graph, second);
    let per_group = inputs_of(graph, second).unwrap_or(channels) / groups;
    let output = |at: usize| at / first.form.inner % first.form.channels;
    let input = |at: usize| input_of(second.form, per_group, groups, at, is_conv);
    let widest = |weight: &[f32], channel: &dyn Fn(usize) -> usize| {
        let mut widest = vec![0.0f64; channels];
        for (at, value) in weight.iter().enumerate() {
            let most = &mut widest[channel(at)];
            *most = most.max(f64::from(value.abs()));
        }
        widest
    };
    let (Some(before), Some(after)) = (&weights[pair.first], &weights[pair.second]) else {
        return false;
    };
    let ranges = widest(before, &output).into_iter().zip(widest(after, &input));
    // What the first layer is divided by, and the second multiplied with.
    let factor = |(own, next): (f64, f64)| {
        let factor = (own / next).sqrt();
        if factor.is_finite() && factor > 1e-4 && factor < 1e4 { factor } else { 1.0 }
    };
    let factors: Vec<f64> = ranges.map(factor).collect();
    if factors.iter().all(|factor| (factor - 1.0).abs() < CLOSE) {
        return false;
    }
    if let Some(weight) = &mut weights[pair.first] {
        for (at, value) in weight.iter_mut().enumerate() {
            *value = (f64::from(*value) / factors[output(at)]) as f32;
        }
    }
    if let Some(bias) = &mut biases[pair.first] {
        bias.iter_mut().zip(&factors).for_each(|(bias, factor)| *bias /= factor);
    }
    if let Some(weight) = &mut weights[pair.second] {
        for (at, value) in weight.iter_mut().enumerate() {
            *value = (f64::from(*value) * factors[input(at)]) as f32;
        }
    }
    true
}

/// Puts another weight and bias into a layer.
fn replace(
    graph: &mut Graph,
    linear: &mut Linear,
    weight: Vec<f32>,
    bias: Option<Vec<f64>>,
) -> Result<()> {
    let slot = &mut graph.values[linear.weight.index()];
    if let Some(Value::Tensor(tensor)) = &slot.constant {
        slot.constant = Some(Tensor::new(tensor.shape(), weight)?.into());
    }
    if let (Some(bias), Some(id)) = (bias, operand(&graph.nodes[linear.node], 2)) {
        // The factor of a product's bias is in what was read.
        let beta = graph.nodes[linear.node].attributes.float_or("beta", 1.0)?;
        let written: Vec<f32> =
            bias.iter().map(|&value| (value / f64::from(beta)) as f32).collect();
        let slot = &mut graph.values[id.index()];
        slot.constant = Some(Tensor::new(&[written.len()], written)?.into());
        slot.ty = slot.constant.as_ref().map(Value::ty);
        linear.bias = Some(bias);
    }
    Ok(())
}
