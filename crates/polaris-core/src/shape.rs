//! The dimensions of an array, kept inline so that no operation allocates for them.

use std::fmt;
use std::ops::Deref;

use crate::{Error, Result};

/// The most dimensions a shape may have.
pub const MAX_RANK: usize = 8;

/// The dimensions of an array. Its element count is known to fit in an `isize` with room for the
/// largest element size, so products of dimensions never need to be checked again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: u8,
}

/// The largest element count: the largest element (8 bytes) must still fit in an `isize`.
const MAX_ELEMENTS: usize = isize::MAX as usize / 8;

impl Shape {
    /// The shape of a single value.
    pub const SCALAR: Self = Self { dims: [1; MAX_RANK], rank: 0 };

    /// A shape of these dimensions.
    ///
    /// # Errors
    /// `RankTooLarge` above eight dimensions, `TooLarge` if the element count overflows.
    pub fn new(dims: &[usize]) -> Result<Self> {
        if dims.len() > MAX_RANK {
            return Err(Error::RankTooLarge { rank: dims.len() });
        }
        // Zero-sized dimensions count as 1 here so that [usize::MAX, usize::MAX, 0] is refused
        // too: strides are computed from partial products.
        let mut product: usize = 1;
        for &dim in dims {
            product = product.checked_mul(dim.max(1)).filter(|&p| p <= MAX_ELEMENTS).ok_or_else(
                || Error::TooLarge { what: format!("the element count of {dims:?}") },
            )?;
        }
        let mut shape = Self { dims: [1; MAX_RANK], rank: dims.len() as u8 };
        shape.dims[..dims.len()].copy_from_slice(dims);
        Ok(shape)
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// The dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank()]
    }

    /// The number of elements; 1 for a scalar.
    pub fn elements(&self) -> usize {
        self.dims().iter().product()
    }

    /// The shape both broadcast to, by NumPy's rule.
    ///
    /// # Errors
    /// `ShapeMismatch` if a pair of dimensions differs and neither is 1.
    pub fn broadcast(op: &'static str, lhs: &Self, rhs: &Self) -> Result<Self> {
        let rank = lhs.rank().max(rhs.rank());
        let mut dims = [1; MAX_RANK];
        for (axis, dim) in dims[..rank].iter_mut().enumerate() {
            // Axes are aligned at the end; a missing leading axis counts as 1.
            let at = |s: &Self| (axis + s.rank()).checked_sub(rank).map_or(1, |i| s.dims[i]);
            *dim = match (at(lhs), at(rhs)) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => return Err(Error::no_broadcast(op, *lhs, *rhs)),
            };
        }
        Self::new(&dims[..rank])
    }

    /// This shape without the given axes, or with them kept at length 1.
    ///
    /// # Errors
    /// `AxisOutOfRange` or `AxisRepeated`.
    pub fn reduce(&self, op: &'static str, axes: &[usize], keep_dims: bool) -> Result<Self> {
        let reduced = self.axis_mask(op, axes)?;
        let mut dims = [1; MAX_RANK];
        let mut rank = 0;
        for (axis, &dim) in self.dims().iter().enumerate() {
            if reduced[axis] && !keep_dims {
                continue;
            }
            dims[rank] = if reduced[axis] { 1 } else { dim };
            rank += 1;
        }
        Self::new(&dims[..rank])
    }

    /// Marks the named axes.
    ///
    /// # Errors
    /// `AxisOutOfRange` or `AxisRepeated`.
    pub fn axis_mask(&self, op: &'static str, axes: &[usize]) -> Result<[bool; MAX_RANK]> {
        let mut mask = [false; MAX_RANK];
        for &axis in axes {
            if axis >= self.rank() {
                let axis = isize::try_from(axis).unwrap_or(isize::MAX);
                return Err(Error::AxisOutOfRange { op, axis, rank: self.rank() });
            }
            if std::mem::replace(&mut mask[axis], true) {
                return Err(Error::AxisRepeated { op, axis });
            }
        }
        Ok(mask)
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        self.dims()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[usize]) -> Shape {
        Shape::new(dims).unwrap()
    }

    #[test]
    fn broadcasting_follows_numpy() {
        let b = |l: &[usize], r: &[usize]| Shape::broadcast("add", &shape(l), &shape(r));
        assert_eq!(b(&[2, 3], &[3]).unwrap(), shape(&[2, 3]));
        assert_eq!(b(&[4, 1, 3], &[5, 1]).unwrap(), shape(&[4, 5, 3]));
        assert_eq!(b(&[], &[7]).unwrap(), shape(&[7]));
        assert_eq!(b(&[0, 3], &[1, 3]).unwrap(), shape(&[0, 3]));
        let message = b(&[2, 3], &[4]).unwrap_err().to_string();
        assert!(message.contains("[2, 3]") && message.contains("[4]"), "{message}");
    }

    #[test]
    fn broadcasting_two_legal_shapes_can_overflow() {
        let half = 1usize << 40;
        assert!(Shape::broadcast("add", &shape(&[half, 1]), &shape(&[1, half])).is_err());
    }

    #[test]
    fn overflow_is_refused_even_behind_a_zero() {
        assert!(Shape::new(&[usize::MAX, 2]).is_err());
        assert!(Shape::new(&[usize::MAX, usize::MAX, 0]).is_err());
        assert!(Shape::new(&[1; 9]).is_err());
        assert_eq!(shape(&[]).elements(), 1);
        assert_eq!(shape(&[3, 0]).elements(), 0);
    }

    #[test]
    fn reduce_drops_or_keeps_axes() {
        let s = shape(&[2, 3, 4]);
        assert_eq!(s.reduce("sum", &[1], false).unwrap(), shape(&[2, 4]));
        assert_eq!(s.reduce("sum", &[2, 0], true).unwrap(), shape(&[1, 3, 1]));
        assert!(s.reduce("sum", &[3], false).is_err());
        assert!(s.reduce("sum", &[1, 1], false).is_err());
    }
}
