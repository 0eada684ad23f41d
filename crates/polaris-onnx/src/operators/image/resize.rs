//! Resize and Upsample.

use super::interpolate::{self, Axis, Kernel, Rounding, Taps, Transformation};
use crate::limits::checked_elements;
use crate::operators::{Call, axis, one, walk};
use crate::{ElementType, Error, Result, Tensor, Value};

pub fn upsample(call: &Call<'_>) -> Result<Vec<Value>> {
    let scales: Vec<f64> = match call.optional(1)? {
        Some(scales) => scales.to_f64()?,
        None => {
            let list = call.attributes().floats("scales")?;
            let list = list.ok_or_else(|| Error::operands("`scales` is missing"))?;
            list.iter().map(|&scale| f64::from(scale)).collect()
        }
    };
    plain(call, &scales)
}

/// As versions before 11 have it: scales alone, no mode of coordinates.
fn plain(call: &Call<'_>, scales: &[f64]) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let kernel = match call.attributes().string_or("mode", "nearest")? {
        "nearest" => Kernel::Nearest(Rounding::Down),
        "linear" | "bilinear" => Kernel::Linear,
        other => return Err(Error::operands(format!("there is no mode `{other}`"))),
    };
    if scales.len() != x.rank() {
        return Err(Error::operands(format!("{} scales for {} axes", scales.len(), x.rank())));
    }
    let axes = (x.shape().iter().zip(scales))
        .map(|(&input, &scale)| {
            let (output, resized) = scaled_length(input, scale)?;
            Ok(Axis {
                input,
                output,
                scale,
                resized,
                transformation: Transformation::Asymmetric,
                kernel,
                antialias: false,
                exclude_outside: false,
            })
        })
        .collect::<Result<Vec<Axis>>>()?;
    Ok(one(resample(x, &axes, 0.0)?))
}

/// The length that a scale makes, cut off as in f32, and before that.
fn scaled_length(input: usize, scale: f64) -> Result<(usize, f64)> {
    let length = f64::from((input as f32) * (scale as f32)).floor();
    if !(scale > 0.0 && length < 1e15) {
        return Err(Error::operands(format!("an axis of {input} cannot be scaled by {scale}")));
    }
    Ok((length as usize, input as f64 * scale))
}

/// What an operand says, where an empty tensor counts as none.
fn given<'a>(call: &'a Call<'_>, index: usize) -> Result<Option<&'a Tensor>> {
    Ok(call.optional(index)?.filter(|tensor| tensor.elements() > 0))
}

pub fn resize(call: &Call<'_>) -> Result<Vec<Value>> {
    if call.version() < 11 {
        return plain(call, &call.tensor(1)?.to_f64()?);
    }
    let attributes = call.attributes();
    let x = call.tensor(0)?;
    let rank = x.rank();
    let chosen = match attributes.ints("axes")? {
        Some(list) => list.iter().map(|&at| axis(at, rank)).collect::<Result<Vec<usize>>>()?,
        None => (0..rank).collect(),
    };
    if chosen.iter().any(|&at| at >= rank) {
        return Err(Error::operands("a scalar cannot be resized"));
    }
    let mut lengths: Vec<(usize, f64, f64)> =
        x.shape().iter().map(|&length| (length, 1.0, length as f64)).collect();
    for (&at, new) in chosen.iter().zip(new_lengths(call, x, &chosen)?) {
        lengths[at] = new;
    }
    let transformations = transformations(call, rank, &chosen)?;
    let kernel = match attributes.string_or("mode", "nearest")? {
        "nearest" => {
            Kernel::Nearest(rounding(attributes.string_or("nearest_mode", "round_prefer_floor")?)?)
        }
        "linear" => Kernel::Linear,
        "cubic" => Kernel::Cubic(f64::from(attributes.float_or("cubic_coeff_a", -0.75)?)),
        other => return Err(Error::operands(format!("there is no mode `{other}`"))),
    };
    let antialias = attributes.flag("antialias", false)?;
    let exclude_outside = attributes.flag("exclude_outside", false)?;
    let axes: Vec<Axis> = (0..rank)
        .map(|at| {
            let ((output, scale, resized), input) = (lengths[at], x.shape()[at]);
            let transformation = transformations[at];
            Axis {
                input,
                output,
                scale,
                resized,
                transformation,
                kernel,
                antialias,
                exclude_outside,
            }
        })
        .collect();
    let outside = f64::from(attributes.float_or("extrapolation_value", 0.0)?);
    Ok(one(resample(x, &axes, outside)?))
}

fn rounding(name: &str) -> Result<Rounding> {
    Ok(match name {
        "round_prefer_floor" => Rounding::HalfDown,
        "round_prefer_ceil" => Rounding::HalfUp,
        "floor" => Rounding::Down,
        "ceil" => Rounding::Up,
        other => return Err(Error::operands(format!("there is no nearest_mode `{other}`"))),
    })
}

/// For each chosen axis its new length, its scale, and the length before rounding.
fn new_lengths(call: &Call<'_>, x: &Tensor, chosen: &[usize]) -> Result<Vec<(usize, f64, f64)>> {
    let count = |found: usize| {
        let why = format!("{found} scales or sizes for {} axes", chosen.len());
        if found == chosen.len() { Ok(()) } else { Err(Error::operands(why)) }
    };
    let old: Vec<usize> = chosen.iter().map(|&at| x.shape()[at]).collect();
    let Some(sizes) = given(call, 3)? else {
        let Some(scales) = given(call, 2)? else {
            count(0)?;
            return Ok(Vec::new());
        };
        let scales = scales.to_f64()?;
        count(scales.len())?;
        return (old.iter().zip(scales))
            .map(|(&input, scale)| {
                scaled_length(input, scale).map(|(length, resized)| (length, scale, resized))
            })
            .collect();
    };
    let sizes = sizes.to_i64()?;
    count(sizes.len())?;
    let policy = call.attributes().string_or("keep_aspect_ratio_policy", "stretch")?;
    let ratios = sizes.iter().zip(&old).map(|(&size, &input)| size as f64 / input as f64);
    let common = match policy {
        "stretch" => None,
        "not_larger" => Some(ratios.fold(f64::INFINITY, f64::min)),
        "not_smaller" => Some(ratios.fold(0.0, f64::max)),
        other => return Err(Error::operands(format!("there is no policy `{other}`"))),
    };
    (sizes.iter().zip(&old))
        .map(|(&size, &input)| {
            let resized = common.map_or(size as f64, |scale| scale * input as f64);
            // Whole sizes stay what they are; products are rounded.
            let length = (resized + 0.5).floor();
            if !(0.0..1e15).contains(&length) {
                return Err(Error::operands(format!("an axis of {input} cannot become {resized}")));
            }
            let scale = common.unwrap_or(size as f64 / input as f64);
            Ok((length as usize, scale, resized))
        })
        .collect()
}

/// How places are transformed, for each axis.
fn transformations(call: &Call<'_>, rank: usize, chosen: &[usize]) -> Result<Vec<Transformation>> {
    use Transformation as T;
    let name = call.attributes().string_or("coordinate_transformation_mode", "half_pixel")?;
    let all = match name {
        "half_pixel" => T::HalfPixel,
        "half_pixel_symmetric" => T::HalfPixelSymmetric,
        "pytorch_half_pixel" => T::PytorchHalfPixel,
        "align_corners" => T::AlignCorners,
        "asymmetric" => T::Asymmetric,
        "tf_half_pixel_for_nn" => T::HalfPixelForNearest,
        "tf_crop_and_resize" => T::Crop(0.0, 1.0),
        other => return Err(Error::operands(format!("there is no coordinate mode `{other}`"))),
    };
    let mut list = vec![all; rank];
    if matches!(all, T::Crop(..)) {
        let roi =
            given(call, 1)?.ok_or_else(|| Error::operands("the region is missing"))?.to_f64()?;
        if roi.len() != 2 * chosen.len() {
            let why = format!("a region of {} numbers for {} axes", roi.len(), chosen.len());
            return Err(Error::operands(why));
        }
        for (index, &at) in chosen.iter().enumerate() {
            list[at] = T::Crop(roi[index], roi[chosen.len() + index]);
        }
    }
    Ok(list)
}

/// The operand with axes of other lengths; `outside` stands where a place lies outside.
fn resample(x: &Tensor, axes: &[Axis], outside: f64) -> Result<Tensor> {
    let shape: Vec<usize> = axes.iter().map(|axis| axis.output).collect();
    if checked_elements(x.element(), &shape)? == 0 {
        return Tensor::zeros(x.element(), &shape);
    }
    let taps = axes
        .iter()
        .map(|axis| (!axis.is_identity()).then(|| axis.taps()).transpose())
        .collect::<Result<Vec<Option<Vec<Taps>>>>>()?;
    let moved_only = axes.iter().all(|axis| matches!(axis.kernel, Kernel::Nearest(_)))
        && taps.iter().flatten().flatten().all(Option::is_some);
    if moved_only {
        return move_nearest(x, &shape, &taps);
    }
    let mut values = x.to_f64()?;
    let mut current = x.shape().to_vec();
    for (at, taps) in taps.iter().enumerate() {
        let Some(taps) = taps else { continue };
        let sides = |shape: &[usize]| {
            [shape[..at].iter().product(), shape[at], shape[at + 1..].iter().product()]
        };
        let blocks = sides(&current);
        current[at] = taps.len();
        checked_elements(ElementType::F64, &current)?;
        values = interpolate::apply(&values, blocks, taps, outside)?;
    }
    saturated(x.element(), &shape, values)
}

/// Nearest elements are moved and not computed with, so that they may be of any type.
fn move_nearest(x: &Tensor, shape: &[usize], taps: &[Option<Vec<Taps>>]) -> Result<Tensor> {
    let mut places = vec![0];
    for ((&stride, &length), taps) in walk::strides(x.shape()).iter().zip(shape).zip(taps) {
        let along: Vec<usize> = (0..length)
            .map(|at| {
                let tap = taps.as_ref().and_then(|taps| taps[at].as_ref());
                tap.map_or(at, |list| list[0].0) * stride
            })
            .collect();
        places = places.iter().flat_map(|&start| along.iter().map(move |at| start + at)).collect();
    }
    walk::pick(x, shape, places)
}

/// Interpolated values may lie beyond an integer type, and are rounded to it.
fn saturated(element: ElementType, shape: &[usize], mut values: Vec<f64>) -> Result<Tensor> {
    if element.is_integer() {
        let bits = element.bits_in_files().unwrap_or(64) as i32;
        let (low, high) = if element.is_signed_integer() {
            (-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0)
        } else {
            (0.0, 2f64.powi(bits) - 1.0)
        };
        for value in &mut values {
            *value = value.round_ties_even().clamp(low, high);
        }
    }
    Tensor::from_f64(element, shape, &values)
}
