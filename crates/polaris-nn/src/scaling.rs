//! Loss scaling: small gradients would vanish in half precision, so the loss is multiplied first.

use serde::{Deserialize, Serialize};

/// What the loss is multiplied by. It doubles after a while without trouble, and halves when a
/// gradient is not finite, whose step is then left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    value: f64,
    good_steps: u64,
}

/// Steps without trouble after which the scale doubles.
const PATIENCE: u64 = 2000;

impl Default for LossScale {
    fn default() -> Self {
        Self { value: 65536.0, good_steps: 0 }
    }
}

impl LossScale {
    /// What to multiply the loss by.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Learns whether all gradients of a step were finite, and says whether to take the step.
    pub fn observe(&mut self, finite: bool) -> bool {
        if !finite {
            *self = Self { value: (self.value * 0.5).max(1.0), good_steps: 0 };
            return false;
        }
        self.good_steps += 1;
        if self.good_steps == PATIENCE {
            *self = Self { value: self.value * 2.0, good_steps: 0 };
        }
        true
    }
}
