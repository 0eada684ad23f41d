//! Elements added around a tensor, or cut off: Pad, CenterCropPad.

use super::{grid, length, numbers};
use crate::limits::checked_elements;
use crate::operators::distinct_axes;
use crate::operators::{Call, one, walk};
use crate::{Error, Result, Tensor, Value};

/// What stands beyond the edges.
#[derive(Clone, Copy)]
enum Mode {
    Constant,
    Edge,
    Reflect,
    Wrap,
}

pub fn pad(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let rank = data.rank();
    let mode = match call.attributes().string_or("mode", "constant")? {
        "constant" => Mode::Constant,
        "edge" => Mode::Edge,
        "reflect" => Mode::Reflect,
        "wrap" => Mode::Wrap,
        other => return Err(Error::unsupported(format!("Pad with the mode `{other}`"))),
    };
    let pads = numbers(call, "pads", 1)?.ok_or_else(|| Error::operands("the pads are missing"))?;
    let axes = match call.optional(3)? {
        Some(axes) => distinct_axes(&axes.to_i64()?, rank)?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        let (found, axes) = (pads.len(), axes.len());
        return Err(Error::operands(format!("{found} pads for {axes} axes")));
    }
    let mut edges = vec![(0, 0); rank];
    for (index, &at) in axes.iter().enumerate() {
        edges[at] = (pads[index], pads[axes.len() + index]);
    }
    let fill = match call.optional(2)? {
        Some(fill) => fill.clone(),
        None => constant(call, data)?,
    };
    Ok(one(padded(data, &edges, mode, &fill)?))
}

/// What old versions fill with: a number among the attributes.
fn constant(call: &Call<'_>, data: &Tensor) -> Result<Tensor> {
    match call.attributes().float("value")? {
        Some(value) => Tensor::from_f64(data.element(), &[], &[f64::from(value)]),
        None => Tensor::zeros(data.element(), &[]),
    }
}

/// A tensor with so much added before and behind each axis; negative numbers cut off.
fn padded(data: &Tensor, edges: &[(i64, i64)], mode: Mode, fill: &Tensor) -> Result<Tensor> {
    let strides = walk::strides(data.shape());
    let mut target = Vec::with_capacity(edges.len());
    for (&own, &(before, behind)) in data.shape().iter().zip(edges) {
        let sum = own as i128 + i128::from(before) + i128::from(behind);
        let sum = usize::try_from(sum).map_err(|_| {
            Error::operands(format!("the pads {before} and {behind} do not fit a length of {own}"))
        })?;
        target.push(sum);
    }
    checked_elements(data.element(), &target)?;
    let mut tables = Vec::with_capacity(edges.len());
    for (axis, &(before, behind)) in edges.iter().enumerate() {
        let own = data.shape()[axis] as i64;
        // Modes that repeat elements repeat those that are left after cutting off.
        let first = before.saturating_neg().clamp(0, own);
        let left = own - first - behind.saturating_neg().clamp(0, own - first);
        if left == 0 && target[axis] > 0 && !matches!(mode, Mode::Constant) {
            return Err(Error::operands("an axis without elements has none to pad with"));
        }
        let added = before.max(0);
        tables.push(grid::offsets(target[axis], strides[axis], |index| {
            let inside = source(index as i64 - added, left, mode)?;
            Some((first + inside) as usize)
        })?);
    }
    grid::pick_or(data, &tables, fill)
}

/// The index among `left` elements that stands for one that may lie beyond them.
fn source(index: i64, left: i64, mode: Mode) -> Option<i64> {
    if (0..left).contains(&index) {
        return Some(index);
    }
    match mode {
        Mode::Constant => None,
        Mode::Edge => Some(index.clamp(0, left - 1)),
        Mode::Wrap => Some(index.rem_euclid(left)),
        Mode::Reflect if left == 1 => Some(0),
        Mode::Reflect => {
            let around = index.rem_euclid(2 * (left - 1));
            Some(around.min(2 * (left - 1) - around))
        }
    }
}

pub fn center_crop_pad(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let rank = data.rank();
    let wanted = call.tensor(1)?.to_i64()?;
    let axes = match call.attributes().ints("axes")? {
        Some(axes) => distinct_axes(axes, rank)?,
        None => (0..rank).collect(),
    };
    if wanted.len() != axes.len() {
        let (found, axes) = (wanted.len(), axes.len());
        return Err(Error::operands(format!("{found} lengths for {axes} axes")));
    }
    let mut edges = vec![(0, 0); rank];
    for (&at, &value) in axes.iter().zip(&wanted) {
        let more = length(value)? as i64 - data.shape()[at] as i64;
        // What is left over by halving is added or cut off at the end.
        edges[at] = (more / 2, more - more / 2);
    }
    let zero = Tensor::zeros(data.element(), &[])?;
    Ok(one(padded(data, &edges, Mode::Constant, &zero)?))
}

#[cfg(test)]
mod tests {
    use super::{Mode, padded};
    use crate::Tensor;

    #[test]
    fn modes_that_repeat_see_only_what_is_left() {
        let data = Tensor::new(&[4], vec![1i64, 2, 3, 4]).unwrap();
        let zero = Tensor::scalar(0i64);
        let values = |edges, mode| {
            padded(&data, &[edges], mode, &zero).map(|tensor| tensor.to_i64().unwrap())
        };
        assert_eq!(values((-2, 3), Mode::Wrap).unwrap(), [3, 4, 3, 4, 3]);
        assert_eq!(values((3, -2), Mode::Reflect).unwrap(), [2, 1, 2, 1, 2]);
        assert_eq!(values((-4, 2), Mode::Constant).unwrap(), [0, 0]);
        assert_eq!(values((-4, 0), Mode::Edge).unwrap(), []);
        assert!(values((-4, 2), Mode::Edge).is_err());
        assert!(values((-5, 0), Mode::Constant).is_err());
        assert!(values((i64::MAX, i64::MAX), Mode::Constant).is_err());
        assert!(values((i64::MIN, i64::MAX), Mode::Edge).is_err());
    }
}
