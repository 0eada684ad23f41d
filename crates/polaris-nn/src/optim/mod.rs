//! Optimisers: how parameters follow their gradients. A step is one kernel for each tensor that
//! changes, over the tensor itself.

mod adam;
mod clip;
mod group;
mod schedule;
mod sgd;

pub use adam::Adam;
pub use clip::gradient_norm;
pub use group::{Entry, Group, change};
pub use schedule::{Schedule, Shape};
pub use sgd::Sgd;

use std::collections::{BTreeMap, HashMap};

use polaris_tensor::Tensor;

use crate::{Error, Result};

/// Changes parameters by their gradients.
///
/// An optimiser of your own keeps its memory in the groups' entries ([`Group::remember`]) and goes through
/// [`Group::due`]; checkpoints and resuming then need nothing more. [`Sgd`] is a short one to read.
pub trait Optimizer: Send {
    /// The groups of parameters, whose rates may be changed.
    fn groups_mut(&mut self) -> &mut [Group];

    /// The groups of parameters.
    fn groups(&self) -> &[Group];

    /// One step by the gradients times a factor, which are then forgotten. Parameters without one
    /// stay as they are.
    ///
    /// # Errors
    /// If a device fails.
    fn step_scaled(&mut self, factor: f64) -> Result<()>;

    /// Steps that were taken.
    fn steps(&self) -> u64;

    /// Goes on as if so many steps had been taken, and fewer of some parameters, by their names.
    fn set_steps(&mut self, steps: u64, fewer: &BTreeMap<String, u64>);

    /// Parameters that had no gradient in some steps, with the number of steps in which they had one.
    fn fewer_steps(&self) -> BTreeMap<String, u64> {
        let entries = self.groups().iter().flat_map(|group| &group.entries);
        let fewer = entries.filter(|entry| entry.steps != self.steps());
        fewer.map(|entry| (entry.name.clone(), entry.steps)).collect()
    }

    /// One step by the gradients, which are then forgotten.
    ///
    /// # Errors
    /// If a device fails.
    fn step(&mut self) -> Result<()> {
        self.step_scaled(1.0)
    }

    /// Sets the rate of all groups to what they began with times a factor.
    fn set_rate_factor(&mut self, factor: f64) {
        for group in self.groups_mut() {
            group.rate = group.first_rate * factor;
        }
    }

    /// Forgets all gradients.
    fn zero_grad(&self) {
        self.groups().iter().flat_map(Group::parameters).for_each(|p| p.tensor().zero_grad());
    }

    /// What it remembers, by names, sharing the memory.
    fn state(&self) -> Vec<(String, Tensor)> {
        self.groups().iter().flat_map(Group::state).collect()
    }

    /// Overwrites what it remembers.
    ///
    /// # Errors
    /// `WrongState` if a name is missing or a shape differs; or if a copy fails.
    fn load_state(&mut self, new: &HashMap<String, Tensor>) -> Result<()> {
        for (name, tensor) in self.state() {
            let found = new.get(&name).filter(|found| found.shape() == tensor.shape());
            let Some(found) = found else {
                let what = format!("the optimiser's `{name}` is missing or has another shape");
                return Err(Error::WrongState { what });
            };
            tensor.copy_from(&found.to_device(tensor.device())?.to_dtype(tensor.dtype())?)?;
        }
        Ok(())
    }
}
