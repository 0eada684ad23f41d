//! One measurement as plain data: what was measured, on what, and what came of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The meaning of a [`Record`]'s fields. It goes up when a field changes its meaning, not when one
/// that may be absent is added.
pub const SCHEMA: u32 = 1;

/// What is known of one configuration for one problem on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// What it ran on.
    pub device: DeviceKey,
    /// What it computed.
    pub problem: ProblemKey,
    /// Hash of the kernel's source: times of another source say little about this one.
    pub source: String,
    /// The values of the parameters, by name.
    pub config: BTreeMap<String, i64>,
    /// What came of it.
    pub outcome: Outcome,
    /// When, in seconds since 1970.
    pub at: u64,
    /// The version of Polaris that wrote it.
    pub polaris: String,
}

/// What a measurement ran on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceKey {
    /// Normalised name of the chip, such as `polaris10`.
    pub chip: String,
    /// What it shares with its siblings, such as `gcn4` or `cpu-avx512`.
    pub architecture: String,
    /// Who made it.
    pub vendor: String,
    /// Name and version of the driver.
    pub driver: String,
    /// How many compute units are active: boards with the same chip differ in it.
    pub compute_units: u32,
}

/// What a measurement computed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProblemKey {
    /// Such as `matmul`.
    pub operation: String,
    /// Such as `f16`.
    pub dtype: String,
    /// The memory layout of the operands.
    pub layout: String,
    /// The sizes, in the operation's order.
    pub shape: Vec<u64>,
}

impl ProblemKey {
    /// Whether the two differ in their shapes at most.
    pub fn same_but_shape(&self, other: &Self) -> bool {
        self.operation == other.operation
            && self.dtype == other.dtype
            && self.layout == other.layout
    }
}

/// What came of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Outcome {
    /// It ran and its results were right.
    Measured {
        /// The time of one run.
        seconds: f64,
        /// How far the samples lie apart, as a part of `seconds`.
        spread: f64,
        /// How many runs were timed.
        samples: u32,
        /// The greatest error of its results.
        error: f64,
    },
    /// It never ran: a model's guess.
    Predicted {
        /// The time of one run.
        seconds: f64,
    },
    /// It cannot be used.
    Failed {
        /// At what it failed.
        kind: Failure,
        /// What was said.
        why: String,
    },
}

impl Outcome {
    /// The time of one run, measured or predicted.
    pub fn seconds(&self) -> Option<f64> {
        match self {
            Self::Measured { seconds, .. } | Self::Predicted { seconds } => Some(*seconds),
            Self::Failed { .. } => None,
        }
    }

    /// Whether all its numbers are numbers: JSON has neither infinity nor NaN.
    pub(crate) fn is_finite(&self) -> bool {
        match self {
            Self::Measured { seconds, spread, error, .. } => {
                seconds.is_finite() && spread.is_finite() && error.is_finite()
            }
            Self::Predicted { seconds } => seconds.is_finite(),
            Self::Failed { .. } => true,
        }
    }
}

/// At what a configuration failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// Its kernel did not compile.
    Build,
    /// It was stopped because it took too long.
    Timeout,
    /// It took the process or the device down.
    Crash,
    /// Its results were wrong.
    Wrong,
    /// The driver refused to run it.
    Run,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A measurement of `tile = tile` for a square product on a Polaris 10.
    pub(crate) fn measured(tile: i64, size: u64, seconds: f64) -> Record {
        Record {
            schema: SCHEMA,
            device: DeviceKey {
                chip: "polaris10".into(),
                architecture: "gcn4".into(),
                vendor: "amd".into(),
                driver: "rusticl 25".into(),
                compute_units: 36,
            },
            problem: ProblemKey {
                operation: "matmul".into(),
                dtype: "f32".into(),
                layout: "nn".into(),
                shape: vec![size, size, size],
            },
            source: "5eed".into(),
            config: BTreeMap::from([("tile".to_owned(), tile)]),
            outcome: Outcome::Measured { seconds, spread: 0.01, samples: 9, error: 1e-6 },
            at: 1_700_000_000,
            polaris: "0.1.0".into(),
        }
    }

    #[test]
    fn the_text_of_a_record_is_as_documented() {
        let mut record = measured(64, 512, 0.25);
        let text = serde_json::to_string(&record).unwrap();
        assert!(text.starts_with(r#"{"schema":1,"device":{"chip":"polaris10","#), "{text}");
        assert!(text.contains(r#""outcome":{"result":"measured","seconds":0.25,"#), "{text}");
        record.outcome = Outcome::Failed { kind: Failure::Wrong, why: "NaN".into() };
        let text = serde_json::to_string(&record).unwrap();
        let wanted = r#""outcome":{"result":"failed","kind":"wrong","why":"NaN"}"#;
        assert!(text.contains(wanted), "{text}");
        assert_eq!((record.outcome.seconds(), record.outcome.is_finite()), (None, true));
        assert_eq!(Outcome::Predicted { seconds: 2.0 }.seconds(), Some(2.0));
    }
}
