//! One pass through a model: what its layers have to know beside their input.

use std::cell::{Cell, RefCell};

use polaris_core::DType;
use polaris_core::random::SplitMix64;
use polaris_tensor::Tensor;

use crate::{Module, Result};

/// Sees the result of every layer as it is made: to find where numbers go wrong, or to learn ranges
/// for quantization.
pub trait Observer {
    /// A layer, by its path in the model, gave this.
    ///
    /// # Errors
    /// Ends the pass.
    fn output(&self, path: &str, output: &Tensor) -> Result<()>;
}

/// Whether a model learns in this pass, where its random numbers come from, the type it computes in
/// and who looks on.
pub struct Pass<'a> {
    training: bool,
    seed: u64,
    drawn: Cell<u64>,
    compute: Option<DType>,
    observer: Option<&'a dyn Observer>,
    path: RefCell<Vec<String>>,
}

impl<'a> Pass<'a> {
    /// Layers behave as in evaluation: nothing is dropped, and statistics are those learned.
    pub fn evaluation() -> Self {
        Self {
            training: false,
            seed: 0,
            drawn: Cell::new(0),
            compute: None,
            observer: None,
            path: RefCell::default(),
        }
    }

    /// Layers behave as in training. The seed decides what is dropped; the same seed drops the same.
    pub fn training(seed: u64) -> Self {
        Self { training: true, seed, ..Self::evaluation() }
    }

    /// Layers compute in this type, whatever that of their parameters. Layers cast what they are
    /// given.
    pub fn in_type(mut self, dtype: Option<DType>) -> Self {
        self.compute = dtype;
        self
    }

    /// Someone looks on.
    pub fn observed(mut self, observer: &'a dyn Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Whether the model learns.
    pub fn is_training(&self) -> bool {
        self.training
    }

    /// A new seed for random numbers, the same in each pass of the same seed.
    pub fn draw(&self) -> u64 {
        let drawn = self.drawn.get();
        self.drawn.set(drawn + 1);
        mix(self.seed ^ mix(drawn))
    }

    /// A floating-point tensor in the type of the pass.
    ///
    /// # Errors
    /// If there is no room.
    pub fn cast(&self, tensor: &Tensor) -> Result<Tensor> {
        match self.compute {
            Some(dtype) if tensor.dtype().is_float() && tensor.dtype() != dtype => {
                Ok(tensor.to_dtype(dtype)?)
            }
            _ => Ok(tensor.clone()),
        }
    }

    /// The result of a layer, under its name.
    ///
    /// # Errors
    /// What the layer or the observer says.
    pub fn apply(&self, name: &str, layer: &dyn Module, x: &Tensor) -> Result<Tensor> {
        // Names cost nothing where nobody looks on.
        let Some(observer) = self.observer else { return layer.forward(x, self) };
        self.path.borrow_mut().push(name.to_owned());
        let result = layer.forward(x, self);
        let path = self.path.borrow().join(".");
        self.path.borrow_mut().pop();
        let output = result?;
        observer.output(&path, &output)?;
        Ok(output)
    }
}

/// Spreads the bits of a number, so that neighbouring seeds have nothing in common.
pub(crate) fn mix(value: u64) -> u64 {
    SplitMix64::new(value).bits()
}
