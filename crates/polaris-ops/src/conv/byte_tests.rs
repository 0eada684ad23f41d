//! Convolutions of bytes against the plain definition, by every level of instructions that the processor
//! has and several numbers of threads.

use polaris_core::{DType, Layout, Shape};
use polaris_runtime::cpu::SimdLevel;
use polaris_runtime::{DeviceExt, DeviceRef, Runtime, RuntimeOptions};

use super::*;

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

/// One element of the result by the definition; lengths are those of two axes.
struct Definition<'a> {
    x: &'a [i64],
    x_dims: [usize; 4],
    weight: &'a [i64],
    weight_dims: [usize; 4],
    problem: &'a ByteProblem<'a>,
}

impl Definition<'_> {
    fn at(&self, image: usize, channel: usize, row: usize, column: usize) -> i64 {
        let ([_, channels, height, width], [outputs, inputs, down, across]) =
            (self.x_dims, self.weight_dims);
        let problem = self.problem;
        let Convolution { stride, padding, dilation, groups } = problem.problem;
        let first = channel / (outputs / groups) * inputs;
        let one = |list: &[i32]| i64::from(if list.len() == 1 { list[0] } else { list[channel] });
        let mut sum = problem.bias.map_or(0, |bias| i64::from(bias[channel]));
        for input in 0..inputs {
            for i in 0..down {
                for j in 0..across {
                    let y = (row * stride[0] + i * dilation[0]).wrapping_sub(padding[0]);
                    let x = (column * stride[1] + j * dilation[1]).wrapping_sub(padding[1]);
                    if y < height && x < width {
                        let at = ((image * channels + first + input) * height + y) * width + x;
                        let tap = ((channel * inputs + input) * down + i) * across + j;
                        sum += (self.x[at] - i64::from(problem.input.1))
                            * (self.weight[tap] - one(problem.weight_zeros));
                    }
                }
            }
        }
        let factors = problem.factors;
        let factor = if factors.len() == 1 { factors[0] } else { factors[channel] };
        let value = (sum as f64 * f64::from(factor)).round_ties_even();
        let value = if problem.relu { value.max(0.0) } else { value };
        let (low, high) = if problem.output.0 == DType::U8 { (0, 255) } else { (-128, 127) };
        (value as i64 + i64::from(problem.output.1)).clamp(low, high)
    }
}

fn four(dims: &[usize]) -> [usize; 4] {
    match *dims {
        [a, b, c] => [a, b, 1, c],
        [a, b, c, d] => [a, b, c, d],
        _ => panic!("{dims:?}"),
    }
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
        case(&[1, 260, 7, 6], &[40, 260, 3, 3], padded),
    ]
}

/// Whether all results are those of the definition, but for ties that rounding of factors decides.
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
    let zero = |dtype, byte: i32| (dtype, if dtype == DType::U8 { byte } else { byte - 128 });
    let bytes = ByteProblem {
        problem,
        input: zero(types[0], 117),
        weight_zeros: &[0],
        bias: (!number.is_multiple_of(3)).then_some(&bias[..]),
        factors: if number % 4 == 1 { &factors[..1] } else { &factors },
        output: zero(types[1], 131),
        relu: number % 5 == 2,
    };
    let packed = ByteConvolution::at_level(level, &bytes, &weight).unwrap().unwrap();
    let shape = problem.output_shape(x.shape(), weight.shape()).unwrap();
    let output = empty(device, types[1], shape.dims(), last);
    packed.run(&[&x], &output).unwrap();
    let found: Vec<i64> = match types[1] {
        DType::U8 => output.to_vec::<u8>().unwrap().into_iter().map(i64::from).collect(),
        _ => output.to_vec::<i8>().unwrap().into_iter().map(i64::from).collect(),
    };
    let (x_dims, weight_dims) = (four(&x_dims), four(&weight_dims));
    let definition =
        Definition { x: &values, x_dims, weight: &weights, weight_dims, problem: &bytes };
    let [images, channels, rows, columns] = four(shape.dims());
    let (mut at, mut off) = (0, 0);
    for image in 0..images {
        for channel in 0..channels {
            for row in 0..rows {
                for column in 0..columns {
                    let expected = definition.at(image, channel, row, column);
                    let what = format!("case {number} {level:?} {types:?} {last} at {at}");
                    assert!((found[at] - expected).abs() <= 1, "{what}: {} {expected}", found[at]);
                    off += usize::from(found[at] != expected);
                    at += 1;
                }
            }
        }
    }
    assert!(off <= at / 1000 + 1, "case {number} {level:?}: {off} of {at} are not the same");
    assert!(at < 50 || found.iter().any(|&value| value != found[0]), "case {number} is constant");
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
fn zero_points_of_weights_are_taken_away_or_refused() {
    let cpu = device(1);
    let (weight, weights) = image(&cpu, DType::U8, &[3, 4, 1, 1], 1, false);
    let (x, values) = image(&cpu, DType::U8, &[1, 4, 2, 3], 2, true);
    let problem = ByteProblem {
        problem: Convolution::default(),
        input: (DType::U8, 7),
        weight_zeros: &[128],
        bias: None,
        factors: &[0.01],
        output: (DType::U8, 100),
        relu: false,
    };
    let packed = ByteConvolution::new(&problem, &weight).unwrap().unwrap();
    let output = empty(&cpu, DType::U8, &[1, 3, 2, 3], true);
    packed.run(&[&x], &output).unwrap();
    let definition = Definition {
        x: &values,
        x_dims: [1, 4, 2, 3],
        weight: &weights,
        weight_dims: [3, 4, 1, 1],
        problem: &problem,
    };
    for (at, &found) in output.to_vec::<u8>().unwrap().iter().enumerate() {
        assert_eq!(i64::from(found), definition.at(0, at / 6, at / 3 % 2, at % 3), "{at}");
    }
    // Distances from zero are no signed bytes.
    let far = ByteProblem { weight_zeros: &[0], ..problem };
    assert!(ByteConvolution::new(&far, &weight).unwrap().is_none());
    // Sums may overflow.
    let large = ByteProblem { bias: Some(&[i32::MAX; 3]), ..problem };
    assert!(ByteConvolution::new(&large, &weight).unwrap().is_none());
    let short = ByteProblem { factors: &[1.0, 2.0], ..problem };
    assert!(ByteConvolution::new(&short, &weight).is_err());
    let wrong = empty(&cpu, DType::I8, &[1, 3, 2, 3], true);
    assert!(packed.run(&[&x], &wrong).is_err());
}
