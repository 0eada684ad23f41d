//! Matrices and inputs that are drawn, and what the methods are compared with.

use polaris_core::random::SplitMix64;
use polaris_optimize::hessian::Hessian;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

/// The CPU.
pub fn device() -> DeviceRef {
    let options = RuntimeOptions { opencl: false, ..RuntimeOptions::default() };
    Runtime::discover(&options).unwrap().cpu().clone()
}

/// Numbers that are about normal.
pub fn normal(seed: u64, count: usize) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(|_| (0..6).map(|_| random.unit() - 0.5).sum::<f64>() as f32).collect()
}

/// Inputs whose elements depend on each other, as those of layers do: a few directions are shared, and some columns are larger.
pub fn correlated(seed: u64, rows: usize, columns: usize) -> Vec<f32> {
    let shared = columns.div_ceil(4).max(1);
    let directions = normal(seed, shared * columns);
    let strengths = normal(seed + 1, rows * shared);
    let noise = normal(seed + 2, rows * columns);
    let mut inputs = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            let common: f32 = (0..shared)
                .map(|s| strengths[row * shared + s] * directions[s * columns + column])
                .sum();
            let size = if column % 7 == 3 { 3.0 } else { 1.0 };
            inputs.push(size * (common + 0.3 * noise[row * columns + column]));
        }
    }
    inputs
}

/// The Hessian of inputs.
pub fn hessian(device: &DeviceRef, inputs: &[f32], columns: usize) -> Hessian {
    let mut hessian = Hessian::new(device, columns).unwrap();
    hessian.add(inputs).unwrap();
    hessian
}

/// The differences of two matrices.
pub fn change(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// The mean over inputs of the squares of what a change of weights does to outputs: by its definition.
pub fn output_error(change: &[f32], inputs: &[f32], columns: usize) -> f64 {
    let mut total = 0.0;
    for input in inputs.chunks(columns) {
        for row in change.chunks(columns) {
            let dot: f64 = row.iter().zip(input).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            total += dot * dot;
        }
    }
    total / (inputs.len() / columns) as f64
}
