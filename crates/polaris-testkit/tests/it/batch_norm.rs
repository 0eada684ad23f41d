//! Batch and group normalisation on every device: channels that are cut into segments, numbers far
//! from zero, and the gradients by differences.

use polaris_core::{DType, Shape};
use polaris_ops::batch_norm::{
    batch_norm, batch_norm_gradient, batch_norm_weight_gradient, batch_statistics, group_norm,
    group_norm_gradient,
};
use polaris_ops::{Array, BatchStatistics, Operation, run_kernel, usable_kernels};
use polaris_runtime::DeviceRef;
use polaris_testkit::devices_under_test;

fn spread(i: usize) -> f64 {
    ((i * 7919 + 13) % 10_007) as f64 / 10_007.0 * 3.4 - 1.7
}

/// Squares of numbers around 10,000 have no digits left for a variance of 1.
#[test]
fn channels_far_from_zero_keep_their_variance() {
    for dims in [&[3, 2, 9001][..], &[40, 3, 5, 7], &[5000, 9]] {
        let shape = Shape::new(dims).unwrap();
        let values: Vec<f32> = (0..shape.elements()).map(|i| (1e4 + spread(i)) as f32).collect();
        let wide: Vec<f64> = values.iter().map(|&value| value.into()).collect();
        for device in devices_under_test() {
            let x = Array::from_slice(device, dims, &values).unwrap();
            let output = Array::empty(device, DType::F32, Shape::new(&[2, dims[1]]).unwrap());
            let output = output.unwrap();
            let expected = BatchStatistics.reference(std::slice::from_ref(&wide), &[&x], &output);
            let kernels = usable_kernels(&BatchStatistics, &[&x], &output);
            let all: Vec<Option<_>> = match kernels.is_empty() {
                true => vec![None],
                false => kernels.into_iter().map(Some).collect(),
            };
            for kernel in all {
                match kernel {
                    Some(kernel) => run_kernel(&BatchStatistics, kernel, &[&x], &output).unwrap(),
                    None => polaris_ops::run(&BatchStatistics, &[&x], &output).unwrap(),
                }
                let found = output.to_vec::<f32>().unwrap();
                for (i, (&found, expected)) in found.iter().zip(&expected).enumerate() {
                    let allowed = if i < dims[1] { 2e-3 } else { 1e-5 * expected };
                    let error = (f64::from(found) - expected).abs();
                    assert!(error < allowed, "{}: {kernel:?}: {found} {expected}", device.id());
                }
            }
        }
    }
}

/// The sum of a result times fixed numbers, as a function of x.
fn weighted(y: &Array, g: &[f64]) -> f64 {
    y.to_vec::<f64>().unwrap().iter().zip(g).map(|(y, g)| y * g).sum()
}

fn array(device: &DeviceRef, dims: &[usize], values: &[f64]) -> Array {
    Array::from_slice(device, dims, values).unwrap()
}

/// Compares a gradient with differences of a function's results.
fn check_slopes(function: impl Fn(&Array) -> Array, x: &Array, found: &Array, g: &[f64]) {
    let step = 1e-5;
    let values = x.to_vec::<f64>().unwrap();
    for (at, found) in found.to_vec::<f64>().unwrap().into_iter().enumerate() {
        let moved = |by: f64| {
            let mut values = values.clone();
            values[at] += by;
            weighted(&function(&array(x.device(), x.shape(), &values)), g)
        };
        let expected = (moved(step) - moved(-step)) / (2.0 * step);
        assert!((found - expected).abs() < 1e-7, "{found} instead of {expected}");
    }
}

#[test]
fn gradients_are_those_of_the_result() {
    let device = &devices_under_test()[0];
    let (dims, epsilon) = ([3, 4, 2], 1e-3);
    let values: Vec<f64> = (0..24).map(spread).collect();
    let g: Vec<f64> = (0..24).map(|i| spread(3 * i + 1)).collect();
    let weight = array(device, &[4], &[0.5, -1.0, 2.0, 1.5]);
    let bias = array(device, &[4], &[0.1, 0.2, 0.3, 0.4]);
    let training = |x: &Array| {
        let (mean, variance) = batch_statistics(x).unwrap();
        batch_norm(x, &mean, &variance, Some(&weight), Some(&bias), epsilon).unwrap()
    };
    let groups = |x: &Array| group_norm(x, 2, Some(&weight), Some(&bias), epsilon).unwrap();
    let x = array(device, &dims, &values);
    let slopes = array(device, &dims, &g);
    let (mean, variance) = batch_statistics(&x).unwrap();
    let sums = batch_norm_weight_gradient(&x, &slopes, &mean, &variance, epsilon).unwrap();
    let sums = Some((&sums.0, &sums.1));
    let dx = batch_norm_gradient(&x, &slopes, &mean, &variance, Some(&weight), sums, epsilon);
    let of_groups = group_norm_gradient(&x, &slopes, 2, Some(&weight), epsilon);
    check_slopes(training, &x, &dx.unwrap(), &g);
    check_slopes(groups, &x, &of_groups.unwrap(), &g);
}

/// The same on every device.
#[test]
fn groups_are_normalised_on_every_device() {
    let dims = [2, 6, 5, 7];
    let values: Vec<f32> = (0..420).map(|i| spread(i) as f32).collect();
    let weight: Vec<f32> = (0..6).map(|i| i as f32 / 2.0 - 1.0).collect();
    let results: Vec<Vec<f32>> = devices_under_test()
        .iter()
        .map(|device| {
            let x = Array::from_slice(device, &dims, &values).unwrap();
            let weight = Array::from_slice(device, &[6], &weight).unwrap();
            let y = group_norm(&x, 3, Some(&weight), Some(&weight), 1e-5).unwrap();
            let dx = group_norm_gradient(&x, &y, 3, Some(&weight), 1e-5).unwrap();
            [y.to_vec::<f32>().unwrap(), dx.to_vec::<f32>().unwrap()].concat()
        })
        .collect();
    for result in &results[1..] {
        let near = result.iter().zip(&results[0]).all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(near);
    }
}
