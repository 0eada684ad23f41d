//! How well a model predicts a text, by itself and beside another model.

use crate::engine::{Engine, Wanted};
use crate::{Error, Result};

/// How a text is scored: in windows, of which the second half counts, as llama.cpp does.
#[derive(Debug, Clone, Copy)]
pub struct PerplexityOptions {
    /// Tokens of a window.
    pub window: usize,
    /// The most windows; all without it.
    pub windows: Option<usize>,
}

impl Default for PerplexityOptions {
    fn default() -> Self {
        Self { window: 512, windows: None }
    }
}

/// The score of a text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Perplexity {
    /// The exponential of the mean loss.
    pub perplexity: f64,
    /// The standard error of the perplexity.
    pub error: f64,
    /// Tokens that were predicted.
    pub tokens: usize,
    /// Windows that were computed.
    pub windows: usize,
    /// What the other model says, if there is one.
    pub divergence: Option<Divergence>,
}

/// How far a model is from another one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Divergence {
    /// The mean Kullback-Leibler divergence from the other model's probabilities, in nats.
    pub mean: f64,
    /// The largest.
    pub largest: f64,
    /// The share of tokens that both hold most probable.
    pub same_top: f64,
}

/// Sums over the predicted tokens.
#[derive(Debug, Default)]
struct Sums {
    loss: f64,
    squares: f64,
    tokens: usize,
    divergence: f64,
    largest: f64,
    same_top: usize,
}

impl Engine {
    /// Scores tokens. `first` begins every window, if the model wants that. `progress` is told after every window.
    ///
    /// # Errors
    /// If the text is shorter than two windows' halves, a window does not fit the context, or the device fails.
    pub fn perplexity(
        &mut self,
        tokens: &[u32],
        first: Option<u32>,
        options: &PerplexityOptions,
        mut base: Option<&mut Self>,
        progress: &mut dyn FnMut(&Perplexity),
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Perplexity> {
        self.require_causal()?;
        let window = options.window;
        if window < 4 || window > self.context() {
            let what =
                format!("a window of {window} tokens; 4 to {} fit the context", self.context());
            return Err(Error::Argument { what });
        }
        self.check_tokens(tokens)?;
        let count = (tokens.len() / window).min(options.windows.unwrap_or(usize::MAX));
        if count == 0 {
            let what = format!("the text has {} tokens; a window has {window}", tokens.len());
            return Err(Error::Argument { what });
        }
        if let Some(base) = &base
            && base.model().vocabulary() != self.model().vocabulary()
        {
            let [a, b] = [self.model().vocabulary(), base.model().vocabulary()];
            return Err(Error::Argument {
                what: format!("models of {a} and {b} tokens cannot be compared"),
            });
        }
        let mut sums = Sums::default();
        let mut result = Perplexity::default();
        for (number, chunk) in tokens.chunks_exact(window).take(count).enumerate() {
            let mut chunk = chunk.to_vec();
            if let Some(first) = first {
                chunk[0] = first;
            }
            let vocabulary = self.model().vocabulary();
            let half = window / 2;
            let other = match base.as_deref_mut() {
                Some(base) => Some(base.second_half(&chunk, half, is_cancelled)?.to_vec()),
                None => None,
            };
            let logits = self.second_half(&chunk, half, is_cancelled)?;
            for (row, predicted) in (half..window - 1).enumerate() {
                let at = row * vocabulary..(row + 1) * vocabulary;
                let other = other.as_ref().map(|other| &other[at.clone()]);
                sums.add(&logits[at], chunk[predicted + 1], other);
            }
            result = sums.result(number + 1, base.is_some());
            progress(&result);
        }
        Ok(result)
    }

    /// The logits after each token of the second half of a window, but for the last.
    fn second_half(
        &mut self,
        window: &[u32],
        half: usize,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<&[f32]> {
        self.truncate(0, 0);
        self.feed(0, &window[..half], Wanted::None, is_cancelled)?;
        self.feed(0, &window[half..window.len() - 1], Wanted::All, is_cancelled)
    }
}

impl Sums {
    fn add(&mut self, logits: &[f32], target: u32, other: Option<&[f32]>) {
        let normal = log_sum(logits);
        let loss = normal - f64::from(logits[target as usize]);
        self.loss += loss;
        self.squares += loss * loss;
        self.tokens += 1;
        let Some(other) = other else { return };
        let divergence = divergence(other, logits, normal);
        self.divergence += divergence;
        self.largest = self.largest.max(divergence);
        self.same_top += usize::from(top(logits) == top(other));
    }

    fn result(&self, windows: usize, has_base: bool) -> Perplexity {
        let count = self.tokens as f64;
        let mean = self.loss / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        let perplexity = mean.exp();
        Perplexity {
            perplexity,
            error: perplexity * (variance / (count - 1.0).max(1.0)).sqrt(),
            tokens: self.tokens,
            windows,
            divergence: has_base.then(|| Divergence {
                mean: self.divergence / count,
                largest: self.largest,
                same_top: self.same_top as f64 / count,
            }),
        }
    }
}

/// The Kullback-Leibler divergence of the probabilities of `found` from those of `base`, both given by their logits, in nats.
pub fn kl_divergence(base: &[f32], found: &[f32]) -> f64 {
    divergence(base, found, log_sum(found))
}

/// The same, where [`log_sum`] of `found` is known.
fn divergence(base: &[f32], found: &[f32], normal: f64) -> f64 {
    let base_normal = log_sum(base);
    let term = |(&p, &q): (&f32, &f32)| {
        let p = f64::from(p) - base_normal;
        // What never comes adds nothing, whatever the other model says.
        if p == f64::NEG_INFINITY { 0.0 } else { p.exp() * (p - (f64::from(q) - normal)) }
    };
    base.iter().zip(found).map(term).sum()
}

/// `log(sum(exp(x)))`.
fn log_sum(logits: &[f32]) -> f64 {
    let largest = logits.iter().fold(f32::NEG_INFINITY, |most, &logit| most.max(logit));
    let largest = f64::from(largest);
    largest + logits.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum::<f64>().ln()
}

/// The index of the largest, the first of several.
fn top(logits: &[f32]) -> usize {
    let mut best = 0;
    for (place, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = place;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_logits_have_the_perplexity_of_their_number() {
        let mut sums = Sums::default();
        for target in 0..5 {
            sums.add(&[2.0; 8], target, Some(&[-1.0; 8]));
        }
        let result = sums.result(1, true);
        assert!((result.perplexity - 8.0).abs() < 1e-9 && result.error < 1e-9);
        let divergence = result.divergence.unwrap();
        assert!(divergence.mean.abs() < 1e-12 && divergence.same_top == 1.0);
    }

    #[test]
    fn divergence_is_that_of_its_definition() {
        let mut sums = Sums::default();
        sums.add(&[0.0, 1.0, 2.0], 0, Some(&[0.0, 0.0, 0.0]));
        let normal = (1.0 + 1f64.exp() + 2f64.exp()).ln();
        let expected: f64 =
            [0.0, 1.0, 2.0].iter().map(|q| (-(3f64.ln()) - (q - normal)) / 3.0).sum();
        let divergence = sums.result(1, true).divergence.unwrap();
        assert!((divergence.mean - expected).abs() < 1e-12);
        assert_eq!(divergence.same_top, 0.0);
    }
}
