//! Matmuls: arbitrary cases, long sums, every tile of the family, and mistakes.

use polaris_core::{DType, Layout, Shape};
use polaris_ops::FAMILIES;
use polaris_ops::format::Role;
use polaris_ops::matmul::{
    Activation, Bias, Epilogue, MatMul, Technique, VARIANTS, matmul, strassen,
};
use polaris_ops::suite::CaseParameters;
use polaris_ops::weight::prepare;
use polaris_ops::{Array, Distribution, Error, Operation, random::random, run_kernel};
use polaris_runtime::DeviceRef;
use polaris_testkit::{devices_under_test, own_runtime};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::in_full;

#[test]
fn arbitrary_products_are_right_on_the_cpu() {
    arbitrary_products(&devices_under_test()[..1], if in_full() { 600 } else { 150 });
}

/// Every program costs a build, so each case runs with the kernel that is chosen and with one
/// other.
#[test]
fn arbitrary_products_are_right_everywhere() {
    arbitrary_products(devices_under_test(), if in_full() { 40 } else { 4 });
}

fn arbitrary_products(devices: &[DeviceRef], cases: u32) {
    let suite = FAMILIES.iter().find(|suite| suite.name == "matmul").unwrap();
    let strategy = (0..(suite.variants)(), any::<u64>().prop_map(CaseParameters::drawn));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&strategy, |(variant, parameters)| {
        let case = (suite.case)(variant, &parameters);
        for device in devices {
            let kernels =
                case.kernels(device).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let other = parameters.seed as usize % kernels.len().max(1);
            for index in [0, other].into_iter().take(1 + usize::from(other > 0)) {
                case.run_kernel(device, index).map_err(|reason| {
                    TestCaseError::fail(format!("{}: {}: {reason}", device.id(), kernels[index]))
                })?;
            }
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Every type and format with one, few and many rows; on OpenCL devices each combination would cost a build.
#[test]
fn every_fixed_product_is_right_on_the_cpu() {
    let device = &devices_under_test()[0];
    let suite = FAMILIES.iter().find(|suite| suite.name == "matmul").unwrap();
    for variant in 0..(suite.variants)() {
        for parameters in CaseParameters::fixed() {
            let case = (suite.case)(variant, &parameters);
            if let Err(reason) = case.run(device) {
                panic!("{reason}");
            }
        }
    }
}

fn uniform(device: &DeviceRef, dtype: DType, dims: &[usize], seed: u64) -> Array {
    let distribution = Distribution::Uniform { low: -1.0, high: 1.0 };
    random(device, dtype, Shape::new(dims).unwrap(), distribution, seed).unwrap()
}

/// The relative error in the Frobenius norm against `f64`.
fn frobenius_error(op: &MatMul, inputs: &[&Array], output: &Array) -> f64 {
    let as_f64 = |array: &Array| -> Vec<f64> {
        match array.dtype() {
            DType::F16 => {
                array.to_vec::<polaris_core::f16>().unwrap().iter().map(|v| v.to_f64()).collect()
            }
            DType::BF16 => {
                array.to_vec::<polaris_core::bf16>().unwrap().iter().map(|v| v.to_f64()).collect()
            }
            _ => array.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect(),
        }
    };
    let values: Vec<Vec<f64>> = inputs.iter().map(|input| as_f64(input)).collect();
    let expected = op.reference(&values, inputs, output);
    let (mut error, mut norm) = (0.0, 0.0);
    for (found, expected) in as_f64(output).into_iter().zip(expected) {
        error += (found - expected).powi(2);
        norm += expected.powi(2);
    }
    (error / norm).sqrt()
}

#[test]
fn long_sums_stay_accurate() {
    for device in devices_under_test() {
        for (dtype, result, allowed) in [
            (DType::F32, DType::F32, 1e-5),
            (DType::F16, DType::F32, 1e-5),
            (DType::BF16, DType::F32, 1e-5),
            (DType::F16, DType::F16, 5e-3),
            (DType::BF16, DType::BF16, 5e-3),
        ] {
            let a = uniform(device, dtype, &[37, 8192], 1);
            let b = uniform(device, dtype, &[8192, 41], 2);
            let op = MatMul::default();
            let c = op.apply(&[&a, &b], result).unwrap();
            let error = frobenius_error(&op, &[&a, &b], &c);
            assert!(error <= allowed, "{}: {dtype} into {result}: {error:e}", device.id());
        }
    }
}

/// The kernels with names, wherever the device can run them at all: also those that are chosen on
/// other devices only.
#[test]
fn every_named_variant_is_right() {
    for device in devices_under_test() {
        let Some(opencl) = device.as_opencl() else { continue };
        let a = uniform(device, DType::F32, &[150, 70], 3);
        let b = uniform(device, DType::F32, &[70, 134], 4);
        let op = MatMul::default();
        let mut ran = 0;
        for variant in VARIANTS {
            let Technique::Kernel(kernel) = variant.technique else { continue };
            if !kernel.fits(opencl, DType::F32) {
                continue;
            }
            let c = Array::empty(device, DType::F32, Shape::new(&[150, 134]).unwrap()).unwrap();
            run_kernel(&op, kernel, &[&a, &b], &c).unwrap();
            let error = frobenius_error(&op, &[&a, &b], &c);
            assert!(error <= 1e-6, "{}: {}: {error:e}", device.id(), variant.name);
            ran += 1;
        }
        assert!(ran >= 8, "{}: only {ran} variants", device.id());
    }
}

#[test]
fn an_epilogue_may_add_to_what_is_there() {
    for device in devices_under_test() {
        let a = Array::from_slice(device, &[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let c = Array::from_slice(device, &[2, 2], &[10.0f32, 20.0, 30.0, 40.0]).unwrap();
        let op = MatMul { beta: 2.0, ..MatMul::default() };
        op.run(&[&a, &a, &c], &c).unwrap();
        assert_eq!(c.to_vec::<f32>().unwrap(), [27.0, 50.0, 75.0, 102.0]);
    }
}

#[test]
fn nan_and_infinity_travel_and_old_results_do_not() {
    for device in devices_under_test() {
        let a = Array::from_slice(device, &[2, 2], &[f32::NAN, 0.0, 1.0, f32::INFINITY]).unwrap();
        let b = Array::from_slice(device, &[2, 2], &[0.0f32, 1.0, 0.0, 1.0]).unwrap();
        let out = Array::from_slice(device, &[2, 2], &[f32::NAN; 4]).unwrap();
        MatMul::default().run(&[&a, &b], &out).unwrap();
        let found = out.to_vec::<f32>().unwrap();
        // Zero times infinity is not a number, and nothing is skipped because it is zero.
        assert!(found[0].is_nan() && found[1].is_nan() && found[2].is_nan(), "{found:?}");
        assert_eq!(found[3], f32::INFINITY, "{}", device.id());
        let ones = Array::from_slice(device, &[2, 2], &[1.0f32; 4]).unwrap();
        let out = Array::from_slice(device, &[2, 2], &[f32::NAN; 4]).unwrap();
        MatMul::default().run(&[&ones, &ones], &out).unwrap();
        assert_eq!(out.to_vec::<f32>().unwrap(), [2.0; 4], "{}", device.id());
    }
}

#[test]
fn mistakes_are_named() {
    for device in devices_under_test() {
        let zeros =
            |dims: &[usize]| Array::empty(device, DType::F32, Shape::new(dims).unwrap()).unwrap();
        let (a, b) = (zeros(&[3, 4]), zeros(&[4, 5]));
        let refused = |result: Result<Array, Error>, part: &str| {
            let message = result.unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        };
        refused(matmul(&a, &a), "matmul");
        refused(matmul(&zeros(&[4]), &b), "not a matrix");
        refused(matmul(&uniform(device, DType::F16, &[3, 4], 1), &b), "not defined");
        // Weights in half precision are read as they are, into f32 and nothing else.
        let halves = uniform(device, DType::F16, &[4, 5], 1);
        assert!(matmul(&a, &halves).is_ok());
        refused(MatMul::default().apply(&[&a, &halves], DType::F16), "not defined");
        let biased = |bias: &Array| {
            let epilogue = Epilogue { bias: Some(Bias::PerColumn), ..Epilogue::default() };
            MatMul { epilogue, ..MatMul::default() }.apply(&[&a, &b, bias], DType::F32)
        };
        refused(biased(&zeros(&[3])), "matmul");
        assert!(biased(&zeros(&[5])).is_ok());
        refused(MatMul { beta: 1.0, ..MatMul::default() }.apply(&[&a, &b], DType::F32), "3 arrays");
        // An output that is an input, in whole or in part.
        let square = zeros(&[4, 4]);
        let aliased = MatMul::default().run(&[&square, &square], &square).unwrap_err();
        assert!(matches!(aliased, Error::AliasedOutput { .. }), "{aliased}");
        // An output whose rows lie on one another.
        let buffer = zeros(&[16]).buffer().clone();
        let layout = Layout::new(Shape::new(&[3, 5]).unwrap(), &[2, 1], 0).unwrap();
        let output = Array::new(buffer, layout).unwrap();
        assert!(MatMul::default().run(&[&a, &b], &output).is_err());
        // Integers with factors have no place in an integer result.
        let ints = Array::from_slice(device, &[2, 2], &[1i8, 2, 3, 4]).unwrap();
        let halved = MatMul { alpha: 0.5, ..MatMul::default() }.apply(&[&ints, &ints], DType::I32);
        refused(halved, "i32");
    }
    // More bytes than there are numbers for.
    assert!(Shape::new(&[usize::MAX / 2, 3]).is_err());
}

#[test]
fn integers_are_exact() {
    for device in devices_under_test() {
        let (m, n, k) = (33, 47, 4099);
        let a: Vec<i8> = (0..m * k).map(|i| (i * 37 % 256) as u8 as i8).collect();
        let b: Vec<i8> = (0..k * n).map(|i| (i * 91 % 256) as u8 as i8).collect();
        let (da, db) = (
            Array::from_slice(device, &[m, k], &a).unwrap(),
            Array::from_slice(device, &[k, n], &b).unwrap(),
        );
        let found = matmul(&da, &db).unwrap().to_vec::<i32>().unwrap();
        for i in 0..m {
            for j in 0..n {
                let exact: i32 =
                    (0..k).map(|l| i32::from(a[i * k + l]) * i32::from(b[l * n + j])).sum();
                assert_eq!(found[i * n + j], exact, "{} ({i}, {j})", device.id());
            }
        }
        let scales = Array::from_slice(device, &[n], &vec![0.5f32; n]).unwrap();
        let epilogue =
            Epilogue { column_scales: true, activation: Activation::Relu, ..Epilogue::default() };
        let op = MatMul { epilogue, ..MatMul::default() };
        let scaled = op.apply(&[&da, &db, &scales], DType::F32).unwrap().to_vec::<f32>().unwrap();
        let expected = |whole: i32| (whole as f32 * 0.5).max(0.0);
        assert!(scaled.iter().zip(&found).all(|(&s, &w)| s == expected(w)), "{}", device.id());
    }
}

#[test]
fn streamed_products_are_right_within_a_quarter_of_the_memory() {
    let runtime = own_runtime();
    let host = runtime.cpu();
    for device in &runtime.devices()[1..] {
        for (dtype, result, dims) in [
            (DType::F32, DType::F32, [2, 300, 700, 501]),
            (DType::F16, DType::F32, [1, 1030, 333, 640]),
        ] {
            let [batch, m, k, n] = dims;
            let a = uniform(host, dtype, &[batch, m, k], 1);
            let b = uniform(host, dtype, &[batch, n, k], 2).permute(&[0, 2, 1]).unwrap();
            let c = uniform(host, result, &[batch, m, n], 3);
            let bias = uniform(host, DType::F32, &[n], 4);
            let residual = uniform(host, result, &[1, n], 5);
            let epilogue = Epilogue {
                bias: Some(Bias::PerColumn),
                activation: Activation::GeluErf,
                residual: true,
                ..Epilogue::default()
            };
            let op = MatMul { beta: 0.5, epilogue, ..MatMul::default() };
            let inputs = [&a, &b, &c, &bias, &residual];
            let output = Array::empty(host, result, *c.shape()).unwrap();
            let bytes = (m * k + k * n) * dtype.size();
            device.allocator().set_limit(device.allocator().memory_use().used + bytes as u64 / 4);
            let streamed = op.stream(device, &inputs, &output).unwrap();
            assert!(streamed.blocks > 2 * batch, "{streamed:?}");
            let error = frobenius_error(&op, &inputs, &output);
            assert!(error < 1e-6, "{}: {error:e} {streamed:?}", device.id());
        }
    }
}

#[test]
fn strassen_agrees_and_says_what_it_cannot_do() {
    for device in devices_under_test() {
        for levels in [1, 2] {
            let a = uniform(device, DType::F32, &[131, 86], 1);
            let b = uniform(device, DType::F32, &[86, 71], 2);
            let c = strassen(&a, &b, levels).unwrap();
            let error = frobenius_error(&MatMul::default(), &[&a, &b], &c);
            assert!(error < 1e-5, "{}: {levels} levels: {error:e}", device.id());
        }
        let bytes = Array::from_slice(device, &[2, 2], &[1i8; 4]).unwrap();
        assert!(strassen(&bytes, &bytes, 1).is_err());
        let batch = uniform(device, DType::F32, &[2, 2, 2], 1);
        assert!(strassen(&batch, &batch, 1).is_err());
    }
}

#[test]
fn packed_operands_give_the_same() {
    for device in devices_under_test() {
        for (dtype, result) in
            [(DType::F32, DType::F32), (DType::F16, DType::F32), (DType::BF16, DType::BF16)]
        {
            let b = uniform(device, dtype, &[1024, 77], 2).permute(&[1, 0]).unwrap();
            let packed = prepare(Role::MatMul { left: dtype }, &b).unwrap();
            let bias = uniform(device, DType::F32, &[1024], 3);
            let epilogue = Epilogue { bias: Some(Bias::PerColumn), ..Epilogue::default() };
            let op = MatMul { epilogue, ..MatMul::default() };
            for rows in [1, 5, 130] {
                let a = uniform(device, dtype, &[rows, 77], 1);
                let shape = Shape::new(&[rows, 1024]).unwrap();
                let output = Array::empty(device, result, shape).unwrap();
                op.run(&[&a, &packed, &bias], &output).unwrap();
                let error = frobenius_error(&op, &[&a, &b, &bias], &output);
                let allowed = if result == DType::F32 { 1e-6 } else { 5e-3 };
                assert!(error < allowed, "{}: {dtype} {rows}: {error:e}", device.id());
            }
            let wrong = Array::empty(device, result, Shape::new(&[3, 4]).unwrap()).unwrap();
            let a = uniform(device, dtype, &[3, 76], 1);
            assert!(op.run(&[&a, &packed, &bias], &wrong).is_err());
        }
        // What was prepared for another type of the first factor is refused.
        let bytes = Array::from_slice(device, &[2, 2], &[1i8; 4]).unwrap();
        let packed = prepare(Role::MatMul { left: DType::F32 }, &bytes).unwrap();
        let (a, sums) =
            (uniform(device, DType::F32, &[2, 2], 1), uniform(device, DType::F32, &[2, 2], 2));
        assert!(MatMul::default().run(&[&a, &packed], &sums).is_err());
    }
}
