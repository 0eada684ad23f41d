//! Elements repeated: Expand, Tile.

use super::{grid, length};
use crate::limits::checked_elements;
use crate::operators::{Call, one, walk};
use crate::{Error, Result, Value};

pub fn expand(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let wanted = call.tensor(1)?.to_i64()?;
    let wanted = wanted.into_iter().map(length).collect::<Result<Vec<usize>>>()?;
    let target = walk::broadcast_shapes(&[data.shape(), &wanted])?;
    checked_elements(data.element(), &target)?;
    let (strides, added) = (walk::strides(data.shape()), target.len() - data.rank());
    let tables = (0..target.len())
        .map(|axis| {
            let own = axis.checked_sub(added).filter(|&own| data.shape()[own] != 1);
            let stride = own.map_or(0, |own| strides[own]);
            grid::whole(target[axis], stride)
        })
        .collect::<Result<Vec<Vec<usize>>>>()?;
    Ok(one(grid::pick(data, &tables)?))
}

pub fn tile(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let repeats = call.tensor(1)?.to_i64()?;
    if repeats.len() != data.rank() {
        let (found, rank) = (repeats.len(), data.rank());
        return Err(Error::operands(format!("{found} repeats for {rank} axes")));
    }
    let mut target = Vec::with_capacity(repeats.len());
    for (&own, repeat) in data.shape().iter().zip(repeats) {
        target.push(own.saturating_mul(length(repeat)?));
    }
    checked_elements(data.element(), &target)?;
    let strides = walk::strides(data.shape());
    let tables = (0..target.len())
        .map(|axis| {
            let own = data.shape()[axis];
            grid::offsets(target[axis], strides[axis], |index| Some(index % own))
        })
        .collect::<Result<Vec<Vec<usize>>>>()?;
    Ok(one(grid::pick(data, &tables)?))
}
