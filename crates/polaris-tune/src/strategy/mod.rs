//! Which point to measure next.

use crate::Points;

/// What became of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Its number.
    pub point: usize,
    /// Seconds; none if it could not be built, took too long or computed wrongly.
    pub seconds: Option<f64>,
}

/// What was tried so far, in order.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// All trials.
    pub trials: Vec<Trial>,
}

impl History {
    /// The fastest point.
    pub fn best(&self) -> Option<(usize, f64)> {
        let timed = self.trials.iter().filter_map(|t| t.seconds.map(|seconds| (t.point, seconds)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Whether a point was tried.
    pub fn has(&self, point: usize) -> bool {
        self.trials.iter().any(|trial| trial.point == point)
    }
}

/// A way to search. The same seed and the same measurements give the same proposals.
pub trait Strategy: Send {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// The next point to measure: one that was not tried. Nothing when all were.
    fn propose(&mut self, points: &Points, history: &History) -> Option<usize>;
}
