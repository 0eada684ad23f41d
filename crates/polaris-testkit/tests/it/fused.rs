//! Fused expressions on every device: gradients against double precision, updates in place, and
//! programs that are built once.

use polaris_core::DType;
use polaris_ops::fused::{Builder, Expression, Value, evaluate, evaluate_into};
use polaris_ops::suite::{Tolerance, agrees};
use polaris_ops::{Array, Binary, Function, Ternary, Unary};
use polaris_runtime::DeviceRef;
use polaris_testkit::{devices_under_test, own_runtime};

/// The functions, each times a scalar, added up: one program for all of them, in which scalars
/// decide which one is seen.
fn sum_of(functions: &[Function]) -> Expression {
    let build = &Builder::new(3);
    let [a, b, c] = build.inputs();
    let term = |&function: &Function| -> Value<'_> {
        let value = match function {
            Function::Unary(function) => a.unary(function),
            Function::Binary(function) => a.binary(function, b),
            Function::Ternary(Ternary::Where) => {
                a.binary(Binary::Less, b).ternary(Ternary::Where, b, c)
            }
            Function::Ternary(function) => a.ternary(function, b, c),
        };
        value * build.scalar(0.0)
    };
    let sum = functions.iter().map(term).reduce(|sum, term| sum + term);
    build.finish(sum.expect("there should be a function")).expect("the sum should not be too long")
}

/// Numbers of a length that is not a multiple of a vector.
fn drawn(seed: u64, positive: bool) -> Vec<f32> {
    (0..203u64)
        .map(|i| ((i + 1) * (seed + 7) * 2_654_435_761 % 1_000_003) as f32 / 250_000.75 - 2.0)
        .map(|x| if positive { x.abs() + 0.3 } else { x })
        .collect()
}

/// The result of `f32` on a device, and of `f64` on the CPU.
fn both(expression: &Expression, inputs: &[Vec<f32>], device: &DeviceRef) -> [Vec<f64>; 2] {
    let cpu = &devices_under_test()[0];
    let single: Vec<Array> = inputs
        .iter()
        .map(|values| Array::from_slice(device, &[values.len()], values).unwrap())
        .collect();
    let double: Vec<Array> = inputs
        .iter()
        .map(|values| {
            let values: Vec<f64> = values.iter().copied().map(f64::from).collect();
            Array::from_slice(cpu, &[values.len()], &values).unwrap()
        })
        .collect();
    let run = |arrays: &[Array]| evaluate(expression, &arrays.iter().collect::<Vec<_>>()).unwrap();
    let single = run(&single).to_vec::<f32>().unwrap().into_iter().map(f64::from).collect();
    [single, run(&double).to_vec::<f64>().unwrap()]
}

/// Asks that both agree.
fn compare(what: &str, expression: &Expression, inputs: &[Vec<f32>], device: &DeviceRef) {
    let [found, expected] = both(expression, inputs, device);
    for (at, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
        let outcome = agrees(Tolerance::Elementary, DType::F32, found, expected, 8.0);
        let id = device.id();
        assert!(outcome.is_ok(), "{id}: {what}, element {at}: {found} instead of {expected}");
    }
}

/// Each function's gradients, by each input, on each device.
fn check_gradients(functions: &[Function], inputs: usize, positive: bool) {
    let arrays: Vec<Vec<f32>> = (0..4).map(|seed| drawn(seed, positive && seed < 3)).collect();
    for input in 0..inputs {
        let mut gradient = sum_of(functions).gradient(input).unwrap();
        for (index, function) in functions.iter().enumerate() {
            gradient.scalars_mut().fill(0.0);
            gradient.scalars_mut()[index] = 1.0;
            for device in devices_under_test() {
                let what = format!("{} by input {input}", function.name());
                compare(&what, &gradient, &arrays, device);
            }
        }
    }
}

#[test]
fn gradients_of_functions_of_one_number() {
    use Unary::*;
    let half = [Neg, Abs, Square, Relu, Exp, Sin, Cos, Tanh].map(Function::Unary);
    check_gradients(&half, 1, false);
    let half = [Erf, Sigmoid, Silu, GeluErf, GeluTanh, GeluErfSlope, Sign, Floor, Ceil, Round];
    check_gradients(&half.map(Function::Unary), 1, false);
}

#[test]
fn gradients_of_the_other_functions() {
    use Binary::*;
    let mut functions: Vec<Function> =
        [Unary::Sqrt, Unary::Rsqrt, Unary::Reciprocal, Unary::Log].map(Function::Unary).to_vec();
    functions.extend([Add, Sub, Mul, Div, Pow, Maximum, Minimum].map(Function::Binary));
    functions.extend(Ternary::ALL.iter().copied().map(Function::Ternary));
    check_gradients(&functions, 3, true);
}

#[test]
fn gradients_of_chains() {
    let build = Builder::new(3);
    let [a, x, b] = build.inputs();
    let affine = a * x + b;
    let arrays: Vec<Vec<f32>> = (0..4).map(|seed| drawn(seed, false)).collect();
    for value in [
        affine.unary(Unary::GeluErf),
        affine.unary(Unary::Tanh).ternary(Ternary::Clamp, -0.5, 0.5) * affine.unary(Unary::Silu),
        (x * x + 1.0).unary(Unary::Sqrt) / (affine.unary(Unary::Square) + 0.5),
    ] {
        let gradient = build.finish(value).unwrap().gradient(1).unwrap();
        for device in devices_under_test() {
            compare(&gradient.to_string(), &gradient, &arrays, device);
        }
    }
}

/// As many axes as there may be, none of which can be joined.
#[test]
fn many_axes() {
    let build = Builder::new(2);
    let [x, y] = build.inputs();
    let difference = build.finish(x - y * 2.0).unwrap();
    let values: Vec<f32> = (0..256).map(|i| i as f32).collect();
    for device in devices_under_test() {
        let straight = Array::from_slice(device, &[2; 8], &values).unwrap();
        let turned = straight.permute(&[7, 6, 5, 4, 3, 2, 1, 0]).unwrap();
        let found = evaluate(&difference, &[&turned, &straight]).unwrap();
        let reversed = |i: u8| f32::from(i.reverse_bits());
        let expected: Vec<f32> = (0..=255).map(|i| reversed(i) - 2.0 * f32::from(i)).collect();
        assert_eq!(found.to_vec::<f32>().unwrap(), expected, "{}", device.id());
    }
}

/// Another number is no other program, on any device.
#[test]
fn another_scalar_builds_nothing() {
    let build = Builder::new(2);
    let [w, g] = build.inputs();
    let rate = build.scalar(0.5);
    let mut step = build.finish(w - rate * g).unwrap();
    // Other tests build programs on the devices that they share.
    for device in own_runtime().devices() {
        let w = Array::from_slice(device, &[6], &[8.0f32; 6]).unwrap();
        let g = Array::from_slice(device, &[6], &[1.0f32; 6]).unwrap();
        let built = || {
            let counts = device.as_opencl().map(|device| device.program_counts());
            counts.map_or(0, |counts| counts.built + counts.from_disk)
        };
        step.scalars_mut()[0] = 0.5;
        evaluate_into(&step, &[&w, &g], &w).unwrap();
        let before = built();
        step.scalars_mut()[0] = 2.0;
        evaluate_into(&step, &[&w, &g], &w).unwrap();
        // The same structure, made again.
        let again = Builder::new(2);
        let [x, y] = again.inputs();
        let rate = again.scalar(0.25);
        let again = again.finish(x - rate * y).unwrap();
        evaluate_into(&again, &[&w, &g], &w).unwrap();
        assert_eq!(w.to_vec::<f32>().unwrap(), [5.25; 6]);
        assert_eq!(built(), before, "{}", device.id());
    }
}
