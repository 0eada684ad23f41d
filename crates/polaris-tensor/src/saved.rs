//! What an operation keeps for its backward pass.

use polaris_ops::Array;

use crate::tensor::Storage;
use crate::{Error, Result, Tensor};
use std::sync::Arc;

/// A tensor as it was when an operation used it, without its history. Changing the memory in place
/// in between is noticed.
#[derive(Debug, Clone)]
pub struct Saved {
    op: &'static str,
    array: Array,
    storage: Arc<Storage>,
    version: u64,
}

impl Saved {
    pub(crate) fn new(op: &'static str, array: &Array, storage: &Arc<Storage>) -> Self {
        let version = storage.version();
        Self { op, array: array.clone(), storage: Arc::clone(storage), version }
    }

    /// The tensor, without history.
    ///
    /// # Errors
    /// `ChangedInPlace`.
    pub fn get(&self) -> Result<Tensor> {
        if self.storage.version() != self.version {
            return Err(Error::ChangedInPlace { op: self.op });
        }
        Ok(Tensor::sharing(self.array.clone(), Arc::clone(&self.storage)))
    }
}
