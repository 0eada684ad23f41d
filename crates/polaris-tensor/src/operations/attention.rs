//! Scaled dot-product attention, without a matrix of scores in memory.

use polaris_core::Shape;
use polaris_ops::attention::{Attended, Attention, attention, attention_gradient};
use polaris_ops::rope::{Pairing, rope};
use polaris_ops::{Array, copy};

use crate::{Error, Result, Saved, Tensor};

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

    /// Rotary position embedding: the pairs of the last axis are rotated by angles whose cosines and sines have an
    /// element for each pair and broadcast along all other axes. The tables get no gradient.
    ///
    /// # Errors
    /// If shapes, types or devices do not fit.
    pub fn rope(&self, cos: &Self, sin: &Self, pairing: Pairing) -> Result<Self> {
        let name = "rope";
        let result = Self::new(rope(self.array(), cos.array(), sin.array(), pairing)?);
        Ok(Self::record(name, result, &[self], |_| {
            let saved = [cos, sin].map(|tensor| tensor.save(name));
            move |gradient: &Self, _: &[bool]| {
                // The gradient is rotated back.
                let [cos, sin] = saved.each_ref().map(Saved::get);
                Ok(vec![Some(gradient.rope(&cos?, &sin?.neg()?, pairing)?)])
            }
        }))
    }

    /// Attention of tokens to each other, from queries, keys and values side by side:
    /// `[batch, tokens, 3 * width]` becomes `[batch, tokens, width]`. Each third is cut into heads.
    /// The three are never taken apart in memory, nor are their gradients.
    ///
    /// # Errors
    /// If the width cannot be cut so, or shapes, types or devices do not fit.
    pub fn self_attention(
        &self,
        heads: usize,
        mask: Option<&Self>,
        problem: &Attention,
    ) -> Result<Self> {
        let name = "self_attention";
        let &[batch, tokens, all] = self.dims() else {
            let what = format!("a tensor of shape {} is not [batch, tokens, width]", self.shape());
            return Err(Error::InvalidParameter { op: name, what });
        };
        if heads == 0 || !all.is_multiple_of(3 * heads) {
            let what = format!("a width of {all} cannot be cut into three times {heads} heads");
            return Err(Error::InvalidParameter { op: name, what });
        }
        let depth = all / (3 * heads);
        let mask = mask.map(|mask| mask.as_added_mask(self)).transpose()?;
        let thirds = move |tensor: &Self| -> Result<[Self; 3]> {
            let cut =
                tensor.reshape(&[batch, tokens, 3, heads, depth])?.permute(&[2, 0, 3, 1, 4])?;
            Ok([cut.select(0, 0)?, cut.select(0, 1)?, cut.select(0, 2)?])
        };
        let dense = self.detach().contiguous()?;
        let [q, k, v] = thirds(&dense)?;
        let mask_array = mask.as_ref().map(Self::array);
        let attended = attention(problem, q.array(), k.array(), v.array(), mask_array)?;
        let output = Self::new(attended.output.clone());
        let result = output.permute(&[0, 2, 1, 3])?.reshape(&[batch, tokens, heads * depth])?;
        let problem = *problem;
        Ok(Self::record(name, result, &[self], |_| {
            let (dense, mask) = (dense.save(name), mask.map(|mask| mask.save(name)));
            move |gradient: &Self, _: &[bool]| {
                let mask = mask.as_ref().map(Saved::get).transpose()?;
                let [q, k, v] = thirds(&dense.get()?)?;
                let g = gradient.reshape(&[batch, tokens, heads, depth])?;
                let found = attention_gradient(
                    &problem,
                    q.array(),
                    k.array(),
                    v.array(),
                    mask.as_ref().map(Self::array),
                    &attended,
                    g.permute(&[0, 2, 1, 3])?.array(),
                )?;
                let shape = Shape::new(&[batch, tokens, all])?;
                let whole = Self::new(Array::empty(gradient.device(), gradient.dtype(), shape)?);
                for (part, third) in [found.q, found.k, found.v].iter().zip(thirds(&whole)?) {
                    copy::into(part, third.array())?;
                }
                Ok(vec![Some(whole)])
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
