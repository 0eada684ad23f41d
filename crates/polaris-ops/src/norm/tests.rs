//! Mistakes are clear errors, and small results are correct.

use polaris_core::Error as CoreError;
use polaris_core::{DType, Shape};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;

fn cpu() -> DeviceRef {
    Runtime::discover(&RuntimeOptions::default()).unwrap().cpu().clone()
}

fn zeros(device: &DeviceRef, dtype: DType, dims: &[usize]) -> Array {
    crate::fill::full(device, dtype, Shape::new(dims).unwrap(), 0.0).unwrap()
}

#[test]
fn a_single_value_has_no_last_axis() {
    let cpu = cpu();
    let x = zeros(&cpu, DType::F32, &[]);
    for result in [
        layer_norm(&x, None, None, 1e-5),
        rms_norm_gradient(&x, &x, None, 1e-5),
        layer_norm_weight_gradient(&x, &x, 1e-5),
    ] {
        assert!(matches!(result, Err(Error::InvalidParameter { .. })), "{result:?}");
    }
}

#[test]
fn shapes_must_fit() {
    let cpu = cpu();
    let x = zeros(&cpu, DType::F32, &[2, 3]);
    let wrong = zeros(&cpu, DType::F32, &[2]);
    let turned = zeros(&cpu, DType::F32, &[3, 2]);
    let right = zeros(&cpu, DType::F32, &[3]);
    for result in [
        layer_norm(&x, Some(&wrong), None, 1e-5),
        layer_norm(&x, Some(&right), Some(&wrong), 1e-5),
        layer_norm(&x, Some(&x), None, 1e-5),
        layer_norm_gradient(&x, &turned, None, 1e-5),
        rms_norm_gradient(&x, &x, Some(&wrong), 1e-5),
        rms_norm_weight_gradient(&x, &turned, 1e-5),
    ] {
        let mismatch = matches!(result, Err(Error::Core(CoreError::ShapeMismatch { .. })));
        assert!(mismatch, "{result:?}");
    }
    let op = NormWeightGradient { kind: NormKind::Layer, epsilon: 1e-5 };
    let result = run(&op, &[&x, &x], &wrong);
    assert!(matches!(result, Err(Error::Core(CoreError::ShapeMismatch { .. }))));
}

#[test]
fn types_must_fit() {
    let cpu = cpu();
    let x = zeros(&cpu, DType::F16, &[2, 3]);
    let weight = zeros(&cpu, DType::F32, &[3]);
    let g = zeros(&cpu, DType::F32, &[2, 3]);
    for result in [
        layer_norm(&x, Some(&weight), None, 1e-5),
        layer_norm(&x, None, Some(&weight), 1e-5),
        layer_norm_gradient(&x, &g, None, 1e-5),
        layer_norm_weight_gradient(&x, &g, 1e-5),
    ] {
        let mismatch = matches!(result, Err(Error::Core(CoreError::DTypeMismatch { .. })));
        assert!(mismatch, "{result:?}");
    }
    // The weight's gradient is not rounded to half precision.
    let op = NormWeightGradient { kind: NormKind::Rms, epsilon: 1e-5 };
    assert!(run(&op, &[&x, &x], &zeros(&cpu, DType::F16, &[3])).is_err());
    assert!(run(&op, &[&x, &x], &weight).is_ok());
    let integers = zeros(&cpu, DType::I32, &[2, 3]);
    let result = rms_norm(&integers, None, None, 1e-5);
    assert!(matches!(result, Err(Error::Core(CoreError::UnsupportedDType { .. }))), "{result:?}");
}

#[test]
fn epsilon_and_the_number_of_arrays_are_checked() {
    let cpu = cpu();
    let x = zeros(&cpu, DType::F32, &[2, 3]);
    for epsilon in [-1e-5, f64::NAN, f64::INFINITY] {
        let result = layer_norm(&x, None, None, epsilon);
        assert!(matches!(result, Err(Error::InvalidParameter { .. })), "{result:?}");
    }
    let op = Norm { kind: NormKind::Layer, epsilon: 1e-5, has_weight: true, has_bias: false };
    let result = run(&op, &[&x], &zeros(&cpu, DType::F32, &[2, 3]));
    assert!(matches!(result, Err(Error::WrongArity { expected: 2, found: 1, .. })), "{result:?}");
}

#[test]
fn the_output_must_not_lie_in_what_every_row_needs() {
    let cpu = cpu();
    let x = zeros(&cpu, DType::F32, &[1, 3]);
    let weight = zeros(&cpu, DType::F32, &[3]);
    let shape = Shape::new(&[1, 3]).unwrap();
    let op = Norm { kind: NormKind::Rms, epsilon: 1e-5, has_weight: true, has_bias: false };
    let over_weight = weight.broadcast_to(&shape).unwrap();
    assert!(matches!(run(&op, &[&x, &weight], &over_weight), Err(Error::AliasedOutput { .. })));
    let op = NormWeightGradient { kind: NormKind::Rms, epsilon: 1e-5 };
    let line = zeros(&cpu, DType::F32, &[3]);
    assert!(matches!(run(&op, &[&line, &line], &line), Err(Error::AliasedOutput { .. })));
}

#[test]
fn empty_arrays_have_empty_results() {
    let cpu = cpu();
    for dims in [&[0, 3][..], &[3, 0], &[0]] {
        let x = zeros(&cpu, DType::F32, dims);
        assert_eq!(layer_norm(&x, None, None, 1e-5).unwrap().elements(), 0);
        assert_eq!(rms_norm_gradient(&x, &x, None, 1e-5).unwrap().elements(), 0);
        // Over no rows, sums are zero.
        let sums = layer_norm_weight_gradient(&x, &x, 1e-5).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(sums, vec![0.0; *dims.last().unwrap()]);
    }
}

#[test]
fn small_rows_by_hand() {
    let cpu = cpu();
    let x = Array::from_slice(&cpu, &[2, 2], &[1.0f64, 3.0, -2.0, -2.0]).unwrap();
    let weight = Array::from_slice(&cpu, &[2], &[2.0f64, 10.0]).unwrap();
    let bias = Array::from_slice(&cpu, &[2], &[0.5f64, 0.0]).unwrap();
    let y = layer_norm(&x, Some(&weight), Some(&bias), 3.0).unwrap();
    assert_eq!(y.to_vec::<f64>().unwrap(), [-0.5, 5.0, 0.5, 0.0]);
    let y = rms_norm(&x, None, None, 4.0).unwrap();
    let (third, root) = (1.0 / 3.0, 0.5f64.sqrt());
    for (found, expected) in y.to_vec::<f64>().unwrap().iter().zip([third, 1.0, -root, -root]) {
        assert!((found - expected).abs() < 1e-15);
    }
    // Both rows of g count; the second row of x has no deviation.
    let g = Array::from_slice(&cpu, &[2, 2], &[1.0f64, 2.0, 3.0, 4.0]).unwrap();
    let dw = layer_norm_weight_gradient(&x, &g, 3.0).unwrap();
    assert_eq!(dw.to_vec::<f64>().unwrap(), [-0.5, 1.0]);
}
