//! Mistakes, special values, and what the suites of all devices do not show.

use polaris_core::{DType, Error as CoreError, Layout, Shape};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).expect("the CPU should be there").cpu().clone()
}

fn ramp(device: &DeviceRef, dims: &[usize]) -> Array {
    let elements: usize = dims.iter().product();
    let values: Vec<f32> = (0..elements).map(|i| (i * 37 % 101) as f32 / 25.0 - 2.0).collect();
    Array::from_slice(device, dims, &values).unwrap()
}

fn bits(array: &Array) -> Vec<u32> {
    array.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// The only row of softmax and log-softmax.
fn row(values: &[f32]) -> [Vec<f32>; 2] {
    let x = Array::from_slice(&device(1), &[values.len()], values).unwrap();
    [softmax(&x, 0), log_softmax(&x, 0)].map(|y| y.unwrap().to_vec::<f32>().unwrap())
}

#[test]
fn an_axis_that_does_not_exist_is_refused() {
    let cpu = device(1);
    let x = ramp(&cpu, &[2, 3]);
    let scalar = Array::from_slice(&cpu, &[], &[1.0f32]).unwrap();
    for (result, found, rank) in [
        (softmax(&x, 2), 2, 2),
        (log_softmax(&x, 9), 9, 2),
        (softmax_gradient(&x, &x, 2), 2, 2),
        (log_softmax_gradient(&x, &x, usize::MAX), usize::MAX, 2),
        (softmax(&scalar, 1), 1, 0),
    ] {
        let error = result.unwrap_err();
        let Error::Core(CoreError::AxisOutOfRange { axis, rank: of, .. }) = error else {
            panic!("{error}");
        };
        assert_eq!((axis, of), (isize::try_from(found).unwrap_or(isize::MAX), rank));
    }
}

#[test]
fn other_shapes_types_and_numbers_of_arrays_are_refused() {
    let cpu = device(1);
    let x = ramp(&cpu, &[2, 3]);
    let turned = ramp(&cpu, &[3, 2]);
    let integers = Array::from_slice(&cpu, &[2, 3], &[1i32; 6]).unwrap();
    let wide = Array::from_slice(&cpu, &[2, 3], &[1.0f64; 6]).unwrap();
    let core = |result: Result<Array>| match result.unwrap_err() {
        Error::Core(error) => error,
        other => panic!("{other}"),
    };
    assert!(matches!(core(softmax(&integers, 0)), CoreError::UnsupportedDType { .. }));
    assert!(matches!(core(softmax_gradient(&turned, &x, 0)), CoreError::ShapeMismatch { .. }));
    assert!(matches!(core(softmax_gradient(&wide, &x, 0)), CoreError::DTypeMismatch { .. }));
    assert!(matches!(core(softmax_gradient(&integers, &x, 0)), CoreError::UnsupportedDType { .. }));
    let forward = Softmax { axis: 0, log: false };
    let arity = run(&forward, &[&x, &x], &x).unwrap_err();
    assert!(matches!(arity, Error::WrongArity { expected: 1, found: 2, .. }), "{arity}");
    let gradient = SoftmaxGradient { axis: 0, log: true };
    let arity = run(&gradient, &[&x], &x).unwrap_err();
    assert!(matches!(arity, Error::WrongArity { expected: 2, found: 1, .. }), "{arity}");
}

#[test]
fn an_output_may_be_an_input_but_not_overlap_it() {
    let cpu = device(2);
    for (axis, log, dims) in [
        (0, false, [40, 50]),
        (0, true, [40, 50]),
        (1, false, [40, 50]),
        (1, true, [40, 50]),
        (1, false, [1, 40_000]),
    ] {
        let op = Softmax { axis, log };
        let x = ramp(&cpu, &dims);
        let expected = bits(&like(&x, &op, &[&x]).unwrap());
        run(&op, &[&x], &x).unwrap();
        assert_eq!(bits(&x), expected, "{op:?}");
        // The gradient into either input.
        let op = SoftmaxGradient { axis, log };
        for into in 0..2 {
            let inputs = [x.clone(), ramp(&cpu, &dims)];
            let [y, g] = &inputs;
            let expected = bits(&like(g, &op, &[y, g]).unwrap());
            let target = Array::empty(&cpu, DType::F32, *x.shape()).unwrap();
            crate::copy::into(&inputs[into], &target).unwrap();
            let inputs = if into == 0 { [&target, g] } else { [y, &target] };
            run(&op, &inputs, &target).unwrap();
            assert_eq!(bits(&target), expected, "{op:?} into {into}");
        }
    }
    let x = ramp(&cpu, &[10, 4]);
    let shifted = x.slice(0, 1..10, 1).unwrap();
    let result = run(&Softmax { axis: 1, log: false }, &[&x.slice(0, 0..9, 1).unwrap()], &shifted);
    assert!(matches!(result.unwrap_err(), Error::AliasedOutput { .. }));
    let repeated = Layout::new(Shape::new(&[2, 4]).unwrap(), &[0, 1], 0).unwrap();
    let repeated = Array::new(ramp(&cpu, &[4]).buffer().clone(), repeated).unwrap();
    let result = run(&Softmax { axis: 1, log: false }, &[&ramp(&cpu, &[2, 4])], &repeated);
    let overlap = matches!(result, Err(Error::Core(CoreError::OverlappingOutput { .. })));
    assert!(overlap);
}

#[test]
fn special_values_are_those_of_the_definition() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    for values in [&[1.0, inf][..], &[-inf, -inf], &[nan, 1.0], &[inf], &[-inf], &[inf, nan, -inf]]
    {
        let all = row(values).concat();
        assert!(all.iter().all(|value| value.is_nan()), "{values:?}: {all:?}");
    }
    assert_eq!(row(&[-inf, 3.0]), [vec![0.0, 1.0], vec![-inf, 0.0]]);
    assert_eq!(row(&[1e38, 1e38]), [vec![0.5; 2], vec![-std::f32::consts::LN_2; 2]]);
    assert_eq!(row(&[7.0]), [vec![1.0], vec![0.0]]);
    assert!(row(&[]).concat().is_empty());
    // A single value is a row of its own.
    let scalar = Array::from_slice(&device(1), &[], &[3.0f32]).unwrap();
    let results = [
        softmax(&scalar, 0),
        log_softmax(&scalar, 0),
        softmax_gradient(&scalar, &scalar, 0),
        log_softmax_gradient(&scalar, &scalar, 0),
    ]
    .map(|y| y.unwrap().to_vec::<f32>().unwrap()[0]);
    assert_eq!(results[..3], [1.0, 0.0, -18.0]);
    assert!((results[3] - 3.0 * (1.0 - 3.0f32.exp())).abs() < 1e-4);
    // What had no share in the sum has no part in its gradient.
    let cpu = device(1);
    let y = Array::from_slice(&cpu, &[2], &[-inf, 0.0]).unwrap();
    let g = Array::from_slice(&cpu, &[2], &[2.0f32, 5.0]).unwrap();
    assert_eq!(log_softmax_gradient(&y, &g, 0).unwrap().to_vec::<f32>().unwrap(), [2.0, -2.0]);
    let y = Array::from_slice(&cpu, &[2], &[0.0f32, 1.0]).unwrap();
    assert_eq!(softmax_gradient(&y, &g, 0).unwrap().to_vec::<f32>().unwrap(), [0.0, 0.0]);
}

#[test]
fn empty_arrays_have_empty_results() {
    let cpu = device(1);
    for dims in [&[0][..], &[3, 0], &[0, 3], &[2, 0, 5]] {
        let x = ramp(&cpu, dims);
        for axis in 0..dims.len() {
            assert_eq!(softmax(&x, axis).unwrap().shape(), x.shape());
            assert_eq!(log_softmax_gradient(&x, &x, axis).unwrap().elements(), 0);
        }
    }
}

/// Along every axis, dense and side by side, with rows that are shared out unevenly.
#[test]
fn the_number_of_threads_does_not_matter() {
    let with = |threads: usize| -> Vec<Vec<u32>> {
        let cpu = device(threads);
        // The second one is a row that is shared out.
        let arrays = [ramp(&cpu, &[7, 301, 65]), ramp(&cpu, &[1, 100_003])];
        [(0, 0), (0, 1), (0, 2), (1, 1)]
            .into_iter()
            .flat_map(|(array, axis)| {
                let x = &arrays[array];
                let y = log_softmax(x, axis).unwrap();
                let dx = log_softmax_gradient(&y, x, axis).unwrap();
                let p = softmax(x, axis).unwrap();
                let dp = softmax_gradient(&p, x, axis).unwrap();
                [y, dx, p, dp]
            })
            .map(|array| bits(&array))
            .collect()
    };
    let alone = with(1);
    assert!([2, 3, 8].into_iter().all(|threads| with(threads) == alone));
}

/// Large enough to be written past the caches, with rows on and off the borders of cache lines.
#[test]
fn large_results_are_right_too() {
    let cpu = device(2);
    for columns in [1024, 1000, 1001] {
        let x = ramp(&cpu, &[(36 << 20) / 4 / columns + 1, columns]);
        let y = softmax(&x, 1).unwrap().to_vec::<f32>().unwrap();
        for row in y.chunks(columns) {
            let sum: f64 = row.iter().map(|&value| f64::from(value)).sum();
            assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        }
    }
}
