//! Windows that slide over axes: convolutions and pools.

use super::{Fact, Known, Rule, dims};
use crate::{Dim, ElementType, Error, Result};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AveragePool", pool),
    ("Conv", conv),
    ("ConvInteger", conv_integer),
    ("ConvTranspose", conv_transpose),
    ("DeformConv", conv),
    ("GlobalAveragePool", global_pool),
    ("GlobalLpPool", global_pool),
    ("GlobalMaxPool", global_pool),
    ("LpPool", pool),
    ("MaxPool", pool),
    ("MaxUnpool", max_unpool),
    ("QLinearConv", q_linear_conv),
];

/// Numbers of an attribute, one for each axis, or what stands for them.
fn per_axis(known: &Known<'_>, name: &str, axes: usize, default: i64) -> Result<Vec<i128>> {
    match known.attributes().ints(name)? {
        None => Ok(vec![i128::from(default); axes]),
        Some(list) if list.len() == axes => Ok(list.iter().map(|&value| value.into()).collect()),
        Some(list) => {
            let why = format!("`{name}` has {} values; expected {axes}", list.len());
            Err(Error::operands(why))
        }
    }
}

/// What windows have in common along one axis.
struct Window {
    stride: i128,
    dilation: i128,
    pads: i128,
    before: i128,
}

fn windows(known: &Known<'_>, axes: usize) -> Result<Vec<Window>> {
    let strides = per_axis(known, "strides", axes, 1)?;
    let dilations = per_axis(known, "dilations", axes, 1)?;
    let pads = per_axis(known, "pads", axes.saturating_mul(2), 0)?;
    let window = |axis: usize| {
        let (stride, dilation) = (strides[axis], dilations[axis]);
        if stride <= 0 || dilation <= 0 {
            return Err(Error::operands("strides and dilations should be positive"));
        }
        let (before, after) = (pads[axis], pads[axes + axis]);
        Ok(Window { stride, dilation, pads: before + after, before })
    };
    (0..axes).map(window).collect()
}

impl Window {
    /// Elements from a window's first to its last.
    fn span(&self, kernel: usize) -> Result<i128> {
        let span = (kernel as i128 - 1).checked_mul(self.dilation);
        let span = span.filter(|&span| (0..1 << 60).contains(&span));
        span.map(|span| span + 1).ok_or_else(|| Error::operands("the kernel does not fit"))
    }

    /// At how many places a window stands on an axis.
    fn places(&self, length: &Dim, kernel: &Dim, auto: &str, ceil: bool) -> Result<Dim> {
        let same = matches!(auto, "SAME_UPPER" | "SAME_LOWER");
        if same && self.stride == 1 {
            return Ok(length.clone());
        }
        if same {
            return Ok(length.known().map_or(Dim::Unknown, |length| {
                dims::from_signed(
                    (length as i128).div_euclid(self.stride) as i64
                        + i64::from(length as i128 % self.stride != 0),
                )
            }));
        }
        let Some(kernel) = kernel.known() else { return Ok(Dim::Unknown) };
        let pads = if auto == "VALID" { 0 } else { self.pads };
        let before = if auto == "VALID" { 0 } else { self.before };
        let span = self.span(kernel)?;
        let Some(known) = length.known() else {
            let unchanged = self.stride == 1 && pads + 1 == span;
            return Ok(if unchanged { length.clone() } else { Dim::Unknown });
        };
        let length = known as i128;
        let room = length + pads - span;
        if room < 0 && !(ceil && room > -self.stride) {
            let why = format!("a kernel of {kernel} does not fit into {known} with its padding");
            return Err(Error::operands(why));
        }
        let more = i128::from(ceil && room.rem_euclid(self.stride) != 0);
        let mut places = room.div_euclid(self.stride) + 1 + more;
        // A last window that would stand on the padding alone is left out.
        if ceil && (places - 1) * self.stride >= length + before {
            places -= 1;
        }
        Ok(usize::try_from(places.max(0)).map_or(Dim::Unknown, Dim::Known))
    }
}

/// Batch, channels and the other axes, of which there are some.
fn split(shape: Vec<Dim>) -> Option<(Dim, Dim, Vec<Dim>)> {
    match shape.as_slice() {
        [batch, channels, rest @ ..] if !rest.is_empty() => {
            Some((batch.clone(), channels.clone(), rest.to_vec()))
        }
        _ => None,
    }
}

/// The places of windows over all axes.
fn slid(known: &Known<'_>, axes: &[Dim], kernel: &[Dim]) -> Result<Vec<Dim>> {
    let auto = known.attributes().string_or("auto_pad", "NOTSET")?;
    // Windows without padding are those that fit, however lengths are rounded.
    let ceil = known.attributes().flag("ceil_mode", false)? && auto != "VALID";
    let windows = windows(known, axes.len())?;
    let along = axes.iter().zip(kernel).zip(&windows);
    along.map(|((length, kernel), window)| window.places(length, kernel, auto, ceil)).collect()
}

/// The shape of a convolution of an operand with another's kernels.
fn convolved(known: &Known<'_>, x: usize, w: usize) -> Result<Option<Vec<Dim>>> {
    let Some((batch, channels, axes)) = known.shape(x).and_then(split) else { return Ok(None) };
    let kernels = known.shape(w).and_then(split);
    let (made, taken, kernel) = match kernels {
        Some(kernels) => kernels,
        None => (Dim::Unknown, Dim::Unknown, vec![Dim::Unknown; axes.len()]),
    };
    let groups = dims::length(&dims::from_signed(known.attributes().int_or("group", 1)?))?;
    let together = dims::times(&taken, &groups)?;
    if kernel.len() != axes.len() {
        let (kernel, axes) = (dims::show(&kernel), dims::show(&axes));
        return Err(Error::operands(format!("a kernel of {kernel} does not fit {axes}")));
    }
    dims::same(&channels, &together)?;
    let mut shape = vec![batch, made];
    shape.extend(slid(known, &axes, &kernel)?);
    Ok(Some(shape))
}

fn conv(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(known.element(0), convolved(known, 0, 1)?)])
}

fn conv_integer(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(Some(ElementType::I32), convolved(known, 0, 1)?)])
}

fn q_linear_conv(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(known.element(7), convolved(known, 0, 3)?)])
}

/// The attribute `kernel_shape`.
fn kernel_shape(known: &Known<'_>, axes: usize) -> Result<Option<Vec<Dim>>> {
    let list = known.attributes().ints("kernel_shape")?;
    let list = list.filter(|list| list.len() == axes && list.iter().all(|&length| length > 0));
    Ok(list.map(|list| list.iter().copied().map(dims::from_signed).collect()))
}

fn pool(known: &Known<'_>) -> Result<Vec<Fact>> {
    let mut shape = None;
    if let Some((batch, channels, axes)) = known.shape(0).and_then(split)
        && let Some(kernel) = kernel_shape(known, axes.len())?
    {
        let mut lengths = vec![batch, channels];
        lengths.extend(slid(known, &axes, &kernel)?);
        shape = Some(lengths);
    }
    let indices = Fact::tensor(Some(ElementType::I64), shape.clone());
    Ok(vec![Fact::tensor(known.element(0), shape), indices])
}

fn global_pool(known: &Known<'_>) -> Result<Vec<Fact>> {
    let mut shape = known.shape(0);
    let axes = shape.iter_mut().flatten().skip(2);
    axes.for_each(|length| *length = Dim::Known(1));
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn conv_transpose(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(0);
    let x = known.shape(0).and_then(split);
    let w = known.shape(1).and_then(split);
    let (Some((batch, channels, axes)), Some((taken, made, kernel))) = (x, w) else {
        return Ok(vec![Fact::tensor(element, None)]);
    };
    let count = axes.len();
    dims::same(&channels, &taken)?;
    if kernel.len() != count {
        let (kernel, axes) = (dims::show(&kernel), dims::show(&axes));
        return Err(Error::operands(format!("a kernel of {kernel} does not fit {axes}")));
    }
    let groups = dims::length(&dims::from_signed(known.attributes().int_or("group", 1)?))?;
    let auto = known.attributes().string_or("auto_pad", "NOTSET")?;
    let windows = windows(known, count)?;
    let more = per_axis(known, "output_padding", count, 0)?;
    // Some files say the batch and the channels too.
    let said = known.attributes().ints("output_shape")?;
    let said = said.map(|list| &list[list.len().saturating_sub(count)..]);
    let mut shape = vec![batch, dims::times(&made, &groups)?];
    for axis in 0..count {
        let window = &windows[axis];
        let stride = usize::try_from(window.stride).map_or(Dim::Unknown, Dim::Known);
        let same = said.is_none() && matches!(auto, "SAME_UPPER" | "SAME_LOWER");
        shape.push(match said.and_then(|list| list.get(axis)) {
            Some(&length) => dims::from_signed(length.max(0)),
            None if same => dims::times(&axes[axis], &stride)?,
            None => {
                let pads = if auto == "VALID" { 0 } else { window.pads };
                match kernel[axis].known() {
                    Some(kernel) => {
                        let extra = window.span(kernel)? + more[axis] - pads - window.stride;
                        widened(&axes[axis], &stride, extra)?
                    }
                    None => Dim::Unknown,
                }
            }
        });
    }
    Ok(vec![Fact::tensor(element, Some(shape))])
}

/// A length times a stride and some more; a negative result is one of no elements.
fn widened(length: &Dim, stride: &Dim, extra: i128) -> Result<Dim> {
    match dims::times(length, stride)? {
        Dim::Known(length) => dims::plus(&Dim::Known(length), extra.max(-(length as i128))),
        other => dims::plus(&other, extra),
    }
}

fn max_unpool(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(0);
    let Some((batch, channels, axes)) = known.shape(0).and_then(split) else {
        return Ok(vec![Fact::tensor(element, None)]);
    };
    if known.fact(2).is_some() {
        let rank = axes.len() + 2;
        let wanted = known.entries(2).filter(|list| list.len() == rank);
        let shape = wanted.map(|list| list.iter().map(dims::length).collect::<Result<Vec<Dim>>>());
        return Ok(vec![Fact::tensor(element, shape.transpose()?.or(dims::open(rank)))]);
    }
    let Some(kernel) = kernel_shape(known, axes.len())? else {
        return Ok(vec![Fact::tensor(element, dims::open(axes.len() + 2))]);
    };
    let mut shape = vec![batch, channels];
    for ((length, kernel), window) in axes.iter().zip(&kernel).zip(&windows(known, axes.len())?) {
        let stride = usize::try_from(window.stride).map_or(Dim::Unknown, Dim::Known);
        let kernel = kernel.known().unwrap_or(0) as i128;
        shape.push(widened(length, &stride, kernel - window.pads - window.stride)?);
    }
    Ok(vec![Fact::tensor(element, Some(shape))])
}
