//! How the rate changes over the steps of a training.

use serde::{Deserialize, Serialize};

/// A rate over time: rising evenly at first, then by its shape.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// How it goes after the warm-up.
    pub kind: Shape,
    /// Steps in which the rate rises from almost nothing.
    pub warmup: u64,
    /// The part of the rate that a cosine ends at.
    pub floor: f64,
    /// Steps after which a staircase goes down.
    pub every: u64,
    /// What a staircase multiplies the rate by.
    pub factor: f64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { kind: Shape::Constant, warmup: 0, floor: 0.0, every: 1000, factor: 0.1 }
    }
}

/// The shape of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Always the same.
    #[default]
    Constant,
    /// Half a cosine, down to the floor.
    Cosine,
    /// A staircase.
    Step,
}

impl Schedule {
    /// What the rate of a step, counted from zero, is multiplied by, in a training of so many.
    pub fn factor(&self, step: u64, total: u64) -> f64 {
        if step < self.warmup {
            return (step + 1) as f64 / self.warmup as f64;
        }
        let (step, total) = (step - self.warmup, total.saturating_sub(self.warmup).max(1));
        match self.kind {
            Shape::Constant => 1.0,
            Shape::Cosine => {
                let part = (step as f64 / total as f64).min(1.0);
                let half = 0.5 * (1.0 + (std::f64::consts::PI * part).cos());
                self.floor + (1.0 - self.floor) * half
            }
            Shape::Step => {
                let stairs = step / self.every.max(1);
                self.factor.powi(i32::try_from(stairs).unwrap_or(i32::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_rise_then_follow_their_shape() {
        let cosine = Schedule { kind: Shape::Cosine, warmup: 4, floor: 0.1, ..Schedule::default() };
        let factors: Vec<f64> = [0, 1, 3, 4, 9, 14, 20].map(|step| cosine.factor(step, 14)).into();
        let expected = [0.25, 0.5, 1.0, 1.0, 0.55, 0.1, 0.1];
        for (found, expected) in factors.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{factors:?}");
        }
        let stairs = Schedule { kind: Shape::Step, every: 10, factor: 0.5, ..Schedule::default() };
        assert_eq!([0, 9, 10, 25].map(|step| stairs.factor(step, 100)), [1.0, 1.0, 0.5, 0.25]);
        assert_eq!(Schedule::default().factor(7, 10), 1.0);
    }
}
