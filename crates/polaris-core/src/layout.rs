//! The layout of an array in a buffer: shape, strides and offset, in elements.

use std::fmt;
use std::ops::Range;

use crate::{Error, MAX_RANK, Result, Shape};

/// Shape, strides and offset of an array in a buffer, all in elements. Strides are not negative;
/// a stride of zero repeats one element, which is how broadcasting is expressed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    strides: [usize; MAX_RANK],
    offset: usize,
}

impl Layout {
    /// The dense row-major layout of a shape.
    pub fn contiguous(shape: Shape) -> Self {
        let mut strides = [0; MAX_RANK];
        let mut stride = 1;
        for axis in (0..shape.rank()).rev() {
            strides[axis] = stride;
            stride *= shape[axis].max(1);
        }
        Self { shape, strides, offset: 0 }
    }

    /// A layout of given strides and offset.
    ///
    /// # Errors
    /// `RankTooLarge` if there are more or fewer strides than dimensions, `TooLarge` if the last
    /// element's index overflows.
    pub fn new(shape: Shape, strides: &[usize], offset: usize) -> Result<Self> {
        if strides.len() != shape.rank() {
            return Err(Error::RankTooLarge { rank: strides.len() });
        }
        let mut all = [0; MAX_RANK];
        all[..strides.len()].copy_from_slice(strides);
        let mut last = offset;
        for (&dim, &stride) in shape.iter().zip(strides) {
            last = dim
                .saturating_sub(1)
                .checked_mul(stride)
                .and_then(|span| last.checked_add(span))
                .filter(|&last| last < isize::MAX as usize)
                .ok_or_else(|| Error::TooLarge {
                    what: format!(
                        "a layout of shape {shape}, strides {strides:?}, offset {offset}"
                    ),
                })?;
        }
        Ok(Self { shape, strides: all, offset })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The distance between neighbours along each axis, in elements.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.shape.rank()]
    }

    /// The index of the first element.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape.elements()
    }

    /// One past the largest element index that is touched; 0 if there is no element.
    pub fn end(&self) -> usize {
        if self.elements() == 0 {
            return 0;
        }
        let span: usize = self.shape.iter().zip(self.strides()).map(|(&d, &s)| (d - 1) * s).sum();
        self.offset + span + 1
    }

    /// Whether the elements lie densely in row-major order (from any offset).
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&dim, &stride) in self.shape.iter().zip(self.strides()).rev() {
            if dim != 1 && stride != expected {
                return false;
            }
            expected *= dim.max(1);
        }
        true
    }

    /// Whether two different indices may lead to the same element. Exact for layouts made by
    /// slicing, permuting and broadcasting; conservative (true) for interleaved ones.
    pub fn overlaps_itself(&self) -> bool {
        // Most layouts are contiguous, which is quickly seen.
        if self.elements() <= 1 || self.is_contiguous() {
            return false;
        }
        let mut axes: Vec<(usize, usize)> = self
            .shape
            .iter()
            .copied()
            .zip(self.strides().iter().copied())
            .filter(|&(dim, _)| dim > 1)
            .map(|(dim, stride)| (stride, dim))
            .collect();
        axes.sort_unstable();
        let mut reach = 0;
        for (stride, dim) in axes {
            if stride <= reach {
                return true;
            }
            reach += stride * (dim - 1);
        }
        false
    }

    /// This layout seen as a larger shape, repeating along new and length-1 axes.
    ///
    /// # Errors
    /// `ShapeMismatch` if NumPy's rule does not allow it.
    pub fn broadcast_to(&self, op: &'static str, shape: &Shape) -> Result<Self> {
        let mismatch = || Error::no_broadcast(op, self.shape, *shape);
        let lead = shape.rank().checked_sub(self.shape.rank()).ok_or_else(mismatch)?;
        let mut strides = [0; MAX_RANK];
        for (axis, (&dim, &stride)) in self.shape.iter().zip(self.strides()).enumerate() {
            match shape[lead + axis] {
                target if target == dim => strides[lead + axis] = stride,
                _ if dim == 1 => {}
                _ => return Err(mismatch()),
            }
        }
        Ok(Self { shape: *shape, strides, offset: self.offset })
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]` of this layout.
    ///
    /// # Errors
    /// `AxisOutOfRange`, `AxisRepeated`, or `RankTooLarge` if some axis is not named.
    pub fn permute(&self, axes: &[usize]) -> Result<Self> {
        self.shape.axis_mask("permute", axes)?;
        if axes.len() != self.shape.rank() {
            return Err(Error::RankTooLarge { rank: axes.len() });
        }
        let mut dims = [1; MAX_RANK];
        let mut strides = [0; MAX_RANK];
        for (to, &from) in axes.iter().enumerate() {
            dims[to] = self.shape[from];
            strides[to] = self.strides[from];
        }
        Ok(Self { shape: Shape::new(&dims[..axes.len()])?, strides, offset: self.offset })
    }

    /// The same elements in the same order under another shape, if their places allow it without a
    /// copy: neighbouring axes can become one only if one goes on where the other ends.
    pub fn reshape(&self, shape: &Shape) -> Option<Self> {
        if shape.elements() != self.elements() {
            return None;
        }
        let mut result = Self { offset: self.offset, ..Self::contiguous(*shape) };
        if self.elements() == 0 {
            return Some(result);
        }
        // From the last axis to the first: old axes that go on where the last one ends make a run,
        // and a run must be cut into new axes without a rest.
        let mut new = shape.rank();
        let mut old = self.shape.rank();
        while old > 0 {
            old -= 1;
            let (mut length, unit) = (self.shape[old], self.strides[old]);
            if length == 1 {
                continue;
            }
            while old > 0 {
                let (before, stride) = (self.shape[old - 1], self.strides[old - 1]);
                if before != 1 && stride != unit * length {
                    break;
                }
                length *= before;
                old -= 1;
            }
            let mut stride = unit;
            while length > 1 {
                new = new.checked_sub(1)?;
                let dim = shape[new];
                if length % dim != 0 {
                    return None;
                }
                result.strides[new] = stride;
                stride *= dim;
                length /= dim;
            }
        }
        Some(result)
    }

    /// Every `step`-th index of a range of one axis.
    ///
    /// # Errors
    /// `AxisOutOfRange` or `SliceOutOfRange`.
    pub fn slice(&self, axis: usize, range: Range<usize>, step: usize) -> Result<Self> {
        self.shape.axis_mask("slice", &[axis])?;
        let length = self.shape[axis];
        if range.start > range.end || range.end > length || step == 0 {
            let Range { start, end } = range;
            return Err(Error::SliceOutOfRange { axis, start, end, step, length });
        }
        let mut dims = [1; MAX_RANK];
        dims[..self.shape.rank()].copy_from_slice(&self.shape);
        dims[axis] = range.len().div_ceil(step);
        let mut layout = *self;
        layout.shape = Shape::new(&dims[..self.shape.rank()])?;
        // Without elements nothing is touched; moving the offset could only make it leave the buffer.
        if layout.elements() > 0 {
            layout.offset += range.start * self.strides[axis];
        }
        // With at most one index left the step is never taken, and the product could overflow.
        layout.strides[axis] =
            if dims[axis] > 1 { self.strides[axis] * step } else { self.strides[axis] };
        Ok(layout)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} strides {:?} offset {}", self.shape, self.strides(), self.offset)
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(dims: &[usize]) -> Layout {
        Layout::contiguous(Shape::new(dims).unwrap())
    }

    #[test]
    fn dense_layouts() {
        let l = dense(&[2, 3, 4]);
        assert_eq!(l.strides(), [12, 4, 1]);
        assert_eq!(l.end(), 24);
        assert!(l.is_contiguous() && !l.overlaps_itself());
        assert_eq!(dense(&[3, 0]).end(), 0);
        assert_eq!(dense(&[]).end(), 1);
    }

    #[test]
    fn reshape_without_a_copy() {
        let to = |l: &Layout, dims: &[usize]| l.reshape(&Shape::new(dims).unwrap());
        let l = dense(&[2, 3, 4]);
        assert_eq!(to(&l, &[6, 4]), Some(dense(&[6, 4])));
        assert_eq!(to(&l, &[4, 6]), Some(dense(&[4, 6])));
        assert_eq!(to(&l, &[1, 24, 1]).unwrap().strides()[1], 1);
        assert_eq!(to(&l, &[25]), None);
        assert_eq!(to(&dense(&[1]), &[]), Some(dense(&[])));
        assert_eq!(to(&dense(&[0, 3]), &[7, 0]), Some(dense(&[7, 0])));
        // Axes that were swapped can be cut, and not joined.
        let turned = l.permute(&[0, 2, 1]).unwrap();
        assert_eq!(to(&turned, &[2, 2, 2, 3]).unwrap().strides(), [12, 2, 1, 4]);
        assert_eq!(to(&turned, &[2, 12]), None);
        assert_eq!(to(&turned, &[2, 1, 4, 3, 1]).unwrap().strides()[2..4], [1, 4]);
        // A slice keeps its offset, and rows with gaps stay rows.
        let rows = dense(&[5, 4]).slice(1, 1..3, 1).unwrap();
        assert_eq!(to(&rows, &[10]), None);
        let cut = to(&rows, &[5, 1, 2]).unwrap();
        assert_eq!((cut.strides()[0], cut.strides()[2], cut.offset()), (4, 1, 1));
        // What is repeated can be joined with what is repeated.
        let repeated = dense(&[1]).broadcast_to("", &Shape::new(&[3, 4]).unwrap()).unwrap();
        assert_eq!(to(&repeated, &[2, 6]).unwrap().strides(), [0, 0]);
    }

    #[test]
    fn permute_slice_broadcast() {
        let l = dense(&[2, 3, 4]).permute(&[2, 0, 1]).unwrap();
        assert_eq!((l.shape().dims(), l.strides()), (&[4, 2, 3][..], &[1, 12, 4][..]));
        assert!(!l.is_contiguous() && !l.overlaps_itself());
        let s = dense(&[5, 7]).slice(1, 1..7, 2).unwrap();
        assert_eq!((s.shape().dims(), s.strides(), s.offset()), (&[5, 3][..], &[7, 2][..], 1));
        let b = dense(&[3, 1]).broadcast_to("add", &Shape::new(&[2, 3, 4]).unwrap()).unwrap();
        assert_eq!(b.strides(), [0, 1, 0]);
        assert!(b.overlaps_itself());
        assert!(dense(&[3]).broadcast_to("add", &Shape::new(&[4]).unwrap()).is_err());
    }

    #[test]
    fn bad_layouts_are_refused() {
        let s = Shape::new(&[4]).unwrap();
        assert!(Layout::new(s, &[usize::MAX / 2], 0).is_err());
        assert!(Layout::new(s, &[1, 1], 0).is_err());
        assert!(dense(&[4]).slice(0, 2..5, 1).is_err());
        assert!(dense(&[4]).slice(0, 0..4, 0).is_err());
        assert!(dense(&[4, 4]).permute(&[0]).is_err());
        assert!(Layout::new(s, &[0], 0).unwrap().overlaps_itself());
    }

    #[test]
    fn slices_without_elements_stay_inside() {
        for (dims, axis, range) in [(&[4, 0][..], 0, 1..3), (&[0, 4], 1, 3..4), (&[4, 2], 0, 4..4)]
        {
            let l = dense(dims).slice(axis, range, 1).unwrap();
            assert_eq!((l.elements(), l.offset()), (0, 0), "{l}");
        }
    }

    #[test]
    fn a_huge_step_that_is_never_taken_does_not_overflow() {
        let l = dense(&[4, 4]).slice(0, 1..2, usize::MAX).unwrap();
        assert_eq!((l.offset(), l.end()), (4, 8));
    }
}
