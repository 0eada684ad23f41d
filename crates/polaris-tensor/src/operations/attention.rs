//! Scaled dot-product attention, without a matrix of scores in memory.

use polaris_ops::attention::{Attended, Attention, attention, attention_gradient};

use crate::{Result, Saved, Tensor};

impl Tensor {
    /// Attention of these queries `[batch, heads, queries, depth]` to keys
    /// `[batch, key heads, keys, depth]` and values `[batch, key heads, keys, width]`, where
    /// neighbouring heads share the key heads. A mask is added to the scores; a `bool` mask hides
    /// what is false. The mask gets no gradient.
    ///
    /// # Errors
    /// If shapes, types or devices do not fit.
    pub fn attention(
        &self,
        key: &Self,
        value: &Self,
        mask: Option<&Self>,
        problem: &Attention,
    ) -> Result<Self> {
        let name = "attention";
        let mask = mask.map(|mask| mask.as_added_mask(self)).transpose()?;
        let [q, k, v] = [self, key, value].map(Self::array);
        let attended = attention(problem, q, k, v, mask.as_ref().map(Self::array))?;
        let log_sum_exp = attended.log_sum_exp;
        let result = Self::new(attended.output);
        let problem = *problem;
        Ok(Self::record(name, result, &[self, key, value], |result| {
            let saved = [self, key, value, result].map(|tensor| tensor.save(name));
            let mask = mask.map(|mask| mask.save(name));
            move |gradient: &Self, needed: &[bool]| {
                let [q, k, v, output] = saved.each_ref().map(Saved::get);
                let mask = mask.as_ref().map(Saved::get).transpose()?;
                let attended =
                    Attended { output: output?.array().clone(), log_sum_exp: log_sum_exp.clone() };
                let found = attention_gradient(
                    &problem,
                    q?.array(),
                    k?.array(),
                    v?.array(),
                    mask.as_ref().map(Self::array),
                    &attended,
                    gradient.array(),
                )?;
                let found = [found.q, found.k, found.v].into_iter().zip(needed);
                Ok(found.map(|(array, &needed)| needed.then(|| Self::new(array))).collect())
            }
        }))
    }

    /// A mask of truth values as one that is added to scores of another tensor's type.
    fn as_added_mask(&self, like: &Self) -> Result<Self> {
        if self.dtype().is_float() {
            return Ok(self.detach());
        }
        let number = |value: f64| Self::full(like.device(), &[], like.dtype(), value);
        self.where_(&number(0.0)?, &number(f64::NEG_INFINITY)?)
    }
}
