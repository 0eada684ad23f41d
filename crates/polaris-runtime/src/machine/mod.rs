//! What Polaris stores about this machine: measurements, checks and quarantined kernels.

mod paths;
mod profile;

pub use paths::{Paths, files_in};
pub use profile::{
    CheckRecord, CheckStatus, DeviceProfile, LinkMeasurement, Measurement, Profile,
    QuarantinedKernel,
};
