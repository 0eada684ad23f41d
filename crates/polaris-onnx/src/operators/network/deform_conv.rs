//! DeformConv: a convolution whose kernel's elements lie where offsets move them.

use super::conv::{bias, groups, kernel_places};
use super::window;
use crate::limits::checked_elements;
use crate::operators::{Call, one, walk};
use crate::room::filled;
use crate::{ElementType, Error, Result, Tensor, Value};

/// The elements around a place and their weights, by linear interpolation; beyond the axes is zero.
fn around(place: &[f64], shape: &[usize]) -> Vec<(usize, f64)> {
    let mut taps = vec![(0, 1.0)];
    for (&place, &length) in place.iter().zip(shape) {
        // Numbers far outside are cut off, so that neighbours differ.
        let place = place.clamp(-1e9, 1e9);
        let floor = place.floor();
        let along = [(floor, 1.0 - (place - floor)), (floor + 1.0, place - floor)];
        taps = (taps.iter())
            .flat_map(|&(start, weight)| {
                let inside = |at: f64| at >= 0.0 && at < length as f64;
                (along.into_iter().filter(move |&(at, _)| inside(at)))
                    .map(move |(at, more)| (start * length + at as usize, weight * more))
            })
            .collect();
    }
    taps
}

pub fn deform_conv(call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, w, offsets) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let (batch, channels, axes) = window::split_shape(x.shape())?;
    let (made, taken, kernel) = window::split_shape(w.shape())?;
    let groups = groups(call, channels)?;
    let wrong = |what: &str| {
        let (x, w) = (x.shape(), w.shape());
        Error::operands(format!("{what} do not match {x:?} and a kernel of {w:?}"))
    };
    if taken != channels / groups || !made.is_multiple_of(groups) {
        return Err(wrong("the groups"));
    }
    let windows = window::windows(call.attributes(), axes, kernel)?;
    let shape = window::output_shape(batch, made, &windows);
    let mut y = filled(0.0, checked_elements(ElementType::F64, &shape)?)?;
    let bias = bias(call.optional(3)?, made)?;
    let moved = call.attributes().int_or("offset_group", 1)?;
    let moved = usize::try_from(moved)
        .ok()
        .filter(|&moved| moved > 0 && moved <= channels && channels.is_multiple_of(moved))
        .ok_or_else(|| wrong("the groups of offsets"))?;
    let kernel_size: usize = kernel.iter().product();
    let rank = axes.len();
    let expected = |each: usize| {
        let channels = moved.checked_mul(kernel_size)?.checked_mul(each)?;
        Some([&[batch, channels], &shape[2..]].concat())
    };
    if expected(rank).as_deref() != Some(offsets.shape()) {
        return Err(wrong("the offsets"));
    }
    let mask = call.optional(4)?;
    if mask.is_some_and(|mask| expected(1).as_deref() != Some(mask.shape())) {
        return Err(wrong("the masks"));
    }
    if y.is_empty() {
        return Ok(one(Tensor::zeros(x.element(), &shape)?));
    }
    let mask = mask.map(Tensor::to_f64).transpose()?;
    let (values, weights, offsets) = (x.to_f64()?, w.to_f64()?, offsets.to_f64()?);
    let (input, output): (usize, usize) = (axes.iter().product(), shape[2..].iter().product());
    let places = kernel_places(kernel);
    let width = kernel_size * output;
    let mut columns = filled(0.0, checked_elements(ElementType::F64, &[channels, width])?)?;
    for of in 0..batch {
        // What each element of the kernel meets, for each channel and each place of the result.
        for index in 0..moved * width {
            let (group, element, at) = (index / width, index % width / output, index % output);
            let target = walk::coordinates(at, &shape[2..]);
            let row = (of * moved + group) * kernel_size + element;
            let place: Vec<f64> = (0..rank)
                .map(|axis| {
                    let window = &windows[axis];
                    let start = target[axis] as f64 * window.stride as f64 - window.before as f64;
                    let step = places[element][axis] as f64 * window.dilation as f64;
                    start + step + offsets[(row * rank + axis) * output + at]
                })
                .collect();
            let factor = mask.as_ref().map_or(1.0, |mask| mask[row * output + at]);
            let taps = around(&place, axes);
            for channel in group * channels / moved..(group + 1) * channels / moved {
                let source = &values[(of * channels + channel) * input..][..input];
                let sampled: f64 = taps.iter().map(|&(at, weight)| weight * source[at]).sum();
                columns[channel * width + element * output + at] = factor * sampled;
            }
        }
        for to in 0..made {
            let target = &mut y[(of * made + to) * output..][..output];
            target.fill(bias.as_ref().map_or(0.0, |bias| bias[to]));
            let first = to / (made / groups) * taken;
            let rows = columns[first * width..(first + taken) * width].chunks(output);
            let weights = &weights[to * taken * kernel_size..];
            for (row, &weight) in rows.zip(weights) {
                for (sum, &value) in target.iter_mut().zip(row) {
                    *sum += weight * value;
                }
            }
        }
    }
    Ok(one(Tensor::from_f64(x.element(), &shape, &y)?))
}
