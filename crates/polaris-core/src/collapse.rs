//! Merges axes that are contiguous in all operands, so that kernels see as few as possible.

use crate::{Layout, MAX_RANK, Shape};

/// One index space that `N` operands walk together, with the fewest axes that describe it.
/// Axes of length 1 are gone and neighbouring axes are joined where every operand allows it:
/// contiguous operands of any rank collapse to a single axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collapsed<const N: usize> {
    dims: [usize; MAX_RANK],
    strides: [[usize; MAX_RANK]; N],
    /// The first element of each operand.
    pub offsets: [usize; N],
    rank: usize,
}

impl<const N: usize> Collapsed<N> {
    /// Collapses layouts that all have the given shape.
    ///
    /// # Panics
    /// If a layout has another shape: callers broadcast first.
    pub fn new(shape: &Shape, layouts: [&Layout; N]) -> Self {
        let mut collapsed = Self::single(layouts.map(Layout::offset));
        for layout in layouts {
            assert!(layout.shape() == shape, "layouts should be broadcast before they collapse");
        }
        for (axis, &dim) in shape.iter().enumerate() {
            if dim == 1 {
                continue;
            }
            let strides = layouts.map(|l| l.strides()[axis]);
            collapsed.push(dim, strides);
        }
        collapsed
    }

    /// A single point: these elements and no axis.
    pub fn single(offsets: [usize; N]) -> Self {
        Self { dims: [1; MAX_RANK], strides: [[0; MAX_RANK]; N], offsets, rank: 0 }
    }

    /// Adds an innermost axis, joined with the previous one if every operand steps evenly.
    fn push(&mut self, dim: usize, strides: [usize; N]) {
        if let Some(last) = self.rank.checked_sub(1) {
            let joins = (0..N).all(|i| self.strides[i][last] == strides[i] * dim);
            if joins {
                self.dims[last] *= dim;
                for (all, stride) in self.strides.iter_mut().zip(strides) {
                    all[last] = stride;
                }
                return;
            }
        }
        self.dims[self.rank] = dim;
        for (all, stride) in self.strides.iter_mut().zip(strides) {
            all[self.rank] = stride;
        }
        self.rank += 1;
    }

    /// The number of axes; 0 for a single element.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The lengths of the axes, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// The strides of one operand.
    pub fn strides(&self, operand: usize) -> &[usize] {
        &self.strides[operand][..self.rank]
    }

    /// The number of index points.
    pub fn elements(&self) -> usize {
        self.dims().iter().product()
    }

    /// The innermost axis: its length and each operand's stride along it.
    pub fn inner(&self) -> (usize, [usize; N]) {
        match self.rank.checked_sub(1) {
            Some(last) => (self.dims[last], std::array::from_fn(|i| self.strides[i][last])),
            None => (1, [0; N]),
        }
    }

    /// The element indices of the first point of innermost row `row`.
    pub fn row(&self, mut row: usize) -> [usize; N] {
        let mut at = self.offsets;
        for axis in (0..self.rank.saturating_sub(1)).rev() {
            let index = row % self.dims[axis];
            row /= self.dims[axis];
            for (at, strides) in at.iter_mut().zip(&self.strides) {
                *at += index * strides[axis];
            }
        }
        at
    }

    /// The element indices of point `point` in row-major order.
    pub fn point(&self, point: usize) -> [usize; N] {
        let (length, inner) = self.inner();
        let mut at = self.row(point / length.max(1));
        for (at, stride) in at.iter_mut().zip(inner) {
            *at += (point % length.max(1)) * stride;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn contiguous_operands_become_one_axis() {
        let shape = Shape::new(&[2, 1, 3, 4]).unwrap();
        let dense = Layout::contiguous(shape);
        let c = Collapsed::new(&shape, [&dense, &dense]);
        assert_eq!((c.dims(), c.strides(0)), (&[24][..], &[1][..]));
    }

    #[test]
    fn a_broadcast_row_keeps_two_axes() {
        let shape = Shape::new(&[2, 3, 4]).unwrap();
        let row = Layout::contiguous(Shape::new(&[4]).unwrap());
        let row = row.broadcast_to("add", &shape).unwrap();
        let c = Collapsed::new(&shape, [&Layout::contiguous(shape), &row]);
        assert_eq!((c.dims(), c.strides(0), c.strides(1)), (&[6, 4][..], &[4, 1][..], &[0, 1][..]));
    }

    #[test]
    fn scalars_have_no_axis() {
        let shape = Shape::new(&[1, 1]).unwrap();
        let c = Collapsed::new(&shape, [&Layout::contiguous(shape)]);
        assert_eq!((c.rank(), c.elements(), c.point(0)), (0, 1, [0]));
    }

    proptest! {
        #[test]
        fn every_point_keeps_its_element(
            dims in prop::collection::vec(1usize..4, 0..5),
            seed in 0usize..120,
        ) {
            let shape = Shape::new(&dims).unwrap();
            let mut axes: Vec<usize> = (0..dims.len()).collect();
            let mut seed = seed;
            for i in (1..axes.len()).rev() {
                axes.swap(i, seed % (i + 1));
                seed /= i + 1;
            }
            let permuted = Layout::contiguous(shape).permute(&axes).unwrap();
            let dense = Layout::contiguous(*permuted.shape());
            let c = Collapsed::new(permuted.shape(), [&dense, &permuted]);
            for point in 0..shape.elements() {
                // The element of a point by definition: mixed-radix digits times strides.
                let mut rest = point;
                let mut expected = 0;
                for (&dim, &stride) in permuted.shape().iter().zip(permuted.strides()).rev() {
                    expected += rest % dim * stride;
                    rest /= dim;
                }
                prop_assert_eq!(c.point(point), [point, expected]);
            }
        }
    }
}
