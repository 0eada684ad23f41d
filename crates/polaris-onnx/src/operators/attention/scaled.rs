//! Attention: scaled products of queries and keys, a mask, softmax, sums of values.

use super::heads::{self, Heads};
use super::mask::Mask;
use crate::operators::Call;
use crate::{Error, Result, Tensor, Value};

pub fn attention(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let (q, k, v) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    if q.rank() != k.rank() || k.rank() != v.rank() {
        return Err(Error::operands("queries, keys and values have different numbers of axes"));
    }
    let kv_heads = attributes.int("kv_num_heads")?;
    let query = Heads::read(q, attributes.int("q_num_heads")?)?;
    let (mut key, mut value) = (Heads::read(k, kv_heads)?, Heads::read(v, kv_heads)?);
    let past = match (call.optional(4)?, call.optional(5)?) {
        (Some(past_key), Some(past_value)) => {
            let past_key = Heads::read(past_key, None)?;
            key = key.after(&past_key)?;
            value = value.after(&Heads::read(past_value, None)?)?;
            past_key.length
        }
        (None, None) => 0,
        _ => return Err(Error::operands("past keys and past values go together")),
    };
    let group = heads::group(&query, &key, &value)?;
    let shape = [query.batch, query.heads, query.length, key.length];

    let causal = attributes.flag("is_causal", false)?.then_some(past);
    let mut mask = Mask::new(shape, causal);
    if let Some(table) = call.optional(3)? {
        mask = mask.with_table(table)?;
    }
    if let Some(counts) = call.optional(6)? {
        mask = mask.with_counts(counts)?;
    }

    let mode = attributes.int_or("qk_matmul_output_mode", 0)?;
    let wanted = call.outputs() >= 4;
    let keep = |at: i64, scores: &[f64]| -> Result<Option<Tensor>> {
        (wanted && mode == at).then(|| Tensor::from_f64(q.element(), &shape, scores)).transpose()
    };
    let scale = match attributes.float("scale")? {
        Some(scale) => f64::from(scale),
        None => 1.0 / (query.size as f64).sqrt(),
    };
    let mut scores = heads::scores(&query, &key, group, scale)?;
    let mut kept = keep(0, &scores)?;
    let cap = f64::from(attributes.float_or("softcap", 0.0)?);
    if cap > 0.0 {
        for score in &mut scores {
            *score = (*score / cap).tanh() * cap;
        }
    }
    kept = kept.or(keep(1, &scores)?);
    mask.apply(&mut scores);
    kept = kept.or(keep(2, &scores)?);
    if let Some(code) = attributes.int("softmax_precision")? {
        scores = heads::rounded(&scores, heads::precision(code)?)?;
    }
    heads::softmax(&mut scores, key.length);
    kept = kept.or(keep(3, &scores)?);

    let result = heads::weighted(&scores, &query, &value, group)?;
    let result = match q.rank() {
        3 => result.packed(q.element())?,
        _ => result.tensor(q.element())?,
    };
    let mut outputs = vec![result, key.tensor(k.element())?, value.tensor(v.element())?];
    if wanted {
        let missing = || Error::operands(format!("there is no qk_matmul_output_mode {mode}"));
        outputs.push(kept.ok_or_else(missing)?);
    }
    Ok(outputs.into_iter().map(Value::Tensor).collect())
}
