//! Operation suites and tolerances: one description of what must hold, used by the tests and
//! by `polaris check`.
//!
//! A case is an operation with arrays of some layouts, offsets and values. It is run with every
//! kernel that supports it, between guard zones, over dirty memory, and compared with the
//! operation's `f64` reference.

#![forbid(unsafe_code)]

mod attention;
mod batch_norm;
mod case;
mod check;
mod conv;
mod cross_entropy;
mod devices;
mod empty;
mod fused;
mod indexing;
mod matmul;
mod norm;
mod operand;
mod pad;
mod plan;
mod pool;
mod scan;
mod softmax;
mod sort;
mod suites;
pub mod supervise;
mod tally;
mod tolerance;
mod values;

pub use case::{Case, Finding};
pub use check::{Event, Job, Task, check_device, run_job};
pub use devices::{devices_under_test, is_required, own_runtime};
pub use empty::EmptySweep;
pub use operand::{Arrangement, Operand};
pub use plan::{Level, Listed, Unit};
pub use suites::{CaseParameters, SUITES, Suite, kernel_of};
pub use tally::{CheckReport, Coverage, KernelResult, Tally};
pub use tolerance::{Tolerance, agrees};
