//! Look-ups and scatters at sizes that kernels treat differently, wrong indices, in place, and with any
//! number of threads.

use polaris_core::{DType, Error as CoreError, Layout, Shape};
use polaris_ops::indexing::{gather, scatter, scatter_add, take, take_gradient};
use polaris_ops::{
    Array, Distribution, Error, Lookup, LookupRule, Operation, Scatter, ScatterRule, random, run,
    run_kernel, usable_kernels,
};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};
use polaris_testkit::devices_under_test;

fn normal(device: &DeviceRef, shape: &[usize], seed: u64) -> Array {
    let distribution = Distribution::Normal { mean: 0.0, deviation: 1.0 };
    random::random(device, DType::F32, Shape::new(shape).unwrap(), distribution, seed).unwrap()
}

/// Indices below a length, of which some come again and again.
fn indices(device: &DeviceRef, shape: &[usize], length: usize) -> Array {
    let count: usize = shape.iter().product();
    let index = |i: usize| if i.is_multiple_of(3) { 0 } else { i * 7919 % length };
    let values: Vec<i64> = (0..count).map(|i| index(i) as i64).collect();
    Array::from_slice(device, shape, &values).unwrap()
}

fn wide(array: &Array) -> Vec<f64> {
    array.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
}

/// Runs every kernel of a device and compares it with the reference, relative to `scale`.
fn check<O: Operation>(op: &O, inputs: &[&Array], output: &Array, scale: f64) {
    let values: Vec<Vec<f64>> = inputs
        .iter()
        .map(|input| match input.dtype() {
            DType::F32 => wide(input),
            _ => input.to_vec::<i64>().unwrap().into_iter().map(|i| i as f64).collect(),
        })
        .collect();
    let expected = op.reference(&values, inputs, output);
    let compare = |what: &str| {
        let found = wide(output);
        let worst = found.iter().zip(&expected).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max);
        assert!(worst <= scale * 1e-6, "{} {what}: off by {worst:e}", output.device().id());
    };
    run(op, inputs, output).unwrap();
    compare("as chosen");
    for kernel in usable_kernels(op, inputs, output) {
        run_kernel(op, kernel, inputs, output).unwrap();
        compare(&op.kernel_name(kernel, inputs, output));
    }
}

/// A table with more rows than a block of the sort has keys, and one that is met thousands of times.
#[test]
fn large_tables() {
    for device in devices_under_test() {
        for (rows, width, tokens) in [(3000, 48, 5000), (70_001, 3, 2100), (5, 130, 9000)] {
            let table = normal(device, &[rows, width], 1);
            let tokens = indices(device, &[2, tokens / 2], rows);
            let op = Lookup { rule: LookupRule::Take, axis: 0 };
            let y = take(&table, 0, &tokens).unwrap();
            check(&op, &[&tokens, &table], &y, 0.0);
            let g = normal(device, y.shape(), 2);
            let op = Scatter { rule: ScatterRule::TakeGradient, axis: 0 };
            check(&op, &[&tokens, &g], &table, tokens.elements() as f64);
        }
    }
}

/// Few long lanes, which are sorted, and many, which are taken in order.
#[test]
fn lanes_of_any_number_and_length() {
    for device in devices_under_test() {
        for (shape, axis, length) in
            [(&[9000][..], 0, 70), (&[3, 5000], 1, 9), (&[5000, 3], 0, 4001), (&[20, 900], 0, 7)]
        {
            let mut dims = shape.to_vec();
            dims[axis] = length;
            let (base, source) = (normal(device, &dims, 3), normal(device, shape, 4));
            let index = indices(device, shape, length);
            let output = Array::empty(device, DType::F32, *base.shape()).unwrap();
            for rule in [ScatterRule::Add, ScatterRule::Assign] {
                let op = Scatter { rule, axis };
                check(&op, &[&index, &base, &source], &output, shape[axis] as f64);
            }
            let output = Array::empty(device, DType::F32, *index.shape()).unwrap();
            check(&Lookup { rule: LookupRule::Gather, axis }, &[&index, &base], &output, 0.0);
        }
    }
}

#[test]
fn a_wrong_index_is_named() {
    for device in devices_under_test() {
        let x = normal(device, &[3, 4], 5);
        for (wrong, place) in [(4i64, 2), (-1, 0), (i64::MAX, 5), (i64::MIN, 3), (1 << 32, 1)] {
            let mut values = vec![0i64, 1, 2, 3, 3, 2];
            values[place] = wrong;
            let index = Array::from_slice(device, &[3, 2], &values).unwrap();
            let source = normal(device, &[3, 2], 6);
            let g = normal(device, &[3, 3, 2], 7);
            for result in [
                take(&x, 1, &index),
                gather(&x, 1, &index),
                scatter(&x, 1, &index, &source),
                scatter_add(&x, 1, &index, &source),
                take_gradient(&g, 1, &index, x.shape()),
            ] {
                let error = result.unwrap_err();
                let Error::IndexOutOfRange { index, position, axis, length, .. } = error else {
                    panic!("{}: {error}", device.id());
                };
                assert_eq!(
                    (index, position, axis, length),
                    (wrong, place, 1, 4),
                    "{}",
                    device.id()
                );
            }
        }
        // The first of several, in the order of the index, however it lies.
        let index = Array::from_slice(device, &[2, 2], &[0i32, 7, -5, 0]).unwrap();
        let turned = index.permute(&[1, 0]).unwrap();
        let error = take(&x, 0, &turned).unwrap_err();
        assert!(matches!(error, Error::IndexOutOfRange { index: -5, position: 1, .. }), "{error}");
        // Also where the result is written into the same memory, as in a graph's arena.
        let values = Array::from_slice(device, &[8], &[0i64, 9, 0, 0, 0, 0, 0, 0]).unwrap();
        let half = |first: usize| {
            let layout = Layout::contiguous(Shape::new(&[4]).unwrap());
            Array::new(values.buffer().view(first..first + 4).unwrap(), layout).unwrap()
        };
        let table = Array::from_slice(device, &[2], &[5i64, 6]).unwrap();
        let look_up = Lookup { rule: LookupRule::Take, axis: 0 };
        let error = run(&look_up, &[&half(0), &table], &half(4)).unwrap_err();
        assert!(matches!(error, Error::IndexOutOfRange { index: 9, position: 1, .. }), "{error}");
        // There is nothing to look up.
        let none = Array::empty(device, DType::F32, Shape::new(&[0, 2]).unwrap()).unwrap();
        let error = take(&none, 0, &index).unwrap_err();
        assert!(matches!(error, Error::IndexOutOfRange { index: 0, length: 0, .. }), "{error}");
        let g = normal(device, &[2, 2, 2], 8);
        let error = take_gradient(&g, 0, &index, none.shape()).unwrap_err();
        assert!(matches!(error, Error::IndexOutOfRange { index: 0, length: 0, .. }), "{error}");
    }
}

#[test]
fn mistakes_are_refused() {
    let device = &devices_under_test()[0];
    let x = normal(device, &[3, 4], 1);
    let index = indices(device, &[3, 2], 4);
    let core = |result: polaris_ops::Result<Array>| match result.unwrap_err() {
        Error::Core(error) => error,
        other => panic!("{other}"),
    };
    let invalid = |result: polaris_ops::Result<Array>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::InvalidParameter { .. }), "{error}");
    };
    assert!(matches!(core(take(&x, 2, &index)), CoreError::AxisOutOfRange { axis: 2, .. }));
    assert!(matches!(core(gather(&x, 9, &index)), CoreError::AxisOutOfRange { axis: 9, .. }));
    assert!(matches!(core(take(&x, 0, &x)), CoreError::UnsupportedDType { .. }));
    let deep = indices(device, &[1; 8], 1);
    assert!(matches!(core(take(&x, 0, &deep)), CoreError::RankTooLarge { rank: 9 }));
    invalid(gather(&x, 1, &indices(device, &[4, 2], 4)));
    invalid(gather(&x, 1, &indices(device, &[3], 4)));
    invalid(scatter(&x, 1, &index, &normal(device, &[3, 1], 2)));
    let whole = Array::from_slice(device, &[3, 4], &[1i32; 12]).unwrap();
    assert!(matches!(
        core(scatter_add(&whole, 1, &index, &whole)),
        CoreError::UnsupportedDType { .. }
    ));
    assert!(matches!(core(scatter(&x, 1, &index, &whole)), CoreError::DTypeMismatch { .. }));
    let gradient = take_gradient(&x, 0, &index, x.shape());
    assert!(matches!(core(gradient), CoreError::ShapeMismatch { .. }));
    let op = Scatter { rule: ScatterRule::Add, axis: 1 };
    let error = run(&op, &[&index, &x, &x], &x).unwrap_err();
    assert!(matches!(error, Error::AliasedOutput { .. }), "{error}");
    let error = run(&op, &[&index, &x], &x).unwrap_err();
    assert!(matches!(error, Error::WrongArity { expected: 3, found: 2, .. }), "{error}");
}

#[test]
fn the_base_may_be_the_output() {
    for device in devices_under_test() {
        let (base, source) = (normal(device, &[40, 7], 1), normal(device, &[90, 7], 2));
        let index = indices(device, &[90, 7], 40);
        for rule in [ScatterRule::Add, ScatterRule::Assign] {
            let op = Scatter { rule, axis: 0 };
            let expected = match rule {
                ScatterRule::Add => scatter_add(&base, 0, &index, &source),
                _ => scatter(&base, 0, &index, &source),
            };
            let place = normal(device, &[40, 7], 1);
            run(&op, &[&index, &place, &source], &place).unwrap();
            assert_eq!(wide(&place), wide(&expected.unwrap()), "{}", device.id());
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let with_threads = |threads| -> Vec<Vec<f64>> {
        let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
        let runtime = Runtime::discover(&options).unwrap();
        let device = runtime.cpu();
        let tokens = indices(device, &[4000], 300);
        let g = normal(device, &[4000, 130], 1);
        let table = Shape::new(&[300, 130]).unwrap();
        let index = indices(device, &[4000, 130], 300);
        let base = normal(device, &[300, 130], 2);
        vec![
            wide(&take_gradient(&g, 0, &tokens, &table).unwrap()),
            wide(&scatter_add(&base, 0, &index, &g).unwrap()),
        ]
    };
    assert_eq!(with_threads(1), with_threads(3));
}
