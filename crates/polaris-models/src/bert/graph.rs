//! The encoder's graph: embeddings, and layers of attention and of two products.

use polaris_onnx::{Attribute, Graph, Tensor, ValueId};

use super::writer::Writer;
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
        other => {
            Err(format!("the activation `{other}` is not supported; gelu, gelu_new and relu are"))
        }
    }
}

/// Writes parts of the encoder.
struct Encoder<'a> {
    config: &'a Config,
    weights: &'a Weights,
    writer: Writer,
}

/// The graph of an encoder.
pub(super) fn encoder(config: &Config, weights: &Weights) -> Result<Graph> {
    let mut encoder = Encoder { config, weights, writer: Writer::default() };
    let ids = encoder.writer.tokens("input_ids");
    let mask = encoder.writer.tokens("attention_mask");
    let types = encoder.writer.tokens("token_type_ids");
    let mut x = encoder.embeddings(ids, types)?;
    let mask = encoder.scores_of_padding(mask);
    for layer in 0..config.num_hidden_layers {
        x = encoder.layer(&format!("encoder.layer.{layer}"), x, mask)?;
    }
    Ok(encoder.writer.finish(x, "last_hidden_state", config.hidden_size))
}

impl Encoder<'_> {
    fn embeddings(&mut self, ids: ValueId, types: ValueId) -> Result<ValueId> {
        let hidden = self.config.hidden_size;
        let words = self.table("embeddings.word_embeddings.weight", &[0, hidden])?;
        let kinds = self.table("embeddings.token_type_embeddings.weight", &[0, hidden])?;
        let rows = self.config.max_position_embeddings;
        let places = self.table("embeddings.position_embeddings.weight", &[rows, hidden])?;
        let w = &mut self.writer;
        let words = w.node("Gather", &[words, ids], &[("axis", Attribute::Int(0))]);
        let kinds = w.node("Gather", &[kinds, types], &[("axis", Attribute::Int(0))]);
        // The rows of the first to the last token's position.
        let bounds = [("start", Attribute::Int(1)), ("end", Attribute::Int(2))];
        let length = w.node("Shape", &[ids], &bounds);
        let first = w.integers(&[self.config.first_position() as i64]);
        let end = w.node("Add", &[length, first], &[]);
        let axis = w.integers(&[0]);
        let places = w.node("Slice", &[places, first, end, axis], &[]);
        let sum = w.node("Add", &[words, kinds], &[]);
        let sum = w.node("Add", &[sum, places], &[]);
        self.normalised("embeddings.LayerNorm", sum)
    }

    /// What is added to scores, `[batch, 1, 1, tokens]`: nothing for tokens, a lot less for padding.
    fn scores_of_padding(&mut self, mask: ValueId) -> ValueId {
        let w = &mut self.writer;
        let axes = w.integers(&[1, 2]);
        let mask = w.node("Unsqueeze", &[mask, axes], &[]);
        let mask = w.node("Cast", &[mask], &[("to", Attribute::Int(1))]);
        let (one, nothing) = (w.number(1.0), w.number(NOTHING));
        let padding = w.node("Sub", &[one, mask], &[]);
        w.node("Mul", &[padding, nothing], &[])
    }

    fn layer(&mut self, name: &str, x: ValueId, mask: ValueId) -> Result<ValueId> {
        let (hidden, inner) = (self.config.hidden_size, self.config.intermediate_size);
        let attended = self.attention(name, x, mask)?;
        let y = self.linear(&format!("{name}.attention.output.dense"), attended, hidden, hidden)?;
        let y = self.writer.node("Add", &[y, x], &[]);
        let x = self.normalised(&format!("{name}.attention.output.LayerNorm"), y)?;
        let y = self.linear(&format!("{name}.intermediate.dense"), x, hidden, inner)?;
        let y = match activation(&self.config.hidden_act) {
            Ok(Activation::Relu) => self.writer.node("Relu", &[y], &[]),
            Ok(Activation::GeluTanh) => {
                let tanh = Attribute::String(b"tanh".to_vec());
                self.writer.node("Gelu", &[y], &[("approximate", tanh)])
            }
            // Others were refused when the configuration was read.
            _ => self.writer.node("Gelu", &[y], &[]),
        };
        let y = self.linear(&format!("{name}.output.dense"), y, inner, hidden)?;
        let y = self.writer.node("Add", &[y, x], &[]);
        self.normalised(&format!("{name}.output.LayerNorm"), y)
    }

    fn attention(&mut self, name: &str, x: ValueId, mask: ValueId) -> Result<ValueId> {
        let (hidden, heads) = (self.config.hidden_size, self.config.num_attention_heads);
        let width = hidden / heads;
        let order = [("perm", Attribute::Ints(vec![0, 2, 1, 3]))];
        let mut part = |of: &str| -> Result<ValueId> {
            let y = self.linear(&format!("{name}.attention.self.{of}"), x, hidden, hidden)?;
            let w = &mut self.writer;
            let shape = w.integers(&[0, 0, heads as i64, width as i64]);
            let y = w.node("Reshape", &[y, shape], &[]);
            Ok(w.node("Transpose", &[y], &order))
        };
        let (q, k, v) = (part("query")?, part("key")?, part("value")?);
        let w = &mut self.writer;
        // Scores are divided by the square root of the width if nothing else is said.
        let y = w.node("Attention", &[q, k, v, mask], &[]);
        let y = w.node("Transpose", &[y], &order);
        let shape = w.integers(&[0, 0, hidden as i64]);
        Ok(w.node("Reshape", &[y, shape], &[]))
    }

    fn linear(&mut self, name: &str, x: ValueId, rows: usize, columns: usize) -> Result<ValueId> {
        let weight = format!("{name}.weight");
        let matrix = self.weights.right_factor(&weight, rows, columns)?;
        let matrix = self.writer.constant(&weight, matrix);
        let bias = self.table(&format!("{name}.bias"), &[columns])?;
        let y = self.writer.node("MatMul", &[x, matrix], &[]);
        Ok(self.writer.node("Add", &[y, bias], &[]))
    }

    fn normalised(&mut self, name: &str, x: ValueId) -> Result<ValueId> {
        let hidden = self.config.hidden_size;
        let scale = self.table(&format!("{name}.weight"), &[hidden])?;
        let shift = self.table(&format!("{name}.bias"), &[hidden])?;
        let epsilon = Attribute::Float(self.config.layer_norm_eps as f32);
        let attributes = [("axis", Attribute::Int(-1)), ("epsilon", epsilon)];
        Ok(self.writer.node("LayerNormalization", &[x, scale, shift], &attributes))
    }

    fn table(&mut self, name: &str, shape: &[usize]) -> Result<ValueId> {
        let tensor: Tensor = self.weights.get(name, shape)?;
        Ok(self.writer.constant(name, tensor))
    }
}
