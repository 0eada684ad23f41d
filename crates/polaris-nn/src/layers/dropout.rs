//! Elements that are left out at random.

use polaris_core::DType;
use polaris_ops::{Binary, Ternary};
use polaris_tensor::Tensor;

use crate::export::{Value, Writer};
use crate::{Error, Layer, Module, Parts, Pass, Result};

/// In training each element becomes zero with a probability, and the others are scaled up for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    probability: f64,
}

impl Dropout {
    /// # Errors
    /// If the probability is not one below 1.
    pub fn new(probability: f64) -> Result<Self> {
        if !(0.0..1.0).contains(&probability) {
            let what = format!("a dropout of {probability} is no probability from 0 to below 1");
            return Err(Error::invalid(what));
        }
        Ok(Self { probability })
    }
}

impl Layer for Dropout {
    fn visit(&self, _parts: &mut Parts) {}
}

impl Module for Dropout {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        if !pass.is_training() || self.probability == 0.0 {
            return Ok(x.clone());
        }
        let dtype = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let numbers = Tensor::uniform(x.device(), x.dims(), dtype, (0.0, 1.0), pass.draw())?;
        let (low, scale) = (self.probability, 1.0 / (1.0 - self.probability));
        Ok(Tensor::fused([x, &numbers], |[x, number]| {
            number.binary(Binary::GreaterEqual, low).ternary(Ternary::Where, x * scale, 0.0)
        })?)
    }

    fn export(&self, x: &Value, _graph: &mut Writer) -> Result<Value> {
        Ok(x.clone())
    }
}
