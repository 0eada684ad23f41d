//! Tensors concatenated along an axis, and split: Concat, Split.

use super::{length, numbers};
use crate::limits::checked_elements;
use crate::operators::{Call, axis, one};
use crate::room::with_room;
use crate::{ElementType, Error, Result, Tensor, Value};

/// Tensors one after another along an axis that they have.
pub fn join(parts: &[&Tensor], at: usize) -> Result<Tensor> {
    let first = *parts.first().ok_or_else(|| Error::operands("nothing to put together"))?;
    let (element, mut shape) = (first.element(), first.shape().to_vec());
    let mut along = 0usize;
    for part in parts {
        let fits = part.rank() == shape.len()
            && part.element() == element
            && (0..shape.len()).all(|axis| axis == at || part.shape()[axis] == shape[axis]);
        let more = part.shape().get(at).filter(|_| fits).ok_or_else(|| {
            let found = (part.element(), part.shape());
            let why = format!("{element}{shape:?} and {}{:?} are incompatible", found.0, found.1);
            Error::operands(why)
        })?;
        along = along.saturating_add(*more);
    }
    shape[at] = along;
    let elements = checked_elements(element, &shape)?;
    let outer: usize = shape[..at].iter().product();
    let inner: usize = shape[at + 1..].iter().product();
    let lengths: Vec<usize> = parts.iter().map(|part| part.shape()[at] * inner).collect();
    if element == ElementType::String {
        let lists = parts.iter().map(|part| part.as_strings()).collect::<Result<Vec<_>>>()?;
        let mut strings = with_room(elements)?;
        for row in 0..outer {
            for (list, &length) in lists.iter().zip(&lengths) {
                strings.extend_from_slice(&list[row * length..(row + 1) * length]);
            }
        }
        return Tensor::strings(&shape, strings);
    }
    let lists = parts.iter().map(|part| part.bytes()).collect::<Result<Vec<_>>>()?;
    let mut bytes = with_room(elements * element.size())?;
    for row in 0..outer {
        for (list, &length) in lists.iter().zip(&lengths) {
            let length = length * element.size();
            bytes.extend_from_slice(&list[row * length..(row + 1) * length]);
        }
    }
    Tensor::from_bytes(element, &shape, bytes.into())
}

/// Tensors of one shape one after another along a new axis.
pub fn stack(parts: &[&Tensor], at: usize) -> Result<Tensor> {
    let raised = parts
        .iter()
        .map(|part| {
            let mut shape = part.shape().to_vec();
            if at > shape.len() {
                return Err(Error::operands(format!("no new axis {at} fits {shape:?}")));
            }
            shape.insert(at, 1);
            part.reshaped(&shape)
        })
        .collect::<Result<Vec<Tensor>>>()?;
    join(&raised.iter().collect::<Vec<&Tensor>>(), at)
}

/// A part of an axis that the tensor has: `length` indices from `start` on.
pub fn section(tensor: &Tensor, at: usize, start: usize, length: usize) -> Result<Tensor> {
    let mut shape = tensor.shape().to_vec();
    let whole = shape.get(at).copied().unwrap_or(0);
    if start.checked_add(length).is_none_or(|end| end > whole) {
        let why = format!("{length} indices from {start} on are not in an axis of {whole}");
        return Err(Error::operands(why));
    }
    shape[at] = length;
    let outer: usize = shape[..at].iter().product();
    let inner: usize = shape[at + 1..].iter().product();
    let rows = (0..outer).map(|row| (row * whole + start) * inner);
    if tensor.element() == ElementType::String {
        let strings = tensor.as_strings()?;
        let part = rows.flat_map(|from| strings[from..from + length * inner].iter().cloned());
        return Tensor::strings(&shape, part.collect());
    }
    let (bytes, size) = (tensor.bytes()?, tensor.element().size());
    let mut part = with_room(outer * length * inner * size)?;
    for from in rows {
        part.extend_from_slice(&bytes[from * size..(from + length * inner) * size]);
    }
    Tensor::from_bytes(tensor.element(), &shape, part.into())
}

pub fn concat(call: &Call<'_>) -> Result<Vec<Value>> {
    let parts = call.tensors()?;
    let rank = parts.first().map_or(0, |part| part.rank());
    let at = axis(call.attributes().int_or("axis", 1)?, rank)?;
    Ok(one(join(&parts, at)?))
}

pub fn split(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let at = axis(call.attributes().int_or("axis", 0)?, data.rank())?;
    let whole = *data.shape().get(at).ok_or_else(|| Error::operands("a scalar cannot be split"))?;
    let lengths = match numbers(call, "split", 1)? {
        Some(lengths) => lengths.into_iter().map(length).collect::<Result<Vec<usize>>>()?,
        None => {
            let wanted = call.outputs();
            let count = call.attributes().int("num_outputs")?.map_or(Ok(wanted), length)?;
            if count != wanted {
                let why = format!("num_outputs is {count}, but {wanted} results are named");
                return Err(Error::operands(why));
            }
            even_parts(whole, whole.div_ceil(count.max(1)), count)
        }
    };
    if lengths.iter().try_fold(0usize, |sum, &length| sum.checked_add(length)) != Some(whole) {
        let why = format!("the parts {lengths:?} do not add up to {whole}");
        return Err(Error::operands(why));
    }
    let mut start = 0;
    let mut parts = Vec::with_capacity(lengths.len());
    for length in lengths {
        parts.push(Value::Tensor(section(data, at, start, length)?));
        start += length;
    }
    Ok(parts)
}

/// `count` parts of the same length, the last ones shorter where there is not enough.
fn even_parts(whole: usize, part: usize, count: usize) -> Vec<usize> {
    (0..count).map(|index| part.min(whole.saturating_sub(part.saturating_mul(index)))).collect()
}
