//! The definition of a decoder in `f64`, from a model's dequantised tensors; written apart from the library.

use std::collections::HashMap;

use polaris_llm::Source;

use crate::tiny::{HEADS, KEY_HEADS, LAYERS, SIZE, Tiny, WIDTH, WINDOW};

type Row = Vec<f64>;

pub struct Reference {
    tiny: Tiny,
    tensors: HashMap<String, (Vec<usize>, Row)>,
}

impl Reference {
    pub fn new(tiny: Tiny, source: &Source) -> Self {
        let tensor = |(name, tensor): (&String, &polaris_llm::SourceTensor)| {
            let values = polaris_gguf::dequantize(tensor.ty, &tensor.parts.concat()).unwrap();
            let values = values.into_iter().map(f64::from).collect();
            (name.clone(), (tensor.dims.clone(), values))
        };
        Self { tiny, tensors: source.tensors.iter().map(tensor).collect() }
    }

    /// `matrix x`, of one expert if there are several.
    fn times(&self, name: &str, expert: usize, x: &[f64]) -> Row {
        let (dims, values) = &self.tensors[name];
        let columns = *dims.last().unwrap();
        let rows = dims[dims.len() - 2];
        let start = expert * rows * columns;
        (0..rows)
            .map(|row| {
                let row = &values[start + row * columns..][..columns];
                row.iter().zip(x).map(|(a, b)| a * b).sum()
            })
            .collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Row {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let weight = &self.tensors[name].1;
        x.iter().zip(weight).map(|(x, w)| x / (mean + f64::from(1e-5f32)).sqrt() * w).collect()
    }

    fn rotate(&self, head: &mut [f64], position: usize) {
        for pair in 0..SIZE / 2 {
            let angle = position as f64 * 1e4f64.powf(-2.0 * pair as f64 / SIZE as f64);
            let (i, j) = match self.tiny.architecture {
                "llama" | "llada" => (2 * pair, 2 * pair + 1),
                _ => (pair, pair + SIZE / 2),
            };
            let (a, b) = (head[i], head[j]);
            head[i] = a * angle.cos() - b * angle.sin();
            head[j] = b * angle.cos() + a * angle.sin();
        }
    }

    fn hidden(&self, layer: usize, suffix: &str, expert: usize, x: &[f64]) -> Row {
        let name = |part: &str| format!("blk.{layer}.ffn_{part}{suffix}.weight");
        let gate = self.times(&name("gate"), expert, x);
        let up = self.times(&name("up"), expert, x);
        let activate = |x: f64| match self.tiny.architecture {
            "gemma2" => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
            _ => x / (1.0 + (-x).exp()),
        };
        let hidden: Row = gate.iter().zip(&up).map(|(&g, u)| activate(g) * u).collect();
        self.times(&name("down"), expert, &hidden)
    }

    fn feed_forward(&self, layer: usize, x: &[f64]) -> Row {
        if self.tiny.experts == 0 {
            return self.hidden(layer, "", 0, x);
        }
        let logits = self.times(&format!("blk.{layer}.ffn_gate_inp.weight"), 0, x);
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        let total: f64 = order[..2].iter().map(|&expert| logits[expert].exp()).sum();
        let mut sum = vec![0.0; WIDTH];
        for &expert in &order[..2] {
            let result = self.hidden(layer, "_exps", expert, x);
            let weight = logits[expert].exp() / total;
            sum.iter_mut().zip(&result).for_each(|(sum, x)| *sum += weight * x);
        }
        sum
    }

    /// The logits after each token.
    pub fn logits(&self, tokens: &[u32]) -> Vec<Row> {
        let is_gemma = self.tiny.architecture == "gemma2";
        let table = &self.tensors["token_embd.weight"].1;
        let scale = if is_gemma { (WIDTH as f64).sqrt() } else { 1.0 };
        let mut stream: Vec<Row> = tokens
            .iter()
            .map(|&token| {
                table[token as usize * WIDTH..][..WIDTH].iter().map(|x| x * scale).collect()
            })
            .collect();
        for layer in 0..LAYERS {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            let normed: Vec<Row> =
                stream.iter().map(|x| self.norm(&name("attn_norm"), x)).collect();
            let project = |part: &str, rotates: bool| -> Vec<Row> {
                let mut all: Vec<Row> =
                    normed.iter().map(|x| self.times(&name(part), 0, x)).collect();
                for (position, row) in all.iter_mut().enumerate().filter(|_| rotates) {
                    for head in row.chunks_mut(SIZE) {
                        let norm = format!("blk.{layer}.{part}_norm.weight");
                        if self.tensors.contains_key(&norm) {
                            head.copy_from_slice(&self.norm(&norm, head));
                        }
                        self.rotate(head, position);
                    }
                }
                all
            };
            let (q, k, v) =
                (project("attn_q", true), project("attn_k", true), project("attn_v", false));
            for position in 0..tokens.len() {
                let slides = is_gemma && layer % 2 == 0;
                let first = if slides { (position + 1).saturating_sub(WINDOW) } else { 0 };
                // Diffusion models see everything.
                let is_whole = self.tiny.architecture == "llada";
                let end = if is_whole { tokens.len() } else { position + 1 };
                let mut joined = vec![0.0; HEADS * SIZE];
                for head in 0..HEADS {
                    let of = |row: &Row, head: usize| row[head * SIZE..][..SIZE].to_vec();
                    let shared = head / (HEADS / KEY_HEADS);
                    let query = of(&q[position], head);
                    let scores: Vec<f64> = (first..end)
                        .map(|at| {
                            let key = of(&k[at], shared);
                            let score: f64 = query.iter().zip(&key).map(|(a, b)| a * b).sum();
                            let score = score / (SIZE as f64).sqrt();
                            if is_gemma { 50.0 * (score / 50.0).tanh() } else { score }
                        })
                        .collect();
                    let total: f64 = scores.iter().map(|score| score.exp()).sum();
                    for (at, score) in (first..end).zip(&scores) {
                        for (i, value) in of(&v[at], shared).iter().enumerate() {
                            joined[head * SIZE + i] += score.exp() / total * value;
                        }
                    }
                }
                let mut attended = self.times(&name("attn_output"), 0, &joined);
                if is_gemma {
                    attended = self.norm(&name("post_attention_norm"), &attended);
                }
                stream[position].iter_mut().zip(&attended).for_each(|(x, a)| *x += a);
                let input = self.norm(&name("ffn_norm"), &stream[position]);
                let mut result = self.feed_forward(layer, &input);
                if is_gemma {
                    result = self.norm(&name("post_ffw_norm"), &result);
                }
                stream[position].iter_mut().zip(&result).for_each(|(x, a)| *x += a);
            }
        }
        stream
            .iter()
            .map(|x| {
                let x = self.norm("output_norm.weight", x);
                match is_gemma {
                    true => {
                        let logits = self.times("token_embd.weight", 0, &x);
                        logits.iter().map(|logit| 30.0 * (logit / 30.0).tanh()).collect()
                    }
                    false => self.times("output.weight", 0, &x),
                }
            })
            .collect()
    }
}

/// The largest difference, relative to the largest logit.
pub fn difference(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let worst = found.iter().zip(expected).map(|(&a, b)| (f64::from(a) - b).abs());
    worst.fold(0.0f64, f64::max) / largest
}

/// The root mean square of errors, relative to that of what is expected.
pub fn distance(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let errors = found.iter().zip(expected).map(|(&a, b)| (f64::from(a) - b).powi(2));
    (errors.sum::<f64>() / expected.iter().map(|x| x * x).sum::<f64>()).sqrt()
}
