//! Padding, running sums, sorting and concatenation at sizes that kernels treat differently, with
//! special values, and mistakes.

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_ops::FAMILIES;
use polaris_ops::copy::concatenate;
use polaris_ops::pad::{flip, pad, pad_gradient};
use polaris_ops::scan::cumsum;
use polaris_ops::sort::{argsort, sort, top_k};
use polaris_ops::suite::CaseParameters;
use polaris_ops::{Array, Distribution, Error, PadMode, random};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};
use polaris_testkit::devices_under_test;

fn of(device: &DeviceRef, shape: &[usize], values: &[f32]) -> Array {
    Array::from_slice(device, shape, values).unwrap()
}

fn normal(device: &DeviceRef, shape: &[usize], seed: u64) -> Array {
    let distribution = Distribution::Normal { mean: 0.0, deviation: 1.0 };
    random::random(device, DType::F32, Shape::new(shape).unwrap(), distribution, seed).unwrap()
}

fn values(array: &Array) -> Vec<f32> {
    array.to_vec().unwrap()
}

/// Runs the essential variants of a suite with every kernel on every device.
fn check(suite: &str, shape: &[usize], axis: u8) {
    let suite = FAMILIES.iter().find(|found| found.name == suite).unwrap();
    let parameters = CaseParameters::dense(shape, 1 << axis, 21);
    for variant in (0..(suite.variants)()).filter(|&variant| (suite.is_essential)(variant)) {
        let case = (suite.case)(variant, &parameters);
        for device in devices_under_test() {
            for finding in case.run_all_kernels(device) {
                assert!(finding.outcome.is_ok(), "{}: {finding:?}", device.id());
            }
        }
    }
}

/// The borders of tiles, segments and blocks.
#[test]
fn sums_and_orders_of_any_length() {
    for length in [1, 2, 16, 17, 255, 256, 257, 1023, 1025, 2047, 2048, 2049, 8192, 8193, 33_000] {
        check("scan", &[2, length], 1);
        check("sort", &[2, length], 1);
    }
    for (shape, axis) in [(&[100_001][..], 0), (&[300, 40], 0), (&[2, 70, 35], 1)] {
        check("scan", shape, axis);
        check("sort", shape, axis);
    }
}

#[test]
fn nan_comes_last_and_equal_elements_keep_their_order() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let x = [2.0, nan, -0.0, 0.0, inf, 2.0, -inf, -nan, -1.0];
    for device in devices_under_test() {
        let x = of(device, &[9], &x);
        let order = |descending| argsort(&x, 0, descending).unwrap().to_vec::<i64>().unwrap();
        assert_eq!(order(false), [6, 8, 2, 3, 0, 5, 4, 1, 7], "{}", device.id());
        assert_eq!(order(true), [1, 7, 4, 0, 5, 2, 3, 8, 6], "{}", device.id());
        let (sorted, indices) = sort(&x, 0, false).unwrap();
        assert_eq!(values(&sorted)[..7], [-inf, -1.0, 0.0, 0.0, 2.0, 2.0, inf]);
        assert_eq!(indices.to_vec::<i64>().unwrap(), order(false));
        let (largest, indices) = top_k(&x, 4, 0).unwrap();
        assert!(values(&largest)[1].is_nan());
        assert_eq!(values(&largest)[2..], [inf, 2.0]);
        assert_eq!(indices.to_vec::<i64>().unwrap(), [1, 7, 4, 0]);
        assert_eq!(top_k(&x, 0, 0).unwrap().0.elements(), 0);
        let error = top_k(&x, 10, 0).unwrap_err();
        assert!(matches!(error, Error::InvalidParameter { .. }), "{error}");
    }
}

#[test]
fn padding_is_that_of_the_definition() {
    for device in devices_under_test() {
        let x = of(device, &[1, 3], &[1.0, 2.0, 3.0]);
        let row = |mode| values(&pad(&x, &[(0, 0), (2, 1)], mode).unwrap());
        assert_eq!(row(PadMode::Constant(9.0)), [9.0, 9.0, 1.0, 2.0, 3.0, 9.0]);
        assert_eq!(row(PadMode::Reflect), [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
        assert_eq!(row(PadMode::Replicate), [1.0, 1.0, 1.0, 2.0, 3.0, 3.0]);
        assert_eq!(row(PadMode::Circular), [2.0, 3.0, 1.0, 2.0, 3.0, 1.0]);
        let g = of(device, &[1, 6], &[1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
        let back = |mode| values(&pad_gradient(&g, &[(0, 0), (2, 1)], mode).unwrap());
        assert_eq!(back(PadMode::Constant(9.0)), [100.0, 1e3, 1e4]);
        assert_eq!(back(PadMode::Reflect), [100.0, 101_010.0, 10_001.0]);
        assert_eq!(back(PadMode::Replicate), [111.0, 1e3, 110_000.0]);
        assert_eq!(back(PadMode::Circular), [100_100.0, 1001.0, 10_010.0]);
        assert_eq!(values(&flip(&x, &[1]).unwrap()), [3.0, 2.0, 1.0]);
    }
}

/// For any g, the products of g with pad(x) and of its gradient with x are the same.
#[test]
fn the_gradient_of_padding_is_its_transpose() {
    let device = &devices_under_test()[0];
    let dot = |a: &Array, b: &Array| -> f64 {
        values(a).iter().zip(values(b)).map(|(&a, b)| f64::from(a) * f64::from(b)).sum()
    };
    let widths = [(2, 0), (0, 0), (3, 4)];
    for mode in [PadMode::Constant(0.0), PadMode::Reflect, PadMode::Replicate, PadMode::Circular] {
        let x = normal(device, &[4, 3, 5], 1);
        let y = pad(&x, &widths, mode).unwrap();
        let g = normal(device, y.shape(), 2);
        let back = pad_gradient(&g, &widths, mode).unwrap();
        assert!((dot(&g, &y) - dot(&back, &x)).abs() < 1e-4, "{mode:?}");
    }
}

#[test]
fn arrays_are_put_together() {
    for device in devices_under_test() {
        let (a, b) = (of(device, &[2, 2], &[1.0, 2.0, 3.0, 4.0]), of(device, &[2, 1], &[5.0, 6.0]));
        let none = of(device, &[2, 0], &[]);
        let both = concatenate(&[&a, &none, &b], 1).unwrap();
        assert_eq!(values(&both), [1.0, 2.0, 5.0, 3.0, 4.0, 6.0]);
        assert_eq!(values(&concatenate(&[&b], 0).unwrap()), [5.0, 6.0]);
        let turned = a.permute(&[1, 0]).unwrap();
        let both = concatenate(&[&a, &turned], 0).unwrap();
        assert_eq!(values(&both), [1.0, 2.0, 3.0, 4.0, 1.0, 3.0, 2.0, 4.0]);
        let error = concatenate(&[&a, &b], 0).unwrap_err();
        assert!(matches!(error, Error::Core(CoreError::ShapeMismatch { .. })), "{error}");
        let error = concatenate(&[], 0).unwrap_err();
        assert!(matches!(error, Error::InvalidParameter { .. }), "{error}");
        let error = concatenate(&[&a], 2).unwrap_err();
        assert!(matches!(error, Error::Core(CoreError::AxisOutOfRange { .. })), "{error}");
    }
}

#[test]
fn mistakes_are_refused() {
    let device = &devices_under_test()[0];
    let x = normal(device, &[2, 3], 1);
    let whole = Array::from_slice(device, &[2], &[1i32, 2]).unwrap();
    let error = cumsum(&x, 2, false).unwrap_err();
    assert!(matches!(error, Error::Core(CoreError::AxisOutOfRange { .. })), "{error}");
    let error = cumsum(&whole, 0, false).unwrap_err();
    assert!(matches!(error, Error::Core(CoreError::UnsupportedDType { .. })), "{error}");
    let error = argsort(&x, 5, false).unwrap_err();
    assert!(matches!(error, Error::Core(CoreError::AxisOutOfRange { .. })), "{error}");
    for (widths, mode) in [
        (&[(0, 0)][..], PadMode::Constant(0.0)),
        (&[(0, 0), (3, 0)], PadMode::Reflect),
        (&[(0, 3), (0, 0)], PadMode::Circular),
    ] {
        let error = pad(&x, widths, mode).unwrap_err();
        assert!(matches!(error, Error::InvalidParameter { .. }), "{error}");
    }
    let error = pad(&x, &[(usize::MAX, 1), (0, 0)], PadMode::Constant(0.0)).unwrap_err();
    assert!(matches!(error, Error::Core(CoreError::TooLarge { .. })), "{error}");
    let error = pad_gradient(&x, &[(2, 1), (0, 0)], PadMode::Replicate).unwrap_err();
    assert!(matches!(error, Error::InvalidParameter { .. }), "{error}");
    let empty = normal(device, &[0, 3], 1);
    let error = pad(&empty, &[(1, 0), (0, 0)], PadMode::Replicate).unwrap_err();
    assert!(matches!(error, Error::InvalidParameter { .. }), "{error}");
    let padded = pad(&empty, &[(1, 0), (0, 0)], PadMode::Constant(2.0)).unwrap();
    assert_eq!(values(&padded), [2.0; 3]);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let with_threads = |threads| -> Vec<Vec<f32>> {
        let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
        let runtime = Runtime::discover(&options).unwrap();
        let sums = |shape: &[usize], axis| {
            values(&cumsum(&normal(runtime.cpu(), shape, 1), axis, true).unwrap())
        };
        vec![sums(&[200_001], 0), sums(&[100, 700], 1), sums(&[300, 301], 0)]
    };
    assert_eq!(with_threads(1), with_threads(3));
}
