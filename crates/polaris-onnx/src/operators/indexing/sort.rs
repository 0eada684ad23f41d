//! Elements by their order: TopK, Unique.

use std::cmp::Ordering;

use super::find::along_or_flat;
use super::gather::take;
use crate::limits::checked_elements;
use crate::operators::shape::length;
use crate::operators::{Call, axis, one, walk};
use crate::room::filled;
use crate::{ElementType, Error, Result, Tensor, Value};

/// Elements that can be compared.
enum Keys<'a> {
    Floats(Vec<f64>),
    Integers(Vec<i128>),
    Strings(&'a [String]),
}

impl<'a> Keys<'a> {
    fn new(data: &'a Tensor) -> Result<Self> {
        Ok(match data.element() {
            ElementType::String => Self::Strings(data.as_strings()?),
            element if element.is_float() => Self::Floats(data.to_f64()?),
            _ => Self::Integers(data.to_integers()?),
        })
    }

    /// The order of the elements at two places. NaN comes last.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        match self {
            Self::Floats(values) => {
                let (a, b) = (values[a], values[b]);
                a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            Self::Integers(values) => values[a].cmp(&values[b]),
            Self::Strings(values) => values[a].cmp(&values[b]),
        }
    }
}

pub fn top_k(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let wanted = match attributes.int("k")? {
        Some(k) => vec![k],
        None => call.tensor(1)?.to_i64()?,
    };
    let at = axis(attributes.int_or("axis", -1)?, data.rank())?;
    let mut shape = data.shape().to_vec();
    let whole = *shape.get(at).ok_or_else(|| Error::operands("a scalar has no axis to sort"))?;
    let &[wanted] = wanted.as_slice() else {
        return Err(Error::operands("K is not a scalar"));
    };
    let wanted = length(wanted)?;
    if wanted > whole {
        return Err(Error::operands(format!("the {wanted} first of {whole} elements")));
    }
    let largest = attributes.flag("largest", true)?;
    let keys = Keys::new(data)?;
    let outer: usize = shape[..at].iter().product();
    let inner: usize = shape[at + 1..].iter().product();
    shape[at] = wanted;
    let count = outer * wanted * inner;
    let (mut places, mut indices) = (filled(0, count)?, filled(0i64, count)?);
    let mut order = Vec::new();
    for line in 0..outer * inner {
        let (row, column) = (line / inner, line % inner);
        let place = |index: usize| (row * whole + index) * inner + column;
        order.clear();
        order.extend(0..whole);
        // A stable order: of equal elements the first comes first.
        order.sort_by(|&a, &b| {
            let order = keys.compare(place(a), place(b));
            if largest { order.reverse() } else { order }
        });
        for (rank, &index) in order[..wanted].iter().enumerate() {
            let target = (row * wanted + rank) * inner + column;
            places[target] = place(index);
            indices[target] = index as i64;
        }
    }
    let mut results = one(walk::pick(data, &shape, places)?);
    results.push(Value::Tensor(Tensor::new(&shape, indices)?));
    Ok(results)
}

pub fn unique(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let (data, at) = along_or_flat(call, data)?;
    let whole = *data
        .shape()
        .get(at)
        .ok_or_else(|| Error::operands("a scalar has no axis along which to compare"))?;
    checked_elements(ElementType::I64, &[whole])?;
    let groups = groups(&data, at, whole, call.attributes().flag("sorted", true)?)?;
    let (mut firsts, mut counts) = (Vec::new(), Vec::new());
    let mut inverse = vec![0i64; whole];
    for (number, members) in groups.iter().enumerate() {
        firsts.push(members[0] as i64);
        counts.push(members.len() as i64);
        for &member in members {
            inverse[member] = number as i64;
        }
    }
    let mut results = one(take(&data, at, &firsts)?);
    for list in [firsts, inverse, counts] {
        results.push(Value::Tensor(Tensor::new(&[list.len()], list)?));
    }
    Ok(results)
}

/// The indices of an axis under which the same elements lie, in the order of those elements, or of
/// their first index.
fn groups(data: &Tensor, at: usize, whole: usize, sorted: bool) -> Result<Vec<Vec<usize>>> {
    let keys = Keys::new(data)?;
    let outer: usize = data.shape()[..at].iter().product();
    let inner: usize = data.shape()[at + 1..].iter().product();
    let compare = |a: usize, b: usize| {
        let places =
            (0..outer).flat_map(|row| (0..inner).map(move |column| (row * whole * inner, column)));
        places
            .map(|(row, column)| keys.compare(row + a * inner + column, row + b * inner + column))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    let mut order: Vec<usize> = (0..whole).collect();
    order.sort_by(|&a, &b| compare(a, b));
    let same = order.chunk_by(|&a, &b| compare(a, b).is_eq());
    let mut groups: Vec<Vec<usize>> = same.map(<[usize]>::to_vec).collect();
    if !sorted {
        groups.sort_by_key(|members| members[0]);
    }
    Ok(groups)
}
