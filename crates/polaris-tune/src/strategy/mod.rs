//! Search strategies: which point to measure next.

mod annealing;
mod bayesian;
mod exhaustive;
mod features;
mod genetic;
mod guided;
#[cfg(test)]
mod landscape;
mod random;
mod terrain;
#[cfg(test)]
mod tests;

pub use annealing::Annealing;
pub use bayesian::Bayesian;
pub use exhaustive::Exhaustive;
pub use genetic::Genetic;
pub use guided::Guided;
pub use random::RandomSearch;

use crate::{Error, Points, Result};

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

    /// Takes a trial in. Of a point that was tried before the faster time counts, since whatever
    /// disturbs a measurement makes it slower; but one that ever failed is not trusted again.
    pub fn add(&mut self, trial: Trial) {
        match self.trials.iter_mut().find(|known| known.point == trial.point) {
            Some(known) => {
                known.seconds = known.seconds.zip(trial.seconds).map(|(a, b)| a.min(b));
            }
            None => self.trials.push(trial),
        }
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

/// The names of all strategies.
pub const NAMES: &[&str] = &["exhaustive", "random", "annealing", "genetic", "bayesian", "guided"];

/// A strategy by its name. The prior holds the predicted seconds of each point: "guided" needs it,
/// and "annealing", "genetic" and "bayesian" begin at the best predicted points.
///
/// # Errors
/// If there is no such strategy, or it needs a prior and there is none.
pub fn by_name(name: &str, seed: u64, prior: Option<Vec<f64>>) -> Result<Box<dyn Strategy>> {
    Ok(match name {
        "exhaustive" => Box::new(Exhaustive::new()),
        "random" => Box::new(RandomSearch::new(seed)),
        "annealing" => Box::new(Annealing::new(seed, prior)),
        "genetic" => Box::new(Genetic::new(seed, prior)),
        "bayesian" => Box::new(Bayesian::new(seed, prior)),
        "guided" => match prior {
            Some(prior) => Box::new(Guided::new(seed, prior)),
            None => return Err(Error::NoPrior { strategy: "guided" }),
        },
        _ => {
            let (what, name, known) = ("strategy", name.to_owned(), NAMES.join(", "));
            return Err(Error::Unknown { what, name, known });
        }
    })
}
