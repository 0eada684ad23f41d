//! Derivatives against finite differences, conventions at kinks, mistakes, and what the suites of all
//! devices do not show.

use polaris_core::{Bool, DType, Error as CoreError, Shape};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;
use crate::{Binary, Function, Ternary, Unary};

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).expect("the CPU should be there").cpu().clone()
}

fn array(device: &DeviceRef, values: &[f64]) -> Array {
    Array::from_slice(device, &[values.len()], values).unwrap()
}

/// The value of an expression for each index of these lists.
fn values(expression: &Expression, inputs: &[Vec<f64>]) -> Vec<f64> {
    let cpu = device(1);
    let arrays: Vec<Array> = inputs.iter().map(|values| array(&cpu, values)).collect();
    let result = evaluate(expression, &arrays.iter().collect::<Vec<_>>()).unwrap();
    match result.dtype() {
        DType::Bool => result
            .to_vec::<Bool>()
            .unwrap()
            .into_iter()
            .map(|truth| f64::from(u8::from(truth.get())))
            .collect(),
        _ => result.to_vec::<f64>().unwrap(),
    }
}

/// One function of as many inputs as it takes.
fn of_function(function: Function) -> Expression {
    let build = Builder::new(function.arity());
    let value = |index: usize| build.input(index);
    build
        .finish(match function {
            Function::Unary(function) => value(0).unary(function),
            Function::Binary(function) => value(0).binary(function, value(1)),
            Function::Ternary(function) => value(0).ternary(function, value(1), value(2)),
        })
        .unwrap()
}

/// Points away from kinks and poles, for each of up to four inputs.
fn points(positive: bool) -> Vec<Vec<f64>> {
    let numbers = |from: f64, step: f64| -> Vec<f64> {
        (0..24)
            .map(|i| from + step * f64::from(i))
            .map(|x| if positive { x.abs() + 0.07 } else { x })
            .collect()
    };
    // 0.2137 is the distance from whole numbers, halves and each other that all of these keep.
    vec![
        numbers(-2.2137, 0.1931),
        numbers(1.6871, -0.1373),
        numbers(-0.9613, 0.1177),
        numbers(2.3719, -0.2011),
    ]
}

/// Compares each gradient of an expression with differences of its values.
fn check_gradients(expression: &Expression, points: &[Vec<f64>]) {
    let inputs = &points[..expression.inputs()];
    let g: Vec<f64> = (0..inputs[0].len()).map(|i| 1.5 - 0.13 * i as f64).collect();
    for input in 0..expression.inputs() {
        let gradient = expression.gradient(input).unwrap();
        let found = values(&gradient, &[inputs, std::slice::from_ref(&g)].concat());
        let step = 1e-5;
        let moved = |by: f64| {
            let mut inputs = inputs.to_vec();
            inputs[input].iter_mut().for_each(|x| *x += by);
            values(expression, &inputs)
        };
        let (above, below) = (moved(step), moved(-step));
        for i in 0..g.len() {
            let expected = g[i] * (above[i] - below[i]) / (2.0 * step);
            let allowed = 1e-7 * (1.0 + expected.abs());
            assert!(
                (found[i] - expected).abs() <= allowed,
                "{expression}: by input {input} at {:?}: {} instead of {expected}",
                inputs.iter().map(|x| x[i]).collect::<Vec<_>>(),
                found[i],
            );
        }
    }
}

#[test]
fn every_function_has_its_derivative() {
    for function in Function::all() {
        let positive = matches!(
            function,
            Function::Unary(Unary::Sqrt | Unary::Rsqrt | Unary::Log)
                | Function::Binary(Binary::Pow)
        );
        check_gradients(&of_function(function), &points(positive));
    }
}

#[test]
fn chains_have_their_derivatives() {
    let build = Builder::new(3);
    let [a, x, b] = build.inputs();
    let affine = a * x + b;
    let scale = build.scalar(0.7);
    for value in [
        affine.unary(Unary::GeluErf),
        affine.unary(Unary::GeluTanh) * scale - x,
        (x * x + 1.0).unary(Unary::Sqrt) / (affine.unary(Unary::Square) + 0.5),
        x.binary(Binary::Less, a).ternary(Ternary::Where, affine.unary(Unary::Silu), x * b),
        affine.unary(Unary::Tanh).ternary(Ternary::Clamp, -0.5, 0.5) * affine.unary(Unary::Erf),
        (2.0 - affine.unary(Unary::Sigmoid)).binary(Binary::Pow, x.unary(Unary::Sin)),
        x.binary(Binary::Maximum, b).binary(Binary::Minimum, a * 0.5) * x,
    ] {
        let expression = build.finish(value).unwrap();
        check_gradients(&expression, &points(false));
        // A gradient is an expression like any other.
        check_gradients(&expression.gradient(1).unwrap(), &points(false));
    }
}

/// The derivative where there is none, as PyTorch has it.
#[test]
fn kinks_follow_the_convention() {
    let nan = f64::NAN;
    let at = |function: Function, input: usize, inputs: &[f64]| {
        let gradient = of_function(function).gradient(input).unwrap();
        let inputs: Vec<Vec<f64>> = inputs.iter().chain([&4.0]).map(|&x| vec![x]).collect();
        values(&gradient, &inputs)[0]
    };
    for (function, input, inputs, expected) in [
        (Unary::Relu.into(), 0, &[0.0][..], 0.0),
        (Unary::Relu.into(), 0, &[nan], 4.0),
        (Unary::Abs.into(), 0, &[0.0], 0.0),
        (Unary::Sign.into(), 0, &[0.0], 0.0),
        (Unary::GeluErf.into(), 0, &[0.0], 2.0),
        (Binary::Maximum.into(), 0, &[3.0, 3.0], 2.0),
        (Binary::Maximum.into(), 1, &[3.0, 3.0], 2.0),
        (Binary::Minimum.into(), 0, &[3.0, 3.0], 2.0),
        (Binary::Minimum.into(), 1, &[2.0, 3.0], 0.0),
        (Ternary::Clamp.into(), 0, &[1.0, 1.0, 2.0], 4.0),
        (Ternary::Clamp.into(), 0, &[2.0, 1.0, 2.0], 4.0),
        (Ternary::Clamp.into(), 0, &[nan, 1.0, 2.0], 4.0),
        (Ternary::Clamp.into(), 1, &[1.0, 1.0, 2.0], 0.0),
        (Ternary::Clamp.into(), 2, &[2.5, 1.0, 2.0], 4.0),
        (Binary::Pow.into(), 0, &[0.0, 0.0], 0.0),
        (Binary::Pow.into(), 1, &[0.0, 2.0], 0.0),
        (Ternary::Where.into(), 0, &[1.0, 1.0, 2.0], 0.0),
    ] {
        let function: Function = function;
        assert_eq!(at(function, input, inputs), expected, "{} of {inputs:?}", function.name());
    }
}

#[test]
fn what_is_computed_twice_is_one_node() {
    let build = Builder::new(2);
    let [x, y] = build.inputs();
    let twice = (x * y).unary(Unary::Exp) + (y * x).unary(Unary::Exp);
    let expression = build.finish(twice).unwrap();
    assert_eq!(expression.to_string(), "v2 = mul(x0, x1); v3 = exp(v2); v4 = add(v3, v3)");
    // What does not reach the result is gone, inputs keep their numbers, and registers are used
    // again: the longest chain of values needs two.
    let long = (0..40).fold(y, |value, _| value.unary(Unary::Sin));
    let long = build.finish(long).unwrap();
    assert_eq!((long.inputs(), long.uses(0), long.uses(1)), (2, false, true));
    assert_eq!((long.nodes().len(), long.schedule().registers), (41, 2));
}

#[test]
fn an_expression_may_be_a_single_value() {
    let build = Builder::new(2);
    let [x, y] = build.inputs();
    for (value, expected) in
        [(x, 1.0), (y, 2.0), (build.constant(3.0), 3.0), (build.scalar(4.0), 4.0)]
    {
        let expression = build.finish(value).unwrap();
        assert_eq!(values(&expression, &[vec![1.0; 5], vec![2.0; 5]]), [expected; 5]);
    }
    // A gradient that is zero everywhere.
    let gradient = build.finish(x).unwrap().gradient(1).unwrap();
    assert_eq!(values(&gradient, &vec![vec![1.0; 3]; 3]), [0.0; 3]);
}

#[test]
fn building_mistakes_are_told_at_the_end() {
    let build = Builder::new(2);
    let other = Builder::new(2);
    let [x, y] = build.inputs();
    let too_long = (0..MAX_NODES).fold(x, |value, _| value.unary(Unary::Sin) + y);
    let told = |result: Result<Expression>, word: &str| match result {
        Err(Error::InvalidParameter { what, .. }) => assert!(what.contains(word), "{what}"),
        other => panic!("{other:?}"),
    };
    told(build.finish(too_long), "nodes");
    told(build.finish(x).unwrap().gradient(2), "input 2");
    told(build.finish(other.input(0)), "another builder");
    told(build.finish(x), "another builder");
    for inputs in [0, MAX_INPUTS + 1] {
        let build = Builder::new(inputs);
        told(build.finish(build.constant(1.0)), "input arrays");
    }
    told(other.finish(other.input(2)), "input 2");
    let many = Builder::new(1);
    (0..=MAX_SCALARS).for_each(|_| _ = many.scalar(1.0));
    told(many.finish(many.input(0)), "scalars");
    let full = Builder::new(MAX_INPUTS);
    told(full.finish(full.input(0)).unwrap().gradient(0), "input arrays");
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let cpu = device(1);
    let sum = of_function(Binary::Add.into());
    let f32s = |count: usize| Array::from_slice(&cpu, &[count], &vec![1.0f32; count]).unwrap();
    let three = f32s(3);
    let double = array(&cpu, &[1.0; 3]);
    let whole = Array::from_slice(&cpu, &[3], &[1i32; 3]).unwrap();
    assert!(matches!(evaluate(&sum, &[]), Err(Error::WrongArity { expected: 2, found: 0, .. })));
    assert!(matches!(evaluate(&sum, &[&three]), Err(Error::WrongArity { found: 1, .. })));
    let core = |result: Result<Array>| match result {
        Err(Error::Core(error)) => error,
        other => panic!("{other:?}"),
    };
    let shapes = core(evaluate(&sum, &[&three, &f32s(4)]));
    assert!(matches!(shapes, CoreError::ShapeMismatch { .. }));
    let types = core(evaluate(&sum, &[&three, &double]));
    assert!(matches!(types, CoreError::DTypeMismatch { .. }));
    let integers = core(evaluate(&sum, &[&three, &whole]));
    assert!(matches!(integers, CoreError::UnsupportedDType { .. }));
    assert!(evaluate_into(&sum, &[&three, &three], &f32s(4)).is_err());
    let repeated = f32s(1).broadcast_to(&Shape::new(&[3]).unwrap()).unwrap();
    assert!(evaluate_into(&sum, &[&three, &three], &repeated).is_err());
    // An input may be the output, but not be shifted against it.
    let six = f32s(6);
    let [front, back] = [0..4, 2..6].map(|range| six.slice(0, range, 1).unwrap());
    let shifted = evaluate_into(&sum, &[&front, &front], &back);
    assert!(matches!(shifted, Err(Error::AliasedOutput { .. })));
}

/// Adam's moments and weights are updated in place, whatever the number of threads.
#[test]
fn updates_in_place() {
    let count = 100_003;
    let build = Builder::new(3);
    let [weight, gradient, mean] = build.inputs();
    let rate = build.scalar(0.1);
    let step = build.finish(weight - rate * (mean + gradient).unary(Unary::Tanh)).unwrap();
    let drawn = |factor: usize| -> Vec<f32> {
        (0..count).map(|i| (i * factor % 101) as f32 / 25.0 - 2.0).collect()
    };
    let separate = |device: &DeviceRef| {
        let inputs = [37, 41, 43].map(|n| Array::from_slice(device, &[count], &drawn(n)).unwrap());
        let [w, g, m] = &inputs;
        let apart = evaluate(&step, &[w, g, m]).unwrap().to_vec::<f32>().unwrap();
        evaluate_into(&step, &[w, g, m], w).unwrap();
        assert!(w.to_vec::<f32>().unwrap() == apart);
        apart
    };
    assert!(separate(&device(1)) == separate(&device(3)));
}

/// Types of storage mix, masks are made and used, and short rows are joined to blocks.
#[test]
fn mixed_types_masks_and_short_rows() {
    use polaris_core::f16;
    let cpu = device(2);
    let build = Builder::new(3);
    let [mask, x, row] = build.inputs();
    let chosen = build.finish(mask.ternary(Ternary::Where, x * row, -x)).unwrap();
    let rows = 700;
    let mask: Vec<Bool> = (0..rows).map(|i| Bool::from(i % 3 == 0)).collect();
    let mask = Array::from_slice(&cpu, &[rows, 1], &mask).unwrap();
    let x: Vec<f32> = (0..rows * 3).map(|i| i as f32).collect();
    let x = Array::from_slice(&cpu, &[rows, 3], &x).unwrap();
    let row: Vec<f16> = [2.0, 3.0, 4.0].map(f16::from_f32).to_vec();
    let row = Array::from_slice(&cpu, &[3], &row).unwrap();
    let found = evaluate(&chosen, &[&mask, &x, &row]).unwrap().to_vec::<f32>().unwrap();
    for (i, &found) in found.iter().enumerate() {
        let x = i as f32;
        let expected = if i / 3 % 3 == 0 { x * (2 + i % 3) as f32 } else { -x };
        assert_eq!(found, expected, "element {i}");
    }
    let build = Builder::new(1);
    let large = build.finish(build.input(0).binary(Binary::Greater, 100.0)).unwrap();
    let large = evaluate(&large, &[&x]).unwrap();
    assert_eq!(large.dtype(), DType::Bool);
    assert!((0..rows * 3).all(|i| large.to_vec::<Bool>().unwrap()[i].get() == (i > 100)));
}
