//! The mode of a model: where it runs.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::Error;

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// On the CPU.
    Cpu,
    /// On an OpenCL device, as far as it has the operations.
    Gpu,
    /// On both, each node where a cost model expects all to be done soonest. What it does not know is
    /// measured once. If one of them alone is about as fast, all runs there.
    Hybrid,
    /// On a GPU if there is one, otherwise on the CPU; on the device that is named, if one is.
    #[default]
    Auto,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Gpu, Self::Hybrid, Self::Auto];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Hybrid => "hybrid",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| Error::UnknownMode { asked: text.to_owned() })
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse::<Mode>().unwrap(), mode);
        }
        let message = "both".parse::<Mode>().unwrap_err().to_string();
        assert!(message.contains("both") && message.contains("hybrid"), "{message}");
    }
}
