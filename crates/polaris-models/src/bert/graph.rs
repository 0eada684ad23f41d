//! The encoder's graph: embeddings, and layers of attention and feed-forward.

use polaris_onnx::{ElementType, GraphBuilder, Tensor, Type, ValueId};

use super::{Config, Weights};
use crate::Result;

/// Added to the scores of padding, so that nothing of it is left after the softmax.
const NOTHING: f32 = f32::MIN;

/// What follows a layer's first product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    Gelu,
    /// With a hyperbolic tangent in place of the error function.
    GeluTanh,
    Relu,
}

/// The activation of a name in `config.json`.
pub(super) fn activation(name: &str) -> std::result::Result<Activation, String> {
    match name {
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        "relu" => Ok(Activation::Relu),
        other => Err(format!(
            "the activation `{other}` is not supported; expected gelu, gelu_new or relu"
        )),
    }
}

/// The version of operators that graphs are written in: the first one with `Attention`.
const OPSET: i64 = 23;

/// Writes parts of the encoder.
struct Encoder<'a> {
    config: &'a Config,
    weights: &'a Weights,
    graph: GraphBuilder,
}

/// The graph of an encoder.
pub(super) fn encoder(config: &Config, weights: &Weights) -> Result<GraphBuilder> {
    let mut graph = GraphBuilder::new("encoder").opset(OPSET);
    let mut tokens = |name: &str| graph.input(name, ElementType::I64, ["batch", "tokens"]);
    let (ids, mask) = (tokens("input_ids"), tokens("attention_mask"));
    let types = tokens("token_type_ids");
    let mut encoder = Encoder { config, weights, graph };
    let mut x = encoder.embeddings(ids, types)?;
    let mask = encoder.scores_of_padding(mask);
    for layer in 0..config.num_hidden_layers {
        x = encoder.layer(&format!("encoder.layer.{layer}"), x, mask)?;
    }
    let mut graph = encoder.graph;
    let width = config.hidden_size.to_string();
    graph.declare(x, Type::tensor(ElementType::F32, ["batch", "tokens", &width]));
    graph.output_as(x, "last_hidden_state");
    Ok(graph)
}

impl Encoder<'_> {
    fn embeddings(&mut self, ids: ValueId, types: ValueId) -> Result<ValueId> {
        let hidden = self.config.hidden_size;
        let words = self.table("embeddings.word_embeddings.weight", &[0, hidden])?;
        let kinds = self.table("embeddings.token_type_embeddings.weight", &[0, hidden])?;
        let rows = self.config.max_position_embeddings;
        let places = self.table("embeddings.position_embeddings.weight", &[rows, hidden])?;
        let g = &mut self.graph;
        let words = g.node_with("Gather", [words, ids], [("axis", 0)]);
        let kinds = g.node_with("Gather", [kinds, types], [("axis", 0)]);
        // The rows of the first to the last token's position.
        let length = g.node_with("Shape", [ids], [("start", 1), ("end", 2)]);
        let first = g.integers(&[self.config.first_position() as i64]);
        let end = g.node("Add", [length, first]);
        let axis = g.integers(&[0]);
        let places = g.node("Slice", [places, first, end, axis]);
        let sum = g.node("Add", [words, kinds]);
        let sum = g.node("Add", [sum, places]);
        self.normalised("embeddings.LayerNorm", sum)
    }

    /// What is added to scores, `[batch, 1, 1, tokens]`: nothing for tokens, a lot less for padding.
    fn scores_of_padding(&mut self, mask: ValueId) -> ValueId {
        let g = &mut self.graph;
        let axes = g.integers(&[1, 2]);
        let mask = g.node("Unsqueeze", [mask, axes]);
        let mask = g.node_with("Cast", [mask], [("to", ElementType::F32)]);
        let (one, nothing) = (g.number(1.0), g.number(NOTHING));
        let padding = g.node("Sub", [one, mask]);
        g.node("Mul", [padding, nothing])
    }

    fn layer(&mut self, name: &str, x: ValueId, mask: ValueId) -> Result<ValueId> {
        let (hidden, inner) = (self.config.hidden_size, self.config.intermediate_size);
        let attended = self.attention(name, x, mask)?;
        let y = self.linear(&format!("{name}.attention.output.dense"), attended, hidden, hidden)?;
        let y = self.graph.node("Add", [y, x]);
        let x = self.normalised(&format!("{name}.attention.output.LayerNorm"), y)?;
        let y = self.linear(&format!("{name}.intermediate.dense"), x, hidden, inner)?;
        let y = match activation(&self.config.hidden_act) {
            Ok(Activation::Relu) => self.graph.node("Relu", [y]),
            Ok(Activation::GeluTanh) => {
                self.graph.node_with("Gelu", [y], [("approximate", "tanh")])
            }
            // Others were refused when the configuration was read.
            _ => self.graph.node("Gelu", [y]),
        };
        let y = self.linear(&format!("{name}.output.dense"), y, inner, hidden)?;
        let y = self.graph.node("Add", [y, x]);
        self.normalised(&format!("{name}.output.LayerNorm"), y)
    }

    fn attention(&mut self, name: &str, x: ValueId, mask: ValueId) -> Result<ValueId> {
        let (hidden, heads) = (self.config.hidden_size, self.config.num_attention_heads);
        let width = hidden / heads;
        let order = [("perm", [0, 2, 1, 3])];
        let mut part = |of: &str| -> Result<ValueId> {
            let y = self.linear(&format!("{name}.attention.self.{of}"), x, hidden, hidden)?;
            let g = &mut self.graph;
            let shape = g.integers(&[0, 0, heads as i64, width as i64]);
            let y = g.node("Reshape", [y, shape]);
            Ok(g.node_with("Transpose", [y], order))
        };
        let (q, k, v) = (part("query")?, part("key")?, part("value")?);
        let g = &mut self.graph;
        // Scores are divided by the square root of the width if nothing else is said.
        let y = g.node("Attention", [q, k, v, mask]);
        let y = g.node_with("Transpose", [y], order);
        let shape = g.integers(&[0, 0, hidden as i64]);
        Ok(g.node("Reshape", [y, shape]))
    }

    fn linear(&mut self, name: &str, x: ValueId, rows: usize, columns: usize) -> Result<ValueId> {
        let weight = format!("{name}.weight");
        let matrix = self.weights.right_factor(&weight, rows, columns)?;
        let matrix = self.graph.named_constant(&weight, matrix);
        let bias = self.table(&format!("{name}.bias"), &[columns])?;
        let y = self.graph.node("MatMul", [x, matrix]);
        Ok(self.graph.node("Add", [y, bias]))
    }

    fn normalised(&mut self, name: &str, x: ValueId) -> Result<ValueId> {
        let hidden = self.config.hidden_size;
        let scale = self.table(&format!("{name}.weight"), &[hidden])?;
        let shift = self.table(&format!("{name}.bias"), &[hidden])?;
        let node = self.graph.call("LayerNormalization", [x, scale, shift]).attribute("axis", -1);
        Ok(node.attribute("epsilon", self.config.layer_norm_eps).output())
    }

    fn table(&mut self, name: &str, shape: &[usize]) -> Result<ValueId> {
        let tensor: Tensor = self.weights.get(name, shape)?;
        Ok(self.graph.named_constant(name, tensor))
    }
}
