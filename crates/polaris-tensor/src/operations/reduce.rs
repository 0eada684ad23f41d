//! Sums, means and extremes along axes.

use polaris_core::Shape;
use polaris_ops::{Reduction, reduce};

use crate::axis::resolve_all;
use crate::{Axis, Result, Tensor};

impl Tensor {
    /// The sum of all elements.
    ///
    /// # Errors
    /// If there is no room.
    pub fn sum(&self) -> Result<Self> {
        self.sum_axes(&all_axes(self), false)
    }

    /// The sum along axes, which stay with length 1 if `keep_dims`.
    ///
    /// # Errors
    /// If an axis does not exist.
    pub fn sum_axes(&self, axes: &[impl Axis], keep_dims: bool) -> Result<Self> {
        let axes = &resolve_all("sum_axes", axes, self.rank())?;
        self.additive(Reduction::Sum, axes, keep_dims)
    }

    /// The mean of all elements.
    ///
    /// # Errors
    /// If there are none, or the type is not a floating-point one.
    pub fn mean(&self) -> Result<Self> {
        self.mean_axes(&all_axes(self), false)
    }

    /// The mean along axes, which stay with length 1 if `keep_dims`.
    ///
    /// # Errors
    /// As for [`mean`](Self::mean), and if an axis does not exist.
    pub fn mean_axes(&self, axes: &[impl Axis], keep_dims: bool) -> Result<Self> {
        let axes = &resolve_all("mean_axes", axes, self.rank())?;
        self.additive(Reduction::Mean, axes, keep_dims)
    }

    fn additive(&self, reduction: Reduction, axes: &[usize], keep_dims: bool) -> Result<Self> {
        let result = self.reduced(reduction, axes, keep_dims)?;
        let before = *self.shape();
        let kept = before.reduce(reduction.name(), axes, true)?;
        let count = before.elements() / kept.elements().max(1);
        Ok(Self::record(reduction.name(), result, &[self], |_| {
            move |gradient: &Self, _: &[bool]| {
                let gradient = gradient.reshape(kept.dims())?;
                let gradient = match reduction {
                    Reduction::Mean => gradient.mul_scalar(1.0 / count as f64)?,
                    _ => gradient,
                };
                Ok(vec![Some(gradient.broadcast_to(before.dims())?)])
            }
        }))
    }

    /// The largest along axes; equal ones share the gradient.
    ///
    /// # Errors
    /// If an axis does not exist, or there is nothing to choose from.
    pub fn amax(&self, axes: &[impl Axis], keep_dims: bool) -> Result<Self> {
        let axes = &resolve_all("amax", axes, self.rank())?;
        self.extreme(Reduction::Max, axes, keep_dims)
    }

    /// The smallest along axes; equal ones share the gradient.
    ///
    /// # Errors
    /// If an axis does not exist, or there is nothing to choose from.
    pub fn amin(&self, axes: &[impl Axis], keep_dims: bool) -> Result<Self> {
        let axes = &resolve_all("amin", axes, self.rank())?;
        self.extreme(Reduction::Min, axes, keep_dims)
    }

    fn extreme(&self, reduction: Reduction, axes: &[usize], keep_dims: bool) -> Result<Self> {
        let result = self.reduced(reduction, axes, keep_dims)?;
        let kept = self.shape().reduce(reduction.name(), axes, true)?;
        let axes = axes.to_vec();
        Ok(Self::record(reduction.name(), result, &[self], |result| {
            let (input, output) = (self.save(reduction.name()), result.save(reduction.name()));
            move |gradient: &Self, _: &[bool]| {
                let input = input.get()?;
                let chosen = input.eq(&output.get()?.reshape(kept.dims())?)?;
                let chosen = chosen.to_dtype(input.dtype())?;
                let share = gradient.reshape(kept.dims())?.div(&chosen.sum_axes(&axes, true)?)?;
                Ok(vec![Some(chosen.mul(&share)?)])
            }
        }))
    }

    /// The index of the first largest along an axis, as `i64`, without gradient.
    ///
    /// # Errors
    /// If the axis does not exist, or is empty.
    pub fn argmax(&self, axis: impl Axis, keep_dims: bool) -> Result<Self> {
        let axis = axis.resolve("argmax", self.rank())?;
        self.reduced(Reduction::ArgMax, &[axis], keep_dims)
    }

    /// The variance along axes: the mean square of the distance to the mean, with `correction`
    /// taken from the count (0 for all there is, 1 for a sample).
    ///
    /// # Errors
    /// As for [`mean_axes`](Self::mean_axes).
    pub fn var(&self, axes: &[impl Axis], correction: usize, keep_dims: bool) -> Result<Self> {
        let axes = &resolve_all("var", axes, self.rank())?;
        let centred = self.sub(&self.mean_axes(axes, true)?)?;
        let kept = self.shape().reduce("var", axes, true)?;
        let count = self.elements() / kept.elements().max(1);
        let squares = centred.square()?.sum_axes(axes, keep_dims)?;
        squares.mul_scalar(1.0 / (count as f64 - correction as f64).max(0.0))
    }

    /// `log(sum(exp(x)))` along axes, without overflow.
    ///
    /// # Errors
    /// If an axis does not exist, or is empty.
    pub fn logsumexp(&self, axes: &[impl Axis], keep_dims: bool) -> Result<Self> {
        let axes = &resolve_all("logsumexp", axes, self.rank())?;
        // The largest only moves the computation; it has no part in the gradient. Where it is not
        // finite there is nothing to move.
        let largest = self.detach().amax(axes, true)?;
        let finite = largest.sub(&largest)?.eq(&largest.zeros_like()?)?;
        let largest = finite.where_(&largest, &largest.zeros_like()?)?;
        let sums = self.sub(&largest)?.exp()?.sum_axes(axes, true)?;
        let result = sums.log()?.add(&largest)?;
        let shape = self.shape().reduce("logsumexp", axes, keep_dims)?;
        result.reshape(shape.dims())
    }

    /// Summed to a shape that broadcasts to this one: what a gradient does on its way back through
    /// a broadcast.
    ///
    /// # Errors
    /// If the shape does not broadcast to this one.
    pub fn sum_to(&self, shape: &Shape) -> Result<Self> {
        if shape == self.shape() {
            return Ok(self.clone());
        }
        let lead = self.rank().saturating_sub(shape.rank());
        let repeated = |&axis: &usize| axis < lead || shape[axis - lead] != self.dims()[axis];
        let axes: Vec<usize> = (0..self.rank()).filter(repeated).collect();
        self.sum_axes(&axes, true)?.reshape(shape.dims())
    }

    fn reduced(&self, reduction: Reduction, axes: &[usize], keep_dims: bool) -> Result<Self> {
        let result = Self::new(reduce::reduce(reduction, self.array(), axes)?);
        if !keep_dims {
            return Ok(result);
        }
        result.reshape(self.shape().reduce(reduction.name(), axes, true)?.dims())
    }
}

fn all_axes(tensor: &Tensor) -> Vec<usize> {
    (0..tensor.rank()).collect()
}
