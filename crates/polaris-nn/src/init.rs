//! How parameters begin: PyTorch's choices, with numbers that are the same on every device.

use polaris_core::DType;
use polaris_runtime::DeviceRef;
use polaris_tensor::Tensor;

use crate::pass::mix;
use crate::{Parameter, Result};

/// Makes the parameters of new layers, each with random numbers of its own.
#[derive(Debug, Clone)]
pub struct Init {
    device: DeviceRef,
    dtype: DType,
    seed: u64,
    made: u64,
}

impl Init {
    /// Parameters of `f32` on a device.
    pub fn new(device: &DeviceRef, seed: u64) -> Self {
        Self { device: device.clone(), dtype: DType::F32, seed, made: 0 }
    }

    /// Parameters of another type.
    pub fn with_dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// The type of parameters.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Where parameters lie.
    pub fn device(&self) -> &DeviceRef {
        &self.device
    }

    /// Distributed evenly between a number and its negative.
    ///
    /// # Errors
    /// If there is no room.
    pub fn uniform(&mut self, dims: &[usize], bound: f64) -> Result<Parameter> {
        let seed = self.next_seed();
        // A bound of zero would be no interval.
        if bound == 0.0 {
            return self.constant(dims, 0.0);
        }
        Parameter::new(&Tensor::uniform(&self.device, dims, self.dtype, (-bound, bound), seed)?)
    }

    /// Distributed normally around zero.
    ///
    /// # Errors
    /// If there is no room.
    pub fn normal(&mut self, dims: &[usize], deviation: f64) -> Result<Parameter> {
        let seed = self.next_seed();
        let tensor = Tensor::randn(&self.device, dims, self.dtype, seed)?;
        Parameter::new(&tensor.mul_scalar(deviation)?)
    }

    /// All the same.
    ///
    /// # Errors
    /// If there is no room.
    pub fn constant(&mut self, dims: &[usize], value: f64) -> Result<Parameter> {
        Parameter::new(&Tensor::full(&self.device, dims, self.dtype, value)?)
    }

    /// Kaiming's rule for `fan_in` inputs, with the slope of sqrt(5) that PyTorch gives linear layers
    /// and convolutions: evenly up to one over the root of the inputs.
    ///
    /// # Errors
    /// If there is no room.
    pub fn kaiming(&mut self, dims: &[usize], fan_in: usize) -> Result<Parameter> {
        self.uniform(dims, 1.0 / (fan_in.max(1) as f64).sqrt())
    }

    /// Xavier's rule: evenly up to the root of six over inputs and outputs.
    ///
    /// # Errors
    /// If there is no room.
    pub fn xavier(&mut self, dims: &[usize], fan_in: usize, fan_out: usize) -> Result<Parameter> {
        self.uniform(dims, (6.0 / (fan_in + fan_out).max(1) as f64).sqrt())
    }

    /// A tensor that is not learned.
    ///
    /// # Errors
    /// If there is no room.
    pub fn buffer(&self, dims: &[usize], value: f64) -> Result<Tensor> {
        Ok(Tensor::full(&self.device, dims, self.dtype, value)?)
    }

    fn next_seed(&mut self) -> u64 {
        self.made += 1;
        mix(self.seed ^ mix(self.made))
    }
}
