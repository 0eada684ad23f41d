//! The protocol between the tuner and its workers: a JSON line for each request and reply.

use std::collections::BTreeMap;

use polaris_tune::{Failure, ProblemKey};
use serde::{Deserialize, Serialize};

/// Named values of parameters.
pub type Config = BTreeMap<String, i64>;

/// What a worker is asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Make the operands and the reference.
    Prepare(ProblemKey),
    /// Build a configuration, run it once and compare with the reference.
    Try(Config),
    /// Time a configuration that was tried: about so many seconds, and one sample only if it is
    /// slower than the limit.
    Measure { config: Config, seconds: f64, limit: Option<f64> },
    /// Time configurations in turn; none is what would be chosen without tuning.
    Compare { configs: Vec<Option<Config>>, seconds: f64 },
}

/// What a worker answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The operands are there.
    Prepared,
    /// It is right, up to this relative error.
    Tried {
        error: f64,
    },
    Measured(Sampled),
    Compared(Vec<Sampled>),
    Failed {
        kind: Failure,
        why: String,
    },
}

/// A time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// The fastest of a measurement; the median of a comparison in turns.
    pub seconds: f64,
    /// The samples' standard deviation by their mean.
    pub spread: f64,
    /// How many there were.
    pub samples: u32,
}
