//! Mistakes are clear errors, and small results are correct.

use polaris_core::Error as CoreError;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;
use crate::Error;

fn cpu(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).unwrap().cpu().clone()
}

fn array(dims: &[usize], values: &[f32]) -> Array {
    Array::from_slice(&cpu(1), dims, values).unwrap()
}

fn ramp(device: &DeviceRef, dims: &[usize]) -> Array {
    let elements: usize = dims.iter().product();
    let values: Vec<f32> = (0..elements).map(|i| (i * 37 % 101) as f32 / 25.0 - 2.0).collect();
    Array::from_slice(device, dims, &values).unwrap()
}

fn values(result: Result<Array>) -> Vec<f32> {
    result.unwrap().to_vec::<f32>().unwrap()
}

fn sliding(kernel: usize, stride: usize, padding: usize, dilation: usize) -> Windows {
    Windows::sliding(&[Window { kernel, stride, padding, dilation }]).unwrap()
}

#[test]
fn windows_that_do_not_fit_are_refused() {
    let x = ramp(&cpu(1), &[2, 3, 5]);
    let huge = usize::MAX;
    for windows in [
        sliding(0, 1, 0, 1),
        sliding(2, 0, 0, 1),
        sliding(2, 1, 0, 0),
        sliding(2, 1, 2, 1),
        sliding(6, 1, 0, 1),
        sliding(3, 1, 0, 3),
        sliding(huge, 1, 0, 1),
        sliding(2, 1, 0, huge),
        sliding(huge, huge, huge / 4, 1).rounded_up(),
    ] {
        let result = max_pool(&x, &windows);
        assert!(matches!(result, Err(Error::InvalidParameter { .. })), "{windows:?}: {result:?}");
    }
    assert!(Windows::sliding(&[]).is_err() && Windows::adaptive(&[1; 3]).is_err());
    // A stride beyond everything is never taken.
    assert_eq!(max_pool(&x, &sliding(5, huge, 0, 1)).unwrap().shape()[..], [2, 3, 1]);
    assert!(average_pool(&x, &sliding(2, 1, 0, 2), true).is_err());
    for dims in [&[5][..], &[1, 2, 3, 5]] {
        assert!(max_pool(&ramp(&cpu(1), dims), &sliding(2, 1, 0, 1)).is_err());
    }
    assert!(max_pool(&ramp(&cpu(1), &[2, 0]), &sliding(2, 1, 1, 1)).is_err());
    assert_eq!(max_pool(&ramp(&cpu(1), &[0, 3, 4]), &sliding(2, 2, 0, 1)).unwrap().elements(), 0);
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let device = cpu(1);
    let x = ramp(&device, &[2, 3, 6]);
    let windows = sliding(2, 2, 0, 1);
    let core = |result: Result<Array>| match result.unwrap_err() {
        Error::Core(error) => error,
        other => panic!("{other}"),
    };
    let integers = Array::from_slice(&device, &[1, 4], &[1i32; 4]).unwrap();
    for result in
        [max_pool(&integers, &windows), max_pool(&integers, &Windows::adaptive(&[1]).unwrap())]
    {
        assert!(matches!(core(result), CoreError::UnsupportedDType { .. }));
    }
    let wrong = ramp(&device, &[2, 3, 4]);
    assert!(matches!(
        core(max_pool_gradient(&x, &wrong, &windows)),
        CoreError::ShapeMismatch { .. }
    ));
    let wide = Array::from_slice(&device, &[2, 3, 3], &[1.0f64; 18]).unwrap();
    assert!(matches!(
        core(max_pool_gradient(&x, &wide, &windows)),
        CoreError::DTypeMismatch { .. }
    ));
    let result = average_pool_gradient(&wrong, x.shape(), &windows, true);
    assert!(matches!(core(result), CoreError::ShapeMismatch { .. }));
    let one = sliding(1, 1, 0, 1);
    let aliased = run(&Pool { pooling: Pooling::Max, windows: one }, &[&x], &x);
    assert!(matches!(aliased, Err(Error::AliasedOutput { .. })));
    let none = run(&PoolGradient { pooling: Pooling::ArgMax, windows }, &[&x, &x], &x);
    assert!(matches!(none, Err(Error::InvalidParameter { .. })));
}

#[test]
fn small_windows_by_hand() {
    let x = array(&[1, 5], &[1.0, 5.0, 2.0, 5.0, 3.0]);
    let padded = sliding(3, 2, 1, 1);
    assert_eq!(values(max_pool(&x, &padded)), [5.0, 5.0, 5.0]);
    assert_eq!(max_pool_indices(&x, &padded).unwrap().to_vec::<i64>().unwrap(), [1, 1, 3]);
    let g = array(&[1, 3], &[1.0, 10.0, 100.0]);
    assert_eq!(values(max_pool_gradient(&x, &g, &padded)), [0.0, 11.0, 0.0, 100.0, 0.0]);
    assert_eq!(values(average_pool(&x, &padded, true)), [2.0, 4.0, 8.0 / 3.0]);
    assert_eq!(values(average_pool(&x, &padded, false)), [3.0, 4.0, 4.0]);
    let shared = average_pool_gradient(&array(&[1, 3], &[3.0, 6.0, 9.0]), x.shape(), &padded, true);
    assert_eq!(values(shared), [1.0, 3.0, 2.0, 5.0, 3.0]);
    // The last window has one element and none of the padding that is not there.
    let up = sliding(2, 2, 0, 1).rounded_up();
    assert_eq!(values(average_pool(&x, &up, true)), [3.0, 3.5, 3.0]);
    // Windows of 0..2, 1..4 and 3..5.
    let adaptive = Windows::adaptive(&[3]).unwrap();
    assert_eq!(values(average_pool(&x, &adaptive, true)), [3.0, 4.0, 4.0]);
    assert_eq!(values(max_pool(&x, &Windows::adaptive(&[1]).unwrap())), [5.0]);
    // Two rows and columns of windows over a plane of 3 x 3.
    let plane: Vec<f32> = (0..9).map(|i| i as f32).collect();
    let two = Windows::sliding(&[Window { stride: 1, ..Window::new(2) }; 2]).unwrap();
    assert_eq!(values(max_pool(&array(&[1, 3, 3], &plane), &two)), [4.0, 5.0, 7.0, 8.0]);
}

#[test]
fn special_values() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let x = array(&[1, 8], &[-inf, -inf, 1.0, nan, nan, inf, -inf, 3.0]);
    let windows = sliding(2, 2, 0, 1);
    let found = values(max_pool(&x, &windows));
    assert!(found[0] == -inf && found[1].is_nan() && found[2].is_nan() && found[3] == 3.0);
    assert_eq!(max_pool_indices(&x, &windows).unwrap().to_vec::<i64>().unwrap(), [0, 3, 4, 7]);
    // Behind padding, the first element is still the first.
    let low = array(&[1, 3], &[-inf; 3]);
    let padded = sliding(3, 3, 1, 1).rounded_up();
    assert_eq!(max_pool_indices(&low, &padded).unwrap().to_vec::<i64>().unwrap(), [0, 2]);
    // A window that steps over the only element.
    let one = array(&[1, 1], &[2.0]);
    let stepping = sliding(2, 1, 1, 2);
    assert_eq!(values(max_pool(&one, &stepping)), [-inf]);
    assert_eq!(values(max_pool_gradient(&one, &array(&[1, 1], &[9.0]), &stepping)), [0.0]);
    // A kernel larger than everything, which rounding up allows.
    let large = sliding(1 << 40, 1 << 40, 0, 1).rounded_up();
    assert_eq!(values(max_pool(&array(&[1, 3], &[1.0, 7.0, 2.0]), &large)), [7.0]);
    assert_eq!(values(average_pool(&array(&[1, 3], &[1.0, 7.0, 1.0]), &large, true)), [3.0]);
}

#[test]
fn gradients_without_windows_are_zero() {
    let x = ramp(&cpu(1), &[2, 3, 4]);
    let none = Windows::adaptive(&[0, 0]).unwrap();
    let g = max_pool(&x, &none).unwrap();
    assert_eq!(g.shape()[..], [2, 0, 0]);
    assert_eq!(values(max_pool_gradient(&x, &g, &none)), [0.0; 24]);
    assert_eq!(values(average_pool_gradient(&g, x.shape(), &none, true)), [0.0; 24]);
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let window = Window { kernel: 3, stride: 2, padding: 1, dilation: 1 };
    let windows = Windows::sliding(&[window; 2]).unwrap();
    let with = |threads: usize| -> Vec<Vec<u32>> {
        let device = cpu(threads);
        let x = ramp(&device, &[2, 3, 217, 191]);
        let y = max_pool(&x, &windows).unwrap();
        let results = [
            max_pool_gradient(&x, &y, &windows),
            average_pool(&x, &windows, false),
            average_pool_gradient(&y, x.shape(), &windows, true),
        ];
        let bits =
            |array: Array| array.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
        results.into_iter().map(|result| bits(result.unwrap())).collect()
    };
    let alone = with(1);
    assert!([2, 3, 8].into_iter().all(|threads| with(threads) == alone));
}

#[test]
fn adjacent_channels_change_nothing_but_the_time() {
    let device = cpu(2);
    let mut values: Vec<f32> = (0..2 * 5 * 9 * 7).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
    values[100] = f32::NAN;
    let x = Array::from_slice(&device, &[2, 9, 7, 5], &values).unwrap();
    let x = x.permute(&[0, 3, 1, 2]).unwrap();
    let dense = Array::empty(&device, DType::F32, *x.shape()).unwrap();
    run(&crate::copy::Copy, &[&x], &dense).unwrap();
    let window = |kernel, stride, padding, dilation| Window { kernel, stride, padding, dilation };
    for (rows, columns, pooling) in [
        (window(3, 2, 1, 1), window(3, 2, 1, 1), Pooling::Max),
        (window(2, 1, 0, 2), window(3, 1, 1, 2), Pooling::Max),
        (window(3, 1, 1, 1), window(2, 2, 0, 1), Pooling::Average { count_padding: true }),
        (window(3, 2, 1, 1), window(3, 1, 1, 1), Pooling::Average { count_padding: false }),
        (window(2, 2, 0, 1), window(2, 2, 0, 1), Pooling::ArgMax),
    ] {
        let windows = Windows::sliding(&[rows, columns]).unwrap();
        let expected = pool(pooling, &dense, &windows).unwrap();
        let shape = *expected.shape();
        let turned = Shape::new(&[shape[0], shape[2], shape[3], shape[1]]).unwrap();
        let output = Array::empty(&device, expected.dtype(), turned).unwrap();
        let output = output.permute(&[0, 3, 1, 2]).unwrap();
        run(&Pool { pooling, windows }, &[&x], &output).unwrap();
        if pooling == Pooling::ArgMax {
            assert_eq!(output.to_vec::<i64>().unwrap(), expected.to_vec::<i64>().unwrap());
            continue;
        }
        let close = |a: f32, b: f32| (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-5;
        let (found, expected) =
            (output.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
        let same = found.iter().zip(&expected).all(|(&a, &b)| close(a, b));
        assert!(same, "{pooling:?}: {found:?} instead of {expected:?}");
    }
}
