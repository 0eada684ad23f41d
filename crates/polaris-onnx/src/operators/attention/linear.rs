//! LinearAttention: a state that each token changes, instead of scores of all pairs.

use super::heads::Heads;
use crate::operators::Call;
use crate::{Error, Result, Tensor, Value};

/// What a token does to the state before its own product is added.
struct Rule {
    /// The state decays.
    gated: bool,
    /// What the state already says of the key is taken off the value.
    delta: bool,
}

fn rule(call: &Call<'_>) -> Result<Rule> {
    let name = call.attributes().string_or("update_rule", "gated_delta")?;
    let (gated, delta) = match name {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        _ => return Err(Error::operands(format!("there is no update_rule `{name}`"))),
    };
    if gated != call.value(4).is_some() || delta != call.value(5).is_some() {
        return Err(Error::operands(format!("decay or beta do not match `{name}`")));
    }
    Ok(Rule { gated, delta })
}

/// A positive number of heads, which is required.
fn head_count(call: &Call<'_>, name: &str) -> Result<usize> {
    let count = call.attributes().int(name)?.and_then(|count| usize::try_from(count).ok());
    count.filter(|&count| count > 0).ok_or_else(|| Error::operands(format!("`{name}` is missing")))
}

/// Numbers for each token and head: `wide` of them, or one for all.
struct PerToken {
    values: Vec<f64>,
    heads: usize,
    each: usize,
}

impl PerToken {
    fn read(
        tensor: Option<&Tensor>,
        tokens: [usize; 2],
        heads: usize,
        each: usize,
    ) -> Result<Self> {
        let Some(tensor) = tensor else {
            return Ok(Self { values: Vec::new(), heads: 1, each: 1 });
        };
        let (found, [batch, length]) = (tensor.shape(), tokens);
        let (heads, each) = match *found {
            [b, t, last] if [b, t] == [batch, length] && last == heads => (heads, 1),
            [b, t, last] if [b, t] == [batch, length] && last == heads * each => (heads, each),
            [b, t, 1] if [b, t] == [batch, length] && each == 1 => (1, 1),
            _ => {
                let why = format!("{found:?} does not match {heads} heads in {tokens:?}");
                return Err(Error::operands(why));
            }
        };
        Ok(Self { values: tensor.to_f64()?, heads, each })
    }

    fn get(&self, token: usize, head: usize, index: usize) -> f64 {
        let head = if self.heads == 1 { 0 } else { head };
        let index = if self.each == 1 { 0 } else { index };
        self.values[(token * self.heads + head) * self.each + index]
    }
}

pub fn linear_attention(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let (q, k, v) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    if [q, k, v].iter().any(|operand| operand.rank() != 3) {
        return Err(Error::operands("queries, keys and values need three axes"));
    }
    let rule = rule(call)?;
    let (q_heads, kv_heads) = (head_count(call, "q_num_heads")?, head_count(call, "kv_num_heads")?);
    let query = Heads::read(q, Some(q_heads as i64))?;
    let key = Heads::read(k, Some(kv_heads as i64))?;
    let value = Heads::read(v, Some(kv_heads as i64))?;
    let group = super::heads::group(&query, &key, &value)?;
    if query.length != key.length {
        return Err(Error::operands("queries and keys have different lengths"));
    }
    let (batch, length, d_k, d_v) = (query.batch, query.length, query.size, value.size);
    let decay = PerToken::read(call.optional(4)?, [batch, length], kv_heads, d_k)?;
    let beta = PerToken::read(call.optional(5)?, [batch, length], kv_heads, 1)?;

    let state_shape = [batch, kv_heads, d_k, d_v];
    let (mut states, state_element) = match call.optional(3)? {
        Some(past) if past.shape() == state_shape => (past.to_f64()?, past.element()),
        Some(past) => {
            let found = past.shape();
            let why = format!("a state of {state_shape:?} was expected, not {found:?}");
            return Err(Error::operands(why));
        }
        None => (Tensor::zeros(q.element(), &state_shape)?.to_f64()?, q.element()),
    };
    let scale = match attributes.float_or("scale", 0.0)? {
        0.0 => 1.0 / (d_k as f64).sqrt(),
        scale => f64::from(scale),
    };
    let shape = [batch, q_heads, length, d_v];
    let mut results = Tensor::zeros(q.element(), &shape)?.to_f64()?;
    for at in 0..batch * kv_heads {
        let (of, head) = (at / kv_heads, at % kv_heads);
        let state = &mut states[at * d_k * d_v..(at + 1) * d_k * d_v];
        let (keys, values) = (key.head(of, head), value.head(of, head));
        for time in 0..length {
            let token = of * length + time;
            let k = &keys[time * d_k..(time + 1) * d_k];
            let mut v = values[time * d_v..(time + 1) * d_v].to_vec();
            if rule.gated {
                for (index, row) in state.chunks_mut(d_v.max(1)).enumerate() {
                    let factor = decay.get(token, head, index).exp();
                    row.iter_mut().for_each(|number| *number *= factor);
                }
            }
            if rule.delta {
                let known = product(k, state, d_v);
                let rate = beta.get(token, head, 0);
                for (number, known) in v.iter_mut().zip(known) {
                    *number = rate * (*number - known);
                }
            }
            for (row, &k) in state.chunks_mut(d_v.max(1)).zip(k) {
                for (number, &v) in row.iter_mut().zip(&v) {
                    *number += k * v;
                }
            }
            for reader in head * group..(head + 1) * group {
                let q = &query.head(of, reader)[time * d_k..(time + 1) * d_k];
                let start = ((of * q_heads + reader) * length + time) * d_v;
                let read = product(q, state, d_v);
                for (result, number) in results[start..start + d_v].iter_mut().zip(read) {
                    *result = scale * number;
                }
            }
        }
    }
    let result = Heads::new(shape, results).packed(q.element())?;
    let state = Tensor::from_f64(state_element, &state_shape, &states)?;
    Ok(vec![Value::Tensor(result), Value::Tensor(state)])
}

/// A row vector times a matrix with `columns`.
fn product(vector: &[f64], matrix: &[f64], columns: usize) -> Vec<f64> {
    let mut result = vec![0.0; columns];
    for (row, &factor) in matrix.chunks(columns.max(1)).zip(vector) {
        for (sum, &number) in result.iter_mut().zip(row) {
            *sum += factor * number;
        }
    }
    result
}
