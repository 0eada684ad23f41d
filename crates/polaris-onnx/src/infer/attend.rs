//! Attention and what belongs to it.

use super::elementwise::same;
use super::{Fact, Known, Rule, dims};
use crate::{Dim, Error, Result};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Attention", attention),
    ("CausalConvWithState", causal_conv),
    ("LinearAttention", linear_attention),
    ("RotaryEmbedding", same),
];

pub(super) const PREVIEW: &[(&str, Rule)] = &[("FlexAttention", flex_attention)];

/// Lengths of vectors of heads.
struct Heads {
    batch: Dim,
    heads: Dim,
    length: Dim,
    size: Dim,
}

/// Of an operand with four axes, or with three of which the last holds all heads.
fn heads(known: &Known<'_>, index: usize, attribute: &str) -> Result<Option<Heads>> {
    let Some(shape) = known.shape(index) else { return Ok(None) };
    Ok(match shape.as_slice() {
        [batch, heads, length, size] => Some(Heads {
            batch: batch.clone(),
            heads: heads.clone(),
            length: length.clone(),
            size: size.clone(),
        }),
        [batch, length, hidden] => {
            let heads = known.attributes().int(attribute)?;
            let heads = heads.and_then(|heads| usize::try_from(heads).ok()).filter(|&n| n > 0);
            let size = match heads {
                Some(1) => hidden.clone(),
                Some(heads) => dims::map(hidden, |hidden| {
                    let whole = (hidden % heads == 0).then_some(hidden / heads);
                    let why = format!("{hidden} features cannot be split into {heads} heads");
                    whole.ok_or_else(|| Error::operands(why))
                })?,
                None => Dim::Unknown,
            };
            let heads = heads.map_or(Dim::Unknown, Dim::Known);
            Some(Heads { batch: batch.clone(), heads, length: length.clone(), size })
        }
        _ => None,
    })
}

fn attention(known: &Known<'_>) -> Result<Vec<Fact>> {
    let q = heads(known, 0, "q_num_heads")?;
    let (k, v) = (heads(known, 1, "kv_num_heads")?, heads(known, 2, "kv_num_heads")?);
    let elements = [known.element(0), known.element(1), known.element(2)];
    let (Some(q), Some(k), Some(v)) = (q, k, v) else {
        let [y, key, value] = elements.map(|element| Fact::tensor(element, None));
        return Ok(vec![y.clone(), key, value, y]);
    };
    let packed = known.shape(0).is_some_and(|shape| shape.len() == 3);
    let result = if packed {
        vec![q.batch.clone(), q.length.clone(), dims::times(&q.heads, &v.size)?]
    } else {
        vec![q.batch.clone(), q.heads.clone(), q.length.clone(), v.size.clone()]
    };
    let with_past = |length: &Dim, index: usize| match known.fact(index) {
        None => Ok(length.clone()),
        Some(_) => {
            let past = known.shape(index).and_then(|shape| shape.get(2).cloned());
            dims::sum(&[past.unwrap_or(Dim::Unknown), length.clone()])
        }
    };
    let (keys, values) = (with_past(&k.length, 4)?, with_past(&v.length, 5)?);
    let scores = vec![q.batch, q.heads, q.length, keys.clone()];
    Ok(vec![
        Fact::tensor(elements[0], Some(result)),
        Fact::tensor(elements[1], Some(vec![k.batch, k.heads, keys, k.size])),
        Fact::tensor(elements[2], Some(vec![v.batch, v.heads, values, v.size])),
        Fact::tensor(elements[0], Some(scores)),
    ])
}

fn flex_attention(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match (known.shape(0).as_deref(), known.shape(2).as_deref()) {
        (Some([batch, heads, length, _]), Some([_, _, _, size])) => {
            Some([batch, heads, length, size].map(Dim::clone).to_vec())
        }
        _ => None,
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn linear_attention(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(0);
    let state = if known.fact(3).is_some() { known.element(3) } else { element };
    let q = heads(known, 0, "q_num_heads")?;
    let (k, v) = (heads(known, 1, "kv_num_heads")?, heads(known, 2, "kv_num_heads")?);
    let (Some(q), Some(k), Some(v)) = (q, k, v) else {
        return Ok(vec![Fact::tensor(element, None), Fact::tensor(state, None)]);
    };
    let result = vec![q.batch, q.length, dims::times(&q.heads, &v.size)?];
    let size = dims::same(&q.size, &k.size)?;
    let states = vec![k.batch, k.heads, size, v.size];
    Ok(vec![Fact::tensor(element, Some(result)), Fact::tensor(state, Some(states))])
}

/// The result, and the steps before the next one: one less than the kernel has.
fn causal_conv(known: &Known<'_>) -> Result<Vec<Fact>> {
    let kernel = known.shape(1).and_then(|shape| shape.get(2).cloned());
    let state = match (known.shape(0).as_deref(), kernel) {
        (Some([batch, channels, _]), Some(kernel)) => {
            Some(vec![batch.clone(), channels.clone(), dims::plus(&kernel, -1)?])
        }
        _ => None,
    };
    Ok(vec![known.same(0), Fact::tensor(known.element(0), state)])
}
