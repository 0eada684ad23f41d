//! What is learned: a tensor that changes in place, and how it is seen by the layers that use it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use polaris_tensor::Tensor;

use crate::{Pass, Result};

/// Stands between a parameter and the layers that use it: a mask that prunes, a rounding that imitates
/// quantization. Gradients flow through it to the parameter itself.
pub trait Transform: Send + Sync {
    /// What layers see in place of the parameter.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn apply(&self, parameter: &Tensor) -> Result<Tensor>;
}

/// A tensor that is learned. Clones are the same parameter.
#[derive(Clone)]
pub struct Parameter {
    tensor: Tensor,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    frozen: AtomicBool,
    transform: RwLock<Option<Arc<dyn Transform>>>,
}

impl Parameter {
    /// A parameter that begins with these values, in this memory.
    ///
    /// # Errors
    /// If the type is not a floating-point one.
    pub fn new(tensor: &Tensor) -> Result<Self> {
        Ok(Self { tensor: tensor.requires_grad()?, shared: Arc::default() })
    }

    /// The tensor itself, which gradients arrive at.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// What a layer computes with: the parameter, transformed, and in the pass' type.
    ///
    /// # Errors
    /// If the transform fails, or there is no room.
    pub fn value(&self, pass: &Pass<'_>) -> Result<Tensor> {
        let transform =
            self.shared.transform.read().unwrap_or_else(PoisonError::into_inner).clone();
        let tensor = if self.is_frozen() { self.tensor.detach() } else { self.tensor.clone() };
        let seen = match transform {
            Some(transform) => transform.apply(&tensor)?,
            None => tensor,
        };
        pass.cast(&seen)
    }

    /// Keeps it as it is, or lets it be learned again.
    pub fn set_frozen(&self, frozen: bool) {
        self.shared.frozen.store(frozen, Ordering::Relaxed);
    }

    /// Whether no gradient flows to it.
    pub fn is_frozen(&self) -> bool {
        self.shared.frozen.load(Ordering::Relaxed)
    }

    /// Puts a transform before the layers that use it, or takes it away.
    pub fn set_transform(&self, transform: Option<Arc<dyn Transform>>) {
        *self.shared.transform.write().unwrap_or_else(PoisonError::into_inner) = transform;
    }
}

impl std::fmt::Debug for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Parameter({:?})", self.tensor)
    }
}
