//! A quick measurement of matmul, for `polaris quickstart`.

use std::time::Duration;

use polaris_core::{CancellationToken, DType, Shape};
use polaris_ops::{Array, Distribution, MatMul, random};
use polaris_runtime::{DeviceId, DeviceRef};
use serde::Serialize;

use super::cases::Dims;
use super::contenders::Ours;
use crate::timing::{Limits, take_turns, time_one};
use crate::{Error, Result};

/// Sizes of the products.
pub const QUICK_SIZES: [usize; 3] = [512, 1024, 2048];

/// One size; a larger one is left out if it can be foreseen to take much longer.
const BUDGET: Duration = Duration::from_millis(150);
const LONGEST_CALL: Duration = Duration::from_millis(600);

/// A square product of `f32`.
#[derive(Debug, Serialize)]
pub struct QuickProduct {
    /// The device.
    pub device: DeviceId,
    /// Rows and columns.
    pub n: usize,
    /// Nothing if it would take too long.
    pub gflops: Option<f64>,
}

/// Measures the default product of a device in a few sizes.
///
/// # Errors
/// If the device fails, or if it is cancelled.
pub fn quick(device: &DeviceRef, cancellation: &CancellationToken) -> Result<Vec<QuickProduct>> {
    let mut products = Vec::new();
    let mut expected = Duration::ZERO;
    for n in QUICK_SIZES {
        let gflops = if expected > LONGEST_CALL {
            None
        } else {
            let (seconds, first) = measure_size(device, n, cancellation)?;
            // Eight times the work, at the same speed.
            expected = 8 * first;
            Some(Dims::square(n).operations() / seconds / 1e9)
        };
        products.push(QuickProduct { device: device.id(), n, gflops });
    }
    Ok(products)
}

/// Seconds of a call, and how long a single one took at first.
fn measure_size(
    device: &DeviceRef,
    n: usize,
    cancellation: &CancellationToken,
) -> Result<(f64, Duration)> {
    let shape = Shape::new(&[n, n])?;
    let uniform = Distribution::Uniform { low: -1.0, high: 1.0 };
    let matrix = |seed| random::random(device, DType::F32, shape, uniform, seed);
    let (a, b) = (matrix(1)?, matrix(2)?);
    let out = Array::empty(device, DType::F32, shape)?;
    let mut ours = Ours::plain(device, MatMul::default(), &[&a, &b], &out);
    // The first call builds programs.
    time_one::<Error>(&mut ours)?;
    let first = time_one::<Error>(&mut ours)?;
    if first > BUDGET {
        return Ok((first.as_secs_f64(), first));
    }
    let limits = Limits {
        sample: Duration::from_micros(500),
        budget: BUDGET,
        rounds: 3,
        rest: Duration::ZERO,
    };
    let timings = take_turns::<Error>(&mut [&mut ours], &limits, cancellation)?;
    Ok((timings[0].seconds, first))
}
