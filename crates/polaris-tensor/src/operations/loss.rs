//! Losses, as means over what they are of.

use polaris_ops::cross_entropy::{CrossEntropyOptions, cross_entropy, cross_entropy_gradient};

use crate::{Result, Saved, Tensor};

impl Tensor {
    /// The mean square of the difference.
    ///
    /// # Errors
    /// If shapes, types or devices do not fit.
    pub fn mse_loss(&self, target: &Self) -> Result<Self> {
        self.sub(target)?.square()?.mean()
    }

    /// The mean binary cross-entropy of logits, without overflow:
    /// `max(x, 0) - x * target + log(1 + exp(-|x|))`.
    ///
    /// # Errors
    /// If shapes, types or devices do not fit.
    pub fn bce_with_logits_loss(&self, target: &Self) -> Result<Self> {
        let tail = self.abs()?.neg()?.exp()?.add_scalar(1.0)?.log()?;
        self.relu()?.sub(&self.mul(target)?)?.add(&tail)?.mean()
    }

    /// The mean over the first axis of the Kullback-Leibler divergence of a target from logarithms
    /// of probabilities: `target * (log(target) - x)`, where a target of 0 counts nothing
    /// (PyTorch's `batchmean`).
    ///
    /// # Errors
    /// If shapes, types or devices do not fit.
    pub fn kl_div_loss(&self, target: &Self) -> Result<Self> {
        let zeros = target.zeros_like()?;
        let is_zero = target.eq(&zeros)?;
        // The logarithm of 1 where there is none, so that nothing times it stays nothing.
        let safe = is_zero.where_(&zeros.add_scalar(1.0)?, target)?;
        let rows = self.dims().first().copied().unwrap_or(1).max(1);
        let terms = target.mul(&safe.log()?.sub(self)?)?;
        terms.sum()?.mul_scalar(1.0 / rows as f64)
    }

    /// The mean cross-entropy of rows of logits `[rows, classes]` and the indices of their classes,
    /// `i32` or `i64`. With weights, one for each class, it is the mean by the weights of the
    /// targets; rows that are ignored do not count.
    ///
    /// # Errors
    /// `TargetOutOfRange`, or if shapes, types or devices do not fit.
    pub fn cross_entropy_loss(
        &self,
        targets: &Self,
        weights: Option<&Self>,
        options: CrossEntropyOptions,
    ) -> Result<Self> {
        let losses = self.cross_entropy_losses(targets, weights, options)?;
        let rows = losses.elements();
        if weights.is_none() && options.ignore_index.is_none() {
            return losses.mean();
        }
        // The share that each row has in the mean: its target's weight, or nothing.
        let ones = Self::ones(losses.device(), &[rows], losses.dtype())?;
        let (targets, counts) = match options.ignore_index {
            None => (targets.clone(), ones),
            Some(ignored) => {
                let ignored = Self::full(targets.device(), &[], targets.dtype(), ignored as f64)?;
                let is_ignored = targets.eq(&ignored)?;
                let class = Self::zeros(targets.device(), &[], targets.dtype())?;
                let counts = is_ignored.where_(&ones.zeros_like()?, &ones)?;
                (is_ignored.where_(&class, targets)?, counts)
            }
        };
        let counts = match weights {
            Some(weights) => counts.mul(&weights.detach().take(0, &targets)?)?,
            None => counts,
        };
        losses.sum()?.div(&counts.sum()?)
    }

    /// The cross-entropy of each row, which [`cross_entropy_loss`](Self::cross_entropy_loss) takes
    /// the mean of.
    ///
    /// # Errors
    /// As for [`cross_entropy_loss`](Self::cross_entropy_loss).
    pub fn cross_entropy_losses(
        &self,
        targets: &Self,
        weights: Option<&Self>,
        options: CrossEntropyOptions,
    ) -> Result<Self> {
        let name = "cross_entropy";
        let weight_array = weights.map(Self::array);
        let result = cross_entropy(self.array(), targets.array(), weight_array, options)?;
        Ok(Self::record(name, Self::new(result), &[self], |_| {
            let (logits, targets) = (self.save(name), targets.save(name));
            let weights = weights.map(|weights| weights.save(name));
            move |gradient: &Self, _: &[bool]| {
                let (logits, targets) = (logits.get()?, targets.get()?);
                let weights = weights.as_ref().map(Saved::get).transpose()?;
                let array = cross_entropy_gradient(
                    logits.array(),
                    targets.array(),
                    gradient.array(),
                    weights.as_ref().map(Self::array),
                    options,
                )?;
                Ok(vec![Some(Self::new(array))])
            }
        }))
    }
}
