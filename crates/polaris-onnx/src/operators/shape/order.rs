//! Elements in another order: Transpose, blocks between depth and space, sequences reversed, triangles.

use super::{grid, length};
use crate::operators::distinct_axes;
use crate::operators::{Call, axis, one, walk};
use crate::{Error, Result, Tensor, Value};

/// The tensor with its axes in another order.
pub fn permuted(data: &Tensor, order: &[usize]) -> Result<Tensor> {
    let strides = walk::strides(data.shape());
    let tables = order
        .iter()
        .map(|&axis| grid::whole(data.shape()[axis], strides[axis]))
        .collect::<Result<Vec<Vec<usize>>>>()?;
    grid::pick(data, &tables)
}

pub fn transpose(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let order = match call.attributes().ints("perm")? {
        Some(order) => distinct_axes(order, data.rank())?,
        None => (0..data.rank()).rev().collect(),
    };
    if order.len() != data.rank() {
        let (found, rank) = (order.len(), data.rank());
        return Err(Error::operands(format!("an order of {found} axes for {rank}")));
    }
    Ok(one(permuted(data, &order)?))
}

/// The four lengths of a batch of images, and the length of a block.
fn blocks(call: &Call<'_>) -> Result<([usize; 4], usize)> {
    let shape = call.tensor(0)?.shape();
    let lengths = <[usize; 4]>::try_from(shape)
        .map_err(|_| Error::operands(format!("four axes were expected, not {shape:?}")))?;
    let block = call.attributes().int("blocksize")?;
    let block = block.ok_or_else(|| Error::operands("the attribute `blocksize` is missing"))?;
    let block = length(block)?;
    if block == 0 || block.checked_mul(block).is_none() {
        return Err(Error::operands(format!("{block} is not a valid length of a block")));
    }
    Ok((lengths, block))
}

pub fn depth_to_space(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let ([batch, depth, height, width], block) = blocks(call)?;
    if depth % (block * block) != 0 {
        let why = format!("a depth of {depth} does not hold blocks of {block} by {block}");
        return Err(Error::operands(why));
    }
    let left = depth / (block * block);
    let moved = match call.attributes().string_or("mode", "DCR")? {
        "DCR" => {
            let split = data.reshaped(&[batch, block, block, left, height, width])?;
            permuted(&split, &[0, 3, 4, 1, 5, 2])?
        }
        "CRD" => {
            let split = data.reshaped(&[batch, left, block, block, height, width])?;
            permuted(&split, &[0, 1, 4, 2, 5, 3])?
        }
        other => return Err(Error::unsupported(format!("DepthToSpace with the mode `{other}`"))),
    };
    let (height, width) = (height.saturating_mul(block), width.saturating_mul(block));
    Ok(one(moved.reshaped(&[batch, left, height, width])?))
}

pub fn space_to_depth(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let ([batch, depth, height, width], block) = blocks(call)?;
    if height % block != 0 || width % block != 0 {
        let why = format!("{height} by {width} is not made of blocks of {block} by {block}");
        return Err(Error::operands(why));
    }
    let (rows, columns) = (height / block, width / block);
    let split = data.reshaped(&[batch, depth, rows, block, columns, block])?;
    let moved = permuted(&split, &[0, 3, 5, 1, 2, 4])?;
    let depth = depth.saturating_mul(block * block);
    Ok(one(moved.reshaped(&[batch, depth, rows, columns])?))
}

pub fn reverse_sequence(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let lengths = call.tensor(1)?.to_i64()?;
    let (shape, strides) = (data.shape(), walk::strides(data.shape()));
    let batch = axis(call.attributes().int_or("batch_axis", 1)?, shape.len())?;
    let time = axis(call.attributes().int_or("time_axis", 0)?, shape.len())?;
    if shape.len() < 2 || batch == time {
        return Err(Error::operands("sequences need an axis of time and another one of the batch"));
    }
    if lengths.len() != shape[batch] {
        let (found, batch) = (lengths.len(), shape[batch]);
        return Err(Error::operands(format!("{found} lengths for a batch of {batch}")));
    }
    let fits = |&length: &i64| usize::try_from(length).ok().filter(|&length| length <= shape[time]);
    let lengths = lengths.iter().map(fits).collect::<Option<Vec<usize>>>();
    let lengths = lengths.ok_or_else(|| Error::operands("a sequence is longer than its axis"))?;
    let places = (0..data.elements()).map(|place| {
        let index = place / strides[time] % shape[time];
        let length = lengths[place / strides[batch] % shape[batch]];
        let source = if index < length { length - 1 - index } else { index };
        place - index * strides[time] + source * strides[time]
    });
    Ok(one(walk::pick(data, shape, places)?))
}

pub fn trilu(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let upper = call.attributes().flag("upper", true)?;
    let diagonal = match call.optional(1)? {
        Some(k) => match k.to_i64()?.as_slice() {
            [k] => *k,
            other => return Err(Error::operands(format!("{} diagonals are named", other.len()))),
        },
        None => 0,
    };
    let &[.., rows, columns] = data.shape() else {
        return Err(Error::operands("a triangle needs at least two axes"));
    };
    let zero = Tensor::zeros(data.element(), &[])?;
    let (extended, last) = grid::with_last(data, &zero)?;
    let places = (0..data.elements()).map(|place| {
        let right = (place % columns) as i64 - (place / columns % rows) as i64;
        let kept = if upper { right >= diagonal } else { right <= diagonal };
        if kept { place } else { last }
    });
    Ok(one(walk::pick(&extended, data.shape(), places)?))
}
