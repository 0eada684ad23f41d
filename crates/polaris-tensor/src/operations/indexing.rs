//! Look-ups by index, their gradients, order and running sums.

use polaris_ops::indexing::{gather, scatter, scatter_add, take, take_gradient};
use polaris_ops::pad::{PadMode, flip, pad, pad_gradient};
use polaris_ops::scan::cumsum;
use polaris_ops::sort::{argsort, top_k};

use crate::axis::resolve_all;
use crate::{Axis, Result, Tensor};

impl Tensor {
    /// The slices of an axis at these indices, `i32` or `i64` of any shape, which takes the place of
    /// the axis (PyTorch's `index_select`, and more).
    ///
    /// # Errors
    /// `IndexOutOfRange`, or if types or devices do not fit.
    pub fn take(&self, axis: impl Axis, indices: &Self) -> Result<Self> {
        let axis = axis.resolve("take", self.rank())?;
        let result = Self::new(take(self.array(), axis, indices.array())?);
        Ok(Self::record("take", result, &[self], |_| {
            let (indices, shape) = (indices.save("take"), *self.shape());
            move |gradient: &Self, _: &[bool]| {
                let indices = indices.get()?;
                let array = take_gradient(gradient.array(), axis, indices.array(), &shape)?;
                Ok(vec![Some(Self::new(array))])
            }
        }))
    }

    /// The rows of this table at these indices.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub fn embedding(&self, indices: &Self) -> Result<Self> {
        self.take(0, indices)
    }

    /// The element at `index` along an axis, for each index of an array of the same rank
    /// (PyTorch's `gather`).
    ///
    /// # Errors
    /// `IndexOutOfRange`, or if shapes, types or devices do not fit.
    pub fn gather(&self, axis: impl Axis, index: &Self) -> Result<Self> {
        let axis = axis.resolve("gather", self.rank())?;
        let result = Self::new(gather(self.array(), axis, index.array())?);
        Ok(Self::record("gather", result, &[self], |_| {
            let (index, shape) = (index.save("gather"), *self.shape());
            move |gradient: &Self, _: &[bool]| {
                let zeros = Self::zeros(gradient.device(), shape.dims(), gradient.dtype())?;
                let index = index.get()?;
                let array = scatter_add(zeros.array(), axis, index.array(), gradient.array())?;
                Ok(vec![Some(Self::new(array))])
            }
        }))
    }

    /// This tensor with the elements of a source added at `index` along an axis (PyTorch's
    /// `scatter_add`); the same bits each time.
    ///
    /// # Errors
    /// `IndexOutOfRange`, or if shapes, types or devices do not fit.
    pub fn scatter_add(&self, axis: impl Axis, index: &Self, source: &Self) -> Result<Self> {
        let axis = axis.resolve("scatter_add", self.rank())?;
        let arrays = [self, index, source].map(Self::array);
        let result = Self::new(scatter_add(arrays[0], axis, arrays[1], arrays[2])?);
        Ok(Self::record("scatter_add", result, &[self, source], |_| {
            let (index, shape) = (index.save("scatter_add"), *source.shape());
            move |gradient: &Self, needed: &[bool]| {
                let index = index.get()?;
                let of_source = || within(&gradient.gather(axis, &index)?, &shape);
                let of_source = needed[1].then(of_source).transpose()?;
                Ok(vec![needed[0].then(|| gradient.clone()), of_source])
            }
        }))
    }

    /// This tensor with the elements of a source in place of those at `index` along an axis
    /// (PyTorch's `scatter`). Of several for one place the last one stays; gradients flow to this
    /// tensor only.
    ///
    /// # Errors
    /// `IndexOutOfRange`, or if shapes, types or devices do not fit.
    pub fn scatter(&self, axis: impl Axis, index: &Self, source: &Self) -> Result<Self> {
        let axis = axis.resolve("scatter", self.rank())?;
        let arrays = [self, index, source].map(Self::array);
        let result = Self::new(scatter(arrays[0], axis, arrays[1], arrays[2])?);
        Ok(Self::record("scatter", result, &[self], |_| {
            let index = index.save("scatter");
            move |gradient: &Self, _: &[bool]| {
                let index = index.get()?;
                let zeros = Self::zeros(gradient.device(), index.dims(), gradient.dtype())?;
                Ok(vec![Some(gradient.scatter(axis, &index, &zeros)?)])
            }
        }))
    }

    /// More elements before and after each axis.
    ///
    /// # Errors
    /// If there is not a pair for each axis, or the mode cannot give as many.
    pub fn pad(&self, widths: &[(usize, usize)], mode: PadMode) -> Result<Self> {
        let result = Self::new(pad(self.array(), widths, mode)?);
        let widths = widths.to_vec();
        Ok(Self::record("pad", result, &[self], |_| {
            move |gradient: &Self, _: &[bool]| {
                Ok(vec![Some(Self::new(pad_gradient(gradient.array(), &widths, mode)?))])
            }
        }))
    }

    /// The elements along some axes in reverse.
    ///
    /// # Errors
    /// If an axis does not exist.
    pub fn flip(&self, axes: &[impl Axis]) -> Result<Self> {
        let axes = &resolve_all("flip", axes, self.rank())?;
        let result = Self::new(flip(self.array(), axes)?);
        let axes = axes.to_vec();
        Ok(Self::record("flip", result, &[self], |_| {
            move |gradient: &Self, _: &[bool]| Ok(vec![Some(gradient.flip(&axes)?)])
        }))
    }

    /// The sum of all elements up to each one along an axis.
    ///
    /// # Errors
    /// If the axis does not exist.
    pub fn cumsum(&self, axis: impl Axis) -> Result<Self> {
        let axis = axis.resolve("cumsum", self.rank())?;
        let result = Self::new(cumsum(self.array(), axis, false)?);
        Ok(Self::record("cumsum", result, &[self], |_| {
            move |gradient: &Self, _: &[bool]| {
                Ok(vec![Some(Self::new(cumsum(gradient.array(), axis, true)?))])
            }
        }))
    }

    /// The indices that sort an axis, as `i64`; equal elements keep their order.
    ///
    /// # Errors
    /// If the axis does not exist.
    pub fn argsort(&self, axis: impl Axis, descending: bool) -> Result<Self> {
        let axis = axis.resolve("argsort", self.rank())?;
        Ok(Self::new(argsort(self.array(), axis, descending)?))
    }

    /// The elements of an axis in order, and their indices.
    ///
    /// # Errors
    /// If the axis does not exist.
    pub fn sort(&self, axis: impl Axis, descending: bool) -> Result<(Self, Self)> {
        let axis = axis.resolve("sort", self.rank())?;
        let indices = self.argsort(axis, descending)?;
        Ok((self.gather(axis, &indices)?, indices))
    }

    /// The `k` largest elements along an axis, the largest first, and their indices.
    ///
    /// # Errors
    /// If the axis does not exist or is shorter.
    pub fn topk(&self, k: usize, axis: impl Axis) -> Result<(Self, Self)> {
        let axis = axis.resolve("topk", self.rank())?;
        let indices = Self::new(top_k(self.array(), k, axis)?.1);
        Ok((self.gather(axis, &indices)?, indices))
    }
}

/// A gradient of the first elements along each axis, with zeros for those that an index did not
/// take.
fn within(gradient: &Tensor, shape: &polaris_core::Shape) -> Result<Tensor> {
    if gradient.shape() == shape {
        return Ok(gradient.clone());
    }
    let lengths = gradient.dims().iter().zip(shape.dims());
    let widths: Vec<_> = lengths.map(|(&inner, &outer)| (0, outer - inner)).collect();
    gradient.pad(&widths, PadMode::Constant(0.0))
}
