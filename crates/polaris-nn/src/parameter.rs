//! What is learned: a tensor that changes in place, and how it is seen by the layers that use it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use polaris_tensor::Tensor;

use crate::quantize::IntegerWeight;
use crate::{Parts, Pass, Result};

/// Stands between a parameter and the layers that use it: a mask that prunes, a rounding that imitates
/// quantization. Gradients flow through it to the parameter itself.
pub trait Transform: Send + Sync {
    /// What layers see in place of the parameter.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn apply(&self, parameter: &Tensor) -> Result<Tensor>;

    /// Names what it learns and remembers itself, below the parameter's name.
    fn visit(&self, parts: &mut Parts) {
        let _ = parts;
    }

    /// What layers see as integers with scales, if it is that: exports then write these.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn integers(&self, parameter: &Tensor) -> Result<Option<IntegerWeight>> {
        let _ = parameter;
        Ok(None)
    }
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
    keeps_size: AtomicBool,
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
        let transform = self.transform();
        let tensor = if self.is_frozen() { self.tensor.detach() } else { self.tensor.clone() };
        let seen = match transform {
            Some(transform) => transform.apply(&tensor)?,
            None => tensor,
        };
        pass.cast(&seen)
    }

    /// What layers compute with as integers with scales, if a transform makes it that.
    ///
    /// # Errors
    /// If the transform fails.
    pub fn integers(&self) -> Result<Option<IntegerWeight>> {
        match self.transform() {
            Some(transform) => transform.integers(&self.tensor),
            None => Ok(None),
        }
    }

    /// One that weight decay does not pull towards zero.
    pub fn without_decay(self) -> Self {
        self.shared.keeps_size.store(true, Ordering::Relaxed);
        self
    }

    /// Whether weight decay pulls it towards zero.
    pub fn decays(&self) -> bool {
        !self.shared.keeps_size.load(Ordering::Relaxed)
    }

    /// Keeps it as it is, or lets it be learned again.
    pub fn set_frozen(&self, frozen: bool) {
        self.shared.frozen.store(frozen, Ordering::Relaxed);
    }

    /// Whether no gradient flows to it.
    pub fn is_frozen(&self) -> bool {
        self.shared.frozen.load(Ordering::Relaxed)
    }

    /// What stands before the layers that use it.
    pub(crate) fn transform(&self) -> Option<Arc<dyn Transform>> {
        self.shared.transform.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether another one is a clone of this.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
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
