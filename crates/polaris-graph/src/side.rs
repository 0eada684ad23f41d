//! The two sides of a plan.

/// Where something is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// On the CPU.
    Cpu,
    /// On the OpenCL device.
    Gpu,
}

impl Side {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Gpu];

    /// Its place in a list of both.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Cpu => Self::Gpu,
            Self::Gpu => Self::Cpu,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        }
    }
}
