//! How the arrays of look-ups are walked together, and orders of axes.

use polaris_core::{Collapsed, Layout, MAX_RANK};

use crate::Result;

/// How a look-up walks its arrays: `output[o] = x[i + index * stride]`, where `o`, `i` and the place
/// of the index are those of one point of a common space. Along the axes of indices alone the input
/// stands still, along all others of a `take` the index does.
pub struct LookupSpace {
    /// The output, the input with the looked-up axis left out, and the index.
    pub space: Collapsed<3>,
    /// The input's stride along the looked-up axis.
    pub stride: usize,
    /// How many indices there are, and how many neighbouring points share one.
    indices: usize,
    shared_by: usize,
}

impl LookupSpace {
    /// Of `take`: the index's axes stand in the place of the input's axis.
    pub fn take(axis: usize, index: &Layout, x: &Layout, output: &Layout) -> Result<Self> {
        let (mut from, mut indices) = ([0; MAX_RANK], [0; MAX_RANK]);
        let rank = output.shape().rank();
        let behind = axis + index.shape().rank();
        from[..axis].copy_from_slice(&x.strides()[..axis]);
        from[behind..rank].copy_from_slice(&x.strides()[axis + 1..]);
        indices[axis..behind].copy_from_slice(index.strides());
        let shared_by = output.shape()[behind..].iter().product();
        Self::new(axis, index, x, output, &from[..rank], &indices[..rank], shared_by)
    }

    /// Of `gather`: the index has the output's shape.
    pub fn gather(axis: usize, index: &Layout, x: &Layout, output: &Layout) -> Result<Self> {
        let rank = output.shape().rank();
        let mut from = [0; MAX_RANK];
        from[..rank].copy_from_slice(x.strides());
        from[axis] = 0;
        Self::new(axis, index, x, output, &from[..rank], index.strides(), 1)
    }

    /// The position, in row-major order, of the index of a point.
    pub fn position(&self, point: usize) -> usize {
        point / self.shared_by % self.indices
    }

    fn new(
        axis: usize,
        index: &Layout,
        x: &Layout,
        output: &Layout,
        from: &[usize],
        indices: &[usize],
        shared_by: usize,
    ) -> Result<Self> {
        let shape = output.shape();
        let from = Layout::new(*shape, from, x.offset())?;
        let places = Layout::new(*shape, indices, index.offset())?;
        let space = Collapsed::new(shape, [output, &from, &places]);
        let indices = index.elements();
        Ok(Self { space, stride: x.strides()[axis], indices, shared_by })
    }
}

/// The axes of a shape with one of them moved to the front or to the end.
pub fn axes_with(rank: usize, axis: usize, in_front: bool) -> Vec<usize> {
    let others = (0..rank).filter(|&other| other != axis);
    if in_front {
        [axis].into_iter().chain(others).collect()
    } else {
        others.chain([axis]).collect()
    }
}
