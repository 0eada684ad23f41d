//! What becomes of the sums of a depthwise convolution where registers alone cannot do it: other
//! activations than limits, and results that lie otherwise.

use super::Job;
use crate::cpu::math::Real;
use crate::cpu::simd::multiversion;
use crate::elementwise::cpu_functions::{
    Apply, Clamp, GeluErf, GeluTanh, Relu, Same, Sigmoid, Silu, Tanh,
};
use crate::matmul::Activation;

/// Channels of the widest vector.
pub(super) const CHANNELS: usize = 16;

/// Where sums belong: some channels of positions side by side.
#[derive(Clone, Copy)]
pub(super) struct Positions {
    pub image: usize,
    pub row: usize,
    pub column: usize,
    pub channel: usize,
    pub count: usize,
}

/// Bias, residual, activation, and the store. The places must be the calling thread's alone.
pub(super) fn finish(
    level: polaris_runtime::cpu::SimdLevel,
    job: &Job,
    positions: Positions,
    sums: &mut [[f32; CHANNELS]],
) {
    let finish = match job.activation {
        Activation::Identity => finish_with::<Same>,
        Activation::Relu => finish_with::<Relu>,
        Activation::GeluErf => finish_with::<GeluErf>,
        Activation::GeluTanh => finish_with::<GeluTanh>,
        Activation::Silu => finish_with::<Silu>,
        Activation::Sigmoid => finish_with::<Sigmoid>,
        Activation::Tanh => finish_with::<Tanh>,
        Activation::Clamp { .. } => finish_with::<Clamp>,
    };
    finish(level, job, positions, sums);
}

/// A function of single numbers.
trait Activate: Apply<f32> {}

impl<F: Apply<f32>> Activate for F {}

multiversion! {
    fn finish_with<F: Activate>(job: &Job, positions: Positions, sums: &mut [[f32; CHANNELS]]) {
        let Positions { image, row, column, channel, count } = positions;
        let (low, high) = job.activation.limits();
        let (low, high) = (f32::of(low), f32::of(high));
        let mut scratch = [0.0f32; CHANNELS];
        for (column, values) in (column..).zip(sums) {
            if let Some(bias) = &job.bias {
                // SAFETY: there is a bias for each channel.
                let bias = unsafe { bias.load(channel, count, &mut scratch) };
                values.iter_mut().zip(bias).for_each(|(value, &bias)| *value += bias);
            }
            if let Some(residual) = &job.residual {
                let row = residual.row(image, row).row(column, channel);
                // SAFETY: the residual has the result's shape.
                let residual = unsafe { row.load(0, count, &mut scratch) };
                values.iter_mut().zip(residual).for_each(|(value, &residual)| *value += residual);
            }
            for value in values.iter_mut() {
                *value = F::apply(*value, low, high);
            }
            let row = job.y.row(image, row).row(column, channel);
            // SAFETY: by the caller's word, this row is this thread's alone.
            unsafe { row.store(0, &values[..count]) };
        }
    }
}
