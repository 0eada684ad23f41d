//! Cross-entropy on every device: targets that are not classes, rows of every length that a kernel treats
//! differently, and the gradient by differences.

use polaris_core::DType;
use polaris_ops::FAMILIES;
use polaris_ops::cross_entropy::{CrossEntropyOptions, cross_entropy, cross_entropy_gradient};
use polaris_ops::suite::CaseParameters;
use polaris_ops::{Array, Error};
use polaris_testkit::devices_under_test;

#[test]
fn every_kernel_takes_rows_of_any_length() {
    let suite = FAMILIES.iter().find(|suite| suite.name == "cross_entropy").unwrap();
    for shape in [[70, 16], [3, 17], [4, 1000], [3, 1025], [2, 5001], [0, 5]] {
        // Weights, smoothing and ignored rows in every combination.
        for (variant, seed) in (0..4).flat_map(|variant| (8..16).map(move |seed| (variant, seed))) {
            let parameters = CaseParameters::dense(&shape, 0, seed);
            let case = (suite.case)(variant, &parameters);
            for device in devices_under_test() {
                for finding in case.run_all_kernels(device) {
                    assert!(finding.outcome.is_ok(), "{}: {finding:?}", device.id());
                }
            }
        }
    }
}

#[test]
fn targets_that_are_no_classes_are_named() {
    for device in devices_under_test() {
        let x = Array::from_slice(device, &[3, 20], &[0.5f32; 60]).unwrap();
        let g = Array::from_slice(device, &[3], &[1.0f32; 3]).unwrap();
        let targets = Array::from_slice(device, &[3], &[0i32, 19, 20]).unwrap();
        let options = CrossEntropyOptions::default();
        for result in [
            cross_entropy(&x, &targets, None, options),
            cross_entropy_gradient(&x, &targets, &g, None, options),
        ] {
            let error = result.unwrap_err();
            let named = matches!(error, Error::TargetOutOfRange { row: 2, value: 20, .. });
            assert!(named, "{}: {error}", device.id());
        }
        let ignoring = CrossEntropyOptions { ignore_index: Some(20), ..options };
        let losses = cross_entropy(&x, &targets, None, ignoring).unwrap().to_vec::<f32>().unwrap();
        assert!(losses[2] == 0.0 && (losses[0] - 20f32.ln()).abs() < 1e-6, "{losses:?}");
    }
}

#[test]
fn the_gradient_is_that_of_the_losses() {
    let device = &devices_under_test()[0];
    let (rows, classes, step) = (4, 7, 1e-5);
    let draw = |i: usize| ((i * 7919 + 13) % 101) as f64 / 25.0 - 2.0;
    let values: Vec<f64> = (0..rows * classes).map(draw).collect();
    let weights: Vec<f64> = (0..classes).map(|class| 0.5 + class as f64 / 4.0).collect();
    let weights = Array::from_slice(device, &[classes], &weights).unwrap();
    let targets = Array::from_slice(device, &[rows], &[0i64, 6, -1, 3]).unwrap();
    let options = CrossEntropyOptions { smoothing: 0.2, ignore_index: Some(-1) };
    let losses = |values: &[f64]| {
        let x = Array::from_slice(device, &[rows, classes], values).unwrap();
        let losses = cross_entropy(&x, &targets, Some(&weights), options).unwrap();
        assert_eq!(losses.dtype(), DType::F64);
        losses.to_vec::<f64>().unwrap()
    };
    let g = [1.0, -2.0, 3.0, 0.5];
    let x = Array::from_slice(device, &[rows, classes], &values).unwrap();
    let slopes = Array::from_slice(device, &[rows], &g).unwrap();
    let found = cross_entropy_gradient(&x, &targets, &slopes, Some(&weights), options).unwrap();
    for (at, found) in found.to_vec::<f64>().unwrap().into_iter().enumerate() {
        let moved = |by: f64| {
            let mut values = values.clone();
            values[at] += by;
            losses(&values)[at / classes]
        };
        let expected = (moved(step) - moved(-step)) / (2.0 * step) * g[at / classes];
        assert!((found - expected).abs() < 1e-8, "{found} instead of {expected}");
    }
}
