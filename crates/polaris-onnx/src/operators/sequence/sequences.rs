//! Sequences of tensors.

use crate::limits::checked_elements;
use crate::operators::indexing::index;
use crate::operators::shape::join::{join, section, stack};
use crate::operators::shape::length;
use crate::operators::{Call, axis, one};
use crate::{ElementType, Error, Result, Tensor, Value};

fn sequence<'a>(call: &'a Call<'_>) -> Result<&'a [Value]> {
    call.value(0).ok_or_else(|| Error::operands("the sequence is missing"))?.values()
}

/// A position, if one is given.
fn position(call: &Call<'_>, operand: usize) -> Result<Option<i64>> {
    let Some(tensor) = call.optional(operand)? else { return Ok(None) };
    match tensor.to_i64()?.as_slice() {
        [position] => Ok(Some(*position)),
        other => Err(Error::operands(format!("{} positions were given, not one", other.len()))),
    }
}

pub fn sequence_at(call: &Call<'_>) -> Result<Vec<Value>> {
    let values = sequence(call)?;
    let position = position(call, 1)?.ok_or_else(|| Error::operands("the position is missing"))?;
    Ok(vec![values[index(position, values.len())?].clone()])
}

pub fn sequence_construct(call: &Call<'_>) -> Result<Vec<Value>> {
    let tensors = call.tensors()?.into_iter().cloned().map(Value::Tensor);
    Ok(vec![Value::sequence(tensors.collect())])
}

pub fn sequence_empty(_: &Call<'_>) -> Result<Vec<Value>> {
    Ok(vec![Value::sequence(Vec::new())])
}

pub fn sequence_erase(call: &Call<'_>) -> Result<Vec<Value>> {
    let mut values = sequence(call)?.to_vec();
    let position = position(call, 1)?.unwrap_or(-1);
    values.remove(index(position, values.len())?);
    Ok(vec![Value::sequence(values)])
}

pub fn sequence_insert(call: &Call<'_>) -> Result<Vec<Value>> {
    let mut values = sequence(call)?.to_vec();
    let count = values.len();
    let at = match position(call, 2)? {
        // Behind the last is a place, too.
        Some(position) if position == count as i64 => count,
        Some(position) => index(position, count)?,
        None => count,
    };
    values.insert(at, Value::Tensor(call.tensor(1)?.clone()));
    Ok(vec![Value::sequence(values)])
}

pub fn sequence_length(call: &Call<'_>) -> Result<Vec<Value>> {
    Ok(one(Tensor::scalar(sequence(call)?.len() as i64)))
}

pub fn concat_from_sequence(call: &Call<'_>) -> Result<Vec<Value>> {
    let tensors = sequence(call)?.iter().map(Value::tensor).collect::<Result<Vec<&Tensor>>>()?;
    let rank = tensors.first().map_or(0, |tensor| tensor.rank());
    let number = call.attributes().int("axis")?;
    let number = number.ok_or_else(|| Error::operands("the attribute `axis` is missing"))?;
    if call.attributes().flag("new_axis", false)? {
        return Ok(one(stack(&tensors, axis(number, rank + 1)?)?));
    }
    Ok(one(join(&tensors, axis(number, rank)?)?))
}

pub fn split_to_sequence(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let at = axis(call.attributes().int_or("axis", 0)?, data.rank())?;
    let whole = *data.shape().get(at).ok_or_else(|| Error::operands("a scalar cannot be split"))?;
    let split = call.optional(1)?;
    let lengths = match split {
        Some(lengths) if lengths.rank() > 0 => {
            lengths.to_i64()?.into_iter().map(length).collect::<Result<Vec<usize>>>()?
        }
        _ => {
            let part = split.map(|part| part.to_i64()).transpose()?;
            even_parts(whole, part.as_deref().map_or(Ok(1), |part| length(part[0]))?)?
        }
    };
    let drop_axis = split.is_none() && !call.attributes().flag("keepdims", true)?;
    let mut parts = Vec::with_capacity(lengths.len());
    let mut start = 0usize;
    for length in lengths {
        let part = section(data, at, start, length)?;
        start += length;
        parts.push(Value::Tensor(if drop_axis {
            let mut shape = part.shape().to_vec();
            shape.remove(at);
            part.reshaped(&shape)?
        } else {
            part
        }));
    }
    if start != whole {
        return Err(Error::operands(format!("the parts do not add up to {whole}")));
    }
    Ok(vec![Value::sequence(parts)])
}

/// Parts of one length; the last one may be shorter.
fn even_parts(whole: usize, part: usize) -> Result<Vec<usize>> {
    if part == 0 {
        return Err(Error::operands("parts of length 0"));
    }
    let count = whole.div_ceil(part);
    // A long axis beside an empty one holds no elements, but each part of it takes memory.
    checked_elements(ElementType::C128, &[count, 16])?;
    Ok((0..count).map(|index| part.min(whole - index * part)).collect())
}
