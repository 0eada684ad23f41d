//! MaxPool with the places of the largest elements, and MaxUnpool, which puts them back.

use super::pool::{pool_windows, visit_windows};
use super::window;
use crate::limits::checked_elements;
use crate::operators::{Call, walk};
use crate::room::filled;
use crate::{ElementType, Error, Result, Tensor, Value};

pub fn max_pool(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let windows = pool_windows(call, x)?;
    let (batch, channels, axes) = window::split_shape(x.shape())?;
    let shape = window::output_shape(batch, channels, &windows);
    let elements = checked_elements(ElementType::F64, &shape)?;
    // A window on padding alone has no largest element.
    let least = if x.element().is_float() { f64::NEG_INFINITY } else { 0.0 };
    let (mut y, mut places) = (filled(least, elements)?, filled(0i64, elements)?);
    let values = x.to_f64()?;
    let input: usize = axes.iter().product();
    let output: usize = windows.iter().map(|window| window.output).product();
    let column_major = call.attributes().flag("storage_order", false)?;
    if elements > 0 {
        visit_windows(&windows, |place, met, _| {
            for plane in 0..batch * channels {
                let channel = &values[plane * input..(plane + 1) * input];
                let mut best: Option<usize> = None;
                for &at in met {
                    if best.is_none_or(|best| channel[at] > channel[best] || channel[at].is_nan()) {
                        best = Some(at);
                    }
                }
                let Some(best) = best else { continue };
                let own = if column_major { first_axis_fastest(best, axes) } else { best };
                y[plane * output + place] = channel[best];
                places[plane * output + place] = (plane * input + own) as i64;
            }
        });
    }
    Ok(vec![
        Value::Tensor(Tensor::from_f64(x.element(), &shape, &y)?),
        Value::Tensor(Tensor::new(&shape, places)?),
    ])
}

/// The flat place of an element if the first axis were the one whose neighbours lie side by side.
fn first_axis_fastest(place: usize, shape: &[usize]) -> usize {
    let at = walk::coordinates(place, shape);
    at.iter().zip(shape).rev().fold(0, |sum, (&at, &length)| sum * length + at)
}

pub fn max_unpool(call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, places) = (call.tensor(0)?, call.tensor(1)?.to_i64()?);
    let (batch, channels, axes) = window::split_shape(x.shape())?;
    let attributes = call.attributes();
    let kernel = window::kernel_shape(attributes, axes.len())?;
    let strides = window::positive(attributes, "strides", axes.len())?;
    let pads = window::pads(attributes, axes.len())?;
    let mut made = vec![batch, channels];
    for (axis, &length) in axes.iter().enumerate() {
        let (before, after) = pads[axis];
        let full = (length as i128 - 1) * strides[axis] as i128 + kernel[axis] as i128
            - i128::from(before)
            - i128::from(after);
        let full = usize::try_from(full.max(0));
        made.push(full.map_err(|_| Error::operands("the result would be too large"))?);
    }
    let shape = match call.optional(2)? {
        Some(shape) => {
            let wrong = |_| Error::operands("a length of the result is negative");
            let list = shape.to_i64()?.into_iter().map(usize::try_from);
            list.collect::<std::result::Result<Vec<usize>, _>>().map_err(wrong)?
        }
        None => made.clone(),
    };
    if shape.len() != made.len() || shape.iter().zip(&made).any(|(large, made)| large < made) {
        return Err(Error::operands(format!("{made:?} does not fit into {shape:?}")));
    }
    let inner = checked_elements(ElementType::F64, &made)?;
    let mut y = filled(0.0, checked_elements(ElementType::F64, &shape)?)?;
    let values = x.to_f64()?;
    if places.len() != values.len() {
        return Err(Error::operands("there is not one place for each element"));
    }
    let strides = walk::strides(&shape);
    for (&place, &value) in places.iter().zip(&values) {
        let place =
            usize::try_from(place).ok().filter(|&place| place < inner).ok_or_else(|| {
                Error::operands(format!("the place {place} is not among {inner} elements"))
            })?;
        let at = walk::coordinates(place, &made);
        let target: usize = at.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
        y[target] = value;
    }
    Ok(vec![Value::Tensor(Tensor::from_f64(x.element(), &shape, &y)?)])
}
