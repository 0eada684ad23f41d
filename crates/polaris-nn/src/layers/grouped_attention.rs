//! Causal self-attention with rotary positions, in which several heads share keys and values.

use std::sync::Arc;

use polaris_ops::Attention;
use polaris_tensor::Tensor;

use super::attention::hide_later;
use super::{Linear, Rotary};
use crate::export::{Value, Writer};
use crate::{Error, Init, Layer, Module, Parts, Pass, Result};

/// Grouped-query attention over `[batch, tokens, width]`: neighbouring heads share one of the heads of keys and values.
/// Tokens see only those before them. No layer has a bias.
#[derive(Debug)]
pub struct GroupedQueryAttention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: usize,
    key_heads: usize,
    rotary: Arc<Rotary>,
}

impl GroupedQueryAttention {
    /// A layer of `heads` heads, of which `heads / key_heads` share keys and values.
    ///
    /// # Errors
    /// If the width cannot be cut into heads, or the heads into groups, or there is no room.
    pub fn new(
        width: usize,
        heads: usize,
        key_heads: usize,
        rotary: &Arc<Rotary>,
        init: &mut Init,
    ) -> Result<Self> {
        let size = head_size(width, heads, key_heads)?;
        Ok(Self {
            query: Linear::new(width, width, false, init)?,
            key: Linear::new(width, key_heads * size, false, init)?,
            value: Linear::new(width, key_heads * size, false, init)?,
            output: Linear::new(width, width, false, init)?,
            heads,
            key_heads,
            rotary: Arc::clone(rotary),
        })
    }
}

/// The elements of a head.
///
/// # Errors
/// If the width cannot be cut into heads, or the heads into groups.
pub(crate) fn head_size(width: usize, heads: usize, key_heads: usize) -> Result<usize> {
    if heads == 0 || !width.is_multiple_of(heads) {
        let what = format!("a width of {width} cannot be cut into {heads} heads");
        return Err(Error::invalid(what));
    }
    if key_heads == 0 || !heads.is_multiple_of(key_heads) {
        let what = format!(
            "{heads} heads cannot share {key_heads} heads of keys and values; use a divisor of {heads}"
        );
        return Err(Error::invalid(what));
    }
    Ok(width / heads)
}

impl Layer for GroupedQueryAttention {
    fn visit(&self, parts: &mut Parts) {
        parts.layer("query", &self.query);
        parts.layer("key", &self.key);
        parts.layer("value", &self.value);
        parts.layer("output", &self.output);
    }
}

impl Module for GroupedQueryAttention {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let &[batch, tokens, width] = x.dims() else {
            let what = format!("{} is no shape of [batch, tokens, width]", x.shape());
            return Err(Error::invalid(what));
        };
        let size = width / self.heads;
        let project = |name: &str, layer: &Linear, heads: usize| -> Result<Tensor> {
            Ok(pass.apply(name, layer, x)?.reshape(&[batch, tokens, heads, size])?)
        };
        let query = self.rotary.rotate(&project("query", &self.query, self.heads)?, pass)?;
        let key = self.rotary.rotate(&project("key", &self.key, self.key_heads)?, pass)?;
        let value = project("value", &self.value, self.key_heads)?;
        let by_head = |tensor: Tensor| tensor.permute(&[0, 2, 1, 3]);
        let (query, key, value) = (by_head(query)?, by_head(key)?, by_head(value)?);
        let problem = Attention { causal: true, ..Attention::default() };
        let seen = query.attention(&key, &value, None, &problem)?;
        let seen = seen.permute(&[0, 2, 1, 3])?.reshape(&[batch, tokens, width])?;
        pass.apply("output", &self.output, &seen)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let width = self.query.inputs();
        let (groups, size) = (self.heads / self.key_heads, width / self.heads);
        let query = graph.layer("query", &self.query, x)?;
        let key = graph.layer("key", &self.key, x)?;
        let value = graph.layer("value", &self.value, x)?;
        let query = self.rotary.export(query.name(), self.heads, graph);
        let key = self.rotary.export(key.name(), self.key_heads, graph);
        // [batch, key heads, heads of a group, tokens, size]; of keys the last two are exchanged.
        let mut by_head = |x: &str, group: usize, order: [i64; 5]| {
            let shape = [0, 0, self.key_heads, group, size].map(|length| length as i64);
            let shape = graph.integers(&shape);
            let x = graph.node("Reshape", &[x, &shape], &[]);
            graph.node("Transpose", &[&x], &[("perm", order.to_vec().into())])
        };
        let query = by_head(&query, groups, [0, 2, 3, 1, 4]);
        let key = by_head(&key, 1, [0, 2, 3, 4, 1]);
        let value = by_head(value.name(), 1, [0, 2, 3, 1, 4]);
        let scale = graph.number(1.0 / (size as f64).sqrt());
        let scores = graph.node("MatMul", &[&query, &key], &[]);
        let scores = graph.node("Mul", &[&scores, &scale], &[]);
        let scores = hide_later(&scores, graph);
        let shares = graph.node("Softmax", &[&scores], &[("axis", (-1).into())]);
        let seen = graph.node("MatMul", &[&shares, &value], &[]);
        let order = vec![0, 3, 1, 2, 4];
        let seen = graph.node("Transpose", &[&seen], &[("perm", order.into())]);
        let shape = graph.integers(&[0, 0, width as i64]);
        let seen = x.like(graph.node("Reshape", &[&seen, &shape], &[]));
        graph.layer("output", &self.output, &seen)
    }
}
