//! Prepacked convolutions against the definition, with the same bits for any number of threads.

use polaris_core::{Layout, Shape};
use polaris_runtime::{DeviceExt, DeviceRef, Runtime, RuntimeOptions};

use super::geometry::Form;
use super::*;
use crate::format::Role;
use crate::matmul::Activation;
use crate::weight::{expand, prepare, restore, to_bytes};

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).expect("the CPU should be there").cpu().clone()
}

/// Numbers between -2 and 2 that differ from neighbours of every axis.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 252.0 - 2.0).collect()
}

/// An array of these numbers with its channels adjacent, or its columns.
fn image(device: &DeviceRef, dims: &[usize], seed: usize, channels_last: bool) -> Array {
    let values = numbers(dims.iter().product(), seed);
    let plain = Array::from_slice(device, dims, &values).unwrap();
    if !channels_last {
        return plain;
    }
    let target = empty(device, dims, true);
    crate::run(&crate::copy::Copy, &[&plain], &target).unwrap();
    target
}

fn empty(device: &DeviceRef, dims: &[usize], channels_last: bool) -> Array {
    let shape = Shape::new(dims).unwrap();
    if !channels_last {
        return Array::empty(device, polaris_core::DType::F32, shape).unwrap();
    }
    let mut strides = vec![dims[1]; dims.len()];
    for axis in (2..dims.len() - 1).rev() {
        strides[axis] = strides[axis + 1] * dims[axis + 1];
    }
    strides[0] = dims[1..].iter().product();
    strides[1] = 1;
    let buffer = device.allocate(polaris_core::DType::F32, shape.elements()).unwrap();
    Array::new(buffer, Layout::new(shape, &strides, 0).unwrap()).unwrap()
}

/// The weight in panels, if it has some.
fn packed(problem: &Convolution, weight: &Array) -> Option<Array> {
    let packed = prepare(Role::Convolution { groups: problem.groups }, weight).unwrap();
    (!packed.is_dense()).then_some(packed)
}

struct Case {
    x: Vec<usize>,
    weight: Vec<usize>,
    problem: Convolution,
}

fn cases() -> Vec<Case> {
    let plain = Convolution::default();
    let case = |x: &[usize], weight: &[usize], problem: Convolution| Case {
        x: x.to_vec(),
        weight: weight.to_vec(),
        problem,
    };
    let padded = Convolution { padding: [1, 1], ..plain };
    let strided = Convolution { stride: [2, 2], ..padded };
    let uneven = Convolution { stride: [1, 3], padding: [2, 0], dilation: [2, 1], groups: 1 };
    let dilated = Convolution { padding: [2, 2], dilation: [1, 2], ..plain };
    vec![
        case(&[1, 5, 9, 11], &[7, 5, 3, 3], padded),
        case(&[2, 16, 14, 14], &[40, 16, 3, 3], padded),
        case(&[1, 3, 31, 29], &[33, 3, 7, 7], Convolution { padding: [3, 3], ..strided }),
        case(&[2, 8, 7, 7], &[65, 8, 1, 1], Convolution { stride: [2, 2], ..plain }),
        case(&[1, 4, 12, 13], &[6, 4, 3, 2], uneven),
        case(&[1, 6, 10, 10], &[9, 6, 3, 3], dilated),
        case(&[3, 7, 20], &[5, 7, 4], Convolution::along_one_axis(2, 1, 1, 1)),
        case(&[2, 37, 9, 10], &[37, 1, 3, 3], Convolution { groups: 37, ..padded }),
        case(&[1, 64, 13, 13], &[64, 1, 5, 5], Convolution { groups: 64, ..strided }),
        case(&[1, 33, 8, 9], &[33, 1, 3, 3], Convolution { groups: 33, ..uneven }),
        case(&[1, 1, 6, 6], &[1, 1, 3, 3], padded),
        case(&[1, 1, 6, 6], &[5, 1, 3, 3], padded),
    ]
}

#[test]
fn results_are_those_of_the_definition() {
    for threads in [1, 3] {
        let cpu = device(threads);
        for (number, Case { x, weight, problem }) in cases().into_iter().enumerate() {
            let weights = image(&cpu, &weight, 1, false);
            let packed = packed(&problem, &weights).unwrap();
            let expanded = expand(&packed).unwrap().to_vec::<f32>().unwrap();
            assert_eq!(expanded, weights.to_vec::<f32>().unwrap(), "case {number}");
            // As it was kept on disk.
            let bytes = to_bytes(&packed).unwrap();
            let role = Role::Convolution { groups: problem.groups };
            let restored = |bytes| restore(role, &cpu, weights.dtype(), weights.shape(), bytes);
            let packed = restored(&bytes).unwrap();
            let short = &bytes[..bytes.len() - 4];
            assert!(restored(short).is_err(), "case {number}: bytes are missing");
            let bias = image(&cpu, &[weight[0]], 2, false);
            for (channels_last, activation) in [
                (true, Activation::Identity),
                (true, Activation::Relu),
                (false, Activation::Clamp { low: -1.0, high: 6.0 }),
                (true, Activation::Silu),
            ] {
                let input = image(&cpu, &x, 3, channels_last);
                let shape = problem.output_shape(input.shape(), weights.shape()).unwrap();
                let residual = image(&cpu, shape.dims(), 4, channels_last);
                let output = empty(&cpu, shape.dims(), channels_last);
                let residuals = usize::from(activation != Activation::Silu);
                let op =
                    FusedConvolution { problem, bias: true, residual: residuals > 0, activation };
                let inputs = [&input, &packed, &bias, &residual];
                crate::run(&op, &inputs[..3 + residuals], &output).unwrap();
                let found = output.to_vec::<f32>().unwrap();
                let lists = [&input, &weights, &bias, &residual].map(|array| {
                    array.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
                });
                let expected = expected(&op, &lists, &input, &weights, &output);
                for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let error = (f64::from(*found) - expected).abs();
                    assert!(
                        error <= 2e-4 * expected.abs().max(1.0),
                        "case {number} {activation:?} at {at}: {found} instead of {expected}"
                    );
                }
            }
        }
    }
}

fn expected(
    op: &FusedConvolution,
    lists: &[Vec<f64>; 4],
    x: &Array,
    weight: &Array,
    output: &Array,
) -> Vec<f64> {
    let values = [lists[0].clone(), lists[1].clone()];
    let sums = reference::convolution(Form::Output, &op.problem, &values, &[x, weight], output);
    let shape = output.shape();
    let channel_elements: usize = shape[2..].iter().product();
    (sums.iter().enumerate())
        .map(|(at, sum)| {
            let bias = lists[2][at / channel_elements % shape[1]];
            let residual = if op.residual { lists[3][at] } else { 0.0 };
            let x = sum + bias + residual;
            match op.activation {
                Activation::Identity => x,
                Activation::Relu => x.max(0.0),
                Activation::Clamp { low, high } => x.clamp(low, high),
                Activation::Silu => x / (1.0 + (-x).exp()),
                other => panic!("{other:?} is not part of this test"),
            }
        })
        .collect()
}

#[test]
fn other_weights_are_refused() {
    let cpu = device(1);
    let grouped = Convolution { groups: 2, ..Convolution::default() };
    let weight = image(&cpu, &[4, 2, 3, 3], 0, false);
    assert!(packed(&grouped, &weight).is_none());
    let packed = packed(&Convolution::default(), &weight).unwrap();
    let x = image(&cpu, &[1, 3, 5, 5], 0, true);
    let output = empty(&cpu, &[1, 4, 3, 3], true);
    let op = FusedConvolution::plain(Convolution::default(), false);
    let run = |inputs: &[&Array]| crate::run(&op, inputs, &output);
    assert!(run(&[&x, &packed]).is_err(), "three channels instead of two");
    let x = image(&cpu, &[1, 2, 5, 5], 0, true);
    assert!(run(&[&x, &packed, &x]).is_err(), "an array too many");
    run(&[&x, &packed]).unwrap();
    assert!(packed.permute(&[1, 0, 2, 3]).is_err(), "panels have no views");
    let dense = crate::run(&Convolution::default(), &[&x, &packed], &output);
    assert!(matches!(dense, Err(crate::Error::UnsupportedFormat { .. })));
}
