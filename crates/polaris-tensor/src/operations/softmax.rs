//! Softmax and log-softmax.

use polaris_ops::softmax::{log_softmax, log_softmax_gradient, softmax, softmax_gradient};

use crate::{Axis, Result, Tensor};

impl Tensor {
    /// `exp(x) / sum(exp(x))` along an axis.
    ///
    /// # Errors
    /// If the axis does not exist, or the type is not a floating-point one.
    pub fn softmax(&self, axis: impl Axis) -> Result<Self> {
        let axis = axis.resolve("softmax", self.rank())?;
        let result = Self::new(softmax(self.array(), axis)?);
        Ok(Self::record("softmax", result, &[self], |result| {
            let result = result.save("softmax");
            move |gradient: &Self, _: &[bool]| {
                let result = result.get()?;
                let array = softmax_gradient(result.array(), gradient.array(), axis)?;
                Ok(vec![Some(Self::new(array))])
            }
        }))
    }

    /// `x - log(sum(exp(x)))` along an axis.
    ///
    /// # Errors
    /// As for [`softmax`](Self::softmax).
    pub fn log_softmax(&self, axis: impl Axis) -> Result<Self> {
        let axis = axis.resolve("log_softmax", self.rank())?;
        let result = Self::new(log_softmax(self.array(), axis)?);
        Ok(Self::record("log_softmax", result, &[self], |result| {
            let result = result.save("log_softmax");
            move |gradient: &Self, _: &[bool]| {
                let result = result.get()?;
                let array = log_softmax_gradient(result.array(), gradient.array(), axis)?;
                Ok(vec![Some(Self::new(array))])
            }
        }))
    }
}
