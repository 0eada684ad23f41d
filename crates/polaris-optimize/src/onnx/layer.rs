//! The layers of a model that may be quantised, and why others are not.

use polaris_onnx::{ElementType, Graph, Tensor, Value, ValueId};

use super::graph::{Index, is_one_of, only_result, operand};
use crate::integer::Grid;

/// What becomes of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Treatment {
    /// It computes with integers.
    Int8,
    /// Its weight is stored in integers; activations stay as they are.
    Weight(String),
    /// It stays as it is.
    Float(String),
}

/// The levels of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightLevels {
    /// Bits of a level, 4 or 8.
    pub bits: u32,
    /// Consecutive inputs of a product that share a scale. Products then have activations as they are: engines that
    /// multiply integers round these themselves. Without groups, and in convolutions, each channel has one scale.
    pub group: Option<usize>,
}

impl Default for WeightLevels {
    fn default() -> Self {
        Self { bits: 8, group: None }
    }
}

/// A convolution or a product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Its name in the model.
    pub name: String,
    /// Its operator.
    pub operator: String,
    /// What becomes of it.
    pub treatment: Treatment,
    /// The elements of its weight, if that is constant.
    pub weights: usize,
    /// The result whose error tells what it costs: that after its activation function, if it has one.
    pub result: String,
}

/// A layer with a constant weight, as it lies in the graph.
#[derive(Debug, Clone)]
pub struct Linear {
    /// Its place among the nodes.
    pub node: usize,
    pub x: ValueId,
    pub weight: ValueId,
    pub form: Form,
    /// What its sums are multiplied by before the bias is added.
    pub alpha: f64,
    /// One for each channel.
    pub bias: Option<Vec<f64>>,
    pub y: ValueId,
    /// Its result after an activation function that is one with it: y, if there is none.
    pub last: ValueId,
    /// Whether all of it is quantised, and not its weight alone.
    pub is_int8: bool,
    /// The levels of its weight.
    pub grid: Grid,
    /// Whether it may have a bias: products of more than two axes have none.
    pub takes_bias: bool,
}

/// What the levels of a weight depend on: layers may share one.
pub type Key = (ValueId, Form, u64);

impl Linear {
    pub fn key(&self) -> Key {
        (self.weight, self.form, self.alpha.to_bits())
    }

    /// The elements of its weight as they are multiplied, with the channels first.
    pub fn rows(&self, graph: &Graph) -> crate::Result<Vec<f32>> {
        let weight = match &graph.value(self.weight).constant {
            Some(Value::Tensor(tensor)) => tensor.values::<f32>()?.into_owned(),
            _ => Vec::new(),
        };
        let mut rows = self.form.rows(&weight);
        if self.alpha != 1.0 {
            rows.iter_mut().for_each(|value| *value = (f64::from(*value) * self.alpha) as f32);
        }
        Ok(rows)
    }
}

/// How the channels of results lie in a weight: `outer` times, `channels` with `inner` elements each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form {
    pub axis: usize,
    pub outer: usize,
    pub channels: usize,
    pub inner: usize,
}

impl Form {
    fn new(shape: &[usize], axis: usize) -> Self {
        let outer = shape[..axis].iter().product();
        let inner = shape[axis + 1..].iter().product();
        Self { axis, outer, channels: shape[axis], inner }
    }

    /// Elements with the channels first, from those of a weight.
    pub fn rows<T: Copy>(self, weight: &[T]) -> Vec<T> {
        let at = |channel: usize, outer: usize| (outer * self.channels + channel) * self.inner;
        let mut rows = Vec::with_capacity(weight.len());
        for channel in 0..self.channels {
            for outer in 0..self.outer {
                rows.extend_from_slice(&weight[at(channel, outer)..][..self.inner]);
            }
        }
        rows
    }

    /// The inverse of [`rows`](Self::rows).
    pub fn weight<T: Copy>(self, rows: &[T]) -> Vec<T> {
        let at = |channel: usize, outer: usize| (channel * self.outer + outer) * self.inner;
        let mut weight = Vec::with_capacity(rows.len());
        for outer in 0..self.outer {
            for channel in 0..self.channels {
                weight.extend_from_slice(&rows[at(channel, outer)..][..self.inner]);
            }
        }
        weight
    }

    /// Elements of a row.
    pub fn columns(self) -> usize {
        self.outer * self.inner
    }
}

const LINEAR: &[&str] = &["Conv", "ConvTranspose", "Gemm", "MatMul"];

/// Activation functions that are one with the layer before them: bytes cut off what they cut off.
pub const FUSED: &[&str] = &["Clip", "Relu"];

/// The layers of a graph, with those among them that are quantised; `exclude` are parts of names that stay.
pub fn find(graph: &Graph, exclude: &[String], weights: WeightLevels) -> (Vec<Layer>, Vec<Linear>) {
    let index = Index::new(graph);
    let (mut layers, mut linears) = (Vec::new(), Vec::new());
    for (at, node) in graph.nodes.iter().enumerate().filter(|(_, node)| is_one_of(node, LINEAR)) {
        let found = match exclude.iter().find(|part| node.path.contains(part.as_str())) {
            Some(_) => Err("it was excluded".to_owned()),
            None => linear(&index, at, weights),
        };
        let weight = operand(node, 1).and_then(|id| index.constant(id));
        let mut result = only_result(node);
        let treatment = match found {
            Err(why) => Treatment::Float(why),
            Ok((linear, why)) => {
                result = Some(linear.last);
                linears.push(linear);
                why.map_or(Treatment::Int8, Treatment::Weight)
            }
        };
        layers.push(Layer {
            name: node.path.clone(),
            operator: node.operator.clone(),
            treatment,
            weights: weight.map_or(0, Tensor::elements),
            result: result.map_or(String::new(), |id| graph.value(id).name.clone()),
        });
    }
    (layers, linears)
}

/// A layer, and why its weight alone is quantised, if so; otherwise why nothing is.
fn linear(
    index: &Index<'_>,
    at: usize,
    weights: WeightLevels,
) -> Result<(Linear, Option<String>), String> {
    let node = &index.graph.nodes[at];
    let why = |text: &str| text.to_owned();
    let (Some(x), Some(weight), Some(y)) = (operand(node, 0), operand(node, 1), only_result(node))
    else {
        return Err(why("it lacks operands"));
    };
    let Some(tensor) = index.constant(weight) else {
        return Err(match index.constant(x) {
            Some(_) => why("its constant is the left factor"),
            None => why("its weight is computed"),
        });
    };
    if tensor.element() != ElementType::F32 {
        return Err(format!("its weight is {}, not f32", tensor.element()));
    }
    if !index.is_f32(y) {
        return Err(why("the type of its result is not known"));
    }
    if !index.is_computed(x) {
        return Err(why("all of it is constant"));
    }
    let (shape, attributes) = (tensor.shape(), &node.attributes);
    if tensor.elements() == 0 {
        return Err(why("its weight is empty"));
    }
    let flag = |name: &str| attributes.flag(name, false).unwrap_or(false);
    let factor = |name: &str| f64::from(attributes.float_or(name, 1.0).unwrap_or(1.0));
    let groups = attributes.int_or("group", 1).unwrap_or(1);
    let product = match node.operator.as_str() {
        "Gemm" | "MatMul" if shape.len() != 2 => {
            return Err(format!("its weight has {} axes", shape.len()));
        }
        "Gemm" if flag("transA") => return Err(why("its left factor is transposed")),
        _ => matches!(node.operator.as_str(), "Gemm" | "MatMul"),
    };
    let least = if product { 2 } else { 3 };
    if shape.len() < least {
        return Err(format!("its weight has {} axes", shape.len()));
    }
    let axis = match node.operator.as_str() {
        "Conv" => 0,
        "Gemm" if flag("transB") => 0,
        _ => 1,
    };
    let form = Form::new(shape, axis);
    let is_gemm = node.operator == "Gemm";
    let (alpha, beta) = if is_gemm { (factor("alpha"), factor("beta")) } else { (1.0, 1.0) };
    let is_transposed = node.operator == "ConvTranspose";
    // The weight of a transposed convolution has the inputs of all groups, and the channels of one.
    let groups = match is_transposed {
        true => usize::try_from(groups).ok().filter(|&groups| groups > 0),
        false => Some(1),
    };
    let divides = |groups: &usize| shape[0].is_multiple_of(*groups);
    let all = |groups: usize| form.channels.checked_mul(groups);
    let Some(channels) = groups.filter(divides).and_then(all) else {
        return Err(why("its groups do not divide its channels"));
    };
    let bias = match operand(node, 2) {
        None => None,
        Some(id) => {
            let Some(tensor) = index.constant(id) else { return Err(why("its bias is computed")) };
            let bias = row(tensor, channels).ok_or_else(|| why("its bias has rows"))?;
            Some(bias.into_iter().map(|value| value * beta).collect())
        }
    };
    let mut last = y;
    if let Some(user) = index.sole_user(y).map(|at| &index.graph.nodes[at])
        && is_one_of(user, FUSED)
        && operand(user, 0) == Some(y)
    {
        last = only_result(user).unwrap_or(y);
    }
    let weight_alone = if is_transposed {
        Some(why("no engine has transposed convolutions of integers"))
    } else if !product && shape.len() > 4 {
        Some(why("integers are for one or two spatial axes"))
    } else if product && weights.group.is_some() {
        Some(why("its weight is in groups, and its activations stay floats"))
    } else {
        None
    };
    let is_int8 = weight_alone.is_none();
    let group = weights.group.filter(|_| product);
    let grid = Grid { bits: weights.bits, group, symmetric: true };
    let takes_bias = node.operator != "MatMul" || index.dims(x).is_some_and(|dims| dims.len() == 2);
    let linear =
        Linear { node: at, x, weight, form, alpha, bias, y, last, is_int8, grid, takes_bias };
    Ok((linear, weight_alone))
}

/// A bias with a number for each channel, from one that is spread over rows.
fn row(tensor: &Tensor, channels: usize) -> Option<Vec<f64>> {
    let one_row = tensor.shape().last().is_none_or(|&last| last == tensor.elements());
    let numbers = tensor.to_f64().ok().filter(|_| one_row)?;
    match numbers.as_slice() {
        [only] => Some(vec![*only; channels]),
        list if list.len() == channels => Some(numbers),
        _ => None,
    }
}
