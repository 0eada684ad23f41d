//! Bits that rise in the course of a training.

use serde::{Deserialize, Serialize};

use super::Quantize;

/// Why the bits of weights changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Quantisation begins.
    Begin,
    /// So many epochs have passed.
    Schedule,
    /// The loss of evaluations became no smaller.
    Plateau,
}

/// How precise a training is, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Bits of weights, except for first and last layers that have bits of their own.
    pub bits: u32,
    /// Why they are so many.
    pub cause: Cause,
    /// The epoch in which they became so many.
    pub since: u64,
    /// The smallest loss of an evaluation since then.
    pub best_loss: Option<f64>,
    /// Evaluations since that.
    pub stale: u64,
}

impl Stage {
    /// The stage of an epoch, if it is another than the one before.
    pub(crate) fn next(before: Option<Self>, settings: &Quantize, epoch: u64) -> Option<Self> {
        let new = |bits, cause| Some(Self { bits, cause, since: epoch, best_loss: None, stale: 0 });
        let Some(now) = before else {
            let begins = epoch >= settings.after;
            return begins.then(|| new(settings.first_bits(), Cause::Begin)).flatten();
        };
        let Quantize { weights, raise_every, raise_patience, .. } = *settings;
        match () {
            () if now.bits >= weights => None,
            () if raise_every > 0 && epoch >= now.since + raise_every => {
                new(now.bits + 1, Cause::Schedule)
            }
            () if raise_patience > 0 && now.stale >= raise_patience => {
                new(now.bits + 1, Cause::Plateau)
            }
            () => None,
        }
    }

    /// Learns the loss of an evaluation.
    pub(crate) fn observe(&mut self, loss: f64) {
        if self.best_loss.is_none_or(|best| loss < best) {
            (self.best_loss, self.stale) = (Some(loss), 0);
        } else {
            self.stale += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits and causes by epochs with these losses, one evaluation each.
    fn stages(settings: &Quantize, losses: &[f64]) -> Vec<(u64, u32, Cause)> {
        let (mut stage, mut changes) = (None, Vec::new());
        for (epoch, &loss) in losses.iter().enumerate() {
            if let Some(next) = Stage::next(stage, settings, epoch as u64) {
                changes.push((epoch as u64, next.bits, next.cause));
                stage = Some(next);
            }
            if let Some(stage) = &mut stage {
                stage.observe(loss);
            }
        }
        changes
    }

    #[test]
    fn bits_rise_by_epochs_and_by_plateaus_up_to_the_last() {
        let plain = Quantize { weights: 4, after: 2, ..Quantize::default() };
        assert_eq!(stages(&plain, &[1.0; 9]), [(2, 4, Cause::Begin)]);
        let by_epochs = Quantize { start: 2, raise_every: 3, after: 1, ..plain.clone() };
        let expected = [(1, 2, Cause::Begin), (4, 3, Cause::Schedule), (7, 4, Cause::Schedule)];
        assert_eq!(stages(&by_epochs, &[1.0; 20]), expected);
        let by_loss = Quantize { start: 3, raise_patience: 2, after: 0, ..plain };
        let losses = [1.0, 0.9, 0.95, 0.8, 0.8, 0.8, 0.7, 0.7, 0.7, 0.7];
        assert_eq!(stages(&by_loss, &losses), [(0, 3, Cause::Begin), (6, 4, Cause::Plateau)]);
        // What is no number is no progress either.
        assert_eq!(stages(&by_loss, &[f64::NAN; 5]).len(), 2);
    }
}
