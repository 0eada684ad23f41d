//! Parameters that share a rate.

use std::collections::BTreeMap;

use polaris_ops::Array;
use polaris_ops::fused::{Expression, evaluate_into};
use polaris_tensor::Tensor;

use crate::{Parameter, Result};

/// Parameters with a rate and a decay of their own.
#[derive(Debug)]
pub struct Group {
    /// The rate they learn at.
    pub rate: f64,
    /// The rate that schedules refer to.
    pub first_rate: f64,
    /// How strongly they are pulled towards zero.
    pub weight_decay: f64,
    /// The parameters with what is remembered of them.
    pub entries: Vec<Entry>,
}

/// A parameter and what the optimiser remembers of it.
#[derive(Debug)]
pub struct Entry {
    /// The parameter's name in the model.
    pub name: String,
    /// The parameter.
    pub parameter: Parameter,
    /// Tensors of the parameter's shape by name, such as a velocity; part of checkpoints.
    pub memory: Vec<(&'static str, Tensor)>,
    /// Steps in which it had a gradient.
    pub steps: u64,
}

impl Group {
    /// A group of named parameters.
    pub fn new(parameters: Vec<(String, Parameter)>, rate: f64, weight_decay: f64) -> Self {
        let entry = |(name, parameter)| Entry { name, parameter, memory: Vec::new(), steps: 0 };
        let entries = parameters.into_iter().map(entry).collect();
        Self { rate, first_rate: rate, weight_decay, entries }
    }

    /// The parameters.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.entries.iter().map(|entry| &entry.parameter)
    }

    /// Gives each parameter memory that begins as zeros.
    ///
    /// # Errors
    /// If there is no room.
    pub fn remember(&mut self, names: &[&'static str]) -> Result<()> {
        for entry in &mut self.entries {
            let zeros = || -> Result<Tensor> { Ok(entry.parameter.tensor().zeros_like()?) };
            entry.memory = names.iter().map(|&name| Ok((name, zeros()?))).collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// The memory of all parameters by names, sharing the tensors.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let of_entry = |entry: &Entry| {
            let memory = entry.memory.iter();
            memory
                .map(|(what, tensor)| (format!("{}.{what}", entry.name), tensor.clone()))
                .collect::<Vec<_>>()
        };
        self.entries.iter().flat_map(of_entry).collect()
    }

    /// The entries that have gradients, with these, and a step more; the gradients are forgotten.
    pub fn due(&mut self) -> impl Iterator<Item = (&Entry, Tensor)> {
        self.entries.iter_mut().filter_map(|entry| {
            let tensor = entry.parameter.tensor();
            let gradient = tensor.grad().filter(|_| !entry.parameter.is_frozen());
            tensor.zero_grad();
            let gradient = gradient?;
            entry.steps += 1;
            Some((&*entry, gradient))
        })
    }

    /// Goes on as if so many steps had been taken, and fewer of some parameters.
    pub fn set_steps(&mut self, steps: u64, fewer: &BTreeMap<String, u64>) {
        for entry in &mut self.entries {
            entry.steps = fewer.get(&entry.name).copied().unwrap_or(steps);
        }
    }
}

/// Overwrites a tensor with an expression of arrays, itself among them, in one kernel.
///
/// # Errors
/// If shapes or types do not fit, or a device fails.
pub fn change(tensor: &Tensor, expression: &Expression, inputs: &[&Array]) -> Result<()> {
    Ok(tensor.update(|array| evaluate_into(expression, inputs, array))?)
}
