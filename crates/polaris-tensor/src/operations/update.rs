//! Changes in place: parameters of an optimiser, statistics that run along.

use polaris_ops::{Array, copy};

use crate::{Error, Result, Tensor};

impl Tensor {
    /// Gives this tensor's memory to a function that overwrites it, and tells every view and every
    /// history that it changed. The tensor must not be the result of an operation that is
    /// remembered: its gradient would be that of the old values.
    ///
    /// # Errors
    /// If the tensor has a history, or what the function says.
    pub fn update(&self, change: impl FnOnce(&Array) -> polaris_ops::Result<()>) -> Result<()> {
        if !self.is_leaf() {
            let what = "a result of an operation cannot be changed in place; `detach` it first";
            return Err(Error::InvalidParameter { op: "update", what: what.to_owned() });
        }
        // Said before the change: one that fails half-way has changed something, too.
        self.storage().changed();
        Ok(change(self.array())?)
    }

    /// Overwrites the elements with another tensor's.
    ///
    /// # Errors
    /// If shapes or devices do not fit, or as for [`update`](Self::update).
    pub fn copy_from(&self, other: &Self) -> Result<()> {
        self.update(|array| copy::into(other.array(), array))
    }
}
