//! Normalisation of rows of every length that a kernel treats differently, far from zero, in place,
//! and with any number of threads.

use polaris_core::{DType, Shape};
use polaris_ops::FAMILIES;
use polaris_ops::norm::{
    Norm, NormGradient, NormKind, NormWeightGradient, layer_norm, layer_norm_gradient,
    layer_norm_weight_gradient, rms_norm,
};
use polaris_ops::suite::CaseParameters;
use polaris_ops::{Array, Distribution, Operation, random, run, run_kernel, usable_kernels};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};
use polaris_testkit::devices_under_test;

#[test]
fn every_kernel_normalises_rows_of_any_length() {
    let suite = FAMILIES.iter().find(|suite| suite.name == "norm").unwrap();
    // Short, kept by a small group, kept by a large one, read again; in fours and one by one.
    let shapes: [&[usize]; 9] = [
        &[70, 16],
        &[3, 17],
        &[4, 768],
        &[3, 257],
        &[2, 1023],
        &[2, 2048],
        &[2, 4100],
        &[1, 9001],
        &[0, 5],
    ];
    for shape in shapes {
        for variant in (0..(suite.variants)()).filter(|&variant| (suite.is_essential)(variant)) {
            let parameters = CaseParameters::dense(shape, 0, 12 + (variant % 6) as u64);
            let case = (suite.case)(variant, &parameters);
            for device in devices_under_test() {
                for finding in case.run_all_kernels(device) {
                    assert!(finding.outcome.is_ok(), "{}: {finding:?}", device.id());
                }
            }
        }
    }
}

/// Results of every kernel of a device, and of the choice among them.
fn results<O: Operation>(op: &O, inputs: &[&Array], output: &Array) -> Vec<Vec<f32>> {
    run(op, inputs, output).unwrap();
    let mut all = vec![output.to_vec::<f32>().unwrap()];
    for kernel in usable_kernels(op, inputs, output) {
        run_kernel(op, kernel, inputs, output).unwrap();
        all.push(output.to_vec::<f32>().unwrap());
    }
    all
}

fn largest_error(found: &[f32], expected: &[f64]) -> f64 {
    let errors = found.iter().zip(expected).map(|(&found, expected)| f64::from(found) - expected);
    errors.fold(0.0, |most, error| if error.abs() > most { error.abs() } else { most })
}

/// Squares of numbers around 10,000 have no digits left for a variance of 1, and the rounding of the
/// mean alone would be an error of a few ten-thousandths.
#[test]
fn rows_far_from_zero_keep_their_accuracy() {
    for length in [64, 768, 1001, 5000] {
        let spread = |i: usize| ((i * 7919 + 13) % 10_007) as f64 / 10_007.0 * 3.4 - 1.7;
        let values: Vec<f32> = (0..3 * length).map(|i| (1e4 + spread(i)) as f32).collect();
        let g: Vec<f32> = (0..3 * length).map(|i| spread(3 * i + 1) as f32).collect();
        let wide = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
        let references = [wide(&values), wide(&g)];
        for device in devices_under_test() {
            let x = Array::from_slice(device, &[3, length], &values).unwrap();
            let g = Array::from_slice(device, &[3, length], &g).unwrap();
            let output = Array::empty(device, DType::F32, *x.shape()).unwrap();
            let columns = Shape::new(&[length]).unwrap();
            let columns = Array::empty(device, DType::F32, columns).unwrap();
            let (kind, epsilon) = (NormKind::Layer, 1e-5);
            let norm = Norm { kind, epsilon, has_weight: false, has_bias: false };
            let gradient = NormGradient { kind, epsilon, has_weight: false };
            let weight = NormWeightGradient { kind, epsilon };
            let inputs = [&x, &g];
            let checks = [
                (results(&norm, &[&x], &output), norm.reference(&references[..1], &[&x], &output)),
                (
                    results(&gradient, &inputs, &output),
                    gradient.reference(&references, &inputs, &output),
                ),
                (
                    results(&weight, &inputs, &columns),
                    weight.reference(&references, &inputs, &columns),
                ),
            ];
            for (found, expected) in &checks {
                for found in found {
                    let error = largest_error(found, expected);
                    assert!(error < 2e-5, "{}: {length} elements: {error:e}", device.id());
                }
            }
        }
    }
}

#[test]
fn the_output_may_be_the_input() {
    for device in devices_under_test() {
        for length in [5, 300, 768, 5000] {
            let draw = |seed| normal(device, &[3, length], seed);
            let (x, g) = (draw(1), draw(2));
            let op =
                Norm { kind: NormKind::Layer, epsilon: 1e-5, has_weight: false, has_bias: false };
            let expected = layer_norm(&x, None, None, 1e-5).unwrap().to_vec::<f32>().unwrap();
            let place = draw(1);
            run(&op, &[&place], &place).unwrap();
            assert_eq!(place.to_vec::<f32>().unwrap(), expected, "{}", device.id());
            let op = NormGradient { kind: NormKind::Layer, epsilon: 1e-5, has_weight: false };
            let expected = layer_norm_gradient(&x, &g, None, 1e-5).unwrap();
            let expected = expected.to_vec::<f32>().unwrap();
            let place = draw(2);
            run(&op, &[&x, &place], &place).unwrap();
            assert_eq!(place.to_vec::<f32>().unwrap(), expected, "{}", device.id());
        }
    }
}

/// A row that is repeated, along either axis, is a row like any other.
#[test]
fn repeated_elements_are_normalised() {
    for device in devices_under_test() {
        let shape = Shape::new(&[4, 3]).unwrap();
        let row = Array::from_slice(device, &[3], &[1.0f32, 2.0, 3.0]).unwrap();
        let found = layer_norm(&row.broadcast_to(&shape).unwrap(), None, None, 0.0).unwrap();
        let root = 1.5f64.sqrt();
        let expected = [-root, 0.0, root].repeat(4);
        assert!(largest_error(&found.to_vec::<f32>().unwrap(), &expected) < 1e-6);
        let column = Array::from_slice(device, &[4, 1], &[1.0f32, -2.0, 3.0, -4.0]).unwrap();
        let found = rms_norm(&column.broadcast_to(&shape).unwrap(), None, None, 0.0).unwrap();
        let expected = [1.0, -1.0, 1.0, -1.0].map(|sign| [sign; 3]).concat();
        assert!(largest_error(&found.to_vec::<f32>().unwrap(), &expected) < 1e-6);
    }
}

#[test]
fn a_nan_in_the_gradient_spoils_its_row_or_column_alone() {
    for device in devices_under_test() {
        let x = normal(device, &[4, 40], 1);
        let mut values = vec![1.0f32; 160];
        values[45] = f32::NAN;
        let g = Array::from_slice(device, &[4, 40], &values).unwrap();
        let dx = layer_norm_gradient(&x, &g, None, 1e-5).unwrap().to_vec::<f32>().unwrap();
        assert!((0..160).all(|i| dx[i].is_nan() == (i / 40 == 1)), "{}", device.id());
        let dw = layer_norm_weight_gradient(&x, &g, 1e-5).unwrap().to_vec::<f32>().unwrap();
        assert!((0..40).all(|i| dw[i].is_nan() == (i == 5)), "{}", device.id());
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let with_threads = |threads| -> Vec<Vec<u32>> {
        let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
        let runtime = Runtime::discover(&options).unwrap();
        let bits = |array: Array| -> Vec<u32> {
            array.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
        };
        let (x, g) =
            (normal(runtime.cpu(), &[1003, 257], 1), normal(runtime.cpu(), &[1003, 257], 2));
        vec![
            bits(layer_norm(&x, None, None, 1e-5).unwrap()),
            bits(layer_norm_gradient(&x, &g, None, 1e-5).unwrap()),
            bits(layer_norm_weight_gradient(&x, &g, 1e-5).unwrap()),
        ]
    };
    assert_eq!(with_threads(1), with_threads(3));
}

fn normal(device: &DeviceRef, shape: &[usize], seed: u64) -> Array {
    let distribution = Distribution::Normal { mean: 0.5, deviation: 2.0 };
    random::random(device, DType::F32, Shape::new(shape).unwrap(), distribution, seed).unwrap()
}
