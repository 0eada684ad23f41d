//! The definition of some models with recurrent layers, in `f64`.

use std::collections::BTreeMap;

use polaris_llm::Source;

use crate::hybrid::{
    CHANNELS, GROUPS, HEADS, INNER, SIZE, STATE, STATES, TAPS, VALUE, WIDTH, layers,
};

pub type Row = Vec<f64>;

/// The definition of `qwen35`, `lfm2` and `mamba2`.
pub struct Definition {
    pub architecture: &'static str,
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
}

pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub fn softplus(x: f64) -> f64 {
    x.exp().ln_1p()
}

impl Definition {
    pub fn new(architecture: &'static str, source: &Source) -> Self {
        let tensor = |(name, tensor): (&String, &polaris_llm::SourceTensor)| {
            let bytes = tensor.parts.concat();
            let values =
                bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
            (name.clone(), (tensor.dims.clone(), values.map(f64::from).collect()))
        };
        Self { architecture, tensors: source.tensors.iter().map(tensor).collect() }
    }

    pub fn all(&self, layer: usize, name: &str) -> &[f64] {
        &self.tensors[&format!("blk.{layer}.{name}")].1
    }

    pub fn product(&self, name: &str, x: &[f64]) -> Row {
        let (_, values) = &self.tensors[name];
        values
            .chunks_exact(x.len())
            .map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum())
            .collect()
    }

    pub fn times(&self, layer: usize, name: &str, x: &[f64]) -> Row {
        self.product(&format!("blk.{layer}.{name}.weight"), x)
    }

    pub fn normed(weight: &[f64], x: &[f64]) -> Row {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        x.iter().zip(weight).map(|(x, w)| x / (mean + f64::from(1e-5f32)).sqrt() * w).collect()
    }

    pub fn norm(&self, layer: usize, name: &str, x: &[f64]) -> Row {
        Self::normed(self.all(layer, &format!("{name}.weight")), x)
    }

    /// Each row and those before it, weighted by channel.
    pub fn conv(&self, layer: usize, name: &str, rows: &[Row]) -> Vec<Row> {
        let weights = self.all(layer, &format!("{name}.weight"));
        let bias = self.tensors.get(&format!("blk.{layer}.{name}.bias"));
        let at = |token: usize, channel: usize| {
            let taps = (0..TAPS).filter(|&back| back <= token);
            let sum: f64 = taps
                .map(|back| weights[channel * TAPS + TAPS - 1 - back] * rows[token - back][channel])
                .sum();
            sum + bias.map_or(0.0, |(_, bias)| bias[channel])
        };
        (0..rows.len())
            .map(|token| (0..rows[0].len()).map(|channel| at(token, channel)).collect())
            .collect()
    }

    fn short_conv(&self, layer: usize, rows: &[Row]) -> Vec<Row> {
        let all: Vec<Row> =
            rows.iter().map(|x| self.times(layer, "shortconv.in_proj", x)).collect();
        let gated: Vec<Row> = all
            .iter()
            .map(|row| (0..WIDTH).map(|i| row[i] * row[2 * WIDTH + i]).collect())
            .collect();
        let convolved = self.conv(layer, "shortconv.conv", &gated);
        let out = |(row, z): (&Row, &Row)| {
            let y: Row = (0..WIDTH).map(|i| row[WIDTH + i] * z[i]).collect();
            self.times(layer, "shortconv.out_proj", &y)
        };
        all.iter().zip(&convolved).map(out).collect()
    }

    fn delta(&self, layer: usize, rows: &[Row]) -> Vec<Row> {
        let mixed: Vec<Row> = rows.iter().map(|x| self.times(layer, "attn_qkv", x)).collect();
        let mixed = self.conv(layer, "ssm_conv1d", &mixed);
        let mut states = vec![vec![[0.0; VALUE]; STATE]; STATES];
        let mut results = Vec::new();
        for (x, mixed) in rows.iter().zip(&mixed) {
            let mixed: Row = mixed.iter().map(|&x| silu(x)).collect();
            let unit = |from: usize| -> Row {
                let x = &mixed[from..from + STATE];
                let length = x.iter().map(|x| x * x).sum::<f64>().sqrt();
                x.iter().map(|x| x / length.max(1e-5)).collect()
            };
            let (beta, alpha) =
                (self.times(layer, "ssm_beta", x), self.times(layer, "ssm_alpha", x));
            let gate = self.times(layer, "attn_gate", x);
            let mut joined = Row::new();
            for (head, state) in states.iter_mut().enumerate() {
                // Heads share keys in tiles.
                let q = unit(head % GROUPS * STATE);
                let k = unit((GROUPS + head % GROUPS) * STATE);
                let v = &mixed[2 * GROUPS * STATE + head * VALUE..][..VALUE];
                let step = softplus(alpha[head] + self.all(layer, "ssm_dt.bias")[head]);
                let decay = (self.all(layer, "ssm_a")[head] * step).exp();
                let mut output = [0.0; VALUE];
                for value in 0..VALUE {
                    state.iter_mut().for_each(|row| row[value] *= decay);
                    let read: f64 = state.iter().zip(&k).map(|(row, k)| row[value] * k).sum();
                    let written = sigmoid(beta[head]) * (v[value] - read);
                    state.iter_mut().zip(&k).for_each(|(row, k)| row[value] += k * written);
                    let result: f64 = state.iter().zip(&q).map(|(row, q)| row[value] * q).sum();
                    output[value] = result / (STATE as f64).sqrt();
                }
                let normed = self.norm(layer, "ssm_norm", &output);
                let gates = &gate[head * VALUE..][..VALUE];
                joined.extend(normed.iter().zip(gates).map(|(y, &z)| y * silu(z)));
            }
            results.push(self.times(layer, "ssm_out", &joined));
        }
        results
    }

    fn mamba2(&self, layer: usize, rows: &[Row]) -> Vec<Row> {
        let all: Vec<Row> = rows.iter().map(|x| self.times(layer, "ssm_in", x)).collect();
        let mixed: Vec<Row> = all.iter().map(|row| row[INNER..INNER + CHANNELS].to_vec()).collect();
        let mixed = self.conv(layer, "ssm_conv1d", &mixed);
        let mut states = vec![vec![[0.0; VALUE]; STATE]; STATES];
        let mut results = Vec::new();
        for (all, mixed) in all.iter().zip(&mixed) {
            let mixed: Row = mixed.iter().map(|&x| silu(x)).collect();
            let mut joined = Row::new();
            for (head, state) in states.iter_mut().enumerate() {
                let group = head / (STATES / GROUPS);
                let b = &mixed[INNER + group * STATE..][..STATE];
                let c = &mixed[INNER + (GROUPS + group) * STATE..][..STATE];
                let step = all[INNER + CHANNELS + head] + self.all(layer, "ssm_dt.bias")[head];
                let step = softplus(step);
                let decay = (self.all(layer, "ssm_a")[head] * step).exp();
                for value in 0..VALUE {
                    let x = mixed[head * VALUE + value];
                    let mut y = self.all(layer, "ssm_d")[head] * x;
                    for ((row, b), c) in state.iter_mut().zip(b).zip(c) {
                        row[value] = row[value] * decay + step * x * b;
                        y += row[value] * c;
                    }
                    joined.push(y * silu(all[head * VALUE + value]));
                }
            }
            let share = INNER / GROUPS;
            let weights = self.all(layer, "ssm_norm.weight").chunks_exact(share);
            let normed: Row = joined
                .chunks_exact(share)
                .zip(weights)
                .flat_map(|(x, weight)| Self::normed(weight, x))
                .collect();
            results.push(self.times(layer, "ssm_out", &normed));
        }
        results
    }

    /// Attention with norms of heads, rotation of halves and, in Qwen's way, gates.
    fn attention(&self, layer: usize, rows: &[Row]) -> Vec<Row> {
        let rotated = |name: &str, position: usize, head: &[f64]| -> Row {
            let mut x = self.norm(layer, name, head);
            for pair in 0..SIZE / 2 {
                let angle = position as f64 * 1e4f64.powf(-2.0 * pair as f64 / SIZE as f64);
                let (a, b) = (x[pair], x[pair + SIZE / 2]);
                x[pair] = a * angle.cos() - b * angle.sin();
                x[pair + SIZE / 2] = b * angle.cos() + a * angle.sin();
            }
            x
        };
        let of =
            |name: &str| -> Vec<Row> { rows.iter().map(|x| self.times(layer, name, x)).collect() };
        let (q, k, v) = (of("attn_q"), of("attn_k"), of("attn_v"));
        let keys: Vec<Row> =
            k.iter().enumerate().map(|(at, k)| rotated("attn_k_norm", at, k)).collect();
        let stride = q[0].len() / HEADS;
        let token = |position: usize| {
            let mut joined = Row::new();
            for head in 0..HEADS {
                let q = &q[position][head * stride..][..stride];
                let query = rotated("attn_q_norm", position, &q[..SIZE]);
                let scores: Row = keys[..=position]
                    .iter()
                    .map(|k| query.iter().zip(k).map(|(q, k)| q * k).sum::<f64>())
                    .map(|score| (score / (SIZE as f64).sqrt()).exp())
                    .collect();
                let total: f64 = scores.iter().sum();
                joined.extend((0..SIZE).map(|i| {
                    let sum: f64 = scores.iter().zip(&v).map(|(score, v)| score * v[i]).sum();
                    sum / total * q.get(SIZE + i).map_or(1.0, |&gate| sigmoid(gate))
                }));
            }
            self.times(layer, "attn_output", &joined)
        };
        (0..rows.len()).map(token).collect()
    }

    /// The logits after each token.
    pub fn logits(&self, tokens: &[u32]) -> Vec<Row> {
        let table = &self.tensors["token_embd.weight"].1;
        let row = |&token: &u32| table[token as usize * WIDTH..][..WIDTH].to_vec();
        let mut stream: Vec<Row> = tokens.iter().map(row).collect();
        for (layer, parts) in layers(self.architecture).into_iter().enumerate() {
            let rows: Vec<Row> = stream.iter().map(|x| self.norm(layer, "attn_norm", x)).collect();
            let mixed = match parts[0] {
                "conv" => self.short_conv(layer, &rows),
                "delta" => self.delta(layer, &rows),
                "mamba2" => self.mamba2(layer, &rows),
                _ => self.attention(layer, &rows),
            };
            for (x, mixed) in stream.iter_mut().zip(&mixed) {
                x.iter_mut().zip(mixed).for_each(|(x, mixed)| *x += mixed);
                if parts.len() > 1 {
                    let is_qwen = self.architecture == "qwen35";
                    let norm = if is_qwen { "post_attention_norm" } else { "ffn_norm" };
                    let input = self.norm(layer, norm, x);
                    let gate = self.times(layer, "ffn_gate", &input);
                    let up = self.times(layer, "ffn_up", &input);
                    let hidden: Row = gate.iter().zip(&up).map(|(&g, u)| silu(g) * u).collect();
                    let down = self.times(layer, "ffn_down", &hidden);
                    x.iter_mut().zip(&down).for_each(|(x, down)| *x += down);
                }
            }
        }
        let last = if self.architecture == "lfm2" { "token_embd_norm" } else { "output_norm" };
        let weight = &self.tensors[&format!("{last}.weight")].1;
        stream.iter().map(|x| self.product("output.weight", &Self::normed(weight, x))).collect()
    }
}
