//! Which scale and which zero point belong to an element.

use crate::limits::checked_elements;
use crate::operators::{axis, walk};
use crate::room::{filled, with_room};
use crate::{ElementType, Error, Result, Tensor};

/// For each element of `shape`, the place of its scale: one for all, one for each index of an axis, or
/// one for each block of indices of it.
pub(super) fn places(
    parameter: &Tensor,
    shape: &[usize],
    along: i64,
    block: i64,
) -> Result<Vec<usize>> {
    let elements = checked_elements(ElementType::U64, shape)?;
    if parameter.elements() == 1 {
        return filled(0, elements);
    }
    let misfit = || {
        let found = parameter.shape();
        Error::operands(format!("a scale or zero point of {found:?} does not fit {shape:?}"))
    };
    let at = axis(along, shape.len())?;
    let length = *shape.get(at).ok_or_else(misfit)?;
    if block == 0 {
        if parameter.shape() != [length] {
            return Err(misfit());
        }
        let mut steps = vec![0; shape.len()];
        steps[at] = 1;
        return walk::strided_places(shape, &steps, 0);
    }
    let block = usize::try_from(block).map_err(|_| Error::operands("a block of no elements"))?;
    let mut blocks = shape.to_vec();
    blocks[at] = length.div_ceil(block);
    if parameter.shape() != blocks {
        return Err(misfit());
    }
    let outer: usize = shape[..at].iter().product();
    let inner: usize = shape[at + 1..].iter().product();
    let mut list = with_room(elements)?;
    for row in 0..outer {
        for index in 0..length {
            let start = (row * blocks[at] + index / block) * inner;
            list.extend(start..start + inner);
        }
    }
    Ok(list)
}
