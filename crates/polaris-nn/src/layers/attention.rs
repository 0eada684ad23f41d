//! Tokens that look at each other.

use polaris_ops::Attention;
use polaris_tensor::Tensor;

use super::Linear;
use super::linear::export_linear;
use crate::export::{Value, Writer, element};
use crate::quantize::InputPoint;
use crate::{Error, Init, Layer, Module, Parameter, Parts, Pass, Result};

/// Self-attention with several heads over `[batch, tokens, width]`. Queries, keys and values come
/// from one product; its parameters are named as PyTorch's `nn.MultiheadAttention` names them.
#[derive(Debug)]
pub struct MultiheadAttention {
    in_weight: Parameter,
    in_bias: Parameter,
    input: InputPoint,
    out: Linear,
    heads: usize,
    causal: bool,
}

impl MultiheadAttention {
    /// A layer as PyTorch begins it. In a causal one, tokens see only those before them.
    ///
    /// # Errors
    /// If the width cannot be cut into heads, or there is no room.
    pub fn new(width: usize, heads: usize, causal: bool, init: &mut Init) -> Result<Self> {
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(Error::invalid(format!(
                "a width of {width} cannot be cut into {heads} heads"
            )));
        }
        let in_weight = init.xavier(&[3 * width, width], width, 3 * width)?;
        let in_bias = init.constant(&[3 * width], 0.0)?;
        let out_weight = init.kaiming(&[width, width], width)?;
        let out = Linear::of(out_weight, Some(init.constant(&[width], 0.0)?));
        Ok(Self { in_weight, in_bias, input: InputPoint::default(), out, heads, causal })
    }
}

impl Layer for MultiheadAttention {
    fn visit(&self, parts: &mut Parts) {
        parts.parameter("in_proj_weight", &self.in_weight);
        parts.parameter("in_proj_bias", &self.in_bias);
        parts.product(&self.in_weight, &self.input);
        parts.layer("out_proj", &self.out);
    }
}

impl Module for MultiheadAttention {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let (weight, bias) = (self.in_weight.value(pass)?, self.in_bias.value(pass)?);
        let all = self.input.value(x, pass)?.linear(&weight, Some(&bias))?;
        let problem = Attention { causal: self.causal, ..Attention::default() };
        let attended = all.self_attention(self.heads, None, &problem)?;
        pass.apply("out_proj", &self.out, &attended)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let width = self.in_bias.tensor().elements() / 3;
        let depth = width / self.heads;
        let read = graph.input(&self.input, x)?;
        let bias = graph.parameter("in_proj_bias", &self.in_bias)?;
        let all = export_linear(&read, "in_proj_weight", &self.in_weight, Some(&bias), graph)?;
        let thirds = graph.integers(&[width as i64; 3]);
        let axis = [("axis", (-1).into())];
        let thirds: [String; 3] = graph.nodes("Split", &[all.name(), &thirds], &axis);
        // [batch, heads, tokens, depth]; of keys the last two are exchanged.
        let shape = graph.integers(&[0, 0, self.heads as i64, depth as i64]);
        let orders = [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]];
        let mut part = 0;
        let [queries, keys, values] = orders.map(|order| {
            let heads = graph.node("Reshape", &[&thirds[part], &shape], &[]);
            part += 1;
            graph.node("Transpose", &[&heads], &[("perm", order.to_vec().into())])
        });
        let scale = graph.number(1.0 / (depth as f64).sqrt());
        let scores = graph.node("MatMul", &[&queries, &keys], &[]);
        let mut scores = graph.node("Mul", &[&scores, &scale], &[]);
        if self.causal {
            scores = hide_later(&scores, graph);
        }
        let shares = graph.node("Softmax", &[&scores], &axis);
        let seen = graph.node("MatMul", &[&shares, &values], &[]);
        let order = vec![0, 2, 1, 3];
        let seen = graph.node("Transpose", &[&seen], &[("perm", order.into())]);
        let shape = graph.integers(&[0, 0, width as i64]);
        let seen = x.like(graph.node("Reshape", &[&seen, &shape], &[]));
        graph.layer("out_proj", &self.out, &seen)
    }
}

/// Scores with minus infinity where a key comes after its query.
pub(super) fn hide_later(scores: &str, graph: &mut Writer) -> String {
    let lengths = graph.node("Shape", &[scores], &[("start", 2.into())]);
    let nothing = [("value", element(f32::NEG_INFINITY))];
    let mask = graph.node("ConstantOfShape", &[&lengths], &nothing);
    let above = graph.index(1);
    let mask = graph.node("Trilu", &[&mask, &above], &[("upper", 1.into())]);
    graph.node("Add", &[scores, &mask], &[])
}
