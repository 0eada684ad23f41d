//! ConvTranspose: each element of the operand spreads the kernel over the result.

use super::conv::{Steps, add_strided, bias, groups, kernel_places, step};
use super::window::{self, Window};
use crate::limits::checked_elements;
use crate::operators::{Call, one};
use crate::room::filled;
use crate::{Error, Result, Tensor, Value};

pub fn conv_transpose(call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, w) = (call.tensor(0)?, call.tensor(1)?);
    let (batch, channels, axes) = window::split_shape(x.shape())?;
    let (taken, made_each, kernel) = window::split_shape(w.shape())?;
    let groups = groups(call, channels)?;
    if taken != channels || kernel.len() != axes.len() || kernel.contains(&0) {
        let (x, w) = (x.shape(), w.shape());
        return Err(Error::operands(format!("a kernel of {w:?} does not match {x:?}")));
    }
    let windows = transposed_windows(call, axes, kernel)?;
    let made = made_each * groups;
    let mut shape = vec![batch, made];
    shape.extend(windows.iter().map(|window| window.input));
    let elements = checked_elements(crate::ElementType::F64, &shape)?;
    let bias = bias(call.optional(2)?, made)?;
    let (values, weights) = (x.to_f64()?, w.to_f64()?);
    let input: usize = axes.iter().product();
    let output: usize = windows.iter().map(|window| window.input).product();
    let mut y = filled(0.0, elements)?;
    if elements > 0 {
        let places = if weights.is_empty() { Vec::new() } else { kernel_places(kernel) };
        let meetings: Vec<_> = places.iter().map(|place| meeting(&windows, place)).collect();
        let taken_each = channels / groups;
        for (index, target) in y.chunks_mut(output).enumerate() {
            let (of, to) = (index / made, index % made);
            target.fill(bias.as_ref().map_or(0.0, |bias| bias[to]));
            for channel in 0..taken_each {
                let channel = to / made_each * taken_each + channel;
                let from = of * channels + channel;
                let source = &values[from * input..(from + 1) * input];
                let weights = &weights[(channel * made_each + to % made_each) * meetings.len()..];
                for (meeting, &weight) in meetings.iter().zip(weights) {
                    if let Some((source_at, target_at, axes)) = meeting {
                        add_strided(&mut target[*target_at..], &source[*source_at..], axes, weight);
                    }
                }
            }
        }
    }
    Ok(one(Tensor::from_f64(x.element(), &shape, &y)?))
}

/// The windows of the convolution whose operand is this one's result: its places are the elements of
/// this one's operand.
fn transposed_windows(call: &Call<'_>, axes: &[usize], kernel: &[usize]) -> Result<Vec<Window>> {
    let attributes = call.attributes();
    let count = axes.len();
    let (strides, dilations) = (
        window::positive(attributes, "strides", count)?,
        window::positive(attributes, "dilations", count)?,
    );
    let pads = window::pads(attributes, count)?;
    let more = window::per_axis(attributes, "output_padding", count, 0)?;
    let auto = attributes.string_or("auto_pad", "NOTSET")?;
    // Some files say the batch and the channels too.
    let said =
        attributes.ints("output_shape")?.map(|list| &list[list.len().saturating_sub(count)..]);
    let mut windows = Vec::with_capacity(count);
    for axis in 0..count {
        let full = (strides[axis] as i128) * (axes[axis] as i128 - 1)
            + i128::from(more[axis])
            + (kernel[axis] as i128 - 1) * dilations[axis] as i128
            + 1;
        let same = matches!(auto, "SAME_UPPER" | "SAME_LOWER");
        let wanted = match said {
            Some(list) => list.get(axis).map(|&length| i128::from(length)),
            None if same => Some(axes[axis] as i128 * strides[axis] as i128),
            None => None,
        };
        let (output, before) = match wanted {
            Some(output) => {
                let total = i64::try_from(full - output).map_err(|_| too_large())?;
                (output, window::split_padding(total, auto == "SAME_UPPER").0)
            }
            None if auto == "VALID" => (full, 0),
            None => {
                let (before, after) = pads[axis];
                (full - i128::from(before) - i128::from(after), before)
            }
        };
        windows.push(Window {
            input: usize::try_from(output.max(0)).map_err(|_| too_large())?,
            output: axes[axis],
            kernel: kernel[axis],
            stride: strides[axis],
            dilation: dilations[axis],
            before,
            after: 0,
        });
    }
    Ok(windows)
}

fn too_large() -> Error {
    Error::operands("the result would be too large")
}

/// Where one element of the kernel lands for each element of the operand.
fn meeting(windows: &[Window], place: &[usize]) -> Option<(usize, usize, Vec<Steps>)> {
    let (mut source_at, mut target_at) = (0, 0);
    let (mut source_step, mut target_step) = (1, 1);
    let mut axes = Vec::with_capacity(place.len());
    for (window, &at) in windows.iter().zip(place).rev() {
        let meeting = window.meeting(at);
        if meeting.count == 0 {
            return None;
        }
        source_at += meeting.output * source_step;
        target_at += meeting.input * target_step;
        axes.push(Steps {
            count: meeting.count,
            source: source_step,
            target: step(window, meeting.count) * target_step,
        });
        source_step *= window.output;
        target_step *= window.input;
    }
    axes.reverse();
    Some((source_at, target_at, axes))
}
