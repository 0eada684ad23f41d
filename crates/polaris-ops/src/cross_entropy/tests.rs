//! Mistakes are clear errors, and small results are correct.

use polaris_core::Error as CoreError;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;
use crate::Error;

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).unwrap().cpu().clone()
}

const PLAIN: CrossEntropyOptions = CrossEntropyOptions { smoothing: 0.0, ignore_index: None };

fn logits(device: &DeviceRef, rows: usize, classes: usize) -> Array {
    let values: Vec<f32> =
        (0..rows * classes).map(|i| (i * 37 % 101) as f32 / 25.0 - 2.0).collect();
    Array::from_slice(device, &[rows, classes], &values).unwrap()
}

#[test]
fn targets_must_be_classes() {
    let cpu = device(1);
    let x = logits(&cpu, 3, 4);
    for (targets, found) in
        [([0i64, 4, 1], (1, 4)), ([0, 1, -1], (2, -1)), ([i64::MIN, 9, 9], (0, i64::MIN))]
    {
        let targets = Array::from_slice(&cpu, &[3], &targets).unwrap();
        for result in [
            cross_entropy(&x, &targets, None, PLAIN),
            cross_entropy_gradient(
                &x,
                &targets,
                &Array::from_slice(&cpu, &[3], &[1.0f32; 3]).unwrap(),
                None,
                PLAIN,
            ),
        ] {
            let error = result.unwrap_err();
            assert!(
                matches!(error, Error::TargetOutOfRange { row, value, classes: 4, .. } if (row, value) == found),
                "{error}"
            );
        }
    }
    let targets = Array::from_slice(&cpu, &[3], &[0i32, -100, 3]).unwrap();
    let ignoring = CrossEntropyOptions { ignore_index: Some(-100), ..PLAIN };
    assert_eq!(
        cross_entropy(&x, &targets, None, ignoring).unwrap().to_vec::<f32>().unwrap()[1],
        0.0
    );
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let cpu = device(1);
    let x = logits(&cpu, 3, 4);
    let targets = Array::from_slice(&cpu, &[3], &[0i64; 3]).unwrap();
    let core = |result: Result<Array>| match result.unwrap_err() {
        Error::Core(error) => error,
        other => panic!("{other}"),
    };
    let floats = Array::from_slice(&cpu, &[3], &[0.0f32; 3]).unwrap();
    let few = Array::from_slice(&cpu, &[2], &[0i64; 2]).unwrap();
    let wide = Array::from_slice(&cpu, &[4], &[1.0f64; 4]).unwrap();
    let plain = |x: &Array, targets: &Array, weights| cross_entropy(x, targets, weights, PLAIN);
    assert!(matches!(core(plain(&x, &floats, None)), CoreError::UnsupportedDType { .. }));
    assert!(matches!(core(plain(&targets, &targets, None)), CoreError::UnsupportedDType { .. }));
    assert!(matches!(core(plain(&x, &few, None)), CoreError::ShapeMismatch { .. }));
    assert!(matches!(core(plain(&x, &targets, Some(&floats))), CoreError::ShapeMismatch { .. }));
    assert!(matches!(core(plain(&x, &targets, Some(&wide))), CoreError::DTypeMismatch { .. }));
    assert!(matches!(plain(&floats, &targets, None), Err(Error::InvalidParameter { .. })));
    for smoothing in [-0.1, 1.1, f64::NAN] {
        let result = cross_entropy(&x, &targets, None, CrossEntropyOptions { smoothing, ..PLAIN });
        assert!(matches!(result, Err(Error::InvalidParameter { .. })), "{result:?}");
    }
    let none = logits(&cpu, 0, 4);
    let targets = Array::from_slice::<i64>(&cpu, &[0], &[]).unwrap();
    assert_eq!(plain(&none, &targets, None).unwrap().elements(), 0);
    // No class can be a target.
    let empty = logits(&cpu, 1, 0);
    let target = Array::from_slice(&cpu, &[1], &[0i64]).unwrap();
    assert!(matches!(
        plain(&empty, &target, None),
        Err(Error::TargetOutOfRange { classes: 0, .. })
    ));
}

#[test]
fn small_rows_by_hand() {
    let cpu = device(1);
    let x = Array::from_slice(&cpu, &[2, 2], &[0.0f64, 0.0, 0.0, 3f64.ln()]).unwrap();
    let targets = Array::from_slice(&cpu, &[2], &[0i64, 1]).unwrap();
    let weights = Array::from_slice(&cpu, &[2], &[2.0f64, 4.0]).unwrap();
    let close = |found: &Array, expected: &[f64]| {
        let found = found.to_vec::<f64>().unwrap();
        let near =
            found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-14);
        assert!(near && found.len() == expected.len(), "{found:?} instead of {expected:?}");
    };
    let (half, quarter) = (2f64.ln(), 4f64.ln());
    let three_quarters = quarter - 3f64.ln();
    close(&cross_entropy(&x, &targets, None, PLAIN).unwrap(), &[half, three_quarters]);
    let smooth = CrossEntropyOptions { smoothing: 0.5, ..PLAIN };
    let expected = [
        half + 0.25 * (2.0 * half + 4.0 * half),
        2.0 * three_quarters + 0.25 * (2.0 * quarter + 4.0 * three_quarters),
    ];
    close(&cross_entropy(&x, &targets, Some(&weights), smooth).unwrap(), &expected);
    let g = Array::from_slice(&cpu, &[2], &[1.0f64, 8.0]).unwrap();
    let found = cross_entropy_gradient(&x, &targets, &g, None, PLAIN).unwrap();
    close(&found, &[-0.5, 0.5, 2.0, -2.0]);
    let found = cross_entropy_gradient(&x, &targets, &g, Some(&weights), smooth).unwrap();
    close(&found, &[-0.25, 0.25, 3.0, -3.0]);
}

#[test]
fn special_values() {
    let cpu = device(1);
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let rows = [[1.0, inf], [-inf, -inf], [nan, 1.0], [-inf, 3.0], [3.0, -inf], [1e30, -1e30]];
    let x = Array::from_slice(&cpu, &[6, 2], rows.as_flattened()).unwrap();
    let targets = Array::from_slice(&cpu, &[6], &[1i64; 6]).unwrap();
    let found = cross_entropy(&x, &targets, None, PLAIN).unwrap().to_vec::<f32>().unwrap();
    assert!(found[..3].iter().all(|loss| loss.is_nan()), "{found:?}");
    assert_eq!(found[3..], [0.0, inf, 2e30]);
    // A class without weight costs nothing.
    let weights = Array::from_slice(&cpu, &[2], &[1.0f32, 0.0]).unwrap();
    let x = logits(&cpu, 6, 2);
    let found = cross_entropy(&x, &targets, Some(&weights), PLAIN).unwrap();
    assert_eq!(found.to_vec::<f32>().unwrap(), [0.0; 6]);
    let g = Array::from_slice(&cpu, &[6], &[1.0f32; 6]).unwrap();
    let found = cross_entropy_gradient(&x, &targets, &g, Some(&weights), PLAIN).unwrap();
    assert_eq!(found.to_vec::<f32>().unwrap(), [0.0; 12]);
}

/// In place, large enough to be written past the caches, with any number of threads.
#[test]
fn the_output_may_be_the_logits() {
    let with = |threads: usize| -> Vec<Vec<u32>> {
        let cpu = device(threads);
        let (rows, classes) = (1200, 8191);
        let targets: Vec<i64> = (0..rows as i64).map(|row| row * 31 % classes as i64).collect();
        let targets = Array::from_slice(&cpu, &[rows], &targets).unwrap();
        let x = logits(&cpu, rows, classes);
        let g = Array::from_slice(&cpu, &[rows], &vec![0.5f32; rows]).unwrap();
        let bits = |array: &Array| -> Vec<u32> {
            array.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
        };
        let losses = cross_entropy(&x, &targets, None, PLAIN).unwrap();
        let dx = cross_entropy_gradient(&x, &targets, &g, None, PLAIN).unwrap();
        let op = CrossEntropyGradient { options: PLAIN, has_weights: false };
        run(&op, &[&x, &targets, &g], &x).unwrap();
        assert!(bits(&x) == bits(&dx));
        vec![bits(&losses), bits(&dx)]
    };
    assert!(with(1) == with(3));
}
