//! What quantisation costs, tensor by tensor.

use std::collections::BTreeMap;

use polaris_onnx::Tensor;

use crate::Result;

/// Sums over the elements of a tensor in two models.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Noise {
    /// Of the squares of the first model's.
    pub signal: f64,
    /// Of the squared differences.
    pub noise: f64,
    /// The largest difference.
    pub largest: f64,
    /// The elements.
    pub elements: u64,
}

impl Noise {
    /// Adds elements.
    pub fn add(&mut self, first: &[f64], second: &[f64]) {
        for (a, b) in first.iter().zip(second) {
            let apart = (a - b).abs();
            self.signal += a * a;
            self.noise += apart * apart;
            // Of what is no number, the largest is none either.
            if apart > self.largest || apart.is_nan() {
                self.largest = apart;
            }
        }
        self.elements += first.len() as u64;
    }

    /// The ratio of signal to noise, in decibels; infinite if nothing differs.
    pub fn decibels(self) -> f64 {
        10.0 * (self.signal / self.noise).log10()
    }
}

/// How tensors differ between two models on the same data, by their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distortion {
    /// Of each tensor.
    pub tensors: BTreeMap<String, Noise>,
}

impl Distortion {
    /// Compares tensors of the same names; those that only one side has are left out.
    ///
    /// # Errors
    /// If tensors have different shapes.
    pub fn add(&mut self, first: &[(String, Tensor)], second: &[(String, Tensor)]) -> Result<()> {
        for (name, a) in first {
            let Some((_, b)) = second.iter().find(|(other, _)| other == name) else { continue };
            if a.shape() != b.shape() {
                let why =
                    format!("shape {:?} in one model, {:?} in the other", a.shape(), b.shape());
                return Err(crate::Error::Activation { tensor: name.clone(), why });
            }
            let noise = self.tensors.entry(name.clone()).or_default();
            noise.add(&a.to_f64()?, &b.to_f64()?);
        }
        Ok(())
    }
}
