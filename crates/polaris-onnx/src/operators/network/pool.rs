//! Pooling: averages and norms of windows, and of whole channels.

use super::window::{self, Window};
use crate::limits::checked_elements;
use crate::operators::{Call, one};
use crate::room::filled;
use crate::{ElementType, Error, Result, Tensor, Value};

/// Calls `visit` for every place of the windows, in row-major order, with the flat places of the
/// elements that lie on the axes and how many lie on axes or padding.
pub fn visit_windows(windows: &[Window], mut visit: impl FnMut(usize, &[usize], f64)) {
    let shape: Vec<usize> = windows.iter().map(|window| window.output).collect();
    let strides =
        crate::operators::walk::strides(&windows.iter().map(|w| w.input).collect::<Vec<usize>>());
    let mut elements = Vec::new();
    for place in 0..shape.iter().product() {
        let at = crate::operators::walk::coordinates(place, &shape);
        elements.clear();
        elements.push(0);
        let mut padded = 1.0;
        for ((window, &at), &stride) in windows.iter().zip(&at).zip(&strides) {
            let (first, count) = window.elements(at);
            let along = (0..count).map(|index| (first + index * window.dilation) * stride);
            let along: Vec<usize> = along.collect();
            elements =
                elements.iter().flat_map(|&start| along.iter().map(move |at| start + at)).collect();
            padded *= window.padded_elements(at) as f64;
        }
        visit(place, &elements, padded);
    }
}

/// The windows of a pooling operator over its operand, which has batch and channels.
pub fn pool_windows(call: &Call<'_>, x: &Tensor) -> Result<Vec<Window>> {
    let (_, _, axes) = window::split_shape(x.shape())?;
    let kernel = window::kernel_shape(call.attributes(), axes.len())?;
    window::windows(call.attributes(), axes, &kernel)
}

/// Pools each window of each channel with `reduce`, which gets the elements and how many there are with
/// the padding.
fn pool(
    call: &Call<'_>,
    reduce: impl Fn(&mut dyn Iterator<Item = f64>, f64, f64) -> f64,
) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let windows = pool_windows(call, x)?;
    let (batch, channels, axes) = window::split_shape(x.shape())?;
    let shape = window::output_shape(batch, channels, &windows);
    let mut y = filled(0.0, checked_elements(ElementType::F64, &shape)?)?;
    let values = x.to_f64()?;
    let input: usize = axes.iter().product();
    let output: usize = windows.iter().map(|window| window.output).product();
    if !y.is_empty() {
        visit_windows(&windows, |place, elements, padded| {
            for plane in 0..batch * channels {
                let mut met = elements.iter().map(|&at| values[plane * input + at]);
                y[plane * output + place] = reduce(&mut met, elements.len() as f64, padded);
            }
        });
    }
    Ok(one(Tensor::from_f64(x.element(), &shape, &y)?))
}

pub fn average_pool(call: &Call<'_>) -> Result<Vec<Value>> {
    let with_padding = call.attributes().flag("count_include_pad", false)?;
    pool(call, |elements, count, padded| {
        elements.sum::<f64>() / if with_padding { padded } else { count }
    })
}

/// The attribute `p`, which old versions have as a number.
fn power(call: &Call<'_>) -> Result<f64> {
    let p = match call.attributes().get("p") {
        Some(crate::Attribute::Float(p)) => f64::from(*p),
        _ => call.attributes().int_or("p", 2)? as f64,
    };
    if p > 0.0 { Ok(p) } else { Err(Error::operands(format!("there is no norm of {p}"))) }
}

pub fn lp_pool(call: &Call<'_>) -> Result<Vec<Value>> {
    let p = power(call)?;
    pool(call, |elements, _, _| norm(elements, p))
}

fn norm(elements: &mut dyn Iterator<Item = f64>, p: f64) -> f64 {
    elements.map(|value| value.abs().powf(p)).sum::<f64>().powf(1.0 / p)
}

/// One number for each channel.
fn pool_channels(call: &Call<'_>, reduce: impl Fn(&[f64]) -> f64) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let (&[batch, channels], axes) = x
        .shape()
        .split_first_chunk::<2>()
        .ok_or_else(|| Error::operands("batch and channels were expected"))?;
    let mut shape = vec![batch, channels];
    shape.extend(axes.iter().map(|_| 1));
    let (values, each) = (x.to_f64()?, axes.iter().product::<usize>());
    let planes = checked_elements(ElementType::F64, &shape)?;
    let y: Vec<f64> =
        (0..planes).map(|plane| reduce(&values[plane * each..(plane + 1) * each])).collect();
    Ok(one(Tensor::from_f64(x.element(), &shape, &y)?))
}

pub fn global_average_pool(call: &Call<'_>) -> Result<Vec<Value>> {
    pool_channels(call, |values| values.iter().sum::<f64>() / values.len() as f64)
}

pub fn global_max_pool(call: &Call<'_>) -> Result<Vec<Value>> {
    pool_channels(call, |values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

pub fn global_lp_pool(call: &Call<'_>) -> Result<Vec<Value>> {
    let p = power(call)?;
    pool_channels(call, |values| norm(&mut values.iter().copied(), p))
}
