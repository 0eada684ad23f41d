//! Log-probabilities of tokens under a model, before any sampler: what servers report.

use crate::sampler::check_logits;
use crate::{Error, Result};

/// A token with its log-probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogProbability {
    /// The token.
    pub token: u32,
    /// The natural logarithm of its probability.
    pub value: f64,
}

/// The `count` most probable tokens, the most probable first; equal ones by token.
pub fn top_log_probabilities(logits: &[f32], count: usize) -> Result<Vec<LogProbability>> {
    let normaliser = normaliser(logits)?;
    let mut top: Vec<u32> = (0..logits.len() as u32).collect();
    let order =
        |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    if count < top.len() {
        top.select_nth_unstable_by(count, order);
        top.truncate(count);
    }
    top.sort_unstable_by(order);
    let value = |token: u32| f64::from(logits[token as usize]) - normaliser;
    Ok(top.into_iter().map(|token| LogProbability { token, value: value(token) }).collect())
}

/// The log-probability of one token.
pub fn log_probability(logits: &[f32], token: u32) -> Result<f64> {
    let normaliser = normaliser(logits)?;
    match logits.get(token as usize) {
        Some(&logit) => Ok(f64::from(logit) - normaliser),
        None => Err(Error::Token { token, size: logits.len() }),
    }
}

/// The logarithm of the sum of all exponentials.
fn normaliser(logits: &[f32]) -> Result<f64> {
    check_logits(logits, logits.len())?;
    let largest = logits.iter().fold(f32::NEG_INFINITY, |largest, &logit| largest.max(logit));
    if largest == f32::NEG_INFINITY {
        return Err(Error::NoToken { why: "all logits are -inf" });
    }
    let sum: f64 = logits.iter().map(|logit| f64::from((logit - largest).exp())).sum();
    Ok(f64::from(largest) + sum.ln())
}
