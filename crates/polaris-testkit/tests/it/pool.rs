//! Pooling on every device: planes and windows of sizes that loops treat differently.

use polaris_core::Shape;
use polaris_ops::pool::{
    Pool, PoolGradient, Pooling, Window, Windows, average_pool, max_pool, max_pool_gradient,
};
use polaris_ops::{Array, Operation, run, run_kernel, usable_kernels};
use polaris_testkit::devices_under_test;

fn sliding(kernel: usize, stride: usize, padding: usize, dilation: usize) -> Windows {
    Windows::sliding(&[Window { kernel, stride, padding, dilation }; 2]).unwrap()
}

fn ramp(elements: usize) -> Vec<f32> {
    (0..elements).map(|i| (i * 7919 % 1009) as f32 / 250.0 - 2.0).collect()
}

/// Runs an operation with every kernel of every device against its reference.
fn check<O: Operation>(op: &O, shapes: &[&[usize]], written: &[usize]) {
    for device in devices_under_test() {
        let values: Vec<Vec<f32>> =
            shapes.iter().map(|shape| ramp(shape.iter().product())).collect();
        let arrays: Vec<Array> = shapes
            .iter()
            .zip(&values)
            .map(|(shape, values)| Array::from_slice(device, shape, values).unwrap())
            .collect();
        let inputs: Vec<&Array> = arrays.iter().collect();
        let shape = Shape::new(written).unwrap();
        let output = Array::empty(device, inputs[0].dtype(), shape).unwrap();
        let wide: Vec<Vec<f64>> =
            values.iter().map(|all| all.iter().map(|&v| f64::from(v)).collect()).collect();
        let expected = op.reference(&wide, &inputs, &output);
        let compare = |what: &str| {
            let found = output.to_vec::<f32>().unwrap();
            for (at, (&found, expected)) in found.iter().zip(&expected).enumerate() {
                let error = (f64::from(found) - expected).abs();
                assert!(error < 2e-5, "{}: {op:?} {what}: {found} at {at}", device.id());
            }
        };
        run(op, &inputs, &output).unwrap();
        compare("as chosen");
        for kernel in usable_kernels(op, &inputs, &output) {
            run_kernel(op, kernel, &inputs, &output).unwrap();
            compare(&format!("{kernel:?}"));
        }
    }
}

#[test]
fn planes_and_windows_of_any_size() {
    let windows = [
        sliding(3, 2, 1, 1),
        sliding(2, 2, 0, 1).rounded_up(),
        sliding(3, 1, 1, 1),
        sliding(5, 3, 2, 2),
        sliding(11, 7, 5, 1),
        sliding(2, 9, 0, 1),
        Windows::adaptive(&[7, 7]).unwrap(),
        Windows::adaptive(&[1, 1]).unwrap(),
        Windows::adaptive(&[61, 90]).unwrap(),
    ];
    let whole = [2, 3, 41, 67];
    for windows in windows {
        let pooled = windows.pooled_shape(&Shape::new(&whole).unwrap()).unwrap().to_vec();
        let max = Pooling::Max;
        check(&Pool { pooling: max, windows }, &[&whole], &pooled);
        check(&PoolGradient { pooling: max, windows }, &[&whole, &pooled], &whole);
        if windows != sliding(5, 3, 2, 2) {
            let pooling = Pooling::Average { count_padding: false };
            check(&Pool { pooling, windows }, &[&whole], &pooled);
            check(&PoolGradient { pooling, windows }, &[&pooled], &whole);
        }
    }
}

/// One axis that is longer than what is worked on at once.
#[test]
fn long_rows() {
    let whole = [1, 2, 9001];
    for (kernel, stride, padding) in [(4, 1, 2), (400, 160, 200), (3, 2, 1), (5, 5, 0), (16, 4, 8)]
    {
        let window = Window { kernel, stride, padding, dilation: 1 };
        let windows = Windows::sliding(&[window]).unwrap();
        let pooled = windows.pooled_shape(&Shape::new(&whole).unwrap()).unwrap().to_vec();
        check(&Pool { pooling: Pooling::Max, windows }, &[&whole], &pooled);
        check(&PoolGradient { pooling: Pooling::Max, windows }, &[&whole, &pooled], &whole);
        let pooling = Pooling::Average { count_padding: true };
        check(&Pool { pooling, windows }, &[&whole], &pooled);
        check(&PoolGradient { pooling, windows }, &[&pooled], &whole);
    }
}

/// One window over everything is a reduction, with the same result.
#[test]
fn global_windows() {
    for device in devices_under_test() {
        let x = Array::from_slice(device, &[2, 3, 4, 5], &ramp(120)).unwrap();
        let all = Windows::adaptive(&[1, 1]).unwrap();
        let largest = max_pool(&x, &all).unwrap();
        assert_eq!(largest.shape()[..], [2, 3, 1, 1]);
        let same = Windows::sliding(&[Window::new(4), Window::new(5)]).unwrap();
        let expected = max_pool(&x, &same).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(largest.to_vec::<f32>().unwrap(), expected);
        let means = average_pool(&x, &all, true).unwrap().to_vec::<f32>().unwrap();
        let expected = average_pool(&x, &same, true).unwrap().to_vec::<f32>().unwrap();
        assert!(means.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6));
        // Each of the largest gets its gradient.
        let dx = max_pool_gradient(&x, &largest, &all).unwrap().to_vec::<f32>().unwrap();
        let sum: f32 = dx.iter().sum();
        let expected: f32 = largest.to_vec::<f32>().unwrap().iter().sum();
        assert!((sum - expected).abs() < 1e-5);
    }
}
