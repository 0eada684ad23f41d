//! Linear attention by definition, in `f64`, one token after another.

use super::geometry::Sizes;
use super::{Decay, LinearAttention};

/// The output, from the inputs' elements in row-major order.
pub(super) fn attend(op: &LinearAttention, sizes: &Sizes, inputs: &[Vec<f64>]) -> Vec<f64> {
    let Sizes { tokens, sequences, slots, heads, keys, values, .. } = *sizes;
    let mut output = vec![0.0; (tokens + sequences * keys) * heads * values];
    for sequence in 0..sequences {
        let run = &inputs[5][3 * sequence..][..3];
        for head in 0..heads {
            let mut state = vec![vec![0.0; values]; keys];
            for (key, row) in state.iter_mut().enumerate() {
                // Without states, every sequence begins.
                if run[0] >= 0.0 && slots > 0 {
                    let at = (run[0] as usize * keys + key) * heads + head;
                    row.copy_from_slice(&inputs[4][at * values..][..values]);
                }
            }
            for token in run[1] as usize..(run[1] + run[2]) as usize {
                let result = step(op, sizes, inputs, token, head, &mut state);
                output[(token * heads + head) * values..][..values].copy_from_slice(&result);
            }
            for (key, row) in state.iter().enumerate() {
                let at = (tokens + sequence * keys + key) * heads + head;
                output[at * values..][..values].copy_from_slice(row);
            }
        }
    }
    output
}

/// One token of one head.
fn step(
    op: &LinearAttention,
    sizes: &Sizes,
    inputs: &[Vec<f64>],
    token: usize,
    head: usize,
    state: &mut [Vec<f64>],
) -> Vec<f64> {
    let Sizes { groups, heads, keys, values, .. } = *sizes;
    let shared = (token * groups + sizes.group(op.sharing, head)) * keys;
    let (q, k) = (&inputs[0][shared..][..keys], &inputs[1][shared..][..keys]);
    let v = &inputs[2][(token * heads + head) * values..][..values];
    let rates = inputs.last().map_or(&[][..], Vec::as_slice);
    for (key, row) in state.iter_mut().enumerate() {
        for (value, element) in row.iter_mut().enumerate() {
            let exponent = match op.decay {
                Decay::Head => inputs[3][token * heads + head],
                Decay::Key => inputs[3][(token * heads + head) * keys + key],
                Decay::Rates => {
                    inputs[3][(token * heads + head) * values + value]
                        * rates[(key * heads + head) * values + value]
                }
            };
            *element *= exponent.exp();
        }
    }
    let mut result = vec![0.0; values];
    for value in 0..values {
        let read = |state: &[Vec<f64>], by: &[f64], scale: f64| -> f64 {
            state.iter().zip(by).map(|(row, by)| row[value] * by * scale).sum()
        };
        let written = match op.delta {
            true => inputs[6][token * heads + head] * (v[value] - read(state, k, op.key_scale)),
            false => v[value],
        };
        for (row, k) in state.iter_mut().zip(k) {
            row[value] += op.key_scale * k * written;
        }
        result[value] = read(state, q, op.query_scale);
    }
    result
}
