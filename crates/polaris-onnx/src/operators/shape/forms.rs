//! Reshape and similar operators, and shapes as values.

use super::{length, numbers};
use crate::operators::distinct_axes;
use crate::operators::{Call, axis, one};
use crate::{Error, Result, Tensor, Value};

pub fn reshape(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let wanted =
        numbers(call, "shape", 1)?.ok_or_else(|| Error::operands("the new shape is missing"))?;
    let keep_zeros = call.attributes().flag("allowzero", false)?;
    let mut open = None;
    let mut shape = Vec::with_capacity(wanted.len());
    for (axis, &value) in wanted.iter().enumerate() {
        shape.push(match value {
            0 if !keep_zeros => *data.shape().get(axis).ok_or_else(|| {
                Error::operands(format!("there is no axis {axis} to take the length of"))
            })?,
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            -1 => return Err(Error::operands("more than one length of the new shape is -1")),
            other => length(other)?,
        });
    }
    if let Some(axis) = open {
        let known = shape.iter().try_fold(1usize, |product, &length| product.checked_mul(length));
        let rest = known.filter(|&known| known > 0 && data.elements() % known == 0);
        let rest = rest.ok_or_else(|| {
            let (from, to) = (data.shape(), &wanted);
            Error::operands(format!("{from:?} cannot take the shape {to:?}"))
        })?;
        shape[axis] = data.elements() / rest;
    }
    Ok(one(data.reshaped(&shape)?))
}

pub fn flatten(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let number = call.attributes().int_or("axis", 1)?;
    // The axis may be the one after the last.
    let at = if number == data.rank() as i64 { data.rank() } else { axis(number, data.rank())? };
    let (before, after) = data.shape().split_at(at.min(data.rank()));
    Ok(one(data.reshaped(&[before.iter().product(), after.iter().product()])?))
}

pub fn squeeze(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let shape = data.shape();
    let mut drop: Vec<bool> = shape.iter().map(|&length| length == 1).collect();
    if let Some(axes) = numbers(call, "axes", 1)? {
        drop.fill(false);
        for at in distinct_axes(&axes, shape.len())? {
            if shape[at] != 1 {
                let why = format!("the axis {at} of {shape:?} is not of length 1");
                return Err(Error::operands(why));
            }
            drop[at] = true;
        }
    }
    let kept = shape.iter().zip(drop).filter(|&(_, drop)| !drop).map(|(&length, _)| length);
    Ok(one(data.reshaped(&kept.collect::<Vec<usize>>())?))
}

pub fn unsqueeze(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let axes = numbers(call, "axes", 1)?.ok_or_else(|| Error::operands("the axes are missing"))?;
    let rank = data.rank() + axes.len();
    let mut is_new = vec![false; rank];
    for at in distinct_axes(&axes, rank)? {
        is_new[at] = true;
    }
    let mut old = data.shape().iter().copied();
    let shape: Vec<usize> =
        is_new.iter().map(|&new| if new { 1 } else { old.next().unwrap_or(1) }).collect();
    Ok(one(data.reshaped(&shape)?))
}

pub fn shape(call: &Call<'_>) -> Result<Vec<Value>> {
    let shape = call.tensor(0)?.shape();
    let rank = shape.len() as i64;
    let bound = |name: &str, default: i64| -> Result<usize> {
        let value = call.attributes().int_or(name, default)?;
        let from_start = if value < 0 { value.saturating_add(rank) } else { value };
        Ok(from_start.clamp(0, rank) as usize)
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    let part = shape.get(start..end).unwrap_or(&[]);
    let lengths: Vec<i64> = part.iter().map(|&length| length as i64).collect();
    Ok(one(Tensor::new(&[lengths.len()], lengths)?))
}

pub fn size(call: &Call<'_>) -> Result<Vec<Value>> {
    Ok(one(Tensor::scalar(call.tensor(0)?.elements() as i64)))
}
