//! Windows that slide over axes: kernel, stride, dilation, padding.

use crate::{Attributes, Error, Result};

/// A window along one axis.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Length of the axis.
    pub input: usize,
    /// Places where the window stands.
    pub output: usize,
    /// Elements of the window.
    pub kernel: usize,
    /// From one place to the next.
    pub stride: usize,
    /// From one element to the next.
    pub dilation: usize,
    /// Padding before the axis.
    pub before: i64,
    /// Padding after the axis.
    pub after: i64,
}

/// Places at which one element of a window meets the axis.
#[derive(Debug, Clone, Copy)]
pub struct Meeting {
    /// The first place of the window.
    pub output: usize,
    /// Where on the axis the element lies then.
    pub input: usize,
    /// How many places.
    pub count: usize,
}

impl Window {
    /// Where element `at` of the window lies when the window stands at its first place.
    fn start(&self, at: usize) -> i128 {
        at as i128 * self.dilation as i128 - i128::from(self.before)
    }

    /// The places at which element `at` of the window lies on the axis and not on padding.
    pub fn meeting(&self, at: usize) -> Meeting {
        let (start, stride) = (self.start(at), self.stride as i128);
        let first = (-start).max(0).div_euclid(stride) + i128::from((-start).max(0) % stride != 0);
        let end = (self.input as i128 - start + stride - 1).div_euclid(stride);
        let end = end.min(self.output as i128);
        if end <= first {
            return Meeting { output: 0, input: 0, count: 0 };
        }
        Meeting {
            output: first as usize,
            input: (start + first * stride) as usize,
            count: (end - first) as usize,
        }
    }

    /// The elements of the window at a place that lie on the axis: the first one's place there, and how
    /// many, each a dilation after the one before.
    pub fn elements(&self, place: usize) -> (usize, usize) {
        let (start, skipped, count) = self.clipped(place, 0, self.input as i128);
        if count == 0 {
            (0, 0)
        } else {
            ((start + skipped * self.dilation as i128) as usize, count)
        }
    }

    /// How many elements of the window at a place lie on the axis or its padding.
    pub fn padded_elements(&self, place: usize) -> usize {
        let end = self.input as i128 + i128::from(self.after);
        self.clipped(place, -i128::from(self.before), end).2
    }

    /// The window's start at a place, and which of its elements lie from `low` to `high`.
    fn clipped(&self, place: usize, low: i128, high: i128) -> (i128, i128, usize) {
        let start = place as i128 * self.stride as i128 - i128::from(self.before);
        let dilation = self.dilation as i128;
        let up = |distance: i128| (distance.max(0) + dilation - 1) / dilation;
        let (first, end) = (up(low - start), up(high - start).min(self.kernel as i128));
        (start, first, (end - first).max(0) as usize)
    }
}

/// Numbers of an attribute, one for each axis, or `default` for all.
pub fn per_axis(
    attributes: &Attributes,
    name: &str,
    axes: usize,
    default: i64,
) -> Result<Vec<i64>> {
    match attributes.ints(name)? {
        None => Ok(vec![default; axes]),
        Some(list) if list.len() == axes => Ok(list.to_vec()),
        Some(list) => {
            let why = format!("`{name}` has {} values; expected {axes}", list.len());
            Err(Error::operands(why))
        }
    }
}

/// Positive numbers of an attribute, one for each axis, or 1.
pub fn positive(attributes: &Attributes, name: &str, axes: usize) -> Result<Vec<usize>> {
    let convert = |value: i64| {
        // Small enough for products with other such numbers.
        usize::try_from(value).ok().filter(|&value| value > 0 && value <= 1 << 40).ok_or_else(
            || {
                Error::operands(format!(
                    "`{name}` should be positive and not too large, not {value}"
                ))
            },
        )
    };
    per_axis(attributes, name, axes, 1)?.into_iter().map(convert).collect()
}

/// The padding before and after each axis that the attribute `pads` says.
pub fn pads(attributes: &Attributes, axes: usize) -> Result<Vec<(i64, i64)>> {
    let list = per_axis(attributes, "pads", 2 * axes, 0)?;
    if let Some(wrong) = list.iter().find(|pad| !(-(1 << 40)..=1 << 40).contains(*pad)) {
        return Err(Error::operands(format!("padding {wrong} is too large")));
    }
    Ok((0..axes).map(|axis| (list[axis], list[axes + axis])).collect())
}

/// Padding before and after of so many elements together.
pub fn split_padding(total: i64, more_at_the_end: bool) -> (i64, i64) {
    let less = total.div_euclid(2);
    if more_at_the_end { (less, total - less) } else { (total - less, less) }
}

/// The windows that attributes describe over axes of these lengths.
///
/// # Errors
/// If the attributes make no sense, or the kernel does not fit.
pub fn windows(attributes: &Attributes, input: &[usize], kernel: &[usize]) -> Result<Vec<Window>> {
    let axes = input.len();
    if kernel.len() != axes || kernel.contains(&0) {
        return Err(Error::operands(format!("a kernel of {kernel:?} does not fit {input:?}")));
    }
    let (strides, dilations) =
        (positive(attributes, "strides", axes)?, positive(attributes, "dilations", axes)?);
    let pads = pads(attributes, axes)?;
    let auto = attributes.string_or("auto_pad", "NOTSET")?;
    // Windows without padding are those that fit, however lengths are rounded.
    let ceil = attributes.flag("ceil_mode", false)? && auto != "VALID";
    let mut windows = Vec::with_capacity(axes);
    for axis in 0..axes {
        let (length, stride) = (input[axis] as i64, strides[axis] as i64);
        let span = i64::try_from(kernel[axis] - 1)
            .ok()
            .and_then(|steps| steps.checked_mul(dilations[axis] as i64)?.checked_add(1))
            .filter(|&span| span < 1 << 60)
            .ok_or_else(|| Error::operands(format!("the kernel {kernel:?} is too large")))?;
        let ((before, after), output) = match auto {
            "SAME_UPPER" | "SAME_LOWER" => {
                let output = length.div_euclid(stride) + i64::from(length % stride != 0);
                let covered = (output - 1).max(0).saturating_mul(stride);
                let total = covered.saturating_add(span).saturating_sub(length).max(0);
                (split_padding(total, auto == "SAME_UPPER"), output)
            }
            "NOTSET" | "" | "VALID" => {
                let pad = if auto == "VALID" { (0, 0) } else { pads[axis] };
                let room = length + pad.0 + pad.1 - span;
                if room < 0 && !(ceil && room > -stride) {
                    return Err(Error::operands(format!(
                        "a kernel of {kernel:?} does not fit into {input:?} with its padding"
                    )));
                }
                let mut output = room.div_euclid(stride) + 1;
                if ceil && room.rem_euclid(stride) != 0 {
                    output += 1;
                }
                // A last window that would stand on the padding alone is left out.
                if ceil && (output - 1) * stride >= length + pad.0 {
                    output -= 1;
                }
                (pad, output.max(0))
            }
            other => return Err(Error::operands(format!("there is no auto_pad `{other}`"))),
        };
        windows.push(Window {
            input: input[axis],
            output: output as usize,
            kernel: kernel[axis],
            stride: strides[axis],
            dilation: dilations[axis],
            before,
            after,
        });
    }
    Ok(windows)
}

/// The shape of what windows over batch and channels make.
pub fn output_shape(batch: usize, channels: usize, windows: &[Window]) -> Vec<usize> {
    let mut shape = vec![batch, channels];
    shape.extend(windows.iter().map(|window| window.output));
    shape
}

/// The batch, the channels and the other axes of an operand.
pub fn split_shape(shape: &[usize]) -> Result<(usize, usize, &[usize])> {
    match shape {
        [batch, channels, rest @ ..] if !rest.is_empty() => Ok((*batch, *channels, rest)),
        _ => Err(Error::operands(format!("batch, channels and more were expected, not {shape:?}"))),
    }
}

/// The attribute `kernel_shape`.
pub fn kernel_shape(attributes: &Attributes, axes: usize) -> Result<Vec<usize>> {
    if attributes.ints("kernel_shape")?.is_none() {
        return Err(Error::operands("`kernel_shape` is missing"));
    }
    positive(attributes, "kernel_shape", axes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attribute;

    fn attributes(list: &[(&str, Vec<i64>)]) -> Attributes {
        let mut attributes = Attributes::default();
        for (name, values) in list {
            attributes.set(name, Attribute::Ints(values.clone()));
        }
        attributes
    }

    #[test]
    fn every_element_of_every_window_is_met_once() {
        let attributes =
            attributes(&[("strides", vec![2]), ("dilations", vec![3]), ("pads", vec![4, 5])]);
        let window = windows(&attributes, &[9], &[4]).unwrap()[0];
        let mut by_place = vec![Vec::new(); window.output];
        for at in 0..window.kernel {
            let meeting = window.meeting(at);
            for index in 0..meeting.count {
                by_place[meeting.output + index].push(meeting.input + index * window.stride);
            }
        }
        for (place, met) in by_place.iter().enumerate() {
            let (first, count) = window.elements(place);
            let expected: Vec<usize> =
                (0..count).map(|index| first + index * window.dilation).collect();
            assert_eq!(*met, expected);
        }
    }

    #[test]
    fn huge_numbers_are_refused() {
        for (name, values) in [
            ("strides", vec![0]),
            ("strides", vec![i64::MAX]),
            ("dilations", vec![-1]),
            ("pads", vec![i64::MIN, 0]),
            ("pads", vec![0]),
        ] {
            assert!(windows(&attributes(&[(name, values)]), &[5], &[2]).is_err());
        }
        assert!(windows(&attributes(&[]), &[5], &[6]).is_err());
        assert!(windows(&attributes(&[]), &[5], &[usize::MAX]).is_err());
    }
}
