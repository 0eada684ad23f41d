//! What can be tuned: for each family of kernels its space, and how one of its points is run and
//! checked. A new one is an implementation of [`Subject`] and a line in [`SUBJECTS`].

mod plain;
mod products;

use polaris_runtime::DeviceRef;
use polaris_runtime::opencl::OpenClDevice;
use polaris_tune::{ProblemKey, Space};

use crate::inject::Fault;
use crate::protocol::Config;
use crate::{Error, Result};

/// A family of kernels with parameters.
pub trait Subject: Sync {
    /// Its name in records and decisions.
    fn operation(&self) -> &'static str;

    /// What may be chosen on a device.
    fn space(&self, device: &OpenClDevice) -> Space;

    /// Configurations to begin with.
    fn usual(&self, device: &OpenClDevice) -> Vec<Config>;

    /// The fingerprint of the kernel's source.
    fn source(&self) -> String;

    /// What one run has to do.
    fn work(&self, problem: &ProblemKey) -> Work;

    /// Makes operands and the reference.
    ///
    /// # Errors
    /// If the problem is none of this operation, or if a device fails.
    fn prepare(
        &self,
        host: &DeviceRef,
        device: &DeviceRef,
        problem: &ProblemKey,
    ) -> Result<Box<dyn Prepared>>;
}

/// A problem with its operands and its reference in `f64`.
pub trait Prepared {
    /// Enqueues it with a configuration, or as it would be chosen without tuning.
    ///
    /// # Errors
    /// If the configuration is not valid, does not build or fails.
    fn run(&self, config: Option<&Config>) -> Result<()>;

    /// Waits for what was enqueued.
    ///
    /// # Errors
    /// If it failed.
    fn finish(&self) -> Result<()>;

    /// Fills the result with what cannot be right.
    ///
    /// # Errors
    /// If the device fails.
    fn spoil(&self) -> Result<()>;

    /// The relative error of the result, and the largest that is right. The fault is for tests.
    ///
    /// # Errors
    /// If the result cannot be read.
    fn error(&self, fault: Option<Fault>) -> Result<(f64, f64)>;
}

/// What is counted of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Work {
    /// Additions and multiplications.
    Operations(f64),
    /// Bytes read and written.
    Bytes(f64),
}

impl Work {
    /// Billions a second.
    pub fn rate(self, seconds: f64) -> f64 {
        let (Self::Operations(count) | Self::Bytes(count)) = self;
        count / seconds / 1e9
    }

    /// What [`Work::rate`] counts in.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Operations(_) => "GFLOPS",
            Self::Bytes(_) => "GB/s",
        }
    }
}

/// Everything that can be tuned.
pub const SUBJECTS: &[&dyn Subject] =
    &[&products::Gemm, &products::Gemv, &plain::Reduce, &plain::Permute];

/// The subject of an operation.
///
/// # Errors
/// If it is not tuned.
pub fn subject(operation: &str) -> Result<&'static dyn Subject> {
    let found = SUBJECTS.iter().find(|subject| subject.operation() == operation);
    found.copied().ok_or_else(|| Error::UnknownOperation { operation: operation.to_owned() })
}

/// Named values as a configuration.
fn config(named: Vec<(&'static str, i64)>) -> Config {
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The three sizes of a problem.
fn sizes<const N: usize>(problem: &ProblemKey) -> Result<[usize; N]> {
    let sizes: Vec<usize> = problem.shape.iter().map(|&size| size as usize).collect();
    let sizes = sizes.try_into();
    sizes.map_err(|_| Error::BadProblem(format!("{:?} is not a shape of {N} sizes", problem.shape)))
}
