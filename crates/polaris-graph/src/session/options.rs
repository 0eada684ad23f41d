//! How a model is loaded and run, and which device that means.

use polaris_core::CancellationToken;
use polaris_ops::matmul::Precision;
use polaris_runtime::{DeviceKind, DeviceRef, Mode, Runtime};

use crate::passes::Passes;
use crate::{Error, Result};

/// How a model is loaded.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where it runs.
    pub mode: Mode,
    /// The device, which must fit the mode. If none is named: the first GPU, or the first OpenCL device of any
    /// kind.
    pub device: Option<DeviceRef>,
    /// What is rewritten before anything is planned.
    pub passes: Passes,
    /// How activations are multiplied with weights that stay in blocks. `Int8` rounds activations to 8 bits, in groups of 32
    /// with a scale each, where the CPU multiplies those faster.
    pub precision: Precision,
    /// Cancels everything the session does: planning, measuring and each of its runs.
    pub cancellation: Option<CancellationToken>,
}

/// How a model is run once.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Cancels this run. What was enqueued on a device by then is left to end there.
    pub cancellation: Option<CancellationToken>,
    /// The outputs that are wanted, by name and in this order; all of them if `None`.
    pub outputs: Option<Vec<String>>,
    /// Whether the CPU takes over from a device that fails or has no room. If not, the run ends with the
    /// device's error.
    pub fallback: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { cancellation: None, outputs: None, fallback: true }
    }
}

/// The OpenCL device to use, if one shall be used.
pub(super) fn choose_device(runtime: &Runtime, options: &Options) -> Result<Option<DeviceRef>> {
    let opencl = || runtime.devices().iter().filter(|device| device.as_opencl().is_some());
    let gpu = || opencl().find(|device| device.info().kind == DeviceKind::Gpu);
    if let Some(device) = &options.device {
        let on_opencl = device.as_opencl().is_some();
        let fits = match options.mode {
            Mode::Cpu => !on_opencl,
            Mode::Gpu | Mode::Hybrid => on_opencl,
            Mode::Auto => true,
        };
        if !fits {
            return Err(Error::ModeWithoutDevice { mode: options.mode, device: device.id() });
        }
        return Ok(on_opencl.then(|| device.clone()));
    }
    match options.mode {
        Mode::Cpu => Ok(None),
        Mode::Gpu => gpu().or_else(|| opencl().next()).cloned().map(Some).ok_or(Error::NoGpu),
        Mode::Hybrid => {
            let device = gpu().or_else(|| opencl().next()).cloned();
            if device.is_none() {
                log::warn!("there is no OpenCL device; the model runs on the CPU alone");
            }
            Ok(device)
        }
        Mode::Auto => {
            let best = runtime.best();
            Ok(best.as_opencl().is_some().then(|| best.clone()))
        }
    }
}
