//! Attention to a cache by definition, in `f64`, one query after another.

use super::CachedAttention;
use super::geometry::Sizes;

/// The output, from the inputs' elements in row-major order.
pub(super) fn attend(op: &CachedAttention, sizes: &Sizes, inputs: &[Vec<f64>]) -> Vec<f64> {
    let Sizes { tokens, heads, depth, values, .. } = *sizes;
    let mut output = vec![0.0; tokens * heads * values];
    for token in 0..tokens {
        for head in 0..heads {
            let (rows, scores) = scores(op, sizes, inputs, token, head);
            let to = &mut output[(token * heads + head) * values..][..values];
            let sink = op.sinks.then(|| inputs[5][head]);
            let weights = softmax(&scores, sink);
            for (row, weight) in rows.into_iter().zip(weights) {
                let value = &inputs[2][row * values..][..values];
                to.iter_mut().zip(value).for_each(|(to, value)| *to += weight * value);
            }
        }
    }
    debug_assert!(depth == 0 || inputs[0].len() == tokens * heads * depth);
    output
}

/// The rows of the cache that a query sees, counted in positions and heads, and their scores.
pub(super) fn scores(
    op: &CachedAttention,
    sizes: &Sizes,
    inputs: &[Vec<f64>],
    token: usize,
    head: usize,
) -> (Vec<usize>, Vec<f64>) {
    let depth = sizes.depth;
    let q = &inputs[0][(token * sizes.heads + head) * depth..][..depth];
    let sequence = inputs[4][2 * token] as usize;
    let position = inputs[4][2 * token + 1] as usize;
    let key_head = head / sizes.group();
    let row_of = |key: usize| {
        let entry = sequence * sizes.most_blocks + key / sizes.block_size;
        let slot = inputs[3][entry] as usize * sizes.block_size + key % sizes.block_size;
        slot * sizes.key_heads + key_head
    };
    let score = |key: usize| {
        let k = &inputs[1][row_of(key) * depth..][..depth];
        let mut score = sizes.scale * q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>();
        if let Some(cap) = op.softcap {
            score = cap * (score / cap).tanh();
        }
        if op.slopes {
            score += inputs[inputs.len() - 1][head] * (key as f64 - position as f64);
        }
        score
    };
    op.sight(position).map(|key| (row_of(key), score(key))).unzip()
}

/// The weights of scores beside the logit of a sink.
pub(super) fn softmax(scores: &[f64], sink: Option<f64>) -> Vec<f64> {
    let all = || scores.iter().copied().chain(sink);
    if all().all(|score| score == f64::NEG_INFINITY) {
        return vec![0.0; scores.len()];
    }
    let largest = all().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = all().map(|score| (score - largest).exp()).sum();
    scores.iter().map(|score| (score - largest).exp() / sum).collect()
}
