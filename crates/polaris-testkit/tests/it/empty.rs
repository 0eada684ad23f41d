//! Every operation with arrays that have no elements.

use polaris_core::{DType, Shape};
use polaris_ops::FAMILIES;
use polaris_ops::attention::{attention, attention_gradient};
use polaris_ops::conv::{FusedConvolution, QuantizedConvolution};
use polaris_ops::copy::cast;
use polaris_ops::format::Role;
use polaris_ops::matmul::{Activation, Bias, Epilogue};
use polaris_ops::suite::CaseParameters;
use polaris_ops::weight::prepare;
use polaris_ops::{Array, Attention, Convolution, MatMul, Operation, Requantize, Scale, run};
use polaris_runtime::DeviceRef;
use polaris_testkit::{EmptySweep, devices_under_test};

/// Each suite takes part with every variant; a new one does by being in the list. Variants that are
/// not essential run on the CPU only: each program costs a build. Unless all of it is asked for, every third of the
/// others runs on OpenCL devices.
#[test]
fn every_operation_takes_every_axis_of_length_zero() {
    let devices = devices_under_test();
    let mut problems = Vec::new();
    for suite in FAMILIES {
        let mut sweep = EmptySweep::default();
        for variant in 0..(suite.variants)() {
            let is_due = crate::in_full() || variant.is_multiple_of(3);
            let everywhere = (suite.is_essential)(variant) && is_due;
            let devices = if everywhere { devices } else { &devices[..1] };
            for (axis, seed) in [(0, 1), (1, 2), (2, 3)] {
                let parameters = CaseParameters::dense(&[2, 3, 5], 1 << axis, seed);
                sweep.add(&(suite.case)(variant, &parameters), devices);
            }
        }
        assert!(sweep.accepted > 0, "{} refuses every empty array", suite.name);
        problems
            .extend(sweep.problems.into_iter().map(|problem| format!("{}: {problem}", suite.name)));
    }
    let shown: Vec<&str> = problems.iter().take(40).map(String::as_str).collect();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), shown.join("\n"));
}

/// Small whole numbers, which every type holds.
fn numbers(device: &DeviceRef, dtype: DType, dims: &[usize]) -> Array {
    let count = dims.iter().product::<usize>();
    let values: Vec<f32> = (0..count).map(|at| (at % 5) as f32 - 2.0).collect();
    cast(&Array::from_slice(device, dims, &values).unwrap(), dtype).unwrap()
}

fn empty(device: &DeviceRef, dtype: DType, dims: &[usize]) -> Array {
    Array::empty(device, dtype, Shape::new(dims).unwrap()).unwrap()
}

fn values(array: &Array) -> Vec<f64> {
    cast(array, DType::F64).unwrap().to_vec().unwrap()
}

/// Every choice of lengths, each of which is 0 or what it says.
fn lengths<const N: usize>(full: [usize; N]) -> impl Iterator<Item = [usize; N]> {
    (0..1usize << N)
        .map(move |mask| std::array::from_fn(|at| if mask >> at & 1 == 1 { 0 } else { full[at] }))
}

#[test]
fn packed_matrices() {
    for device in devices_under_test() {
        for (dtype, made) in [
            (DType::F32, DType::F32),
            (DType::F64, DType::F64),
            (DType::F16, DType::F16),
            (DType::BF16, DType::F32),
            (DType::I8, DType::I32),
        ] {
            for [m, k, n] in lengths([3, 7, 5]) {
                let (a, b) = (numbers(device, dtype, &[m, k]), numbers(device, dtype, &[k, n]));
                let vector = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
                let bias = numbers(device, vector, &[n]);
                let mut op = MatMul::default();
                let mut inputs = vec![&a];
                if made != DType::I32 {
                    op.epilogue = Epilogue { bias: Some(Bias::PerColumn), ..Epilogue::default() };
                    inputs.push(&bias);
                }
                let packed = prepare(Role::MatMul { left: dtype }, &b).unwrap();
                let (output, plain) = (empty(device, made, &[m, n]), empty(device, made, &[m, n]));
                inputs.insert(1, &packed);
                run(&op, &inputs, &output).unwrap();
                inputs[1] = &b;
                run(&op, &inputs, &plain).unwrap();
                assert_eq!(values(&output), values(&plain), "{dtype} {m} {k} {n}");
                let elements: Vec<Vec<f64>> = inputs.iter().map(|input| values(input)).collect();
                assert_eq!(values(&output), op.reference(&elements, &inputs, &output));
            }
        }
    }
}

#[test]
fn packed_convolutions() {
    let device = &devices_under_test()[0];
    let problem = Convolution { padding: [1, 1], ..Convolution::default() };
    for (groups, [images, rows, columns]) in
        [1, 4].into_iter().flat_map(|groups| lengths([2, 5, 6]).map(move |dims| (groups, dims)))
    {
        let problem = Convolution { groups, ..problem };
        let x = numbers(device, DType::F32, &[images, 4, rows, columns]);
        // A kernel that the padding alone has room for.
        let weight = numbers(device, DType::F32, &[4, 4 / groups, 2, 2]);
        let bias = numbers(device, DType::F32, &[4]);
        let op =
            FusedConvolution { problem, bias: true, residual: false, activation: Activation::Relu };
        let output = empty(device, DType::F32, &[images, 4, rows + 1, columns + 1]);
        let role = Role::Convolution { groups };
        let packed = prepare(role, &weight).unwrap();
        assert!(!packed.is_dense());
        run(&op, &[&x, &packed, &bias], &output).unwrap();
        let inputs = [&x, &weight, &bias];
        let expected = op.reference(&inputs.map(values), &inputs, &output);
        assert_eq!(values(&output), expected, "{groups} {images} {rows} {columns}");

        let bytes = cast(&x, DType::I8).unwrap();
        let op = QuantizedConvolution { problem, input_zero: 0, output_zero: 0, relu: true };
        let packed = prepare(role, &cast(&weight, DType::I8).unwrap()).unwrap();
        assert!(!packed.is_dense());
        let factors = Array::from_slice(device, &[4], &[1.0f32; 4]).unwrap();
        let bias = cast(&bias, DType::I32).unwrap();
        let output = empty(device, DType::I8, &[images, 4, rows + 1, columns + 1]);
        run(&op, &[&bytes, &packed, &factors, &bias], &output).unwrap();
        assert_eq!(values(&output), expected, "{groups} {images} {rows} {columns}");
    }
    // Weights without elements have no packed form, and stay as they are.
    for dims in lengths([4, 3, 2, 2]).filter(|dims| dims.contains(&0)) {
        let weight = numbers(device, DType::F32, &dims);
        assert!(prepare(Role::Convolution { groups: 1 }, &weight).unwrap().is_dense());
    }
}

#[test]
fn requantized_arrays() {
    let device = &devices_under_test()[0];
    let scale = Scale { scale: 0.5, zero: 1 };
    let add = Requantize::Add { inputs: [scale; 2], output: scale, relu: false };
    for dims in lengths([2, 3, 4]).filter(|dims| dims.contains(&0)) {
        for (op, from, to) in [
            (Requantize::Quantize(scale), DType::F32, DType::U8),
            (Requantize::Dequantize(scale), DType::U8, DType::F32),
            (add, DType::I8, DType::I8),
        ] {
            let x = numbers(device, from, &dims);
            let inputs = if matches!(op, Requantize::Add { .. }) { vec![&x, &x] } else { vec![&x] };
            run(&op, &inputs, &empty(device, to, &dims)).unwrap();
        }
    }
}

/// A query that sees no key gives zeros, and so do keys without elements a mean of all values.
#[test]
fn attention_of_nothing() {
    for device in devices_under_test() {
        for [batch, heads, queries, keys, depth, width] in lengths([2, 2, 3, 4, 5, 6]) {
            let of = |dims: &[usize]| numbers(device, DType::F32, dims);
            let q = of(&[batch, heads, queries, depth]);
            let k = of(&[batch, heads, keys, depth]);
            let v = of(&[batch, heads, keys, width]);
            // The scale of keys without elements would be infinite.
            let op = Attention { scale: Some(0.5), ..Attention::default() };
            let attended = attention(&op, &q, &k, &v, None).unwrap();
            let flat = attended.output.elements() + attended.log_sum_exp.elements();
            let inputs = [&q, &k, &v];
            let shape = empty(device, DType::F32, &[flat]);
            let expected = op.reference(&inputs.map(values), &inputs, &shape);
            let found = [values(&attended.output), values(&attended.log_sum_exp)].concat();
            let close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() < 1e-5;
            assert!(found.iter().zip(&expected).all(close), "{found:?} {expected:?}");
            let g = of(&[batch, heads, queries, width]);
            let gradients = attention_gradient(&op, &q, &k, &v, None, &attended, &g).unwrap();
            for (gradient, array) in [(&gradients.q, &q), (&gradients.k, &k), (&gradients.v, &v)] {
                assert_eq!(gradient.shape(), array.shape());
                assert!(values(gradient).iter().all(|value| value.is_finite()));
            }
        }
    }
}

/// Views of arrays without elements lie inside of their memory, wherever they begin.
#[test]
fn views_of_nothing_can_be_read() {
    for device in devices_under_test() {
        let array = empty(device, DType::F32, &[4, 0, 3]);
        let view = array.slice(0, 2..4, 1).unwrap().slice(2, 1..3, 2).unwrap();
        assert!(view.to_vec::<f32>().unwrap().is_empty());
    }
}
