//! Convolutions over any number of axes, of numbers and of quantised numbers.

use super::window::{self, Window};
use crate::limits::checked_elements;
use crate::operators::{Call, one};
use crate::room::filled;
use crate::{ElementType, Error, Result, Tensor, Value};

/// What is convolved, in `f64`, with shapes that go together.
struct Convolution {
    batch: usize,
    /// Channels of the operand and of the result.
    channels: [usize; 2],
    groups: usize,
    windows: Vec<Window>,
}

/// One step along an axis of a strided sum: how many elements, and how far apart in both operands.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    pub count: usize,
    pub source: usize,
    pub target: usize,
}

/// Adds `factor` times elements of `source` to elements of `target`, along all axes.
pub fn add_strided(target: &mut [f64], source: &[f64], axes: &[Steps], factor: f64) {
    match axes {
        [] => target[0] += factor * source[0],
        [Steps { count, source: 1, target: 1 }] => {
            for (sum, &value) in target[..*count].iter_mut().zip(&source[..*count]) {
                *sum += factor * value;
            }
        }
        [last] => {
            for index in 0..last.count {
                target[index * last.target] += factor * source[index * last.source];
            }
        }
        [first, rest @ ..] => {
            for index in 0..first.count {
                let (to, from) = (index * first.target, index * first.source);
                add_strided(&mut target[to..], &source[from..], rest, factor);
            }
        }
    }
}

/// The stride of a window that stands at `count` places. One place needs none, and a stride beyond the
/// axis would overflow in products.
pub fn step(window: &Window, count: usize) -> usize {
    if count > 1 { window.stride } else { 1 }
}

/// The coordinates of each element of a kernel, in row-major order.
pub fn kernel_places(kernel: &[usize]) -> Vec<Vec<usize>> {
    (0..kernel.iter().product()).map(|at| crate::operators::walk::coordinates(at, kernel)).collect()
}

/// The attribute `group`, which divides the channels.
pub fn groups(call: &Call<'_>, channels: usize) -> Result<usize> {
    let groups = call.attributes().int_or("group", 1)?;
    usize::try_from(groups)
        .ok()
        .filter(|&groups| {
            groups > 0 && groups <= channels.max(1) && channels.is_multiple_of(groups)
        })
        .ok_or_else(|| Error::operands(format!("{channels} channels in {groups} groups")))
}

/// A bias for each channel.
pub fn bias(tensor: Option<&Tensor>, channels: usize) -> Result<Option<Vec<f64>>> {
    match tensor {
        None => Ok(None),
        Some(bias) if bias.shape() == [channels] => bias.to_f64().map(Some),
        Some(bias) => {
            let found = bias.shape();
            Err(Error::operands(format!("a bias of {found:?} for {channels} channels")))
        }
    }
}

impl Convolution {
    fn new(call: &Call<'_>, x: &Tensor, w: &Tensor) -> Result<Self> {
        let (batch, channels, axes) = window::split_shape(x.shape())?;
        let (made, taken, kernel) = window::split_shape(w.shape())?;
        let groups = groups(call, channels)?;
        if taken != channels / groups || !made.is_multiple_of(groups) {
            let (x, w) = (x.shape(), w.shape());
            return Err(Error::operands(format!(
                "a kernel of {w:?} does not match {x:?} in {groups} groups"
            )));
        }
        if let Some(said) = call.attributes().ints("kernel_shape")?
            && !said.iter().map(|&length| usize::try_from(length)).eq(kernel.iter().map(|&k| Ok(k)))
        {
            return Err(Error::operands(format!("kernel_shape is {said:?}, not {kernel:?}")));
        }
        let windows = window::windows(call.attributes(), axes, kernel)?;
        Ok(Self { batch, channels: [channels, made], groups, windows })
    }

    fn shape(&self) -> Vec<usize> {
        window::output_shape(self.batch, self.channels[1], &self.windows)
    }

    fn run(&self, x: &[f64], w: &[f64], bias: Option<&[f64]>) -> Result<Vec<f64>> {
        let elements = checked_elements(ElementType::F64, &self.shape())?;
        let [taken, made] = self.channels;
        let input: usize = self.windows.iter().map(|window| window.input).product();
        let kernel: Vec<usize> = self.windows.iter().map(|window| window.kernel).collect();
        let output: usize = self.windows.iter().map(|window| window.output).product();
        let mut y = filled(0.0, elements)?;
        if elements == 0 {
            return Ok(y);
        }
        let places = if w.is_empty() { Vec::new() } else { kernel_places(&kernel) };
        let meetings: Vec<_> = places.iter().map(|place| self.meeting(place)).collect();
        let (taken_each, made_each) = (taken / self.groups, made / self.groups);
        for (index, target) in y.chunks_mut(output).enumerate() {
            let (of, to) = (index / made, index % made);
            target.fill(bias.map_or(0.0, |bias| bias[to]));
            for channel in 0..taken_each {
                let from = of * taken + to / made_each * taken_each + channel;
                let source = &x[from * input..(from + 1) * input];
                let weights = &w[(to * taken_each + channel) * meetings.len()..];
                for (meeting, &weight) in meetings.iter().zip(weights) {
                    if let Some((source_at, target_at, axes)) = meeting {
                        add_strided(&mut target[*target_at..], &source[*source_at..], axes, weight);
                    }
                }
            }
        }
        Ok(y)
    }

    /// Where one element of the kernel meets the operand, and the result's places for it.
    fn meeting(&self, place: &[usize]) -> Option<(usize, usize, Vec<Steps>)> {
        let (mut source_at, mut target_at) = (0, 0);
        let (mut source_step, mut target_step) = (1, 1);
        let mut axes = Vec::with_capacity(place.len());
        for (window, &at) in self.windows.iter().zip(place).rev() {
            let meeting = window.meeting(at);
            if meeting.count == 0 {
                return None;
            }
            source_at += meeting.input * source_step;
            target_at += meeting.output * target_step;
            axes.push(Steps {
                count: meeting.count,
                source: step(window, meeting.count) * source_step,
                target: target_step,
            });
            source_step *= window.input;
            target_step *= window.output;
        }
        axes.reverse();
        Some((source_at, target_at, axes))
    }
}

pub fn conv(call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, w) = (call.tensor(0)?, call.tensor(1)?);
    let convolution = Convolution::new(call, x, w)?;
    let bias = bias(call.optional(2)?, convolution.channels[1])?;
    let y = convolution.run(&x.to_f64()?, &w.to_f64()?, bias.as_deref())?;
    Ok(one(Tensor::from_f64(x.element(), &convolution.shape(), &y)?))
}

/// A single number that may be left out.
fn single(tensor: Option<&Tensor>, default: f64) -> Result<f64> {
    let Some(tensor) = tensor else { return Ok(default) };
    match tensor.to_f64()?.as_slice() {
        [value] => Ok(*value),
        other => Err(Error::operands(format!("one number was expected, not {}", other.len()))),
    }
}

/// One number for all channels or one for each.
fn each(tensor: Option<&Tensor>, channels: usize, default: f64) -> Result<Vec<f64>> {
    let Some(tensor) = tensor else { return Ok(vec![default; channels]) };
    let values = tensor.to_f64()?;
    match values.as_slice() {
        [value] => Ok(vec![*value; channels]),
        list if list.len() == channels => Ok(values),
        other => Err(Error::operands(format!("{} numbers for {channels} channels", other.len()))),
    }
}

/// The kernel, less each channel's zero point.
fn centred(w: &Tensor, zeros: &[f64]) -> Result<Vec<f64>> {
    let mut values = w.to_f64()?;
    let each = values.len() / zeros.len().max(1);
    for (channel, &zero) in values.chunks_mut(each.max(1)).zip(zeros) {
        channel.iter_mut().for_each(|value| *value -= zero);
    }
    Ok(values)
}

/// Sums of small integers are exact in `f64`.
pub fn conv_integer(call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, w) = (call.tensor(0)?, call.tensor(1)?);
    let convolution = Convolution::new(call, x, w)?;
    let zero = single(call.optional(2)?, 0.0)?;
    let zeros = each(call.optional(3)?, convolution.channels[1], 0.0)?;
    let operand: Vec<f64> = x.to_f64()?.into_iter().map(|value| value - zero).collect();
    let y = convolution.run(&operand, &centred(w, &zeros)?, None)?;
    Ok(one(Tensor::from_f64(ElementType::I32, &convolution.shape(), &y)?))
}

pub fn qlinear_conv(call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, w) = (call.tensor(0)?, call.tensor(3)?);
    let convolution = Convolution::new(call, x, w)?;
    let made = convolution.channels[1];
    let (x_scale, x_zero) = (single(call.optional(1)?, 1.0)?, single(call.optional(2)?, 0.0)?);
    let (w_scales, w_zeros) =
        (each(call.optional(4)?, made, 1.0)?, each(call.optional(5)?, made, 0.0)?);
    let (y_scale, y_zero) = (single(call.optional(6)?, 1.0)?, single(call.optional(7)?, 0.0)?);
    let element = call.optional(7)?.map_or(x.element(), Tensor::element);
    let (low, high) = match element {
        ElementType::U8 => (0.0, 255.0),
        ElementType::I8 => (-128.0, 127.0),
        other => return Err(Error::unsupported(format!("QLinearConv to {other}"))),
    };
    let bias = bias(call.optional(8)?, made)?;
    let operand: Vec<f64> = x.to_f64()?.into_iter().map(|value| value - x_zero).collect();
    let mut y = convolution.run(&operand, &centred(w, &w_zeros)?, bias.as_deref())?;
    let plane: usize = convolution.windows.iter().map(|window| window.output).product();
    for (index, channel) in y.chunks_mut(plane.max(1)).enumerate() {
        let factor = x_scale * w_scales[index % made] / y_scale;
        for value in channel {
            *value = ((*value * factor).round_ties_even() + y_zero).clamp(low, high);
        }
    }
    Ok(one(Tensor::from_f64(element, &convolution.shape(), &y)?))
}

/// Each channel with its own kernel, over what came before and the operand.
pub fn causal_conv_with_state(call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, w) = (call.tensor(0)?, call.tensor(1)?);
    let (&[batch, channels, length], &[kernels, 1, kernel]) = (x.shape(), w.shape()) else {
        let (x, w) = (x.shape(), w.shape());
        return Err(Error::operands(format!("a kernel of {w:?} does not match {x:?}")));
    };
    if kernels != channels || kernel == 0 {
        return Err(Error::operands(format!(
            "{kernels} kernels of {kernel} for {channels} channels"
        )));
    }
    let silu = match call.attributes().string_or("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        other => return Err(Error::operands(format!("there is no activation `{other}`"))),
    };
    let bias = bias(call.optional(2)?, channels)?;
    let state_shape = [batch, channels, kernel - 1];
    let past = match call.optional(3)? {
        Some(past) if past.shape() == state_shape => past.to_f64()?,
        Some(past) => {
            let found = past.shape();
            let why = format!("a state of {state_shape:?} was expected, not {found:?}");
            return Err(Error::operands(why));
        }
        None => filled(0.0, checked_elements(ElementType::F64, &state_shape)?)?,
    };
    let (values, weights) = (x.to_f64()?, w.to_f64()?);
    let mut y = Vec::with_capacity(values.len());
    let mut state = Vec::with_capacity(past.len());
    for row in 0..batch * channels {
        let mut padded = past[row * (kernel - 1)..(row + 1) * (kernel - 1)].to_vec();
        padded.extend_from_slice(&values[row * length..(row + 1) * length]);
        let channel = row % channels;
        let weights = &weights[channel * kernel..(channel + 1) * kernel];
        let start = bias.as_ref().map_or(0.0, |bias| bias[channel]);
        y.extend(padded.windows(kernel).map(|window| {
            let sum = start + window.iter().zip(weights).map(|(a, b)| a * b).sum::<f64>();
            if silu { sum / (1.0 + (-sum).exp()) } else { sum }
        }));
        state.extend_from_slice(&padded[length..]);
    }
    Ok(vec![
        Value::Tensor(Tensor::from_f64(x.element(), x.shape(), &y)?),
        Value::Tensor(Tensor::from_f64(x.element(), &state_shape, &state)?),
    ])
}
