//! What Polaris remembers about this machine between runs: measurements, checks and the kernels
//! that a driver computes wrongly.

mod paths;
mod profile;

pub use paths::{Paths, files_in};
pub use profile::{
    CheckRecord, CheckStatus, DeviceProfile, LinkMeasurement, Measurement, Profile,
    QuarantinedKernel,
};
