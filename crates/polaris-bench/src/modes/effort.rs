//! The time limits of a workload, and what a quick run skips.

use std::time::Duration;

use super::results::ModeOf;
use crate::timing::Limits;

/// How much time a workload may take.
pub struct Effort {
    pub limits: Limits,
    /// A call that can be foreseen to take longer is left out.
    longest_call: f64,
    /// So is the mode `hybrid` where deciding takes longer.
    longest_decision: f64,
    /// Runs in which each instruction is timed; 0 for none.
    pub watched_runs: usize,
}

/// Calls on either side that deciding takes: every instruction six times, and trials of whole plans.
const CALLS_OF_A_DECISION: f64 = 12.0;

impl Effort {
    /// For a report that one waits for.
    pub fn full() -> Self {
        Self {
            limits: limits(Duration::from_millis(1500), 7),
            longest_call: f64::INFINITY,
            longest_decision: f64::INFINITY,
            watched_runs: 3,
        }
    }

    /// For a first look.
    pub fn quick() -> Self {
        Self {
            limits: limits(Duration::from_millis(250), 3),
            longest_call: 1.0,
            longest_decision: 5.0,
            watched_runs: 0,
        }
    }

    /// Why a mode is left out, if it can be foreseen to take too long; `before` it so many modes were not.
    pub fn too_long(
        &self,
        mode: ModeOf,
        flops: Option<u64>,
        speeds: &Speeds,
        before: usize,
    ) -> Option<String> {
        if mode != ModeOf::Hybrid {
            let seconds = speeds.expected(mode, flops)?;
            return (seconds > self.longest_call)
                .then(|| format!("skipped: about {seconds:.1} s per call"));
        }
        let alone = [ModeOf::Cpu, ModeOf::Gpu];
        // A side whose own call is too long takes even longer to decide about.
        let missing = before < alone.len() && self.longest_call.is_finite();
        let known = alone.map(|mode| speeds.expected(mode, flops)).into_iter().flatten();
        let seconds = CALLS_OF_A_DECISION * known.sum::<f64>();
        (missing || seconds > self.longest_decision)
            .then(|| format!("skipped: about {seconds:.0} s to decide"))
    }
}

fn limits(budget: Duration, rounds: usize) -> Limits {
    Limits { sample: Duration::from_millis(1), budget, rounds, rest: Duration::ZERO }
}

/// Operations a second that modes reached before, to foresee how long a call takes.
#[derive(Default)]
pub struct Speeds([Option<f64>; 3]);

impl Speeds {
    /// How long a call will take, if anything is known.
    fn expected(&self, mode: ModeOf, flops: Option<u64>) -> Option<f64> {
        Some(flops? as f64 / self.0[mode as usize]?)
    }

    /// Remembers how long a call took.
    pub fn learn(&mut self, mode: ModeOf, flops: Option<u64>, seconds: f64) {
        if let Some(flops) = flops {
            self.0[mode as usize] = Some(flops as f64 / seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_left_out_of_a_first_look_only() {
        let (quick, full) = (Effort::quick(), Effort::full());
        let (billion, flops) = (Some(1_000_000_000), Some(2_000_000_000));
        let mut speeds = Speeds::default();
        // Nothing is known yet.
        assert_eq!(quick.too_long(ModeOf::Gpu, flops, &speeds, 1), None);
        speeds.learn(ModeOf::Gpu, billion, 1.0);
        let why = quick.too_long(ModeOf::Gpu, flops, &speeds, 1).unwrap();
        assert!(why.contains("2.0 s per call"), "{why}");
        assert_eq!(full.too_long(ModeOf::Gpu, flops, &speeds, 1), None);
        assert_eq!(quick.too_long(ModeOf::Gpu, None, &speeds, 1), None);
        speeds.learn(ModeOf::Gpu, billion, 0.01);
        assert_eq!(quick.too_long(ModeOf::Gpu, flops, &speeds, 1), None);
    }

    #[test]
    fn deciding_takes_many_calls() {
        let (quick, full) = (Effort::quick(), Effort::full());
        let flops = Some(1_000_000_000);
        let mut speeds = Speeds::default();
        speeds.learn(ModeOf::Cpu, flops, 0.5);
        speeds.learn(ModeOf::Gpu, flops, 0.5);
        let why = quick.too_long(ModeOf::Hybrid, flops, &speeds, 2).unwrap();
        assert!(why.contains("12 s to decide"), "{why}");
        assert_eq!(full.too_long(ModeOf::Hybrid, flops, &speeds, 2), None);
        speeds.learn(ModeOf::Cpu, flops, 0.1);
        speeds.learn(ModeOf::Gpu, flops, 0.1);
        assert_eq!(quick.too_long(ModeOf::Hybrid, flops, &speeds, 2), None);
        // One of them was left out.
        assert!(quick.too_long(ModeOf::Hybrid, flops, &speeds, 1).is_some());
    }
}
