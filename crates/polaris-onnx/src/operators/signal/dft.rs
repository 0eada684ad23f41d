//! DFT and STFT.

use super::fourier::{Complex, transform};
use super::single_length;
use crate::limits::checked_elements;
use crate::operators::{Call, axis, one};
use crate::room::{Collected, filled, with_room};
use crate::{ElementType, Error, Result, Tensor, Value};

/// Numbers as pairs, from a tensor whose last axis holds the real and perhaps the imaginary part.
fn pairs(tensor: &Tensor, parts: usize) -> Result<Vec<Complex>> {
    let values = tensor.to_f64()?;
    match parts {
        1 => values.into_iter().map(|re| [re, 0.0]).collected(),
        2 => values.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collected(),
        _ => {
            Err(Error::operands(format!("the last axis has {parts} parts of numbers, not 1 or 2")))
        }
    }
}

/// A length of lines to transform that memory has place for.
fn usable(length: usize) -> Result<usize> {
    if length == 0 {
        return Err(Error::operands("a transform of length 0"));
    }
    // Lengths that are not powers of two take several times their own memory.
    checked_elements(ElementType::C128, &[length, 8])?;
    Ok(length)
}

pub fn dft(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let (inverse, one_sided) =
        (attributes.flag("inverse", false)?, attributes.flag("onesided", false)?);
    let number = if call.version() < 20 {
        attributes.int_or("axis", 1)?
    } else {
        match call.optional(2)?.map(|axis| axis.to_i64()).transpose()?.as_deref() {
            None => -2,
            Some(&[axis]) => axis,
            Some(other) => {
                return Err(Error::operands(format!("{} axes were given, not one", other.len())));
            }
        }
    };
    let at = axis(number, data.rank())?;
    let Some((&parts, shape)) = data.shape().split_last().filter(|(_, rest)| at < rest.len())
    else {
        return Err(Error::operands("the transformed axis must lie before that of the parts"));
    };
    let given = shape[at];
    let length = match single_length(call, 1)? {
        Some(length) => length,
        // Of a line without its mirrored half, an even length is assumed.
        None if inverse && one_sided => given.saturating_sub(1).saturating_mul(2),
        None => given,
    };
    let length = usable(length)?;
    let half = length / 2 + 1;
    let kept = if one_sided && !inverse { half } else { length };
    let made_parts = if one_sided && inverse { 1 } else { 2 };
    let mut result_shape = data.shape().to_vec();
    result_shape[at] = kept;
    result_shape[shape.len()] = made_parts;
    checked_elements(ElementType::C128, &result_shape)?;
    let outer: usize = shape[..at].iter().product();
    let inner: usize = shape[at + 1..].iter().product();
    let values = pairs(data, parts)?;
    let mut results = filled(0.0, outer * kept * inner * made_parts)?;
    let mut line = filled([0.0; 2], length)?;
    for row in 0..outer {
        for column in 0..inner {
            line.fill([0.0; 2]);
            for (index, slot) in line.iter_mut().take(given).enumerate() {
                *slot = values[(row * given + index) * inner + column];
            }
            if inverse && one_sided {
                mirror(&mut line);
            }
            for (index, value) in transform(&line, inverse)?.iter().take(kept).enumerate() {
                let place = ((row * kept + index) * inner + column) * made_parts;
                results[place..place + made_parts].copy_from_slice(&value[..made_parts]);
            }
        }
    }
    Ok(one(Tensor::from_f64(data.element(), &result_shape, &results)?))
}

/// Fills the second half of a line by the symmetry that the transform of real numbers has.
fn mirror(line: &mut [Complex]) {
    let length = line.len();
    line[0][1] = 0.0;
    for index in 1..length.div_ceil(2) {
        let [re, im] = line[index];
        line[length - index] = [re, -im];
    }
    if length.is_multiple_of(2) {
        line[length / 2][1] = 0.0;
    }
}

pub fn stft(call: &Call<'_>) -> Result<Vec<Value>> {
    let signal = call.tensor(0)?;
    let (batch, samples, parts) = match *signal.shape() {
        [batch, samples] => (batch, samples, 1),
        [batch, samples, parts] => (batch, samples, parts),
        ref other => return Err(Error::operands(format!("{other:?} is not a batch of signals"))),
    };
    let step = single_length(call, 1)?.filter(|&step| step > 0);
    let step = step.ok_or_else(|| Error::operands("frame_step is not positive"))?;
    let window = call.optional(2)?.map(|window| window.to_f64()).transpose()?;
    let default = window.as_ref().map_or(samples, Vec::len);
    let length = usable(single_length(call, 3)?.unwrap_or(default))?;
    let window = window.map_or_else(|| filled(1.0, length), Ok)?;
    let one_sided = call.attributes().flag("onesided", true)?;
    if one_sided && parts != 1 {
        return Err(Error::operands("the transform of complex numbers has no symmetric half"));
    }
    let frames = samples.checked_sub(length).map(|rest| rest / step + 1).ok_or_else(|| {
        Error::operands(format!("a frame of {length} is longer than the signal of {samples}"))
    })?;
    let kept = if one_sided { length / 2 + 1 } else { length };
    let shape = [batch, frames, kept, 2];
    let elements = checked_elements(ElementType::C128, &shape)?;
    let values = pairs(signal, parts)?;
    let mut results = with_room(elements)?;
    let mut line = filled([0.0; 2], length)?;
    for number in 0..batch {
        for frame in 0..frames {
            line.fill([0.0; 2]);
            let rest = &values[number * samples + frame * step..(number + 1) * samples];
            for ((slot, &[re, im]), &weight) in line.iter_mut().zip(rest).zip(&window) {
                *slot = [re * weight, im * weight];
            }
            results.extend(transform(&line, false)?.into_iter().take(kept).flatten());
        }
    }
    Ok(one(Tensor::from_f64(signal.element(), &shape, &results)?))
}
