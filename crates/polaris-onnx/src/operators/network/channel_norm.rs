//! Normalisation with statistics of channels: of a batch, of an instance, of groups.

use super::conv::bias;
use crate::operators::{Call, one};
use crate::{Error, Result, Tensor, Value};

/// Batch, channels, and the elements of one channel.
fn planes(x: &Tensor) -> Result<[usize; 3]> {
    match x.shape() {
        [batch] => Ok([*batch, 1, 1]),
        [batch, channels, rest @ ..] => Ok([*batch, *channels, rest.iter().product()]),
        [] => Err(Error::operands("a scalar has no channels")),
    }
}

/// A number for each channel, which must be there.
fn each(call: &Call<'_>, index: usize, channels: usize) -> Result<Vec<f64>> {
    let values = bias(Some(call.tensor(index)?), channels)?;
    values.ok_or_else(|| Error::operands("a number for each channel is missing"))
}

fn mean_and_variance(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values.clone() {
        sum += value;
        count += 1.0;
    }
    let mean = sum / count;
    (mean, values.map(|value| (value - mean).powi(2)).sum::<f64>() / count)
}

pub fn batch_normalization(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let x = call.tensor(0)?;
    let [batch, mut channels, mut plane] = planes(x)?;
    let mut parameters: Vec<Tensor> =
        (1..5).map(|index| call.tensor(index).cloned()).collect::<Result<_>>()?;
    if !attributes.flag("spatial", true)? {
        // Every element of a channel with its own numbers.
        (channels, plane) = (channels * plane, 1);
        for parameter in &mut parameters {
            *parameter = parameter.reshaped(&[parameter.elements()])?;
        }
    }
    let mut read = parameters.iter().map(|parameter| bias(Some(parameter), channels));
    let mut next = || read.next().transpose().map(|list| list.flatten().unwrap_or_default());
    let (scale, shift, mut mean, mut variance) = (next()?, next()?, next()?, next()?);
    let epsilon = f64::from(attributes.float_or("epsilon", 1e-5)?);
    let momentum = f64::from(attributes.float_or("momentum", 0.9)?);
    // Before version 14 the number of results says whether it is training.
    let training = match call.version() {
        ..14 => call.outputs() > 1,
        _ => attributes.flag("training_mode", false)?,
    };
    let mut values = x.to_f64()?;
    let (mut running_mean, mut running_variance) = (mean.clone(), variance.clone());
    if training {
        for channel in 0..channels {
            let all = (0..batch * plane)
                .map(|index| values[(index / plane * channels + channel) * plane + index % plane]);
            (mean[channel], variance[channel]) = mean_and_variance(all);
            for (running, now) in [(&mut running_mean, &mean), (&mut running_variance, &variance)] {
                running[channel] = running[channel] * momentum + now[channel] * (1.0 - momentum);
            }
        }
    }
    for (index, channel) in values.chunks_mut(plane.max(1)).enumerate() {
        let at = index % channels;
        let factor = scale[at] / (variance[at] + epsilon).sqrt();
        for value in channel {
            *value = (*value - mean[at]) * factor + shift[at];
        }
    }
    let mut outputs = one(Tensor::from_f64(x.element(), x.shape(), &values)?);
    let element = parameters[2].element();
    let statistics = [&running_mean, &running_variance, &mean, &variance];
    let count = if call.version() < 14 { 4 } else { 2 };
    for list in statistics.into_iter().take(if training { count } else { 0 }) {
        outputs.push(Value::Tensor(Tensor::from_f64(element, &[channels], list)?));
    }
    Ok(outputs)
}

/// Normalises blocks of `each` elements, one after another.
fn normalise_blocks(values: &mut [f64], each: usize, epsilon: f64) {
    for block in values.chunks_mut(each.max(1)) {
        let (mean, variance) = mean_and_variance(block.iter().copied());
        let factor = 1.0 / (variance + epsilon).sqrt();
        block.iter_mut().for_each(|value| *value = (*value - mean) * factor);
    }
}

/// Multiplies each channel with its scale and adds its shift.
fn scale_channels(values: &mut [f64], plane: usize, scale: &[f64], shift: &[f64]) {
    for (index, channel) in values.chunks_mut(plane.max(1)).enumerate() {
        let at = index % scale.len();
        channel.iter_mut().for_each(|value| *value = *value * scale[at] + shift[at]);
    }
}

pub fn instance_normalization(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let [_, channels, plane] = planes(x)?;
    let (scale, shift) = (each(call, 1, channels)?, each(call, 2, channels)?);
    let mut values = x.to_f64()?;
    normalise_blocks(&mut values, plane, f64::from(call.attributes().float_or("epsilon", 1e-5)?));
    scale_channels(&mut values, plane, &scale, &shift);
    Ok(one(Tensor::from_f64(x.element(), x.shape(), &values)?))
}

pub fn group_normalization(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let [_, channels, plane] = planes(x)?;
    let groups = call.attributes().int_or("num_groups", 0)?;
    let groups = usize::try_from(groups)
        .ok()
        .filter(|&groups| groups > 0 && groups <= channels && channels.is_multiple_of(groups))
        .ok_or_else(|| Error::operands(format!("{channels} channels in {groups} groups")))?;
    // Before version 21 scale and shift are those of groups.
    let (count, share) =
        if call.version() < 21 { (groups, channels / groups) } else { (channels, 1) };
    let spread = |index: usize| -> Result<Vec<f64>> {
        let list = each(call, index, count)?;
        Ok(list.iter().flat_map(|&value| std::iter::repeat_n(value, share)).collect())
    };
    let (scale, shift) = (spread(1)?, spread(2)?);
    let mut values = x.to_f64()?;
    let epsilon = f64::from(call.attributes().float_or("epsilon", 1e-5)?);
    normalise_blocks(&mut values, channels / groups * plane, epsilon);
    scale_channels(&mut values, plane, &scale, &shift);
    Ok(one(Tensor::from_f64(x.element(), x.shape(), &values)?))
}
