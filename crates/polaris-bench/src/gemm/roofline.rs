//! The measured roofline of a device.

use polaris_core::{CancellationToken, DType, Progress};
use polaris_runtime::measure;
use polaris_runtime::{DeviceRef, Runtime};
use serde::Serialize;

use super::cases::Case;
use crate::Result;

/// Arithmetic and memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Roofline {
    /// Multiply-adds in FP32, two operations each.
    pub peak_gflops: f64,
    /// Read plus written.
    pub memory_gbs: f64,
}

impl Roofline {
    /// From the machine's profile; measured now, and remembered, if it is not there.
    /// The profile holds figures of all threads: of `own_threads` nothing is known or remembered.
    ///
    /// # Errors
    /// If the device fails, or if it is cancelled.
    pub fn of(
        runtime: &mut Runtime,
        device: &DeviceRef,
        own_threads: bool,
        cancellation: &CancellationToken,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let own_threads = device.as_cpu().is_some() && own_threads;
        let known = runtime.profile(device.as_ref()).and_then(|p| p.measured.clone());
        let measured = match known.filter(|_| !own_threads) {
            Some(measured) => measured,
            None => {
                let measured = measure::measure(device, &|| cancellation.is_cancelled())?;
                if !own_threads {
                    let remembered = measured.clone();
                    let kept = runtime.remember(device.as_ref(), |profile| {
                        profile.measured = Some(remembered.clone());
                    });
                    if let Err(error) = kept {
                        let lost = "the figures are lost when this command ends";
                        progress.note(&format!("{error}; {lost}"));
                    }
                }
                measured
            }
        };
        Ok(Self { peak_gflops: measured.fp32_gflops, memory_gbs: measured.memory_gbs })
    }

    /// The most that a product can reach if each operand is read once and the result written
    /// once. `None` where the FP32 peak says nothing: for other arithmetic, and where tensor cores
    /// may multiply smaller types.
    pub fn limit(&self, case: &Case, device: &DeviceRef) -> Option<f64> {
        let is_f32_arithmetic = match case.numbers.dtype() {
            DType::F32 => case.numbers.name() == "f32" || !device.capabilities().inline_ptx,
            DType::F16 | DType::BF16 => !device.capabilities().inline_ptx,
            _ => false,
        };
        is_f32_arithmetic.then(|| self.peak_gflops.min(intensity(case) * self.memory_gbs))
    }
}

/// Operations for each byte that has to be moved.
pub fn intensity(case: &Case) -> f64 {
    case.dims.operations() / case.bytes() as f64
}
