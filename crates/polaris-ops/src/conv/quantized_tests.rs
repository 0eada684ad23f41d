//! Quantised convolutions against the definition, on every supported instruction set with several numbers of threads.

use polaris_core::{DType, Layout, Shape};
use polaris_runtime::cpu::SimdLevel;
use polaris_runtime::{DeviceExt, DeviceRef, Runtime, RuntimeOptions};

use super::cpu::bytes;
use super::*;
use crate::Operation;
use crate::format::Role;

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).expect("the CPU should be there").cpu().clone()
}

/// The level that was found and those below it.
fn levels(device: &DeviceRef) -> Vec<SimdLevel> {
    let found = device.as_cpu().expect("a CPU").simd();
    let mut levels = vec![found];
    match found {
        SimdLevel::Avx512 => levels.extend([SimdLevel::Avx2, SimdLevel::Portable]),
        SimdLevel::Portable => {}
        _ => levels.push(SimdLevel::Portable),
    }
    levels
}

/// All bytes, in an order in which neighbours of every axis differ.
fn numbers(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 65_521 / 7) as u8).collect()
}

/// An empty array with its channels adjacent, or its columns.
fn empty(device: &DeviceRef, dtype: DType, dims: &[usize], channels_last: bool) -> Array {
    let shape = Shape::new(dims).unwrap();
    let buffer = device.allocate(dtype, shape.elements()).unwrap();
    if !channels_last {
        return Array::new(buffer, Layout::contiguous(shape)).unwrap();
    }
    let mut strides = vec![dims[1]; dims.len()];
    for axis in (2..dims.len() - 1).rev() {
        strides[axis] = strides[axis + 1] * dims[axis + 1];
    }
    strides[0] = dims[1..].iter().product();
    strides[1] = 1;
    Array::new(buffer, Layout::new(shape, &strides, 0).unwrap()).unwrap()
}

/// Bytes of a type and the whole numbers that they are.
fn image(
    device: &DeviceRef,
    dtype: DType,
    dims: &[usize],
    seed: usize,
    last: bool,
) -> (Array, Vec<i64>) {
    let bytes = numbers(dims.iter().product(), seed);
    let (plain, values) = match dtype {
        DType::U8 => {
            let values = bytes.iter().map(|&byte| i64::from(byte)).collect();
            (Array::from_slice(device, dims, &bytes).unwrap(), values)
        }
        _ => {
            let signed: Vec<i8> = bytes.iter().map(|&byte| byte as i8).collect();
            let values = signed.iter().map(|&byte| i64::from(byte)).collect();
            (Array::from_slice(device, dims, &signed).unwrap(), values)
        }
    };
    let array = empty(device, dtype, dims, last);
    crate::run(&crate::copy::Copy, &[&plain], &array).unwrap();
    (array, values)
}

fn cases() -> Vec<(Vec<usize>, Vec<usize>, Convolution)> {
    let plain = Convolution::default();
    let padded = Convolution { padding: [1, 1], ..plain };
    let strided = Convolution { stride: [2, 2], ..padded };
    let uneven = Convolution { stride: [1, 3], padding: [2, 0], dilation: [2, 1], groups: 1 };
    let dilated = Convolution { padding: [2, 2], dilation: [1, 2], ..plain };
    let case = |x: &[usize], weight: &[usize], problem| (x.to_vec(), weight.to_vec(), problem);
    vec![
        case(&[1, 5, 9, 11], &[7, 5, 3, 3], padded),
        case(&[2, 16, 14, 14], &[40, 16, 3, 3], padded),
        case(&[1, 3, 31, 29], &[33, 3, 7, 7], Convolution { padding: [3, 3], ..strided }),
        case(&[2, 8, 7, 7], &[65, 8, 1, 1], Convolution { stride: [2, 2], ..plain }),
        case(&[2, 8, 7, 7], &[65, 8, 1, 1], plain),
        case(&[3, 64, 5, 9], &[32, 64, 1, 1], plain),
        case(&[1, 6, 8, 5], &[16, 6, 1, 1], plain),
        case(&[1, 4, 12, 13], &[6, 4, 3, 2], uneven),
        case(&[1, 6, 10, 10], &[9, 6, 3, 3], dilated),
        case(&[1, 8, 10, 10], &[12, 4, 3, 3], Convolution { groups: 2, ..padded }),
        case(&[2, 8, 4, 4], &[12, 4, 1, 1], Convolution { groups: 2, ..plain }),
        case(&[3, 7, 20], &[5, 7, 4], Convolution::along_one_axis(2, 1, 1, 1)),
        case(&[5, 12, 1, 1], &[10, 12, 1, 1], plain),
        case(&[2, 37, 9, 10], &[37, 1, 3, 3], Convolution { groups: 37, ..padded }),
        case(&[1, 64, 13, 13], &[64, 1, 5, 5], Convolution { groups: 64, ..strided }),
        case(&[1, 33, 8, 9], &[33, 1, 3, 3], Convolution { groups: 33, ..uneven }),
        case(&[1, 1, 6, 6], &[1, 1, 3, 3], padded),
        case(&[2, 130, 6, 5], &[130, 1, 5, 5], Convolution { groups: 130, ..dilated }),
        case(&[1, 16, 1, 30], &[16, 1, 2, 9], Convolution { groups: 16, ..uneven }),
        case(&[2, 32, 9, 8], &[32, 4, 3, 3], Convolution { groups: 8, ..padded }),
        case(&[1, 24, 7, 9], &[24, 8, 3, 3], Convolution { groups: 3, ..strided }),
        case(&[1, 12, 8, 8], &[18, 2, 3, 3], Convolution { groups: 6, ..padded }),
        case(&[1, 10, 8, 8], &[20, 1, 3, 3], Convolution { groups: 10, ..padded }),
        case(&[2, 16, 6, 6], &[88, 8, 3, 3], Convolution { groups: 2, ..dilated }),
        case(&[1, 48, 5, 7], &[48, 16, 1, 1], Convolution { groups: 3, ..plain }),
        case(&[1, 3, 40, 37], &[8, 3, 3, 3], strided),
        case(&[1, 260, 7, 6], &[40, 260, 3, 3], padded),
    ]
}

/// Whether all results are those of the definition.
fn check(device: &DeviceRef, level: SimdLevel, number: usize, types: [DType; 2], last: bool) {
    let (x_dims, weight_dims, problem) = cases().swap_remove(number);
    let channels = weight_dims[0];
    let (weight, weights) = image(device, DType::I8, &weight_dims, 1, false);
    let (x, values) = image(device, types[0], &x_dims, 3, last);
    let bias: Vec<i32> = (0..channels as i32).map(|at| at * 977 % 5000 - 2500).collect();
    // Small enough that few results saturate.
    let depth: usize = weight_dims[1..].iter().product();
    let scale = 0.777_123 / (60.0 * (depth as f32).sqrt());
    let factors: Vec<f32> = (0..channels).map(|at| scale * (1.0 + at as f32 / 50.0)).collect();
    let zero = |dtype, byte: i32| if dtype == DType::U8 { byte } else { byte - 128 };
    let op = QuantizedConvolution {
        problem,
        input_zero: zero(types[0], 117),
        output_zero: zero(types[1], 131),
        relu: number % 5 == 2,
    };
    let factor_array = Array::from_slice(device, &[channels], &factors).unwrap();
    let bias_array = Array::from_slice(device, &[channels], &bias).unwrap();
    let inputs = [&x, &weight, &factor_array, &bias_array];
    let inputs = if number.is_multiple_of(3) { &inputs[..3] } else { &inputs[..] };
    let shape = problem.output_shape(x.shape(), weight.shape()).unwrap();
    let output = empty(device, types[1], shape.dims(), last);
    let cpu = device.as_cpu().unwrap();
    let panels = bytes::pack(level, problem.groups, &weight).unwrap();
    let mut packed = vec![0; panels.bytes()];
    panels.read_bytes(&mut packed).unwrap();
    let unpacked = bytes::unpack(level, problem.groups, weight.shape(), &packed);
    assert!(unpacked.iter().zip(&weights).all(|(found, &value)| *found == value as f64));
    let parts = op.parts(inputs, &output).unwrap();
    bytes::run(cpu, level, &op, &parts, &panels, &output).unwrap();
    let bytes_of = |array: &Array| -> Vec<f64> {
        match types[1] {
            DType::U8 => array.to_vec::<u8>().unwrap().into_iter().map(f64::from).collect(),
            _ => array.to_vec::<i8>().unwrap().into_iter().map(f64::from).collect(),
        }
    };
    let wide = |values: &[i64]| values.iter().map(|&value| value as f64).collect::<Vec<f64>>();
    let values = [
        wide(&values),
        wide(&weights),
        factors.iter().map(|&factor| f64::from(factor)).collect(),
        bias.iter().map(|&bias| f64::from(bias)).collect(),
    ];
    let expected = op.reference(&values[..inputs.len()], inputs, &output);
    let found = bytes_of(&output);
    let what = format!("case {number} {level:?} {types:?} {last}");
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "{what} at {at}");
    }
    let count = found.len();
    assert!(
        count < 50 || found.iter().any(|&value| value != found[0]),
        "case {number} is constant"
    );
    bytes::run_plainly(cpu, &op, &parts, &output).unwrap();
    assert_eq!(bytes_of(&output), expected, "{what}, plainly");
}

#[test]
fn results_are_those_of_the_definition() {
    for threads in [1, 3] {
        let cpu = device(threads);
        for level in levels(&cpu) {
            for number in 0..cases().len() {
                let (u8, i8) = (DType::U8, DType::I8);
                check(&cpu, level, number, [u8, u8], true);
                check(&cpu, level, number, [i8, i8], true);
                if threads > 1 {
                    check(&cpu, level, number, [u8, i8], false);
                }
            }
        }
    }
}

#[test]
fn mistakes_are_refused() {
    let cpu = device(1);
    let (weight, _) = image(&cpu, DType::I8, &[3, 4, 1, 1], 1, false);
    let (x, _) = image(&cpu, DType::U8, &[1, 4, 2, 3], 2, true);
    let output = empty(&cpu, DType::U8, &[1, 3, 2, 3], true);
    let factors = Array::from_slice(&cpu, &[3], &[0.1f32; 3]).unwrap();
    let short = Array::from_slice(&cpu, &[2], &[0.1f32; 2]).unwrap();
    let (problem, input_zero, output_zero) = (Convolution::default(), 7, 100);
    let op = QuantizedConvolution { problem, input_zero, output_zero, relu: false };
    let run = |op: &QuantizedConvolution, inputs: &[&Array]| crate::run(op, inputs, &output);
    run(&op, &[&x, &weight, &factors]).unwrap();
    assert!(run(&op, &[&x, &weight]).is_err(), "there are no factors");
    assert!(run(&op, &[&x, &weight, &short]).is_err(), "there are too few factors");
    assert!(run(&op, &[&x, &weight, &factors, &factors]).is_err(), "a bias is i32");
    assert!(run(&op, &[&x, &x, &factors]).is_err(), "a weight is i8");
    let wrong = QuantizedConvolution { output_zero: 256, ..op };
    assert!(run(&wrong, &[&x, &weight, &factors]).is_err(), "zero is no byte");
    let other = crate::weight::prepare(Role::Convolution { groups: 3 }, &weight).unwrap();
    assert!(run(&op, &[&x, &other, &factors]).is_err(), "panels of other groups");
}
