//! Attention and its gradient by definition, in `f64`, one query after another.

use super::geometry::Sizes;

/// The inputs' elements in row-major order; the mask's with its indices broadcast already.
pub(super) struct Inputs<'a> {
    pub sizes: Sizes,
    pub q: &'a [f64],
    pub k: &'a [f64],
    pub v: &'a [f64],
    pub mask: Option<&'a [f64]>,
}

impl Inputs<'_> {
    /// Every query of every head and batch: its row, and the row of its head's first key.
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let Sizes { heads, key_heads, queries, keys, .. } = self.sizes;
        let group = self.sizes.group();
        (0..self.sizes.rows()).map(move |row| {
            let (batch, head) = (row / queries / heads, row / queries % heads);
            (row, (batch * key_heads + head / group) * keys)
        })
    }

    /// The weights of the keys that a query sees, and the logarithm of the sum they come from.
    fn weights(&self, row: usize, first_key: usize) -> (Vec<f64>, f64) {
        let Sizes { depth, keys, queries, scale, .. } = self.sizes;
        let q = &self.q[row * depth..][..depth];
        let score = |key: usize| {
            let added = self.mask.map_or(0.0, |mask| mask[row * keys + key]);
            scale * dot(q, &self.k[(first_key + key) * depth..][..depth]) + added
        };
        let scores: Vec<f64> = (0..self.sizes.seen(row % queries)).map(score).collect();
        if scores.iter().all(|&score| score == f64::NEG_INFINITY) {
            return (vec![0.0; scores.len()], f64::NEG_INFINITY);
        }
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shifted: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
        let sum: f64 = shifted.iter().sum();
        (shifted.iter().map(|weight| weight / sum).collect(), largest + sum.ln())
    }

    fn value(&self, key: usize) -> &[f64] {
        &self.v[key * self.sizes.values..][..self.sizes.values]
    }

    /// The output, then the log-sum-exp.
    pub fn forward(&self) -> Vec<f64> {
        let values = self.sizes.values;
        let mut output = vec![0.0; self.sizes.rows() * values];
        let mut log_sum_exp = Vec::with_capacity(self.sizes.rows());
        for (row, first_key) in self.rows() {
            let (weights, logarithm) = self.weights(row, first_key);
            for (key, weight) in weights.into_iter().enumerate() {
                add(&mut output[row * values..][..values], weight, self.value(first_key + key));
            }
            log_sum_exp.push(logarithm);
        }
        output.extend(log_sum_exp);
        output
    }

    /// The gradients of q, k and v, from the output and its gradient.
    pub fn gradient(&self, output: &[f64], g: &[f64]) -> Vec<f64> {
        let Sizes { depth, values, scale, .. } = self.sizes;
        let mut of_q = vec![0.0; self.q.len()];
        let (mut of_k, mut of_v) = (vec![0.0; self.k.len()], vec![0.0; self.v.len()]);
        for (row, first_key) in self.rows() {
            let (weights, _) = self.weights(row, first_key);
            let (q, g) = (&self.q[row * depth..][..depth], &g[row * values..][..values]);
            let slopes: Vec<f64> =
                (0..weights.len()).map(|key| dot(g, self.value(first_key + key))).collect();
            // The weighted mean of the slopes. Of half precisions the output is rounded, and the
            // gradient is that of what it was rounded to.
            let mean = dot(g, &output[row * values..][..values]);
            for (key, weight) in weights.into_iter().enumerate() {
                let at = first_key + key;
                let of_score = scale * weight * (slopes[key] - mean);
                let k = &self.k[at * depth..][..depth];
                add(&mut of_q[row * depth..][..depth], of_score, k);
                add(&mut of_k[at * depth..][..depth], of_score, q);
                add(&mut of_v[at * values..][..values], weight, g);
            }
        }
        [of_q, of_k, of_v].concat()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `to += factor * from`
fn add(to: &mut [f64], factor: f64, from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * from);
}
