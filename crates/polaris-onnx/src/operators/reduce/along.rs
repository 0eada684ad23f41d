//! A tensor seen as lines along one axis.

use crate::operators::axis;
use crate::{Error, Result};

/// Lines of elements: those that differ in the index of one axis only.
#[derive(Clone, Copy)]
pub struct Lines {
    /// How many lines begin at neighbouring places; also how far apart the elements of a line lie.
    pub inner: usize,
    /// Elements of a line.
    pub length: usize,
    outer: usize,
}

impl Lines {
    /// The lines along an axis, which may count from the end. A scalar is a line of one element.
    pub fn along(shape: &[usize], number: i64) -> Result<Self> {
        let scalar_axis = shape.is_empty() && number == -1;
        let at = if scalar_axis { 0 } else { axis(number, shape.len())? };
        let outer = shape.iter().take(at).product();
        let inner = shape.iter().skip(at + 1).product();
        Ok(Self { inner, length: shape.get(at).copied().unwrap_or(1), outer })
    }

    /// The lines of a matrix that holds the axes from a given one on in its rows.
    pub fn flattened(shape: &[usize], number: i64) -> Result<Self> {
        let rank = shape.len() as i64;
        let at = if number < 0 { number.saturating_add(rank) } else { number };
        if !(0..=rank).contains(&at) {
            return Err(Error::operands(format!("axis {number} is out of range for rank {rank}")));
        }
        let (outer, length) = shape.split_at(at as usize);
        Ok(Self { inner: 1, length: length.iter().product(), outer: outer.iter().product() })
    }

    /// The place of each line's first element, in row-major order. None if lines have no elements.
    pub fn starts(self) -> impl Iterator<Item = usize> {
        let outer = if self.length == 0 { 0 } else { self.outer };
        (0..outer).flat_map(move |row| {
            (0..self.inner).map(move |column| row * self.length * self.inner + column)
        })
    }

    /// The places of a line's elements.
    pub fn places(self, start: usize) -> impl DoubleEndedIterator<Item = usize> + Clone {
        (0..self.length).map(move |index| start + index * self.inner)
    }
}
