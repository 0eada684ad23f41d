//! Slice.

use super::{grid, numbers};
use crate::operators::distinct_axes;
use crate::operators::{Call, one, walk};
use crate::{Error, Result, Value};

pub fn slice(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let (shape, strides) = (data.shape(), walk::strides(data.shape()));
    let missing = || Error::operands("Slice needs starts and ends");
    let starts = numbers(call, "starts", 1)?.ok_or_else(missing)?;
    let ends = numbers(call, "ends", 2)?.ok_or_else(missing)?;
    let axes = match numbers(call, "axes", 3)? {
        Some(axes) => axes,
        None => (0..starts.len() as i64).collect(),
    };
    let steps = call.optional(4)?.map(|steps| steps.to_i64()).transpose()?;
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(Error::operands("starts, ends, axes and steps have different lengths"));
    }
    let mut tables = (0..shape.len())
        .map(|axis| grid::whole(shape[axis], strides[axis]))
        .collect::<Result<Vec<Vec<usize>>>>()?;
    for (index, at) in distinct_axes(&axes, shape.len())?.into_iter().enumerate() {
        let range = indices(shape[at], starts[index], ends[index], steps[index])?;
        tables[at] = range.into_iter().map(|place| place * strides[at]).collect();
    }
    Ok(one(grid::pick(data, &tables)?))
}

/// The indices from a start to an end, both of which may count from the axis' end or lie outside.
fn indices(length: usize, start: i64, end: i64, step: i64) -> Result<Vec<usize>> {
    let whole = length as i128;
    let from_start = |value: i64| {
        let value = i128::from(value);
        if value < 0 { value + whole } else { value }
    };
    let step = i128::from(step);
    let (low, high) = if step < 0 { (-1, whole - 1) } else { (0, whole) };
    let start = from_start(start).clamp(low.max(0).min(high), high);
    let end = from_start(end).clamp(low, high);
    let distance = if step < 0 { start - end } else { end - start };
    if step == 0 {
        return Err(Error::operands("a step is 0"));
    }
    let count = (distance.max(0) + step.abs() - 1) / step.abs();
    Ok((0..count).map(|index| (start + index * step) as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::indices;

    #[test]
    fn bounds_are_clamped_on_both_sides() {
        assert_eq!(indices(4, i64::MIN, i64::MAX, 1).unwrap(), [0, 1, 2, 3]);
        assert_eq!(indices(4, i64::MAX, i64::MIN, -1).unwrap(), [3, 2, 1, 0]);
        assert_eq!(indices(4, i64::MIN, i64::MAX, -1).unwrap(), []);
        assert_eq!(indices(4, -9, -9, -1).unwrap(), [0]);
        assert_eq!(indices(4, 1, -1, i64::MAX).unwrap(), [1]);
        assert_eq!(indices(0, 0, i64::MIN, i64::MIN).unwrap(), []);
        assert!(indices(4, 0, 4, 0).is_err());
    }
}
