//! FlexAttention: attention with graphs that change scores and probabilities.

use super::heads::{self, Heads};
use crate::operators::{Call, control, one};
use crate::{Attribute, ElementType, Error, Result, Tensor, Value};

pub fn flex_attention(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let (q, k, v) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    if [q, k, v].iter().any(|operand| operand.rank() != 4) {
        return Err(Error::operands("queries, keys and values need four axes"));
    }
    let (query, key, value) = (Heads::read(q, None)?, Heads::read(k, None)?, Heads::read(v, None)?);
    let group = heads::group(&query, &key, &value)?;
    let precision = match attributes.int("softmax_precision")? {
        Some(code) => heads::precision(code)?,
        None if q.element() == ElementType::F64 => ElementType::F64,
        None => ElementType::F32,
    };
    let scale = match attributes.float("scale")? {
        Some(scale) => f64::from(scale),
        None => 1.0 / (query.size as f64).sqrt(),
    };
    let shape = [query.batch, query.heads, query.length, key.length];
    let scores = heads::scores(&query, &key, group, scale)?;
    let mut scores = changed(call, "score_mod", precision, &shape, scores)?;
    heads::softmax(&mut scores, key.length);
    let probabilities = changed(call, "prob_mod", precision, &shape, scores)?;
    let result = heads::weighted(&probabilities, &query, &value, group)?;
    Ok(one(result.tensor(q.element())?))
}

/// What the graph makes of the values, or the values themselves without it.
fn changed(
    call: &Call<'_>,
    name: &str,
    element: ElementType,
    shape: &[usize],
    values: Vec<f64>,
) -> Result<Vec<f64>> {
    let graph = match call.attributes().get(name) {
        None => return Ok(values),
        Some(Attribute::Graph(graph)) => graph,
        Some(_) => return Err(Error::operands(format!("the attribute `{name}` is not a graph"))),
    };
    let given = Tensor::from_f64(element, shape, &values)?;
    let results = control::run(call, graph, vec![Value::Tensor(given)])?;
    let [result] = results.as_slice() else {
        return Err(Error::operands(format!("`{name}` should have one result")));
    };
    let result = result.tensor()?;
    if result.shape() != shape {
        let found = result.shape();
        return Err(Error::operands(format!("`{name}` made {found:?} of {shape:?}")));
    }
    result.to_f64()
}
