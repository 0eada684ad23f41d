//! Pooling and flattening.

use polaris_ops::{Window, Windows};
use polaris_tensor::Tensor;

use crate::{Layer, Module, Parts, Pass, Result};

/// The largest or the mean of windows along the last one or two axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pooling {
    windows: Windows,
    largest: bool,
}

impl Pooling {
    /// The largest of windows of this size that do not overlap.
    ///
    /// # Errors
    /// If there are not one or two axes.
    pub fn max(size: &[usize]) -> Result<Self> {
        Ok(Self { windows: sliding(size)?, largest: true })
    }

    /// The mean of windows of this size that do not overlap.
    ///
    /// # Errors
    /// If there are not one or two axes.
    pub fn average(size: &[usize]) -> Result<Self> {
        Ok(Self { windows: sliding(size)?, largest: false })
    }

    /// The mean of each channel.
    ///
    /// # Errors
    /// Never, for one or two axes.
    pub fn global_average(axes: usize) -> Result<Self> {
        Ok(Self { windows: Windows::adaptive(&vec![1; axes])?, largest: false })
    }
}

fn sliding(size: &[usize]) -> Result<Windows> {
    let windows: Vec<Window> = size.iter().map(|&size| Window::new(size)).collect();
    Ok(Windows::sliding(&windows)?)
}

impl Layer for Pooling {
    fn visit(&self, _parts: &mut Parts) {}
}

impl Module for Pooling {
    fn forward(&self, x: &Tensor, _pass: &Pass<'_>) -> Result<Tensor> {
        Ok(match self.largest {
            true => x.max_pool(&self.windows),
            false => x.average_pool(&self.windows, true),
        }?)
    }
}

/// Each sample as one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flatten;

impl Layer for Flatten {
    fn visit(&self, _parts: &mut Parts) {}
}

impl Module for Flatten {
    fn forward(&self, x: &Tensor, _pass: &Pass<'_>) -> Result<Tensor> {
        let samples = x.dims().first().copied().unwrap_or(1);
        let width = x.dims().iter().skip(1).product();
        Ok(x.reshape(&[samples, width])?)
    }
}
