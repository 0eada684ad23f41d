//! Mistakes are clear errors, and small results are correct.

use polaris_core::Error as CoreError;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).unwrap().cpu().clone()
}

fn ramp(device: &DeviceRef, dims: &[usize]) -> Array {
    let elements: usize = dims.iter().product();
    let values: Vec<f32> = (0..elements).map(|i| (i * 37 % 101) as f32 / 25.0 - 2.0).collect();
    Array::from_slice(device, dims, &values).unwrap()
}

fn values(array: &Array) -> Vec<f32> {
    array.to_vec::<f32>().unwrap()
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let cpu = device(1);
    let x = ramp(&cpu, &[2, 3, 4]);
    let (mean, variance) = batch_statistics(&x).unwrap();
    let wrong = ramp(&cpu, &[4]);
    let wide = Array::from_slice(&cpu, &[3], &[1.0f64; 3]).unwrap();
    let core = |result: Result<Array>| match result.unwrap_err() {
        Error::Core(error) => error,
        other => panic!("{other}"),
    };
    assert!(matches!(batch_statistics(&wrong), Err(Error::InvalidParameter { .. })));
    let integers = Array::from_slice(&cpu, &[2, 3], &[1i32; 6]).unwrap();
    let result = batch_statistics(&integers);
    assert!(matches!(result, Err(Error::Core(CoreError::UnsupportedDType { .. }))));
    let norm = |mean, weight| batch_norm(&x, mean, &variance, weight, None, 1e-5);
    assert!(matches!(core(norm(&wrong, None)), CoreError::ShapeMismatch { .. }));
    assert!(matches!(core(norm(&mean, Some(&wrong))), CoreError::ShapeMismatch { .. }));
    assert!(matches!(core(norm(&wide, None)), CoreError::DTypeMismatch { .. }));
    for epsilon in [-1e-5, f64::NAN, f64::INFINITY] {
        let result = batch_norm(&x, &mean, &variance, None, None, epsilon);
        assert!(matches!(result, Err(Error::InvalidParameter { .. })), "{result:?}");
    }
    let turned = ramp(&cpu, &[3, 2, 4]);
    let result = batch_norm_gradient(&x, &turned, &mean, &variance, None, None, 1e-5);
    assert!(matches!(core(result), CoreError::ShapeMismatch { .. }));
    let op = BatchNorm { epsilon: 0.1, has_weight: false, has_bias: false };
    let arity = run(&op, &[&x, &mean], &x);
    assert!(matches!(arity, Err(Error::WrongArity { expected: 3, found: 2, .. })));
    for groups in [0, 2, 4] {
        let result = group_norm(&x, groups, None, None, 1e-5);
        assert!(matches!(result, Err(Error::InvalidParameter { .. })), "{result:?}");
    }
    assert!(matches!(
        core(group_norm(&x, 3, Some(&wrong), None, 0.1)),
        CoreError::ShapeMismatch { .. }
    ));
}

#[test]
fn small_channels_by_hand() {
    let cpu = device(1);
    let x =
        Array::from_slice(&cpu, &[2, 2, 2], &[1.0f64, 3.0, 5.0, 5.0, 5.0, 7.0, 5.0, 5.0]).unwrap();
    let (mean, variance) = batch_statistics(&x).unwrap();
    assert_eq!(mean.to_vec::<f64>().unwrap(), [4.0, 5.0]);
    assert_eq!(variance.to_vec::<f64>().unwrap(), [5.0, 0.0]);
    let weight = Array::from_slice(&cpu, &[2], &[3.0f64, 1.0]).unwrap();
    let bias = Array::from_slice(&cpu, &[2], &[0.0f64, 0.5]).unwrap();
    let y = batch_norm(&x, &mean, &variance, Some(&weight), Some(&bias), 4.0).unwrap();
    assert_eq!(y.to_vec::<f64>().unwrap(), [-3.0, -1.0, 0.5, 0.5, 1.0, 3.0, 0.5, 0.5]);
    let g =
        Array::from_slice(&cpu, &[2, 2, 2], &[1.0f64, 0.0, 1.0, 2.0, 0.0, 3.0, 3.0, 4.0]).unwrap();
    let (of_weight, of_bias) = batch_norm_weight_gradient(&x, &g, &mean, &variance, 4.0).unwrap();
    assert_eq!(of_weight.to_vec::<f64>().unwrap(), [2.0, 0.0]);
    assert_eq!(of_bias.to_vec::<f64>().unwrap(), [4.0, 10.0]);
    // In evaluation, statistics do not depend on x.
    let dx = batch_norm_gradient(&x, &g, &mean, &variance, Some(&weight), None, 4.0).unwrap();
    assert_eq!(dx.to_vec::<f64>().unwrap(), [1.0, 0.0, 0.5, 1.0, 0.0, 3.0, 1.5, 2.0]);
    let sums = Some((&of_weight, &of_bias));
    let dx = batch_norm_gradient(&x, &g, &mean, &variance, None, sums, 4.0).unwrap();
    let found = dx.to_vec::<f64>().unwrap();
    let expected = [1.0 - 1.0 + 0.5, 0.0 - 1.0 + 1.0 / 6.0].map(|inner| inner / 3.0);
    assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-15));
}

/// Numbers far from zero have no digits left for squares; few and many samples, dense and with
/// channels side by side.
#[test]
fn statistics_far_from_zero_keep_their_accuracy() {
    let cpu = device(2);
    for dims in [&[3, 5, 20_001][..], &[70, 4, 9], &[5000, 16], &[3000, 2000], &[1, 1, 7]] {
        let shape = Shape::new(dims).unwrap();
        let spread = |i: usize| ((i * 7919 + 13) % 10_007) as f64 / 10_007.0;
        let values: Vec<f32> = (0..shape.elements()).map(|i| (1e4 + spread(i)) as f32).collect();
        let wide: Vec<f64> = values.iter().map(|&value| value.into()).collect();
        let x = Array::from_slice(&cpu, dims, &values).unwrap();
        let expected = reference::statistics(&wide, &shape);
        let (mean, variance) = batch_statistics(&x).unwrap();
        let found = [mean, variance].map(|array| array.to_vec::<f32>().unwrap()).concat();
        for (i, (&found, expected)) in found.iter().zip(expected).enumerate() {
            let allowed = if i < dims[1] { 1e-3 } else { 1e-5 * expected + 1e-12 };
            assert!((f64::from(found) - expected).abs() <= allowed, "{found} for {expected}");
        }
    }
}

#[test]
fn special_values() {
    let cpu = device(1);
    let inf = f32::INFINITY;
    for (dims, turned) in [(&[4, 1][..], false), (&[4, 8], true)] {
        let row = [1.0, inf, 2.0, inf];
        let x: Vec<f32> =
            row.iter().flat_map(|&value| vec![value; if turned { 8 } else { 1 }]).collect();
        let (mean, variance) =
            batch_statistics(&Array::from_slice(&cpu, dims, &x).unwrap()).unwrap();
        assert!(values(&mean).iter().all(|&mean| mean == inf));
        assert!(values(&variance).iter().all(|variance| variance.is_nan()));
    }
    let none = ramp(&cpu, &[0, 3, 4]);
    let (mean, variance) = batch_statistics(&none).unwrap();
    assert!(values(&mean).iter().chain(&values(&variance)).all(|value| value.is_nan()));
    assert_eq!(batch_norm(&none, &mean, &variance, None, None, 1e-5).unwrap().elements(), 0);
    let sums = batch_norm_weight_gradient(&none, &none, &mean, &variance, 1e-5).unwrap();
    assert_eq!(values(&sums.1), [0.0; 3]);
    let (mean, _) = batch_statistics(&ramp(&cpu, &[2, 0])).unwrap();
    assert_eq!(mean.elements(), 0);
}

/// Groups of all channels of a sample are rows of a layer normalisation.
#[test]
fn groups_by_their_definition() {
    let cpu = device(1);
    let dims = [2, 6, 3, 5];
    let (x, g) = (ramp(&cpu, &dims), ramp(&cpu, &[6, 2, 3, 5]).permute(&[1, 0, 2, 3]).unwrap());
    let (weight, bias) = (ramp(&cpu, &[6]), ramp(&cpu, &[12]).slice(0, 0..12, 2).unwrap());
    let [wide_x, wide_g, w, b] = [&x, &g, &weight, &bias]
        .map(|array| values(array).into_iter().map(f64::from).collect::<Vec<f64>>());
    for groups in [1, 2, 3, 6] {
        let length = 90 / groups;
        let channel = |at: usize| at / 15 % 6;
        let near = |found: &Array, expected: &[f64]| {
            let found = values(found);
            assert_eq!(found.len(), expected.len());
            for (&found, expected) in found.iter().zip(expected) {
                assert!((f64::from(found) - expected).abs() < 2e-5, "{found} for {expected}");
            }
        };
        let normal = crate::norm::reference_rows(&wide_x, length, 1e-3);
        let y = group_norm(&x, groups, Some(&weight), Some(&bias), 1e-3).unwrap();
        let affine = |(at, n): (usize, &f64)| n * w[channel(at)] + b[channel(at)];
        near(&y, &normal.iter().enumerate().map(affine).collect::<Vec<f64>>());
        let inner: Vec<f64> = wide_g.iter().enumerate().map(|(at, g)| g * w[channel(at)]).collect();
        let expected = crate::norm::reference_gradient(&wide_x, &inner, length, 1e-3);
        near(&group_norm_gradient(&x, &g, groups, Some(&weight), 1e-3).unwrap(), &expected);
        let (of_weight, of_bias) = group_norm_weight_gradient(&x, &g, groups, 1e-3).unwrap();
        let mut sums = [vec![0.0; 6], vec![0.0; 6]];
        for at in 0..wide_g.len() {
            sums[0][channel(at)] += wide_g[at] * normal[at];
            sums[1][channel(at)] += wide_g[at];
        }
        near(&of_weight, &sums[0]);
        near(&of_bias, &sums[1]);
    }
    let instance = instance_norm(&x, None, Some(&bias), 1e-3).unwrap();
    assert_eq!(values(&instance), values(&group_norm(&x, 6, None, Some(&bias), 1e-3).unwrap()));
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let with = |threads: usize| -> Vec<Vec<u32>> {
        let cpu = device(threads);
        let mut results = Vec::new();
        for dims in [&[9, 5, 1003][..], &[2007, 33]] {
            let (x, g) = (ramp(&cpu, dims), ramp(&cpu, dims));
            let (mean, variance) = batch_statistics(&x).unwrap();
            let sums = batch_norm_weight_gradient(&x, &g, &mean, &variance, 1e-5).unwrap();
            let some = Some((&sums.0, &sums.1));
            let dx = batch_norm_gradient(&x, &g, &mean, &variance, None, some, 1e-5).unwrap();
            let y = batch_norm(&x, &mean, &variance, None, None, 1e-5).unwrap();
            // In place.
            let op = BatchNorm { epsilon: 1e-5, has_weight: false, has_bias: false };
            run(&op, &[&x, &mean, &variance], &x).unwrap();
            assert_eq!(values(&x), values(&y));
            results.extend([mean, variance, sums.0, sums.1, dx, y]);
        }
        let bits = |array: &Array| values(array).into_iter().map(f32::to_bits).collect();
        results.iter().map(bits).collect()
    };
    let alone = with(1);
    assert!([2, 3, 8].into_iter().all(|threads| with(threads) == alone));
}
