//! Mistakes, special values, and what the suites of all devices do not show.

use polaris_core::{DType, Error as CoreError, Layout, Shape, f16};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;
use crate::{Error, Operation};

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).expect("the CPU should be there").cpu().clone()
}

fn ramp(device: &DeviceRef, dims: &[usize], seed: usize) -> Array {
    let elements: usize = dims.iter().product();
    let value = |i: usize| ((i * 37 + seed * 11) % 101) as f32 / 25.0 - 2.0;
    Array::from_slice(device, dims, &(0..elements).map(value).collect::<Vec<f32>>()).unwrap()
}

fn bits(array: &Array) -> Vec<u32> {
    array.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn plain() -> Attention {
    Attention::default()
}

fn causal(causal_offset: i64) -> Attention {
    Attention { causal: true, causal_offset, ..plain() }
}

fn values(array: &Array) -> Vec<f32> {
    array.to_vec::<f32>().unwrap()
}

/// Attention and its gradients with everything of one; eight arrays' bits.
fn everything(op: &Attention, cpu: &DeviceRef, [h, hk, m, n, d]: [usize; 5]) -> Vec<Vec<u32>> {
    let q = ramp(cpu, &[1, h, m, d], 1);
    let (k, v) = (ramp(cpu, &[1, hk, n, d], 2), ramp(cpu, &[1, hk, n, d], 3));
    let g = ramp(cpu, &[1, h, m, d], 4);
    let attended = attention(op, &q, &k, &v, None).unwrap();
    let gradients = attention_gradient(op, &q, &k, &v, None, &attended, &g).unwrap();
    let arrays = [attended.output, attended.log_sum_exp, gradients.q, gradients.k, gradients.v];
    arrays.iter().map(bits).collect()
}

#[test]
fn shapes_and_types_that_do_not_fit_are_refused() {
    let cpu = device(1);
    let q = ramp(&cpu, &[1, 4, 5, 8], 1);
    let k = ramp(&cpu, &[1, 2, 7, 8], 2);
    let core = |result: Result<Attended>| match result.unwrap_err() {
        Error::Core(error) => error,
        other => panic!("{other}"),
    };
    for other in [&[2, 2, 7, 8][..], &[1, 2, 7, 9]] {
        let k = ramp(&cpu, other, 2);
        assert!(matches!(
            core(attention(&plain(), &q, &k, &k, None)),
            CoreError::ShapeMismatch { .. }
        ));
    }
    let mask = ramp(&cpu, &[5, 6], 2);
    let refused = core(attention(&plain(), &q, &k, &k, Some(&mask)));
    assert!(matches!(refused, CoreError::ShapeMismatch { .. }));
    let integers = Array::from_slice(&cpu, &[1, 2, 7, 8], &[1i32; 112]).unwrap();
    let refused = core(attention(&plain(), &q, &integers, &k, None));
    assert!(matches!(refused, CoreError::DTypeMismatch { .. }));
    let refused = core(attention(&plain(), &integers, &integers, &integers, None));
    assert!(matches!(refused, CoreError::UnsupportedDType { .. }));
    let flat = ramp(&cpu, &[8], 1);
    let three = ramp(&cpu, &[1, 3, 7, 8], 2);
    let scale = Attention { scale: Some(f64::NAN), ..plain() };
    for result in [
        attention(&plain(), &flat, &k, &k, None),
        attention(&plain(), &q, &three, &three, None),
        attention(&scale, &q, &k, &k, None),
    ] {
        assert!(matches!(result.unwrap_err(), Error::InvalidParameter { .. }));
    }
    let arity = run(&plain(), &[&q, &k], &q).unwrap_err();
    assert!(matches!(arity, Error::WrongArity { expected: 3, found: 2, .. }), "{arity}");
    let gradient = AttentionGradient { forward: plain() };
    let arity = run(&gradient, &[&q; 5], &q).unwrap_err();
    assert!(matches!(arity, Error::WrongArity { expected: 6, found: 5, .. }), "{arity}");
}

#[test]
fn outputs_that_are_not_flat_and_apart_are_refused() {
    let cpu = device(1);
    let q = ramp(&cpu, &[1, 1, 3, 4], 1);
    let check = |output: &Array| plain().check(&[&q, &q, &q], output);
    assert!(check(&ramp(&cpu, &[15], 0)).is_ok());
    let dims = check(&ramp(&cpu, &[3, 5], 0)).unwrap_err();
    assert!(matches!(dims, Error::Core(CoreError::ShapeMismatch { .. })));
    let spread = ramp(&cpu, &[30], 0).slice(0, 0..30, 2).unwrap();
    assert!(matches!(check(&spread).unwrap_err(), Error::InvalidParameter { .. }));
    let all = ramp(&cpu, &[27], 0);
    let inside = Layout::new(*q.shape(), &[12, 12, 4, 1], 3).unwrap();
    let inside = Array::new(all.buffer().clone(), inside).unwrap();
    let result = plain().check(&[&inside, &q, &q], &all.slice(0, 12..27, 1).unwrap());
    assert!(matches!(result.unwrap_err(), Error::AliasedOutput { .. }));
    let inside = Layout::new(*q.shape(), &[12, 12, 4, 1], 0).unwrap();
    let inside = Array::new(all.buffer().clone(), inside).unwrap();
    assert!(plain().check(&[&inside, &q, &q], &all.slice(0, 12..27, 1).unwrap()).is_ok());
}

/// Whoever is given nothing to see has zeros and no part in any gradient.
#[test]
fn queries_that_see_nothing_have_zeros() {
    let cpu = device(1);
    let (q, k) = (ramp(&cpu, &[1, 1, 3, 4], 1), ramp(&cpu, &[1, 1, 5, 4], 2));
    let g = ramp(&cpu, &[1, 1, 3, 4], 3);
    let hidden = Array::from_slice(&cpu, &[1], &[f32::NEG_INFINITY]).unwrap();
    for (op, mask) in [(plain(), Some(&hidden)), (causal(-9), None), (causal(i64::MIN), None)] {
        let attended = attention(&op, &q, &k, &k, mask).unwrap();
        assert_eq!(values(&attended.output), [0.0; 12]);
        assert_eq!(values(&attended.log_sum_exp), [f32::NEG_INFINITY; 3]);
        let gradients = attention_gradient(&op, &q, &k, &k, mask, &attended, &g).unwrap();
        assert_eq!(values(&gradients.q), [0.0; 12]);
        assert_eq!(values(&gradients.k), [0.0; 20]);
        assert_eq!(values(&gradients.v), [0.0; 20]);
    }
    // The first query sees nothing, the second the first key alone.
    let attended = attention(&causal(-1), &q, &k, &k, None).unwrap();
    assert_eq!(values(&attended.output)[..4], [0.0; 4]);
    assert_eq!(values(&attended.output)[4..8], values(&k)[..4]);
}

#[test]
fn no_queries_no_keys_and_no_values() {
    let cpu = device(2);
    for (m, n, d, dv) in [(0, 3, 4, 4), (3, 0, 4, 4), (0, 0, 4, 4), (3, 3, 4, 0), (3, 3, 0, 4)] {
        let (q, k) = (ramp(&cpu, &[2, 2, m, d], 1), ramp(&cpu, &[2, 2, n, d], 2));
        let (v, g) = (ramp(&cpu, &[2, 2, n, dv], 3), ramp(&cpu, &[2, 2, m, dv], 4));
        let attended = attention(&plain(), &q, &k, &v, None).unwrap();
        assert_eq!(attended.output.shape(), g.shape());
        assert_eq!(attended.log_sum_exp.elements(), 4 * m);
        let gradients = attention_gradient(&plain(), &q, &k, &v, None, &attended, &g).unwrap();
        for (gradient, array) in [(&gradients.q, &q), (&gradients.k, &k), (&gradients.v, &v)] {
            assert_eq!(gradient.shape(), array.shape());
            if m == 0 || n == 0 {
                assert!(values(gradient).iter().all(|&value| value == 0.0));
            }
        }
    }
    for dims in [[0, 2, 3, 4], [2, 0, 3, 4]] {
        let x = ramp(&cpu, &dims, 1);
        assert_eq!(attention(&plain(), &x, &x, &x, None).unwrap().output.elements(), 0);
    }
}

/// Scores of a hundred thousand, whose exponentials no type holds.
#[test]
fn large_scores_do_not_overflow() {
    let cpu = device(1);
    let element = |i: usize| [-32.0f32, 0.0, 64.0, 128.0][i * 7 % 4];
    let rows: Vec<f32> = (0..70 * 64).map(|i| element(i / 64 + i % 64 / 4)).collect();
    let x = Array::from_slice(&cpu, &[1, 1, 70, 64], &rows).unwrap();
    let op = Attention { scale: Some(1.0), ..plain() };
    let attended = attention(&op, &x, &x, &x, None).unwrap();
    let reference = op.reference(&[wide(&rows), wide(&rows), wide(&rows)], &[&x; 3], &x);
    let found = [values(&attended.output), values(&attended.log_sum_exp)].concat();
    for (found, expected) in found.into_iter().zip(reference) {
        assert!((f64::from(found) - expected).abs() <= 1e-6 * expected.abs(), "{found} {expected}");
    }
    let gradients = attention_gradient(&op, &x, &x, &x, None, &attended, &x).unwrap();
    assert!(values(&gradients.q).iter().all(|value| value.is_finite()));
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

#[test]
fn a_nan_spoils_its_query_alone() {
    let cpu = device(1);
    let mut rows = values(&ramp(&cpu, &[1, 1, 40, 3], 1));
    rows[3 * 17] = f32::NAN;
    let q = Array::from_slice(&cpu, &[1, 1, 40, 3], &rows).unwrap();
    let k = ramp(&cpu, &[1, 1, 200, 3], 2);
    let attended = attention(&plain(), &q, &k, &k, None).unwrap();
    let output = values(&attended.output);
    assert!((0..120).all(|i| output[i].is_nan() == (i / 3 == 17)));
    assert!((0..40).all(|i| values(&attended.log_sum_exp)[i].is_nan() == (i == 17)));
    rows[3 * 17] = f32::INFINITY;
    let q = Array::from_slice(&cpu, &[1, 1, 40, 3], &rows).unwrap();
    let output = values(&attention(&plain(), &q, &k, &k, None).unwrap().output);
    assert!((0..120).all(|i| output[i].is_nan() == (i / 3 == 17)));
}

/// Decoding: the last query of a whole is the only query of its end.
#[test]
fn the_border_can_be_aligned_to_the_end() {
    let cpu = device(2);
    let (q, k) = (ramp(&cpu, &[1, 4, 150, 8], 1), ramp(&cpu, &[1, 2, 150, 8], 2));
    let whole = attention(&causal(0), &q, &k, &k, None).unwrap().output;
    let last = q.slice(2, 149..150, 1).unwrap();
    let alone = attention(&causal(149), &last, &k, &k, None).unwrap().output;
    let expected = values(&whole.slice(2, 149..150, 1).unwrap());
    for (found, expected) in values(&alone).into_iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
}

#[test]
fn half_precisions_are_given_in_their_type() {
    let cpu = device(1);
    let halves = |seed: usize| {
        let values = values(&ramp(&cpu, &[1, 2, 9, 5], seed));
        let values: Vec<f16> = values.into_iter().map(f16::from_f32).collect();
        Array::from_slice(&cpu, &[1, 2, 9, 5], &values).unwrap()
    };
    let (q, k, g) = (halves(1), halves(2), halves(3));
    let attended = attention(&plain(), &q, &k, &k, None).unwrap();
    assert_eq!(attended.output.dtype(), DType::F16);
    assert_eq!(attended.log_sum_exp.dtype(), DType::F32);
    assert_eq!(attended.log_sum_exp.buffer().len(), 18);
    let gradients = attention_gradient(&plain(), &q, &k, &k, None, &attended, &g).unwrap();
    for gradient in [gradients.q, gradients.k, gradients.v] {
        assert_eq!((gradient.dtype(), *gradient.shape()), (DType::F16, *q.shape()));
    }
}

/// Few heads with many keys, whose gradients are shared out in stretches, and groups of heads.
#[test]
fn the_number_of_threads_changes_no_bit() {
    for (op, sizes) in [
        (causal(0), [2, 1, 300, 1300, 16]),
        (plain(), [6, 3, 70, 65, 5]),
        (causal(7), [1, 1, 1, 9, 1]),
    ] {
        let alone = everything(&op, &device(1), sizes);
        assert!(
            [2, 3, 8].into_iter().all(|threads| everything(&op, &device(threads), sizes) == alone)
        );
    }
}

/// The gradients of a loss are what it changes by.
#[test]
fn gradients_are_differences() {
    let cpu = device(1);
    let (q_dims, k_dims) = ([1, 2, 5, 3], [1, 1, 6, 3]);
    let draw = |dims: &[usize], seed: usize| wide(&values(&ramp(&cpu, dims, seed)));
    let inputs = [draw(&q_dims, 1), draw(&k_dims, 2), draw(&k_dims, 3)];
    let weights = draw(&q_dims, 4);
    let array = |dims: &[usize], values: &[f64]| Array::from_slice(&cpu, dims, values).unwrap();
    let op = causal(1);
    let attend = |inputs: &[Vec<f64>; 3]| {
        let [q, k, v] = inputs;
        let (q, k, v) = (array(&q_dims, q), array(&k_dims, k), array(&k_dims, v));
        let attended = attention(&op, &q, &k, &v, None).unwrap();
        (q, k, v, attended)
    };
    let loss = |inputs: &[Vec<f64>; 3]| -> f64 {
        let output = attend(inputs).3.output.to_vec::<f64>().unwrap();
        output.iter().zip(&weights).map(|(output, weight)| output * weight).sum()
    };
    let (q, k, v, attended) = attend(&inputs);
    let g = array(&q_dims, &weights);
    let found = attention_gradient(&op, &q, &k, &v, None, &attended, &g).unwrap();
    let step = 1e-6;
    for (input, found) in [found.q, found.k, found.v].iter().enumerate() {
        for (at, found) in found.to_vec::<f64>().unwrap().into_iter().enumerate() {
            let moved = |by: f64| {
                let mut inputs = inputs.clone();
                inputs[input][at] += by;
                loss(&inputs)
            };
            let expected = (moved(step) - moved(-step)) / (2.0 * step);
            assert!((found - expected).abs() < 1e-7, "{input} {at}: {found} {expected}");
        }
    }
}

/// What is requested could not even be counted.
#[test]
fn sizes_that_overflow_are_refused() {
    let cpu = device(1);
    let one = ramp(&cpu, &[1, 1, 1, 1], 1);
    let huge = Shape::new(&[1, 1 << 30, 1 << 25, 1]).unwrap();
    let x = one.broadcast_to(&huge).unwrap();
    assert!(attention(&plain(), &x, &x, &x, None).is_err());
}
