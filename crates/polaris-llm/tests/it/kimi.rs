//! The definition of Kimi Linear and what follows it, in `f64`: the delta rule with a decay for each key, latent attention
//! with keys and values of every head, and the residual stream of Kimi K3.

use crate::definition::{Definition, Row, sigmoid, silu, softplus};
use crate::hybrid::{CAPS, HEADS, LOWEST, PERIOD, RANK, ROTATED, SIZE, WIDTH, layers};

/// Close to `x` where it is small, and between minus and plus the cap.
fn capped(x: f64, cap: f32) -> f64 {
    f64::from(cap) * (x / f64::from(cap)).tanh()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn softmax(scores: &[f64]) -> Row {
    let largest = scores.iter().copied().fold(f64::MIN, f64::max);
    let shares: Row = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = shares.iter().sum();
    shares.into_iter().map(|share| share / sum).collect()
}

impl Definition {
    /// The product with one matrix, or with two.
    fn low_rank(&self, layer: usize, first: &str, second: &str, x: &[f64]) -> Row {
        let product = self.times(layer, first, x);
        match self.tensors.contains_key(&format!("blk.{layer}.{second}.weight")) {
            true => self.times(layer, second, &product),
            false => product,
        }
    }

    fn kimi_delta(&self, layer: usize, rows: &[Row]) -> Vec<Row> {
        let [q, k, v] = ["q", "k", "v"].map(|letter| {
            let name = format!("attn_{letter}");
            let all: Vec<Row> = rows.iter().map(|x| self.times(layer, &name, x)).collect();
            self.conv(layer, &format!("ssm_conv1d_{letter}"), &all)
        });
        let mut states = vec![vec![[0.0; SIZE]; SIZE]; HEADS];
        let (rates, bias) = (self.all(layer, "ssm_a"), self.all(layer, "ssm_dt.bias"));
        let mut results = Vec::new();
        for (token, x) in rows.iter().enumerate() {
            let steps = self.low_rank(layer, "ssm_f_a", "ssm_f_b", x);
            let betas = self.times(layer, "ssm_beta", x);
            let first = if self.architecture == "kimi-k3" { "ssm_g" } else { "ssm_g_a" };
            let gates = self.low_rank(layer, first, "ssm_g_b", x);
            let mut joined = Row::new();
            for (head, state) in states.iter_mut().enumerate() {
                let of = |rows: &[Row]| -> Row {
                    rows[token][head * SIZE..][..SIZE].iter().map(|&x| silu(x)).collect()
                };
                let unit = |x: Row| -> Row {
                    let length = dot(&x, &x).sqrt().max(1e-5);
                    x.into_iter().map(|x| x / length).collect()
                };
                let (query, key, value) = (unit(of(&q)), unit(of(&k)), of(&v));
                for (i, row) in state.iter_mut().enumerate() {
                    let step = steps[head * SIZE + i] + bias[head * SIZE + i];
                    let decay = match self.architecture {
                        "kimi-linear" => rates[head] * softplus(step),
                        "kimi-k3" => f64::from(LOWEST) * sigmoid(-rates[head] * step),
                        _ => f64::from(LOWEST) * sigmoid(rates[head] * step),
                    };
                    row.iter_mut().for_each(|x| *x *= decay.exp());
                }
                let mut output = Row::new();
                for j in 0..SIZE {
                    let read: f64 = state.iter().zip(&key).map(|(row, k)| row[j] * k).sum();
                    let written = sigmoid(betas[head]) * (value[j] - read);
                    state.iter_mut().zip(&key).for_each(|(row, k)| row[j] += k * written);
                    let result: f64 = state.iter().zip(&query).map(|(row, q)| row[j] * q).sum();
                    output.push(result / (SIZE as f64).sqrt());
                }
                let normed = self.norm(layer, "ssm_norm", &output);
                let gates = &gates[head * SIZE..][..SIZE];
                joined.extend(normed.iter().zip(gates).map(|(y, &gate)| y * sigmoid(gate)));
            }
            results.push(self.times(layer, "attn_output", &joined));
        }
        results
    }

    fn latent(&self, layer: usize, rows: &[Row]) -> Vec<Row> {
        let plain = SIZE - ROTATED;
        let rotated = |x: &[f64], position: usize| -> Row {
            let mut x = x.to_vec();
            if self.architecture != "bailingmoe3" {
                return x;
            }
            for pair in 0..ROTATED / 2 {
                let angle = position as f64 * 1e4f64.powf(-2.0 * pair as f64 / ROTATED as f64);
                let (a, b) = (x[2 * pair], x[2 * pair + 1]);
                x[2 * pair] = a * angle.cos() - b * angle.sin();
                x[2 * pair + 1] = b * angle.cos() + a * angle.sin();
            }
            x
        };
        let compressed: Vec<Row> =
            rows.iter().map(|x| self.times(layer, "attn_kv_a_mqa", x)).collect();
        let (to_keys, to_values) =
            (self.all(layer, "attn_k_b.weight"), self.all(layer, "attn_v_b.weight"));
        // Keys and values of a head at a position, from its vector.
        let expand = |head: usize, position: usize| -> (Row, Row) {
            let both = &compressed[position];
            let vector = self.norm(layer, "attn_kv_a_norm", &both[..RANK]);
            let matrix = &to_keys[head * RANK * plain..][..RANK * plain];
            let column = |i: usize| (0..RANK).map(|r| matrix[r * plain + i] * vector[r]).sum();
            let mut key: Row = (0..plain).map(column).collect();
            key.extend(rotated(&both[RANK..], position));
            let matrix = &to_values[head * SIZE * RANK..][..SIZE * RANK];
            (key, matrix.chunks_exact(RANK).map(|row| dot(row, &vector)).collect())
        };
        let token = |(position, x): (usize, &Row)| {
            let all = self.times(layer, "attn_q", x);
            let mut joined = Row::new();
            for head in 0..HEADS {
                let q = &all[head * SIZE..][..SIZE];
                let query = [&q[..plain], &rotated(&q[plain..], position)].concat();
                let seen: Vec<(Row, Row)> = (0..=position).map(|at| expand(head, at)).collect();
                let score = |(key, _): &(Row, Row)| dot(&query, key) / (SIZE as f64).sqrt();
                let shares = softmax(&seen.iter().map(score).collect::<Row>());
                let sum = |i: usize| shares.iter().zip(&seen).map(|(s, (_, v))| s * v[i]).sum();
                joined.extend((0..SIZE).map(sum).collect::<Row>());
            }
            if self.architecture != "kimi-linear" {
                let gates = self.times(layer, "attn_gate", x);
                let each = joined.len() / gates.len();
                joined.iter_mut().enumerate().for_each(|(i, x)| *x *= sigmoid(gates[i / each]));
            }
            self.times(layer, "attn_output", &joined)
        };
        rows.iter().enumerate().map(token).collect()
    }

    /// What a part reads: streams that were kept and the present one, by the softmax of their scores.
    fn mixed(&self, kept: &[Vec<Row>], stream: &[Row], name: &str) -> Vec<Row> {
        let weight = &self.tensors.get(name);
        let Some((_, weight)) = weight.filter(|_| !kept.is_empty()) else { return stream.to_vec() };
        let token = |(token, x): (usize, &Row)| {
            let sources: Vec<&Row> = kept.iter().map(|rows| &rows[token]).chain([x]).collect();
            let score = |row: &&Row| Self::normed(weight, row).iter().sum::<f64>();
            let shares = softmax(&sources.iter().map(score).collect::<Row>());
            (0..WIDTH)
                .map(|i| shares.iter().zip(&sources).map(|(s, row)| s * row[i]).sum())
                .collect()
        };
        stream.iter().enumerate().map(token).collect()
    }

    /// The logits after each token.
    pub fn kimi_logits(&self, tokens: &[u32]) -> Vec<Row> {
        let table = &self.tensors["token_embd.weight"].1;
        let row = |&token: &u32| table[token as usize * WIDTH..][..WIDTH].to_vec();
        let mut stream: Vec<Row> = tokens.iter().map(row).collect();
        let mut kept: Vec<Vec<Row>> = Vec::new();
        let is_k3 = self.architecture == "kimi-k3";
        for (layer, parts) in layers(self.architecture).into_iter().enumerate() {
            let name = |tensor: &str| format!("blk.{layer}.{tensor}.weight");
            let read = self.mixed(&kept, &stream, &name("attn_res_score"));
            let begins_anew = is_k3 && layer % PERIOD == 0;
            if begins_anew {
                kept.push(stream.clone());
            }
            let rows: Vec<Row> = read.iter().map(|x| self.norm(layer, "attn_norm", x)).collect();
            let added = match parts[0] {
                "kimi" => self.kimi_delta(layer, &rows),
                _ => self.latent(layer, &rows),
            };
            let sum = |(x, added): (&Row, &Row)| match begins_anew {
                true => added.clone(),
                false => x.iter().zip(added).map(|(x, added)| x + added).collect(),
            };
            stream = stream.iter().zip(&added).map(sum).collect();
            let read = self.mixed(&kept, &stream, &name("ffn_res_score"));
            for (x, read) in stream.iter_mut().zip(&read) {
                let input = self.norm(layer, "ffn_norm", read);
                let gate = self.times(layer, "ffn_gate", &input);
                let up = self.times(layer, "ffn_up", &input);
                let gated = |(&gate, &up): (&f64, &f64)| match is_k3 {
                    true => capped(gate, CAPS[0]) * sigmoid(gate) * capped(up, CAPS[1]),
                    false => silu(gate) * up,
                };
                let hidden: Row = gate.iter().zip(&up).map(gated).collect();
                let down = self.times(layer, "ffn_down", &hidden);
                x.iter_mut().zip(&down).for_each(|(x, down)| *x += down);
            }
        }
        let last = self.mixed(&kept, &stream, "output_res_score.weight");
        let weight = &self.tensors["output_norm.weight"].1;
        last.iter().map(|x| self.product("output.weight", &Self::normed(weight, x))).collect()
    }
}
