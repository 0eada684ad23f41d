//! Checks of devices: which cases of the operations' suites run with which kernels, what they found,
//! and sweeps over all operations. Used by the tests and by `polaris check`.

#![forbid(unsafe_code)]

mod check;
mod devices;
mod empty;
mod plan;
pub mod supervise;
mod tally;

pub use check::{Event, Job, Task, check_device, run_job};
pub use devices::{devices_under_test, is_required, own_runtime};
pub use empty::EmptySweep;
pub use plan::{Level, Listed, Scope, Unit};
pub use tally::{CheckReport, Coverage, KernelResult, Tally};
