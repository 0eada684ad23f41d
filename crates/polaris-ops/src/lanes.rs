//! Arrays that are walked along one of their axes.

use polaris_core::{Collapsed, Layout, Shape};

use crate::Result;

/// The lanes of some arrays: a lane is what an axis runs along, for one combination of all others.
pub(crate) struct Lanes<const N: usize> {
    /// Elements of a lane.
    pub length: usize,
    /// The distance between a lane's neighbours in each array.
    pub strides: [usize; N],
    /// The first elements of the lanes, in row-major order of the other axes.
    pub starts: Collapsed<N>,
}

impl<const N: usize> Lanes<N> {
    /// The lanes of a shape. Arrays may be longer than it; what is beyond is not walked.
    pub fn new(shape: &Shape, axis: usize, layouts: [&Layout; N]) -> Result<Self> {
        let others = |values: &[usize]| [&values[..axis], &values[axis + 1..]].concat();
        let lanes = Shape::new(&others(shape))?;
        let mut starts = [Layout::contiguous(lanes); N];
        for (start, layout) in starts.iter_mut().zip(layouts) {
            *start = Layout::new(lanes, &others(layout.strides()), layout.offset())?;
        }
        Ok(Self {
            length: shape[axis],
            strides: layouts.map(|layout| layout.strides()[axis]),
            starts: Collapsed::new(&lanes, starts.each_ref()),
        })
    }

    /// The number of lanes.
    pub fn count(&self) -> usize {
        self.starts.elements()
    }

    /// Whether at least this many lanes lie side by side in the array at `place`: neighbouring lanes
    /// have neighbouring elements, and a lane's own are spread out.
    pub fn are_side_by_side(&self, place: usize, least: usize) -> bool {
        let (length, strides) = self.starts.inner();
        strides[place] == 1 && length >= least && self.strides[place] != 1
    }
}
