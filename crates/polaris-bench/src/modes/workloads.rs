//! The workloads: matmuls, parts of transformers, a whole one, and tokenization.

use polaris_onnx::ValueId;

use super::draft::{Draft, Drafted};
use crate::Result;

/// Something to measure in every mode.
pub struct Workload {
    /// As `--only` and JSON write it.
    pub name: &'static str,
    /// As people read it.
    pub title: &'static str,
    /// What is computed from what.
    pub about: &'static str,
    pub kind: Kind,
}

/// How it is computed.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A product of matrices, by a graph.
    Product(fn() -> Result<Drafted>),
    /// A part of a network or a whole one, by a graph.
    Network(fn() -> Result<Drafted>),
    /// By the tokenizer, which no device has an operation for.
    Tokens,
}

/// All of them. Products come first: what they reach tells how long the others will take.
pub const WORKLOADS: [Workload; 8] = [
    Workload {
        name: "matmul-512",
        title: "Matrix product 512",
        about: "512 x 512 by 512 x 512, both operands are inputs of every call",
        kind: Kind::Product(|| product(512)),
    },
    Workload {
        name: "matmul-1024",
        title: "Matrix product 1024",
        about: "1024 x 1024 by 1024 x 1024, both operands are inputs of every call",
        kind: Kind::Product(|| product(1024)),
    },
    Workload {
        name: "matmul-2048",
        title: "Matrix product 2048",
        about: "2048 x 2048 by 2048 x 2048, both operands are inputs of every call",
        kind: Kind::Product(|| product(2048)),
    },
    Workload {
        name: "embedding",
        title: "Embedding look-up",
        about: "4096 tokens in a table of 32768 rows of 256 floats; only memory is moved",
        kind: Kind::Network(embedding),
    },
    Workload {
        name: "attention",
        title: "Multi-head attention",
        about: "8 heads of width 64 over 4 x 128 tokens, with the four linear layers around them",
        kind: Kind::Network(attention),
    },
    Workload {
        name: "feed-forward",
        title: "Feed-forward network",
        about: "512 tokens, width 512 to 2048, GELU, and back to 512",
        kind: Kind::Network(feed_forward),
    },
    Workload {
        name: "tokenization",
        title: "Tokenization, 10k tokens",
        about: "byte-pair encoding of English text; on the CPU in every mode, since no device has an operation for it",
        kind: Kind::Tokens,
    },
    Workload {
        name: "transformer",
        title: "Transformer encoder",
        about: "4 layers of width 256 with 8 heads over 4 x 128 tokens, from the tokens to the last layer",
        kind: Kind::Network(transformer),
    },
];

const BATCH: usize = 4;
const TOKENS: usize = 128;
const HEADS: usize = 8;

/// Tokens side by side, and what stands for each.
#[derive(Clone, Copy)]
struct Size {
    width: usize,
    /// In the middle of a feed-forward network.
    hidden: usize,
}

fn product(n: usize) -> Result<Drafted> {
    let mut draft = Draft::new();
    let a = draft.numbers("a", &[n, n])?;
    let b = draft.numbers("b", &[n, n])?;
    let y = draft.graph.node("MatMul", [a, b]);
    draft.finish(y)
}

fn embedding() -> Result<Drafted> {
    const ROWS: usize = 32_768;
    let mut draft = Draft::new();
    let ids = draft.indices("tokens", &[BATCH * 1024], ROWS as u64)?;
    let table = draft.weights(&[ROWS, 256], 1.0)?;
    let y = draft.graph.node("Gather", [table, ids]);
    draft.finish(y)
}

fn attention() -> Result<Drafted> {
    let mut draft = Draft::new();
    let width = 64 * HEADS;
    let x = draft.numbers("x", &[BATCH, TOKENS, width])?;
    let y = heads(&mut draft, x, width)?;
    draft.finish(y)
}

fn feed_forward() -> Result<Drafted> {
    let mut draft = Draft::new();
    let size = Size { width: 512, hidden: 2048 };
    let x = draft.numbers("x", &[BATCH * TOKENS, size.width])?;
    let y = two_layers(&mut draft, x, size)?;
    draft.finish(y)
}

/// An encoder as BERT is one: sums of embeddings, then layers that normalise after each half.
fn transformer() -> Result<Drafted> {
    const VOCABULARY: usize = 8192;
    const LAYERS: usize = 4;
    let size = Size { width: 256, hidden: 1024 };
    let mut draft = Draft::new();
    let ids = draft.indices("tokens", &[BATCH, TOKENS], VOCABULARY as u64)?;
    let table = draft.weights(&[VOCABULARY, size.width], 1.0)?;
    let words = draft.graph.node("Gather", [table, ids]);
    let positions = draft.weights(&[TOKENS, size.width], 1.0)?;
    let sum = draft.graph.node("Add", [words, positions]);
    let mut x = normalised(&mut draft, sum, size.width)?;
    for _ in 0..LAYERS {
        let attended = heads(&mut draft, x, size.width)?;
        let sum = draft.graph.node("Add", [x, attended]);
        let half = normalised(&mut draft, sum, size.width)?;
        let changed = two_layers(&mut draft, half, size)?;
        let sum = draft.graph.node("Add", [half, changed]);
        x = normalised(&mut draft, sum, size.width)?;
    }
    draft.finish(x)
}

fn linear(draft: &mut Draft, x: ValueId, (from, to): (usize, usize)) -> Result<ValueId> {
    // As PyTorch begins: the results stay about as large as what they are made from.
    let limit = 1.0 / (from as f64).sqrt();
    let weight = draft.weights(&[from, to], limit)?;
    let bias = draft.weights(&[to], limit)?;
    let product = draft.graph.node("MatMul", [x, weight]);
    Ok(draft.graph.node("Add", [product, bias]))
}

/// Attention of all tokens to all, head by head.
fn heads(draft: &mut Draft, x: ValueId, width: usize) -> Result<ValueId> {
    let each = width / HEADS;
    let apart = draft.lengths(&[BATCH, TOKENS, HEADS, each]);
    let part = |draft: &mut Draft, order: [i64; 4]| -> Result<ValueId> {
        let projected = linear(draft, x, (width, width))?;
        let split = draft.graph.node("Reshape", [projected, apart]);
        Ok(draft.graph.node_with("Transpose", [split], [("perm", order)]))
    };
    let query = part(draft, [0, 2, 1, 3])?;
    let key = part(draft, [0, 2, 3, 1])?;
    let value = part(draft, [0, 2, 1, 3])?;
    let scores = draft.graph.node("MatMul", [query, key]);
    let root = draft.graph.number((each as f32).sqrt());
    let scaled = draft.graph.node("Div", [scores, root]);
    let shares = draft.graph.node_with("Softmax", [scaled], [("axis", -1)]);
    let mixed = draft.graph.node("MatMul", [shares, value]);
    let side_by_side = draft.graph.node_with("Transpose", [mixed], [("perm", [0, 2, 1, 3])]);
    let together = draft.lengths(&[BATCH, TOKENS, width]);
    let joined = draft.graph.node("Reshape", [side_by_side, together]);
    linear(draft, joined, (width, width))
}

/// Two linear layers with GELU between, written as exporters write it.
fn two_layers(draft: &mut Draft, x: ValueId, size: Size) -> Result<ValueId> {
    let x = linear(draft, x, (size.width, size.hidden))?;
    let (root, one, half) = (
        draft.graph.number(std::f32::consts::SQRT_2),
        draft.graph.number(1.0),
        draft.graph.number(0.5),
    );
    let scaled = draft.graph.node("Div", [x, root]);
    let erf = draft.graph.node("Erf", [scaled]);
    let shifted = draft.graph.node("Add", [erf, one]);
    let product = draft.graph.node("Mul", [x, shifted]);
    let gelu = draft.graph.node("Mul", [product, half]);
    linear(draft, gelu, (size.hidden, size.width))
}

fn normalised(draft: &mut Draft, x: ValueId, width: usize) -> Result<ValueId> {
    let scale = draft.weights(&[width], 1.0)?;
    let bias = draft.weights(&[width], 1.0)?;
    Ok(draft.graph.node_with("LayerNormalization", [x, scale, bias], [("axis", -1)]))
}
