//! What to tune, how long, and where candidates run.

use std::fmt;
use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use polaris_core::CancellationToken;
use polaris_runtime::DeviceId;
use polaris_tune::ProblemKey;

use crate::{Error, Result};

/// What to tune, and how.
#[derive(Debug, Clone)]
pub struct TuneOptions {
    /// Problems of one operation, as [`problems`](crate::problems) makes them.
    pub problems: Vec<ProblemKey>,
    /// The devices; all OpenCL devices if none is named.
    pub devices: Vec<DeviceId>,
    /// The name of a strategy of [`polaris_tune::strategy`].
    pub strategy: String,
    /// The same seed makes the same search.
    pub seed: u64,
    /// How long.
    pub budget: Budget,
    /// How often each configuration is timed, at different moments; the fastest counts.
    pub passes: usize,
    /// How long a build and a first run may take.
    pub patience: Duration,
    /// Workers that build at the same time, where they are processes.
    pub count: usize,
    /// Where candidates run.
    pub workers: Workers,
    /// Whether each problem is also predicted from the others, for the page.
    pub predictions: bool,
    /// Ends it. What was measured is kept.
    pub cancellation: CancellationToken,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self {
            problems: Vec::new(),
            devices: Vec::new(),
            strategy: "bayesian".to_owned(),
            seed: 1,
            budget: Budget::Time(Duration::from_secs(60)),
            passes: 1,
            patience: Duration::from_secs(60),
            count: 2,
            workers: Workers::Here,
            predictions: false,
            cancellation: CancellationToken::new(),
        }
    }
}

/// Where candidates are built, run and timed.
#[derive(Clone)]
pub enum Workers {
    /// In this process: a driver that crashes or hangs takes it down, and patience has no meaning. Decisions that
    /// this process knows count as the default; where nothing is faster they stay.
    Here,
    /// In processes, for a device each, that call [`work`](crate::work) on their stdin and stdout. One that
    /// crashes or hangs costs its candidate. They are started with `POLARIS_TUNING=off`, so that what was decided
    /// before does not pass for the default.
    Processes(Arc<dyn Fn(DeviceId) -> Command + Send + Sync>),
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here => "Here",
            Self::Processes(_) => "Processes",
        })
    }
}

/// How long a search may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// So many evaluations for each problem.
    Evaluations(usize),
    /// So long for all problems together.
    Time(Duration),
}

impl FromStr for Budget {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(count) = text.strip_suffix("evals") {
            let count: usize = count.trim().parse().map_err(|_| Error::BadBudget)?;
            return if count > 0 { Ok(Self::Evaluations(count)) } else { Err(Error::BadBudget) };
        }
        let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0)];
        let (number, unit) = units
            .iter()
            .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|number| (number, unit)))
            .ok_or(Error::BadBudget)?;
        let seconds = number.trim().parse::<f64>().map_err(|_| Error::BadBudget)? * unit;
        if !(0.0..=1e6).contains(&seconds) || seconds == 0.0 {
            return Err(Error::BadBudget);
        }
        Ok(Self::Time(Duration::from_secs_f64(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_times_or_evaluations() {
        let time = |seconds| Budget::Time(Duration::from_secs(seconds));
        for (text, budget) in
            [("60s", time(60)), ("5m", time(300)), ("1h", time(3600)), ("0.5m", time(30))]
        {
            assert_eq!(text.parse::<Budget>().unwrap(), budget, "{text}");
        }
        assert_eq!("200evals".parse::<Budget>().unwrap(), Budget::Evaluations(200));
        for bad in ["", "soon", "0s", "-1s", "0evals", "NaNs", "1e9h", "60"] {
            assert!(bad.parse::<Budget>().is_err(), "{bad}");
        }
    }
}
