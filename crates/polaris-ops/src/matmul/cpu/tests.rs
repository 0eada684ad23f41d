//! Every type, layout and instruction set against the plain definition.

use polaris_core::{DType, Layout, Shape, bf16, f16};
use polaris_runtime::cpu::SimdLevel;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::run_at;
use crate::format::{Format, Role};
use crate::matmul::{Activation, Bias, Epilogue, MatMul, widens};
use crate::weight::{expand, prepare, restore, to_bytes};
use crate::{Array, Operation};

/// A small generator: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % below
    }
}

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).expect("the CPU should be there").cpu().clone()
}

fn levels(device: &DeviceRef) -> Vec<SimdLevel> {
    let best = device.as_cpu().expect("a CPU").simd();
    let all = [SimdLevel::Portable, SimdLevel::Neon, SimdLevel::Avx2, SimdLevel::Avx512];
    all.into_iter().filter(|&level| level <= best).collect()
}

/// The memory layout of an array.
#[derive(Debug, Clone, Copy)]
enum Lies {
    Dense,
    Transposed,
    /// Every second column of a wider array.
    Spread,
}

fn from_values(device: &DeviceRef, dims: &[usize], dtype: DType, values: &[f64]) -> Array {
    match dtype {
        DType::F32 => {
            Array::from_slice(device, dims, &values.iter().map(|&v| v as f32).collect::<Vec<_>>())
        }
        DType::F64 => Array::from_slice(device, dims, values),
        DType::F16 => Array::from_slice(
            device,
            dims,
            &values.iter().map(|&v| f16::from_f64(v)).collect::<Vec<_>>(),
        ),
        DType::BF16 => Array::from_slice(
            device,
            dims,
            &values.iter().map(|&v| bf16::from_f64(v)).collect::<Vec<_>>(),
        ),
        DType::I8 => {
            Array::from_slice(device, dims, &values.iter().map(|&v| v as i8).collect::<Vec<_>>())
        }
        DType::U8 => {
            Array::from_slice(device, dims, &values.iter().map(|&v| v as u8).collect::<Vec<_>>())
        }
        DType::I32 => {
            Array::from_slice(device, dims, &values.iter().map(|&v| v as i32).collect::<Vec<_>>())
        }
        other => panic!("{other} is not tested"),
    }
    .expect("an array")
}

fn to_values(array: &Array) -> Vec<f64> {
    match array.dtype() {
        DType::F32 => array.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect(),
        DType::F64 => array.to_vec::<f64>().unwrap(),
        DType::F16 => array.to_vec::<f16>().unwrap().into_iter().map(f64::from).collect(),
        DType::BF16 => array.to_vec::<bf16>().unwrap().into_iter().map(f64::from).collect(),
        DType::I8 => array.to_vec::<i8>().unwrap().into_iter().map(f64::from).collect(),
        DType::U8 => array.to_vec::<u8>().unwrap().into_iter().map(f64::from).collect(),
        DType::I32 => array.to_vec::<i32>().unwrap().into_iter().map(f64::from).collect(),
        other => panic!("{other} is not tested"),
    }
}

/// An array of random numbers that are exact in its type.
fn array(
    random: &mut Random,
    device: &DeviceRef,
    dims: &[usize],
    dtype: DType,
    lies: Lies,
) -> Array {
    let mut stored = dims.to_vec();
    let rank = dims.len();
    match lies {
        Lies::Transposed if rank > 1 => stored.swap(rank - 1, rank - 2),
        Lies::Spread => stored[rank - 1] *= 2,
        _ => {}
    }
    let count: usize = stored.iter().product();
    let values: Vec<f64> = (0..count)
        .map(|_| match dtype {
            DType::I8 => random.next(256) as f64 - 128.0,
            DType::U8 => random.next(256) as f64,
            _ => (random.next(33) as f64 - 16.0) / 16.0,
        })
        .collect();
    let array = from_values(device, &stored, dtype, &values);
    match lies {
        Lies::Transposed if rank > 1 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            axes.swap(rank - 1, rank - 2);
            array.permute(&axes).unwrap()
        }
        Lies::Spread => array.slice(rank - 1, 0..stored[rank - 1], 2).unwrap(),
        _ => array,
    }
}

struct Case<'a> {
    op: MatMul,
    inputs: Vec<Array>,
    output: Array,
    device: &'a DeviceRef,
    what: String,
}

fn check(case: &Case) {
    let inputs: Vec<&Array> = case.inputs.iter().collect();
    let values: Vec<Vec<f64>> = case.inputs.iter().map(to_values).collect();
    let expected = case.op.reference(&values, &inputs, &case.output);
    let before = to_values(&case.output);
    let k = inputs[0].shape()[inputs[0].shape().rank() - 1];
    let epsilon = match case.output.dtype() {
        DType::F16 => 1e-3,
        DType::BF16 => 8e-3,
        DType::F64 => 1e-13,
        DType::I32 => 0.0,
        _ => 3e-6,
    };
    let largest = if inputs[1].dtype() == DType::I8 { 255.0 * 128.0 } else { 1.0 };
    let cpu = case.device.as_cpu().unwrap();
    for level in levels(case.device) {
        // In-place cases need the old values again.
        let fresh =
            from_values(case.device, case.output.shape().dims(), case.output.dtype(), &before);
        crate::copy::into(&fresh, &case.output).unwrap();
        case.op.check(&inputs, &case.output).unwrap();
        run_at(level, &case.op, cpu, &inputs, &case.output).unwrap();
        let found = to_values(&case.output);
        for (at, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
            let float_part = if case.output.dtype() == DType::I32 { 0.0 } else { 1e-7 };
            let tolerance =
                epsilon * (1.0 + expected.abs()) + float_part * largest * (k as f64).sqrt();
            assert!(
                (found - expected).abs() <= tolerance || found.is_nan() && expected.is_nan(),
                "{} at {level:?}: element {at} is {found}, not {expected}",
                case.what
            );
        }
    }
}

const TYPES: [(DType, DType, DType); 12] = [
    (DType::F32, DType::F32, DType::F32),
    (DType::F32, DType::F16, DType::F32),
    (DType::F32, DType::BF16, DType::F32),
    (DType::F64, DType::F64, DType::F64),
    (DType::F16, DType::F16, DType::F16),
    (DType::F16, DType::F16, DType::F32),
    (DType::BF16, DType::BF16, DType::BF16),
    (DType::BF16, DType::BF16, DType::F32),
    (DType::I8, DType::I8, DType::I32),
    (DType::U8, DType::I8, DType::I32),
    (DType::I8, DType::I8, DType::F32),
    (DType::U8, DType::I8, DType::F32),
];

const SIZES: [usize; 12] = [1, 2, 3, 5, 8, 13, 16, 17, 31, 33, 47, 70];

fn lies(random: &mut Random) -> Lies {
    [Lies::Dense, Lies::Dense, Lies::Transposed, Lies::Spread][random.next(4)]
}

/// A random problem of given types, with whatever the types allow.
fn random_case<'a>(
    random: &mut Random,
    device: &'a DeviceRef,
    (a, b, out): (DType, DType, DType),
    [m, n, k]: [usize; 3],
) -> Case<'a> {
    let batch: &[usize] = [&[][..], &[], &[3], &[2, 2]][random.next(4)];
    let dims = |rows: usize, columns: usize, batched: bool| -> Vec<usize> {
        let batch = if batched { batch } else { &[] };
        batch.iter().copied().chain([rows, columns]).collect()
    };
    let plain = out == DType::I32 || random.next(3) == 0;
    let mut op = MatMul::default();
    if !plain {
        op.alpha = [1.0, 0.5, -1.5][random.next(3)];
        op.beta = [0.0, 1.0, 0.75][random.next(3)];
        op.epilogue = Epilogue {
            row_scales: random.next(3) == 0,
            column_scales: random.next(3) == 0,
            bias: [None, Some(Bias::PerRow), Some(Bias::PerColumn)][random.next(3)],
            activation: Activation::ALL[random.next(8)],
            scale: [1.0, 2.0][random.next(2)],
            residual: random.next(2) == 0,
        };
    }
    let how = [lies(random), lies(random), lies(random), lies(random)];
    let (batched_a, batched_b) = (true, random.next(2) == 0);
    let mut inputs = vec![
        array(random, device, &dims(m, k, batched_a), a, how[0]),
        array(random, device, &dims(k, n, batched_b), b, how[1]),
    ];
    let output = array(random, device, &dims(m, n, true), out, how[2]);
    let in_place = random.next(3) == 0;
    let like_output = |random: &mut Random, in_place: bool| match in_place {
        true => output.clone(),
        false => array(random, device, &dims(m, n, true), out, how[3]),
    };
    if op.beta != 0.0 {
        inputs.push(like_output(random, in_place));
    }
    let vector = if a == DType::F64 { DType::F64 } else { DType::F32 };
    let lengths = [
        op.epilogue.row_scales.then_some(m),
        op.epilogue.column_scales.then_some(n),
        op.epilogue.bias.map(|bias| if bias == Bias::PerRow { m } else { n }),
    ];
    for length in lengths.into_iter().flatten() {
        inputs.push(array(random, device, &[length], vector, Lies::Dense));
    }
    if op.epilogue.residual {
        inputs.push(like_output(random, in_place && op.beta == 0.0));
    }
    let what = format!("{op:?} of {a} {b} {out}, {m}x{n}x{k}, batch {batch:?}, {how:?}");
    Case { op, inputs, output, device, what }
}

#[test]
fn random_problems_are_right() {
    let device = device(3);
    let mut random = Random(1);
    for round in 0..40 {
        for types in TYPES {
            let size = |random: &mut Random| SIZES[random.next(SIZES.len())];
            let k = if round % 10 == 9 { 0 } else { size(&mut random) };
            let sizes = [size(&mut random), size(&mut random), k];
            check(&random_case(&mut random, &device, types, sizes));
        }
    }
}

#[test]
fn several_blocks_are_right() {
    let device = device(2);
    let mut random = Random(2);
    for types in TYPES {
        for sizes in [[150, 130, 1100], [33, 600, 700], [9, 70, 2100], [1, 300, 900]] {
            check(&random_case(&mut random, &device, types, sizes));
        }
    }
}

/// Weights in half precision as models have them: rows along k, read as they are.
#[test]
fn few_rows_with_a_transposed_b_are_right() {
    let device = device(2);
    let mut random = Random(6);
    let op = MatMul::default();
    for (a, b, out) in TYPES {
        for [m, n, k] in [[1, 37, 70], [7, 6, 33], [16, 11, 15], [2, 300, 900], [17, 9, 40]] {
            let inputs = vec![
                array(&mut random, &device, &[m, k], a, Lies::Dense),
                array(&mut random, &device, &[k, n], b, Lies::Transposed),
            ];
            let output = array(&mut random, &device, &[m, n], out, Lies::Dense);
            let what = format!("{a} {b} {out}, {m}x{n}x{k}");
            check(&Case { op, inputs, output, device: &device, what });
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let results: Vec<Vec<f32>> = [1, 2, 5]
        .into_iter()
        .map(|threads| {
            let device = device(threads);
            let mut random = Random(3);
            let a = array(&mut random, &device, &[190, 700], DType::F32, Lies::Dense);
            let b = array(&mut random, &device, &[700, 170], DType::F32, Lies::Transposed);
            crate::matmul::matmul(&a, &b).unwrap().to_vec().unwrap()
        })
        .collect();
    assert!(results.iter().all(|result| *result == results[0]));
}

#[test]
fn nan_and_infinity_reach_the_result() {
    let device = device(1);
    for (m, k, n) in [(1, 40, 40), (20, 33, 40)] {
        let mut a = vec![0.0f32; m * k];
        let mut b = vec![0.0f32; k * n];
        a[k - 1] = f32::NAN;
        b[1] = f32::INFINITY;
        let a = Array::from_slice(&device, &[m, k], &a).unwrap();
        let b = Array::from_slice(&device, &[k, n], &b).unwrap();
        let result: Vec<f32> = crate::matmul::matmul(&a, &b).unwrap().to_vec().unwrap();
        assert!(result[..n].iter().all(|x| x.is_nan()));
        assert!((1..m).all(|row| result[row * n + 1].is_nan() && result[row * n] == 0.0));
    }
}

#[test]
fn a_packed_matrix_gives_the_same() {
    let device = device(2);
    let mut random = Random(5);
    for (a, b, out) in TYPES.into_iter().filter(|&(a, b, _)| !widens(a, b)) {
        for [m, n, k] in [[1, 40, 50], [37, 70, 800], [100, 33, 7]] {
            for lies in [Lies::Dense, Lies::Transposed] {
                let a = array(&mut random, &device, &[m, k], a, Lies::Dense);
                let b = array(&mut random, &device, &[k, n], b, lies);
                let output = array(&mut random, &device, &[m, n], out, Lies::Dense);
                let op = MatMul::default();
                let role = Role::MatMul { left: a.dtype() };
                let packed = prepare(role, &b).unwrap();
                assert!(matches!(packed.format(), Format::Panels(_)));
                assert_eq!(to_values(&expand(&packed).unwrap()), to_values(&b));
                let bytes = to_bytes(&packed).unwrap();
                let restored = |bytes| restore(role, &device, b.dtype(), b.shape(), bytes);
                assert!(restored(&bytes[1..]).is_err());
                let packed = restored(&bytes).unwrap();
                op.run(&[&a, &packed], &output).unwrap();
                let expected = op.reference(&[to_values(&a), to_values(&b)], &[&a, &b], &output);
                let close = |found: f64, expected: f64| {
                    (found - expected).abs() <= 1e-2 * (1.0 + expected.abs())
                };
                let found = to_values(&output);
                assert!(found.iter().zip(&expected).all(|(&x, &y)| close(x, y)));
                let wide = array(&mut random, &device, &[m, n + 1], out, Lies::Dense);
                assert!(op.run(&[&a, &packed], &wide).is_err());
            }
        }
    }
}

/// A result inside a larger array leaves everything around it alone.
#[test]
fn nothing_is_written_beside_the_output() {
    let device = device(2);
    let mut random = Random(4);
    let a = array(&mut random, &device, &[37, 40], DType::F32, Lies::Dense);
    let b = array(&mut random, &device, &[40, 45], DType::F32, Lies::Dense);
    let whole = from_values(&device, &[40, 60], DType::F32, &vec![7.0; 2400]);
    let layout = Layout::new(Shape::new(&[37, 45]).unwrap(), &[60, 1], 63).unwrap();
    let inner = Array::new(whole.buffer().clone(), layout).unwrap();
    MatMul::default().run(&[&a, &b], &inner).unwrap();
    let values: Vec<f32> = whole.to_vec().unwrap();
    for (at, &value) in values.iter().enumerate() {
        let (row, column) = (at / 60, at % 60);
        let inside = (1..38).contains(&row) && (3..48).contains(&column);
        assert!(inside || value == 7.0, "element {at} was overwritten");
    }
}
