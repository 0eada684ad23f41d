//! Iteration over shapes that many operators share.

use crate::limits::checked_elements;
use crate::room::with_room;
use crate::{ElementType, Error, Result, Tensor};

/// How far apart neighbours of each axis lie, in elements.
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1] * shape[axis + 1];
    }
    strides
}

/// The shape of what comes out where several shapes meet, by NumPy's rule.
pub fn broadcast_shapes(shapes: &[&[usize]]) -> Result<Vec<usize>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut result = vec![1; rank];
    for shape in shapes {
        for (target, &length) in result[rank - shape.len()..].iter_mut().zip(*shape) {
            match (*target, length) {
                (a, b) if a == b || b == 1 => {}
                (1, b) => *target = b,
                _ => {
                    let why = format!("the shapes {shapes:?} are incompatible");
                    return Err(Error::operands(why));
                }
            }
        }
    }
    Ok(result)
}

/// For each element of `target`, in row-major order, the flat place in `shape` that stands for it when
/// `shape` is repeated to it.
pub fn broadcast_places(shape: &[usize], target: &[usize]) -> Result<Vec<usize>> {
    let mut steps = vec![0; target.len()];
    let own = strides(shape);
    let offset = target.len() - shape.len();
    for axis in 0..shape.len() {
        steps[offset + axis] = if shape[axis] == 1 { 0 } else { own[axis] };
    }
    strided_places(target, &steps, 0)
}

/// The flat places that an array of this shape visits in row-major order: `start`, and a step for each
/// axis.
pub fn strided_places(shape: &[usize], steps: &[usize], start: usize) -> Result<Vec<usize>> {
    checked_elements(ElementType::U64, shape)?;
    if shape.contains(&0) {
        return Ok(Vec::new());
    }
    let mut places = vec![start];
    for (&length, &step) in shape.iter().zip(steps) {
        let mut longer = with_room(places.len() * length)?;
        for place in places {
            longer.extend((0..length).map(|index| place + index * step));
        }
        places = longer;
    }
    Ok(places)
}

/// A tensor of elements of another, whatever their type, by their flat places.
pub fn pick(
    source: &Tensor,
    shape: &[usize],
    places: impl IntoIterator<Item = usize>,
) -> Result<Tensor> {
    let element = source.element();
    let elements = checked_elements(element, shape)?;
    if element == ElementType::String {
        let strings = source.as_strings()?;
        let mut picked = with_room(elements)?;
        // Few long strings repeated often may take more than the places that the limit counts.
        let mut bytes = 0usize;
        for at in places {
            bytes = bytes.saturating_add(strings[at].len());
            checked_elements(ElementType::U8, &[bytes])?;
            picked.push(strings[at].clone());
        }
        return Tensor::strings(shape, picked);
    }
    let (bytes, size) = (source.bytes()?, element.size());
    let mut picked = with_room(elements * size)?;
    for at in places {
        picked.extend_from_slice(&bytes[at * size..(at + 1) * size]);
    }
    Tensor::from_bytes(element, shape, picked.into())
}

/// The coordinates of a flat place.
pub fn coordinates(mut place: usize, shape: &[usize]) -> Vec<usize> {
    let mut list = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        list[axis] = place % shape[axis].max(1);
        place /= shape[axis].max(1);
    }
    list
}
