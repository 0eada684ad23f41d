//! Elements taken by index: Gather, GatherElements, GatherND.

use super::index;
use crate::limits::checked_elements;
use crate::operators::shape::{grid, length};
use crate::operators::{Call, axis, one, walk};
use crate::{Error, Result, Tensor, Value};

pub fn gather(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, indices) = (call.tensor(0)?, call.tensor(1)?);
    let at = axis(call.attributes().int_or("axis", 0)?, data.rank())?;
    let taken = indices.to_i64()?;
    let part = take(data, at, &taken)?;
    let mut shape = data.shape().to_vec();
    shape.splice(at..=at, indices.shape().iter().copied());
    Ok(one(part.reshaped(&shape)?))
}

/// The tensor with only these indices of an axis, in this order.
pub fn take(data: &Tensor, at: usize, indices: &[i64]) -> Result<Tensor> {
    if at >= data.rank() {
        return Err(Error::operands("a scalar has no axis to take from"));
    }
    let strides = walk::strides(data.shape());
    let mut tables = Vec::with_capacity(strides.len());
    for (axis, (&length, &stride)) in data.shape().iter().zip(&strides).enumerate() {
        tables.push(if axis == at {
            let places = indices.iter().map(|&value| Ok(index(value, length)? * stride));
            places.collect::<Result<Vec<usize>>>()?
        } else {
            grid::whole(length, stride)?
        });
    }
    grid::pick(data, &tables)
}

pub fn gather_elements(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, indices) = (call.tensor(0)?, call.tensor(1)?);
    let at = axis(call.attributes().int_or("axis", 0)?, data.rank())?;
    let places = element_places(data.shape(), at, indices)?;
    Ok(one(walk::pick(data, indices.shape(), places)?))
}

/// The places in a tensor of a given shape of the elements that have an index of one axis in
/// `indices`, and all others where that index lies.
pub fn element_places(shape: &[usize], at: usize, indices: &Tensor) -> Result<Vec<usize>> {
    let fits = indices.rank() == shape.len()
        && at < shape.len()
        && (0..shape.len()).all(|axis| axis == at || indices.shape()[axis] <= shape[axis]);
    if !fits {
        let found = indices.shape();
        return Err(Error::operands(format!("indices of the shape {found:?} for {shape:?}")));
    }
    let strides = walk::strides(shape);
    let tables = (0..shape.len())
        .map(|axis| grid::whole(indices.shape()[axis], if axis == at { 0 } else { strides[axis] }))
        .collect::<Result<Vec<Vec<usize>>>>()?;
    let values = indices.to_i64()?;
    let places = grid::places(&tables)?.zip(values);
    places.map(|(place, value)| Ok(place + index(value, shape[at])? * strides[at])).collect()
}

pub fn gather_nd(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, indices) = (call.tensor(0)?, call.tensor(1)?);
    let batch_axes = length(call.attributes().int_or("batch_dims", 0)?)?;
    let slices = Slices::new(data.shape(), indices, batch_axes)?;
    let mut shape = indices.shape()[..indices.rank() - 1].to_vec();
    shape.extend_from_slice(&data.shape()[slices.named_axes..]);
    checked_elements(data.element(), &shape)?;
    let inner = slices.inner;
    let places = slices.starts.into_iter().flat_map(|start| start..start + inner);
    Ok(one(walk::pick(data, &shape, places)?))
}

/// Parts of a tensor that lists of indices of its first axes name.
pub struct Slices {
    /// How many of the first axes are named, with those of the batch.
    pub named_axes: usize,
    /// Elements of each part.
    pub inner: usize,
    /// The place of each part's first element.
    pub starts: Vec<usize>,
}

impl Slices {
    /// The parts of a tensor of this shape. The last axis of `indices` holds the lists; the first axes
    /// of both are a batch.
    pub fn new(shape: &[usize], indices: &Tensor, batch_axes: usize) -> Result<Self> {
        let wrong = || {
            let found = indices.shape();
            Error::operands(format!("lists of indices of the shape {found:?} for {shape:?}"))
        };
        let (&width, lists) = indices.shape().split_last().ok_or_else(wrong)?;
        let named_axes = batch_axes.checked_add(width).ok_or_else(wrong)?;
        let same_batch = shape.get(..batch_axes).is_some_and(|batch| lists.starts_with(batch));
        if width == 0 || named_axes > shape.len() || !same_batch {
            return Err(wrong());
        }
        let strides = walk::strides(shape);
        let inner = shape[named_axes..].iter().product();
        let in_batch: usize = lists[batch_axes..].iter().product();
        let whole: usize = shape[batch_axes..].iter().product();
        let axes = &shape[batch_axes..named_axes];
        let mut starts = Vec::with_capacity(indices.elements() / width);
        for (number, list) in indices.to_i64()?.chunks_exact(width).enumerate() {
            let mut start = number / in_batch * whole;
            for ((&value, &length), &stride) in list.iter().zip(axes).zip(&strides[batch_axes..]) {
                start += index(value, length)? * stride;
            }
            starts.push(start);
        }
        Ok(Self { named_axes, inner, starts })
    }
}
