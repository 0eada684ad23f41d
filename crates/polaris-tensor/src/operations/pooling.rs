//! Pooling along the last one or two axes.

use polaris_ops::pool::{
    Windows, average_pool, average_pool_gradient, max_pool, max_pool_gradient, max_pool_indices,
};

use crate::{Result, Tensor};

impl Tensor {
    /// The largest element of each window; the first of equal ones takes the gradient. Windows that
    /// slide, and windows of which there are as many as asked for ([`Windows::adaptive`]).
    ///
    /// # Errors
    /// If the windows do not fit, or the type is not a floating-point one.
    pub fn max_pool(&self, windows: &Windows) -> Result<Self> {
        let result = Self::new(max_pool(self.array(), windows)?);
        let windows = *windows;
        Ok(Self::record("max_pool", result, &[self], |_| {
            let x = self.save("max_pool");
            move |gradient: &Self, _: &[bool]| {
                let x = x.get()?;
                let array = max_pool_gradient(x.array(), gradient.array(), &windows)?;
                Ok(vec![Some(Self::new(array))])
            }
        }))
    }

    /// Where the largest element of each window is: its index in its plane, as `i64`.
    ///
    /// # Errors
    /// As for [`max_pool`](Self::max_pool).
    pub fn max_pool_indices(&self, windows: &Windows) -> Result<Self> {
        Ok(Self::new(max_pool_indices(self.array(), windows)?))
    }

    /// The mean of each window; `count_padding` says whether padding counts as zeros.
    ///
    /// # Errors
    /// As for [`max_pool`](Self::max_pool), and if a window is dilated.
    pub fn average_pool(&self, windows: &Windows, count_padding: bool) -> Result<Self> {
        let result = Self::new(average_pool(self.array(), windows, count_padding)?);
        let (windows, shape) = (*windows, *self.shape());
        Ok(Self::record("average_pool", result, &[self], |_| {
            move |gradient: &Self, _: &[bool]| {
                let g = gradient.array();
                let array = average_pool_gradient(g, &shape, &windows, count_padding)?;
                Ok(vec![Some(Self::new(array))])
            }
        }))
    }
}
