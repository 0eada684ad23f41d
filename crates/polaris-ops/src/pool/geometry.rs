//! Planes and windows, as the loops see them.

use polaris_core::{Collapsed, Layout, Shape};

use super::windows::{Along, MOST_AXES, Span, Windows};
use crate::{Array, Result};

/// The arrays of a pooling: `POOLED` has an element for each window, `WHOLE` one for each element that
/// windows cover; `SOURCE` is the input of a maximum of which `WHOLE` is the gradient.
pub const POOLED: usize = 0;
pub const WHOLE: usize = 1;
pub const SOURCE: usize = 2;

/// Planes of the pooled axes. A pooling along one axis has planes of one row.
pub struct Geometry {
    /// Where the planes begin.
    pub planes: Collapsed<3>,
    /// Strides between the rows and the columns of a plane.
    pub strides: [[usize; MOST_AXES]; 3],
    /// Rows and columns of what is covered.
    pub whole: [usize; MOST_AXES],
    /// Rows and columns of windows.
    pub pooled: [usize; MOST_AXES],
    pub along: [Along; MOST_AXES],
}

impl Geometry {
    /// Of arrays whose shapes were checked.
    pub fn new(windows: &Windows, pooled: &Array, whole: &Array, source: &Array) -> Result<Self> {
        let arrays = [pooled, whole, source];
        let lead = whole.shape().rank() - windows.axes;
        let outer = Shape::new(&whole.shape()[..lead])?;
        let start = |array: &Array| -> Result<Layout> {
            let layout = array.layout();
            Ok(Layout::new(outer, &layout.strides()[..lead], layout.offset())?)
        };
        let starts = [start(pooled)?, start(whole)?, start(source)?];
        // The missing axis of a pooling along one axis has length 1, and nobody takes a step on it.
        let last = |values: &[usize], absent: usize| {
            let mut all = [absent; MOST_AXES];
            all[MOST_AXES - windows.axes..].copy_from_slice(&values[lead..]);
            all
        };
        Ok(Self {
            planes: Collapsed::new(&outer, starts.each_ref()),
            strides: arrays.map(|array| last(array.layout().strides(), 0)),
            whole: last(whole.shape(), 1),
            pooled: last(pooled.shape(), 1),
            along: windows.along,
        })
    }

    /// What each window covers, along both axes.
    pub fn spans(&self) -> [Vec<Span>; MOST_AXES] {
        [0, 1].map(|axis| self.along[axis].spans(self.whole[axis], self.pooled[axis]))
    }
}
