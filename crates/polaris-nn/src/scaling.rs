//! Loss scaling: small gradients would vanish in half precision, so the loss is multiplied first.

use serde::{Deserialize, Serialize};

/// What the loss is multiplied by. It doubles after a while without trouble, and halves when a
/// gradient is not finite, whose step is then left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    value: f64,
    good_steps: u64,
    /// Steps in a row that were left out although the scale cannot become smaller.
    #[serde(default)]
    lost_steps: u64,
}

/// Steps without trouble after which the scale doubles.
const PATIENCE: u64 = 2000;

/// Steps in a row that are left out at the smallest scale before training gives up.
const HOPELESS: u64 = 20;

impl Default for LossScale {
    fn default() -> Self {
        Self { value: 65536.0, good_steps: 0, lost_steps: 0 }
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
            let lost_steps = if self.value > 1.0 { 0 } else { self.lost_steps + 1 };
            *self = Self { value: (self.value * 0.5).max(1.0), good_steps: 0, lost_steps };
            return false;
        }
        (self.good_steps, self.lost_steps) = (self.good_steps + 1, 0);
        if self.good_steps == PATIENCE {
            (self.value, self.good_steps) = (self.value * 2.0, 0);
        }
        true
    }

    /// Whether gradients are not finite whatever the loss is multiplied by, so that nothing is learned any more.
    pub fn is_hopeless(&self) -> bool {
        self.lost_steps >= HOPELESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_up_after_many_lost_steps_at_the_smallest_scale() {
        let mut scale = LossScale::default();
        // Sixteen halvings to 1, then as many steps as are waited for.
        for _ in 0..16 + HOPELESS - 1 {
            assert!(!scale.observe(false) && !scale.is_hopeless(), "{scale:?}");
        }
        let mut rescued = scale;
        assert!(rescued.observe(true));
        assert!(!rescued.observe(false) && !rescued.is_hopeless());
        assert!(!scale.observe(false) && scale.is_hopeless());
    }

    #[test]
    fn scales_of_older_checkpoints_are_read() {
        let old: LossScale = serde_json::from_str(r#"{"value":8.0,"good_steps":3}"#).unwrap();
        assert_eq!((old.value(), old.is_hopeless()), (8.0, false));
    }
}
