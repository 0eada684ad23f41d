use polaris_core::Layout;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).expect("the CPU should be there").cpu().clone()
}

/// A byte by the definition, in `f32` as ONNX says.
fn expected(x: f32, scale: Scale, dtype: DType) -> i32 {
    let (low, high) = if dtype == DType::U8 { (0.0, 255.0) } else { (-128.0, 127.0) };
    ((x / scale.scale).round_ties_even() + scale.zero as f32).clamp(low, high) as i32
}

fn bytes_of(array: &Array) -> Vec<i32> {
    match array.dtype() {
        DType::U8 => array.to_vec::<u8>().unwrap().into_iter().map(i32::from).collect(),
        _ => array.to_vec::<i8>().unwrap().into_iter().map(i32::from).collect(),
    }
}

/// Bytes of both kinds.
fn bytes(device: &DeviceRef, dtype: DType, dims: &[usize], seed: usize) -> Array {
    let count: usize = dims.iter().product();
    let byte = |at: usize| ((at * 7919 + seed * 104_729) % 65_521 / 7) as u8;
    match dtype {
        DType::U8 => {
            Array::from_slice(device, dims, &(0..count).map(byte).collect::<Vec<u8>>()).unwrap()
        }
        _ => {
            let values: Vec<i8> = (0..count).map(|at| byte(at) as i8).collect();
            Array::from_slice(device, dims, &values).unwrap()
        }
    }
}

/// The same elements with the first axis adjacent in memory.
fn turned(array: &Array) -> Array {
    let [rows, columns] = [array.shape()[0], array.shape()[1]];
    let shape = polaris_core::Shape::new(&[columns, rows]).unwrap();
    let copy = Array::empty(array.device(), array.dtype(), shape).unwrap();
    let layout: Layout = copy.layout().permute(&[1, 0]).unwrap();
    let copy = Array::new(copy.buffer().clone(), layout).unwrap();
    crate::run(&crate::copy::Copy, &[array], &copy).unwrap();
    copy
}

#[test]
fn numbers_become_the_nearest_bytes_and_back() {
    for (threads, columns) in [(1, 5), (3, 40_001)] {
        let cpu = device(threads);
        for (dtype, zero) in [(DType::U8, 3), (DType::I8, -128), (DType::I8, 0)] {
            let scale = Scale { scale: 0.25, zero };
            let dims = [3, columns];
            // Every eighth is a tie.
            let count = 3 * columns;
            let numbers: Vec<f32> = (0..count).map(|at| (at % 3000) as f32 / 32.0 - 45.0).collect();
            let x = Array::from_slice(&cpu, &dims, &numbers).unwrap();
            for x in [x.clone(), turned(&x)] {
                let y = Array::empty(&cpu, dtype, *x.shape()).unwrap();
                crate::run(&Requantize::Quantize(scale), &[&x], &y).unwrap();
                let found = bytes_of(&y);
                for (at, (&found, &x)) in found.iter().zip(&numbers).enumerate() {
                    assert_eq!(found, expected(x, scale, dtype), "{dtype} {at}: {x}");
                }
                let back = Array::empty(&cpu, DType::F32, *x.shape()).unwrap();
                crate::run(&Requantize::Dequantize(scale), &[&y], &back).unwrap();
                for (&back, &byte) in back.to_vec::<f32>().unwrap().iter().zip(&found) {
                    assert_eq!(back, (byte - zero) as f32 * 0.25);
                }
            }
        }
    }
}

#[test]
fn sums_are_rounded_as_by_three_operations() {
    let cpu = device(2);
    let inputs = [Scale { scale: 0.0173, zero: 11 }, Scale { scale: 0.0411, zero: -7 }];
    for (dtype, relu) in [(DType::U8, false), (DType::I8, true)] {
        let zero = if dtype == DType::U8 { 90 } else { -20 };
        // The second is far from what numbers usually are.
        for scale in [0.0377, 3e-14] {
            let output = Scale { scale, zero };
            let x = bytes(&cpu, DType::U8, &[7, 6151], 1);
            let y = bytes(&cpu, DType::I8, &[7, 6151], 2);
            let op = Requantize::Add { inputs, output, relu };
            for second in [y.clone(), turned(&y)] {
                let sums = Array::empty(&cpu, dtype, *x.shape()).unwrap();
                crate::run(&op, &[&x, &second], &sums).unwrap();
                let found = bytes_of(&sums);
                for (at, (a, b)) in bytes_of(&x).iter().zip(bytes_of(&y)).enumerate() {
                    let sum = (a - 11) as f32 * 0.0173 + (b + 7) as f32 * 0.0411;
                    let sum = if relu { sum.max(0.0) } else { sum };
                    assert_eq!(found[at], expected(sum, output, dtype), "{dtype} {at}");
                }
            }
        }
    }
}

#[test]
fn other_types_and_shapes_are_refused() {
    let cpu = device(1);
    let scale = Scale { scale: 1.0, zero: 0 };
    let numbers = Array::from_slice(&cpu, &[2], &[1.0f32, 2.0]).unwrap();
    let bytes = Array::from_slice(&cpu, &[2], &[1u8, 2]).unwrap();
    let longer = Array::from_slice(&cpu, &[3], &[1u8, 2, 3]).unwrap();
    assert!(crate::run(&Requantize::Quantize(scale), &[&bytes], &bytes).is_err());
    assert!(crate::run(&Requantize::Quantize(scale), &[&numbers], &longer).is_err());
    assert!(crate::run(&Requantize::Dequantize(scale), &[&numbers], &numbers).is_err());
    let wrong = Scale { scale: 1.0, zero: 256 };
    assert!(crate::run(&Requantize::Quantize(wrong), &[&numbers], &bytes).is_err());
    let op = Requantize::Add { inputs: [scale; 2], output: scale, relu: false };
    assert!(crate::run(&op, &[&bytes], &bytes).is_err());
    crate::run(&op, &[&bytes, &bytes], &bytes).unwrap();
    assert_eq!(bytes.to_vec::<u8>().unwrap(), [2, 4]);
}
