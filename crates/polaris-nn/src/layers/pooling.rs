//! Pooling and flattening.

use polaris_ops::{Window, Windows};
use polaris_tensor::Tensor;

use crate::export::{Value, Writer};
use crate::{Layer, Module, Parts, Pass, Result};

/// The largest or the mean of windows along the last one or two axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pooling {
    windows: Windows,
    /// The sizes of windows along their axes; none where one covers all.
    size: [Option<usize>; 2],
    largest: bool,
}

impl Pooling {
    /// The largest of windows of this size that do not overlap.
    ///
    /// # Errors
    /// If there are not one or two axes.
    pub fn max(size: &[usize]) -> Result<Self> {
        Self::sliding(size, true)
    }

    /// The mean of windows of this size that do not overlap.
    ///
    /// # Errors
    /// If there are not one or two axes.
    pub fn average(size: &[usize]) -> Result<Self> {
        Self::sliding(size, false)
    }

    /// The mean of each channel.
    ///
    /// # Errors
    /// Never, for one or two axes.
    pub fn global_average(axes: usize) -> Result<Self> {
        Ok(Self { windows: Windows::adaptive(&vec![1; axes])?, size: [None; 2], largest: false })
    }

    fn sliding(size: &[usize], largest: bool) -> Result<Self> {
        let windows: Vec<Window> = size.iter().map(|&size| Window::new(size)).collect();
        let windows = Windows::sliding(&windows)?;
        Ok(Self { windows, size: [size.first().copied(), size.get(1).copied()], largest })
    }
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

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let size: Vec<usize> = self.size.iter().flatten().copied().collect();
        if size.is_empty() {
            return Ok(x.like(graph.node("GlobalAveragePool", &[x.name()], &[])));
        }
        let operator = if self.largest { "MaxPool" } else { "AveragePool" };
        let windows = [("kernel_shape", size[..].into()), ("strides", size[..].into())];
        Ok(x.like(graph.node(operator, &[x.name()], &windows)))
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

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        if x.rank() == 2 {
            return Ok(x.clone());
        }
        Ok(Value::new(graph.node("Flatten", &[x.name()], &[("axis", 1.into())]), 2))
    }
}
