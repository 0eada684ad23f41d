//! Mistakes, shapes, and what the suites of all devices do not show.

use polaris_core::{Error as CoreError, Layout, Shape};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;
use crate::Error;

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).expect("the CPU should be there").cpu().clone()
}

fn ramp(device: &DeviceRef, dims: &[usize]) -> Array {
    let elements: usize = dims.iter().product();
    let values: Vec<f32> = (0..elements).map(|i| (i * 37 % 101) as f32 / 25.0 - 2.0).collect();
    Array::from_slice(device, dims, &values).unwrap()
}

fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap()
}

fn bits(array: &Array) -> Vec<u32> {
    array.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn plain() -> Convolution {
    Convolution::default()
}

#[test]
fn shapes_are_those_of_the_definition() {
    let cpu = device(1);
    let problem = Convolution { stride: [2, 3], padding: [1, 0], dilation: [1, 2], groups: 2 };
    let (x, weight) = (ramp(&cpu, &[3, 4, 9, 11]), ramp(&cpu, &[6, 2, 3, 2]));
    let y = convolution(&x, &weight, None, &problem).unwrap();
    assert_eq!(y.shape().dims(), [3, 6, 5, 3]);
    let dx = convolution_input_gradient(&y, &weight, x.shape(), &problem).unwrap();
    assert_eq!(dx.shape(), x.shape());
    let dw = convolution_weight_gradient(&x, &y, weight.shape(), &problem).unwrap();
    assert_eq!(dw.shape(), weight.shape());
    let back = transposed_convolution(&y, &weight, None, [0, 2], &problem).unwrap();
    assert_eq!(back.shape().dims(), [3, 4, 9, 11]);
    assert_eq!(bits(&back), bits(&dx));
    // One axis.
    let problem = Convolution::along_one_axis(2, 1, 1, 1);
    let y = convolution(&ramp(&cpu, &[2, 3, 8]), &ramp(&cpu, &[5, 3, 3]), None, &problem).unwrap();
    assert_eq!(y.shape().dims(), [2, 5, 4]);
}

#[test]
fn small_examples_are_right() {
    let cpu = device(1);
    let x = Array::from_slice(&cpu, &[1, 1, 4], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let weight = Array::from_slice(&cpu, &[1, 1, 2], &[10.0f32, 1.0]).unwrap();
    let bias = Array::from_slice(&cpu, &[1], &[0.5f32]).unwrap();
    let problem = Convolution::along_one_axis(1, 1, 1, 1);
    let y = convolution(&x, &weight, Some(&bias), &problem).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [1.5, 12.5, 23.5, 34.5, 40.5]);
    let problem = Convolution::along_one_axis(2, 0, 1, 1);
    let y = transposed_convolution(&x, &weight, Some(&bias), [0, 1], &problem).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [10.5, 1.5, 20.5, 2.5, 30.5, 3.5, 40.5, 4.5, 0.5]);
}

#[test]
fn parameters_out_of_range_are_refused() {
    let cpu = device(1);
    let (x, weight) = (ramp(&cpu, &[1, 2, 5, 5]), ramp(&cpu, &[2, 2, 3, 3]));
    let huge = usize::MAX / 2;
    for problem in [
        Convolution { stride: [0, 1], ..plain() },
        Convolution { dilation: [1, 0], ..plain() },
        Convolution { dilation: [3, 1], ..plain() },
        Convolution { dilation: [huge, 1], ..plain() },
        Convolution { padding: [huge, 1], ..plain() },
        Convolution { padding: [usize::MAX, 1], ..plain() },
        Convolution { stride: [usize::MAX, 1], ..plain() },
        Convolution { groups: 0, ..plain() },
        Convolution { groups: 3, ..plain() },
    ] {
        let error = convolution(&x, &weight, None, &problem).unwrap_err();
        assert!(matches!(error, Error::InvalidParameter { .. }), "{problem:?}: {error}");
        let error = convolution_input_gradient(&x, &weight, x.shape(), &problem).unwrap_err();
        assert!(matches!(error, Error::InvalidParameter { .. }), "{problem:?}: {error}");
    }
    let large = ramp(&cpu, &[2, 2, 6, 1]);
    let error = convolution(&x, &large, None, &plain()).unwrap_err();
    assert!(error.to_string().contains("larger than the padded image"), "{error}");
    let error = transposed_convolution(&x, &weight, None, [0, 1], &plain()).unwrap_err();
    assert!(error.to_string().contains("output padding"), "{error}");
    let problem = Convolution { padding: [1, 0], ..plain() };
    let error = convolution(&ramp(&cpu, &[1, 2, 5]), &ramp(&cpu, &[2, 2, 3]), None, &problem);
    assert!(matches!(error.unwrap_err(), Error::InvalidParameter { .. }));
    let no_taps = ramp(&cpu, &[2, 2, 0, 3]);
    assert!(convolution(&x, &no_taps, None, &plain()).is_err());
    assert!(convolution(&ramp(&cpu, &[2]), &ramp(&cpu, &[2]), None, &plain()).is_err());
    assert!(transposed_convolution(&ramp(&cpu, &[2]), &weight, None, [0; 2], &plain()).is_err());
}

#[test]
fn other_shapes_types_and_numbers_of_arrays_are_refused() {
    let cpu = device(1);
    let (x, weight) = (ramp(&cpu, &[1, 2, 5, 5]), ramp(&cpu, &[4, 2, 3, 3]));
    let y = convolution(&x, &weight, None, &plain()).unwrap();
    let core = |result: Result<Array>| match result.unwrap_err() {
        Error::Core(error) => error,
        other => panic!("{other}"),
    };
    let mismatch = |result| assert!(matches!(core(result), CoreError::ShapeMismatch { .. }));
    mismatch(convolution(&x, &ramp(&cpu, &[4, 3, 3, 3]), None, &plain()));
    mismatch(convolution(&x, &ramp(&cpu, &[4, 2, 3]), None, &plain()));
    mismatch(convolution(&x, &weight, Some(&ramp(&cpu, &[2])), &plain()));
    mismatch(convolution_input_gradient(&y, &weight, &shape(&[1, 2, 6, 5]), &plain()));
    mismatch(convolution_weight_gradient(&x, &y, &shape(&[4, 2, 2, 3]), &plain()));
    let wide = Array::from_slice(&cpu, &[4, 2, 3, 3], &[1.0f64; 72]).unwrap();
    let result = core(convolution(&x, &wide, None, &plain()));
    assert!(matches!(result, CoreError::DTypeMismatch { .. }));
    let integers = Array::from_slice(&cpu, &[4, 2, 3, 3], &[1i32; 72]).unwrap();
    let result = core(convolution(&x, &integers, None, &plain()));
    assert!(matches!(result, CoreError::UnsupportedDType { .. }));
    let gradient = ConvolutionWeightGradient { problem: plain() };
    let error = run(&gradient, &[&x, &y, &y], &weight).unwrap_err();
    assert!(matches!(error, Error::WrongArity { expected: 2, found: 3, .. }), "{error}");
    let error = run(&plain(), &[&x], &y).unwrap_err();
    assert!(matches!(error, Error::WrongArity { expected: 2, found: 1, .. }), "{error}");
}

#[test]
fn an_output_may_not_be_an_input_or_overlap_itself() {
    let cpu = device(1);
    let (x, weight) = (ramp(&cpu, &[1, 2, 5, 5]), ramp(&cpu, &[2, 2, 1, 1]));
    let error = run(&plain(), &[&x, &weight], &x).unwrap_err();
    assert!(matches!(error, Error::AliasedOutput { .. }), "{error}");
    let repeated = Layout::new(shape(&[1, 2, 5, 5]), &[0, 0, 5, 1], 0).unwrap();
    let repeated = Array::new(ramp(&cpu, &[25]).buffer().clone(), repeated).unwrap();
    let error = run(&plain(), &[&x, &weight], &repeated).unwrap_err();
    assert!(matches!(error, Error::Core(CoreError::OverlappingOutput { .. })), "{error}");
}

#[test]
fn nothing_gives_nothing_or_zeros() {
    let cpu = device(2);
    let (x, weight) = (ramp(&cpu, &[0, 2, 5, 5]), ramp(&cpu, &[6, 2, 3, 3]));
    let y = convolution(&x, &weight, None, &plain()).unwrap();
    assert_eq!(y.shape().dims(), [0, 6, 3, 3]);
    for outputs in [2, 6] {
        let (y, weight) = (ramp(&cpu, &[0, outputs, 3, 3]), shape(&[outputs, 2, 3, 3]));
        let dw = convolution_weight_gradient(&x, &y, &weight, &plain()).unwrap();
        assert!(dw.to_vec::<f32>().unwrap().iter().all(|&value| value == 0.0));
    }
    // No channels to sum over: the bias is all there is.
    let (x, weight) = (ramp(&cpu, &[2, 0, 5, 5]), ramp(&cpu, &[6, 0, 3, 3]));
    let bias = ramp(&cpu, &[6]);
    let y = convolution(&x, &weight, Some(&bias), &plain()).unwrap().to_vec::<f32>().unwrap();
    let bias = bias.to_vec::<f32>().unwrap();
    assert!(y.iter().enumerate().all(|(at, &value)| value == bias[at / 9 % 6]));
    // Elements that a stride leaves out have no gradient.
    let problem = Convolution { stride: [2, 2], ..plain() };
    for (outputs, inputs) in [(2, 2), (6, 6)] {
        let (y, weight) = (ramp(&cpu, &[1, outputs, 3, 3]), ramp(&cpu, &[outputs, inputs, 1, 1]));
        let dx =
            convolution_input_gradient(&y, &weight, &shape(&[1, inputs, 6, 5]), &problem).unwrap();
        let dx = dx.to_vec::<f32>().unwrap();
        let is_left_out = |at: usize| at / 5 % 6 % 2 == 1 || at % 5 % 2 == 1;
        assert!((0..dx.len()).all(|at| !is_left_out(at) || dx[at] == 0.0));
    }
}

/// Every way through the CPU, in blocks that are shared out unevenly.
#[test]
fn the_number_of_threads_does_not_matter() {
    let with = |threads: usize| -> Vec<Vec<u32>> {
        let cpu = device(threads);
        let problem = |stride, groups| Convolution { stride, groups, padding: [1, 1], ..plain() };
        let cases = [
            ([3, 10, 19, 23], [30, 10, 3, 3], problem([1, 1], 1)),
            ([2, 8, 30, 31], [40, 4, 3, 3], problem([2, 1], 2)),
            ([5, 6, 40, 41], [12, 1, 3, 3], problem([1, 2], 6)),
            (
                [2, 40, 17, 15],
                [24, 40, 1, 1],
                Convolution { padding: [0; 2], ..problem([1, 1], 1) },
            ),
        ];
        cases
            .iter()
            .flat_map(|(x, weight, problem)| {
                let (x, weight) = (ramp(&cpu, x), ramp(&cpu, weight));
                let y = convolution(&x, &weight, None, problem).unwrap();
                let dx = convolution_input_gradient(&y, &weight, x.shape(), problem).unwrap();
                let dw = convolution_weight_gradient(&x, &y, weight.shape(), problem).unwrap();
                [y, dx, dw]
            })
            .map(|array| bits(&array))
            .collect()
    };
    let alone = with(1);
    assert!([2, 3, 8].into_iter().all(|threads| with(threads) == alone));
}

/// In `f64` the gradients are the slopes of the convolution.
#[test]
fn gradients_are_slopes() {
    let cpu = device(2);
    let double = |dims: &[usize], seed: usize| {
        let elements: usize = dims.iter().product();
        let value = |i: usize| ((i * 7919 + seed * 104_729) % 1009) as f64 / 500.0 - 1.0;
        Array::from_slice(&cpu, dims, &(0..elements).map(value).collect::<Vec<f64>>()).unwrap()
    };
    for (x, weight, problem) in [
        ([2, 6, 7, 8], [6, 6, 3, 2], Convolution { stride: [2, 1], padding: [1, 2], ..plain() }),
        ([1, 4, 9, 5], [8, 1, 3, 3], Convolution { groups: 4, dilation: [2, 1], ..plain() }),
    ] {
        let (x, weight) = (double(&x, 1), double(&weight, 2));
        let y = convolution(&x, &weight, None, &problem).unwrap();
        let g = double(y.shape().dims(), 3);
        let dx = convolution_input_gradient(&g, &weight, x.shape(), &problem).unwrap();
        let dw = convolution_weight_gradient(&x, &g, weight.shape(), &problem).unwrap();
        // The sum of products with g is linear in both: its slope along any direction is exact.
        let dot = |a: &Array, b: &Array| -> f64 {
            let [a, b] = [a, b].map(|array| array.to_vec::<f64>().unwrap());
            a.iter().zip(&b).map(|(a, b)| a * b).sum()
        };
        let (x_by, weight_by) = (double(x.shape().dims(), 4), double(weight.shape().dims(), 5));
        let y_by = convolution(&x_by, &weight, None, &problem).unwrap();
        assert!((dot(&y_by, &g) - dot(&x_by, &dx)).abs() < 1e-10);
        let y_by = convolution(&x, &weight_by, None, &problem).unwrap();
        assert!((dot(&y_by, &g) - dot(&weight_by, &dw)).abs() < 1e-10);
    }
}

#[test]
fn repeated_images_are_like_any_other() {
    let cpu = device(1);
    let (x, weight) = (ramp(&cpu, &[1, 1, 9, 10]), ramp(&cpu, &[7, 3, 3, 3]));
    let repeated = x.broadcast_to(&shape(&[4, 3, 9, 10])).unwrap();
    let copied = crate::copy::contiguous(&repeated).unwrap();
    for problem in [plain(), Convolution { stride: [3, 2], padding: [2, 1], ..plain() }] {
        let [y, same] =
            [&repeated, &copied].map(|x| convolution(x, &weight, None, &problem).unwrap());
        assert_eq!(bits(&y), bits(&same));
        let [dw, same] = [&repeated, &copied]
            .map(|x| convolution_weight_gradient(x, &y, weight.shape(), &problem).unwrap());
        assert_eq!(bits(&dw), bits(&same));
    }
}
