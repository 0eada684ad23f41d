//! Convolutions large enough for every way that a device has: several blocks and tiles along each
//! axis, with odd ends.

use polaris_core::{DType, Shape};
use polaris_ops::conv::{FusedConvolution, transposed_convolution};
use polaris_ops::matmul::Activation;
use polaris_ops::suite::{Tolerance, agrees};
use polaris_ops::{
    Array, Convolution, ConvolutionInputGradient, ConvolutionWeightGradient, Distribution,
    Operation, random, run, run_kernel, usable_kernels,
};
use polaris_runtime::DeviceRef;
use polaris_testkit::devices_under_test;

fn normal(device: &DeviceRef, dims: &[usize], seed: u64) -> Array {
    let distribution = Distribution::Normal { mean: 0.0, deviation: 1.0 };
    random::random(device, DType::F32, Shape::new(dims).unwrap(), distribution, seed).unwrap()
}

fn values(array: &Array) -> Vec<f64> {
    array.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
}

/// Runs every kernel of every device against one reference. `depth` numbers are added up.
fn check<O: Operation>(op: &O, inputs: &[&[usize]], output: &[usize], depth: usize) {
    let mut expected = Vec::new();
    for device in devices_under_test() {
        let draw = |(seed, dims): (usize, &&[usize])| normal(device, dims, seed as u64);
        let arrays: Vec<Array> = inputs.iter().enumerate().map(draw).collect();
        let arrays: Vec<&Array> = arrays.iter().collect();
        let output = Array::empty(device, DType::F32, Shape::new(output).unwrap()).unwrap();
        if expected.is_empty() {
            // Random numbers are the same on all devices.
            let values: Vec<Vec<f64>> = arrays.iter().map(|array| values(array)).collect();
            expected = op.reference(&values, &arrays, &output);
        }
        let judge = |what: &str| {
            for (at, (&found, &expected)) in values(&output).iter().zip(&expected).enumerate() {
                let scale = depth as f64;
                let result = agrees(Tolerance::Accumulated, DType::F32, found, expected, scale);
                assert!(
                    result.is_ok(),
                    "{}: {op:?} {what}: element {at} is {found}, not {expected}",
                    device.id()
                );
            }
        };
        run(op, &arrays, &output).unwrap();
        judge("as chosen");
        for kernel in usable_kernels(op, &arrays, &output) {
            run_kernel(op, kernel, &arrays, &output).unwrap();
            judge(&format!("{kernel:?}"));
        }
    }
}

/// The output and the gradient of the input with and without a bias, and the gradient of the weight.
fn check_all(x: &[usize], weight: &[usize], problem: Convolution) {
    let rank = x.len();
    let mut y = vec![x[0], weight[0]];
    for place in 2..rank {
        let axis = place + 2 - rank;
        let reach = problem.dilation[axis] * (weight[place] - 1) + 1;
        y.push((x[place] + 2 * problem.padding[axis] - reach) / problem.stride[axis] + 1);
    }
    let product = |dims: &[usize]| dims.iter().product::<usize>();
    check(&problem, &[x, weight], &y, product(&weight[1..]));
    check(&problem, &[x, weight, &weight[..1]], &y, product(&weight[1..]));
    let depth = weight[0] / problem.groups * product(&weight[2..]);
    check(&ConvolutionInputGradient { problem }, &[&y, weight], x, depth);
    check(&ConvolutionInputGradient { problem }, &[&y, weight, &x[1..2]], x, depth);
    check(&ConvolutionWeightGradient { problem }, &[x, &y], weight, y[0] * product(&y[2..]));
}

fn padded(padding: usize) -> Convolution {
    Convolution { padding: [padding; 2], ..Convolution::default() }
}

#[test]
fn many_channels_and_steps() {
    check_all(&[2, 50, 19, 23], &[70, 50, 3, 3], padded(1));
}

/// So few tiles that their sums are cut into parts, and what follows is done when those are added up.
#[test]
fn small_images_of_many_channels() {
    let problem = padded(1);
    check_all(&[1, 70, 7, 7], &[66, 70, 3, 3], problem);
    check_all(&[1, 130, 7, 7], &[40, 65, 3, 3], Convolution { groups: 2, ..problem });
    let fused =
        FusedConvolution { problem, bias: true, residual: true, activation: Activation::Relu };
    let (x, weight, y) = ([1, 70, 7, 7], [66, 70, 3, 3], [1, 66, 7, 7]);
    check(&fused, &[&x, &weight, &[66], &y], &y, 630);
}

#[test]
fn more_channels_of_the_result_than_a_task_has() {
    check_all(&[1, 9, 6, 7], &[290, 9, 3, 3], padded(1));
}

#[test]
fn strides_dilations_and_groups() {
    let problem = Convolution { stride: [2, 3], padding: [1, 4], dilation: [1, 2], groups: 2 };
    check_all(&[2, 20, 30, 31], &[34, 10, 3, 3], problem);
}

#[test]
fn small_images_share_blocks() {
    check_all(&[21, 30, 5, 5], &[40, 30, 3, 3], padded(1));
}

#[test]
fn one_long_axis() {
    check_all(&[2, 12, 1500], &[18, 12, 5], Convolution::along_one_axis(1, 2, 3, 1));
    check_all(&[1, 5, 1400], &[7, 5, 7], Convolution::along_one_axis(2, 9, 1, 1));
}

#[test]
fn kernels_of_one_element() {
    check_all(&[3, 70, 17, 19], &[40, 70, 1, 1], Convolution::default());
    check_all(&[3, 8, 5, 4], &[6, 8, 1, 1], Convolution::default());
    // Images of whole vectors, which are read in place.
    check_all(&[3, 20, 8, 16], &[30, 20, 1, 1], Convolution::default());
    check_all(&[2, 500, 16, 24], &[30, 500, 1, 1], Convolution::default());
    check_all(&[2, 20, 16, 25], &[30, 10, 1, 1], Convolution { groups: 2, ..padded(0) });
    check_all(&[2, 20, 9, 11], &[20, 10, 1, 1], Convolution { groups: 2, ..padded(0) });
    check_all(&[2, 20, 9, 11], &[30, 20, 1, 1], Convolution { stride: [2, 2], ..padded(0) });
}

#[test]
fn depthwise() {
    check_all(&[3, 6, 40, 70], &[12, 1, 3, 3], Convolution { groups: 6, ..padded(1) });
    let problem = Convolution { groups: 5, stride: [2, 2], ..padded(2) };
    check_all(&[2, 5, 61, 50], &[5, 1, 5, 5], problem);
    let problem = Convolution { groups: 4, dilation: [2, 2], ..padded(3) };
    check_all(&[2, 4, 33, 34], &[4, 1, 3, 3], problem);
}

/// By hand: a kernel of ones spreads each element over what it reaches.
#[test]
fn transposed_with_output_padding_and_bias() {
    for device in devices_under_test() {
        let x = Array::from_slice(device, &[1, 1, 2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let weight = Array::from_slice(device, &[1, 1, 2, 2], &[1.0f32; 4]).unwrap();
        let bias = Array::from_slice(device, &[1], &[10.0f32]).unwrap();
        let problem = Convolution { stride: [2, 1], ..Convolution::default() };
        let y = transposed_convolution(&x, &weight, Some(&bias), [1, 0], &problem).unwrap();
        assert_eq!(y.shape().dims(), [1, 1, 5, 3]);
        let rows = [[11.0f32, 13.0, 12.0], [11.0, 13.0, 12.0], [13.0, 17.0, 14.0]];
        let expected = [rows[0], rows[1], rows[2], rows[2], [10.0; 3]].concat();
        assert_eq!(y.to_vec::<f32>().unwrap(), expected, "{}", device.id());
    }
}
