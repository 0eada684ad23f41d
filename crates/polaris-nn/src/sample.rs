//! Text from a model that predicts tokens.

use polaris_runtime::DeviceRef;
use polaris_tensor::{Tensor, no_grad};

use crate::pass::mix;
use crate::{Error, Module, Pass, Result};

/// How the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Below 1 likely tokens become likelier, above 1 less so; 0 takes the likeliest.
    pub temperature: f64,
    /// Only so many of the likeliest are chosen from; 0 for all.
    pub top_k: usize,
    /// Decides the choices.
    pub seed: u64,
}

/// Appends tokens to a beginning, one at a time; `seen` is called with each, and may end it.
///
/// # Errors
/// If the beginning is empty, or a device fails.
pub fn generate(
    model: &dyn Module,
    device: &DeviceRef,
    context: usize,
    tokens: &mut Vec<u32>,
    count: usize,
    sampling: &Sampling,
    mut seen: impl FnMut(u32) -> bool,
) -> Result<()> {
    if tokens.is_empty() {
        return Err(Error::invalid("generation needs at least one token to begin with"));
    }
    for number in 0..count {
        let window = &tokens[tokens.len().saturating_sub(context)..];
        let window: Vec<i64> = window.iter().map(|&token| i64::from(token)).collect();
        let x = Tensor::from_slice(device, &[1, window.len()], &window)?;
        let logits = no_grad(|| -> Result<Vec<f64>> {
            let logits = model.forward(&x, &Pass::evaluation())?;
            Ok(logits.select(1, window.len() - 1)?.to_f64()?)
        })?;
        let random = mix(sampling.seed ^ mix(number as u64)) >> 11;
        let token = choose(&logits, sampling, random as f64 / (1u64 << 53) as f64);
        tokens.push(token);
        if !seen(token) {
            break;
        }
    }
    Ok(())
}

/// The token at a place between 0 and 1 of the distribution.
fn choose(logits: &[f64], sampling: &Sampling, place: f64) -> u32 {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    // What is not a number is never chosen, but for want of anything else.
    let key = |token: usize| if logits[token].is_nan() { f64::NEG_INFINITY } else { logits[token] };
    order.sort_by(|&a, &b| key(b).total_cmp(&key(a)).then(a.cmp(&b)));
    if sampling.top_k > 0 {
        order.truncate(sampling.top_k);
    }
    if sampling.temperature <= 0.0 {
        return order[0] as u32;
    }
    let largest = key(order[0]);
    let weight = |token: usize| ((key(token) - largest) / sampling.temperature).exp();
    let total: f64 = order.iter().map(|&token| weight(token)).sum();
    let mut left = place * total;
    for &token in &order {
        left -= weight(token);
        if left < 0.0 {
            return token as u32;
        }
    }
    order[0] as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_chosen_by_their_share() {
        let all = Sampling { temperature: 1.0, top_k: 0, seed: 0 };
        let logits = [0.5f64.ln(), 0.3f64.ln(), f64::NAN, 0.2f64.ln()];
        let chosen = [0.0, 0.49, 0.51, 0.79, 0.81, 0.999].map(|place| choose(&logits, &all, place));
        assert_eq!(chosen, [0, 0, 1, 1, 3, 3]);
        let two = Sampling { top_k: 2, ..all };
        assert_eq!([0.6, 0.7, 0.99].map(|place| choose(&logits, &two, place)), [0, 1, 1]);
        assert_eq!(choose(&logits, &Sampling { temperature: 0.0, ..all }, 0.99), 0);
    }
}
