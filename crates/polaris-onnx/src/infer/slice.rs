//! Slice, of tensors and of elements that are partly known.

use super::{Fact, Known, Rule, arithmetic, dims};
use crate::operators;
use crate::{Dim, Error, Result};

pub(super) const RULES: &[(&str, Rule)] = &[("Slice", slice)];

/// From where on a bound stands for the end of an axis, however long.
const FAR: i64 = i32::MAX as i64;

/// Where a slice of an axis begins, ends, and how far apart its elements are.
struct Range {
    start: Dim,
    end: Dim,
    step: Option<i64>,
}

fn slice(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(0);
    let Some(shape) = known.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
    let starts = known.numbers("starts", 1)?.flatten();
    let ends = known.numbers("ends", 2)?.flatten();
    let (Some(starts), Some(ends)) = (starts, ends) else {
        return Ok(vec![Fact::tensor(element, dims::open(shape.len()))]);
    };
    let count = starts.len();
    let axes = match known.numbers("axes", 3)? {
        None => Some((0..count as i64).collect()),
        Some(axes) => axes.and_then(|axes| axes.iter().map(dims::signed).collect()),
    };
    let steps = match known.fact(4) {
        None => vec![Dim::Known(1); count],
        Some(_) => known.entries(4).unwrap_or_else(|| vec![Dim::Unknown; count]),
    };
    let Some(axes): Option<Vec<i64>> = axes else {
        return Ok(vec![Fact::tensor(element, dims::open(shape.len()))]);
    };
    if [ends.len(), axes.len(), steps.len()] != [count; 3] {
        return Err(Error::operands("starts, ends, axes and steps have different lengths"));
    }
    let mut sliced = shape.clone();
    let mut entries = None;
    for (index, at) in operators::distinct_axes(&axes, shape.len())?.into_iter().enumerate() {
        let step = dims::signed(&steps[index]);
        if step == Some(0) {
            return Err(Error::operands("a step is 0"));
        }
        let range = Range { start: starts[index].clone(), end: ends[index].clone(), step };
        sliced[at] = range.length(&shape[at]);
        if shape.len() == 1 && element.is_some_and(arithmetic::holds) {
            entries = known.entries(0).and_then(|list| range.pick(&list));
        }
    }
    if axes.is_empty() && shape.len() == 1 && element.is_some_and(arithmetic::holds) {
        entries = known.entries(0);
    }
    let fact = Fact::tensor(element, Some(sliced));
    arithmetic::with(fact, entries.and_then(arithmetic::useful))
}

impl Range {
    /// The first index, how many, and the step, in an axis whose length is known.
    fn indices(&self, length: usize) -> Option<(i128, usize, i128)> {
        let whole = length as i128;
        let step = i128::from(self.step?);
        let bound = |entry: &Dim| {
            let value = i128::from(dims::signed(entry)?);
            Some(if value < 0 { value + whole } else { value })
        };
        let (low, high) = if step < 0 { (-1, whole - 1) } else { (0, whole) };
        let start = bound(&self.start)?.clamp(low.max(0).min(high), high);
        let end = bound(&self.end)?.clamp(low, high);
        let distance = if step < 0 { start - end } else { end - start };
        let count = (distance.max(0) + step.abs() - 1) / step.abs();
        Some((start, usize::try_from(count).ok()?, step))
    }

    fn length(&self, of: &Dim) -> Dim {
        if let Some(length) = of.known() {
            return self.indices(length).map_or(Dim::Unknown, |(_, count, _)| Dim::Known(count));
        }
        let (start, end) = (dims::signed(&self.start), dims::signed(&self.end));
        let to_the_end =
            end.is_some_and(|end| end >= FAR) || (self.end == *of && *of != Dim::Unknown);
        let whole = match self.step {
            Some(1) => start == Some(0) && to_the_end,
            Some(-1) => {
                start.is_some_and(|start| start == -1 || start >= FAR)
                    && end.is_some_and(|end| end <= -FAR)
            }
            _ => false,
        };
        if whole { of.clone() } else { Dim::Unknown }
    }

    fn pick(&self, list: &[Dim]) -> Option<Vec<Dim>> {
        let (start, count, step) = self.indices(list.len())?;
        let at = |index: usize| usize::try_from(start + index as i128 * step).ok();
        (0..count).map(|index| list.get(at(index)?).cloned()).collect()
    }
}
