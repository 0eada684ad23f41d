//! Places in a tensor that are a sum of one number for each axis, and elements picked from them.

use crate::limits::checked_elements;
use crate::operators::walk;
use crate::room::Collected;
use crate::{ElementType, Error, Result, Tensor};

/// A place outside the tensor: whatever is added to it, it stays outside.
pub const OUTSIDE: usize = usize::MAX;

/// What each index of an axis adds to the flat place: `of` names an index of the source, or none.
pub fn offsets(
    length: usize,
    stride: usize,
    of: impl Fn(usize) -> Option<usize>,
) -> Result<Vec<usize>> {
    checked_elements(ElementType::U64, &[length])?;
    (0..length).map(|index| of(index).map_or(OUTSIDE, |index| index * stride)).collected()
}

/// The offsets of a whole axis as it is.
pub fn whole(length: usize, stride: usize) -> Result<Vec<usize>> {
    offsets(length, stride, Some)
}

/// The flat places that the axes' offsets add up to, in row-major order.
pub struct Places<'a> {
    axes: &'a [Vec<usize>],
    index: Vec<usize>,
    /// The sum of the offsets of the axes before each one, and of all.
    sums: Vec<usize>,
    left: usize,
}

/// The places of a grid.
///
/// # Errors
/// If there are too many.
pub fn places(axes: &[Vec<usize>]) -> Result<Places<'_>> {
    let shape: Vec<usize> = axes.iter().map(Vec::len).collect();
    let left = checked_elements(ElementType::U8, &shape)?;
    let mut places = Places { axes, index: vec![0; shape.len()], sums: vec![0; 1], left };
    if left > 0 {
        for offsets in axes {
            let before = places.sums[places.sums.len() - 1];
            places.sums.push(before.saturating_add(offsets[0]));
        }
    }
    Ok(places)
}

impl Iterator for Places<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let rank = self.axes.len();
        let place = self.sums[rank];
        if self.left > 0 {
            let mut axis = rank - 1;
            while self.index[axis] + 1 == self.axes[axis].len() {
                self.index[axis] = 0;
                axis -= 1;
            }
            self.index[axis] += 1;
            for axis in axis..rank {
                let offset = self.axes[axis][self.index[axis]];
                self.sums[axis + 1] = self.sums[axis].saturating_add(offset);
            }
        }
        Some(place)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// The elements at the places of a grid, all of them inside.
pub fn pick(source: &Tensor, axes: &[Vec<usize>]) -> Result<Tensor> {
    let shape: Vec<usize> = axes.iter().map(Vec::len).collect();
    checked_elements(source.element(), &shape)?;
    walk::pick(source, &shape, places(axes)?)
}

/// The elements at the places of a grid, and `fill` where a place is outside.
pub fn pick_or(source: &Tensor, axes: &[Vec<usize>], fill: &Tensor) -> Result<Tensor> {
    let shape: Vec<usize> = axes.iter().map(Vec::len).collect();
    let (extended, last) = with_last(source, fill)?;
    walk::pick(&extended, &shape, places(axes)?.map(|place| place.min(last)))
}

/// All elements in a row and one more after them, with its place.
pub fn with_last(source: &Tensor, last: &Tensor) -> Result<(Tensor, usize)> {
    if last.elements() != 1 || last.element() != source.element() {
        let (wanted, found) = (source.element(), last.element());
        let why = format!("one {wanted} was expected to fill with, not {found}{:?}", last.shape());
        return Err(Error::operands(why));
    }
    let elements = source.elements();
    let row = [&source.reshaped(&[elements])?, &last.reshaped(&[1])?];
    Ok((super::join::join(&row, 0)?, elements))
}
