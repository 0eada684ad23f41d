//! The cases of fused expressions: trees of smooth functions, selections and comparisons.

use crate::fused::{Builder, Expression, Node, Value};
use crate::{Binary, Function, Ternary, Unary};
use polaris_core::{Collapsed, DType, Shape};

use crate::families::Family;
use crate::suite::{Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new("fused", super::shipped_programs, count, is_essential, case);

/// What a variant computes.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A tree of smooth functions, drawn with this seed.
    Tree(u64),
    /// The gradient of such a tree with respect to its first input.
    Gradient(u64),
    /// Choices by bools, also of values that are not numbers.
    Choice,
    /// A comparison.
    Comparison,
}

/// Few, since each costs a program for each kernel. The type is that of inputs and output; `None`
/// takes all that are computed in `f32` in turn.
const VARIANTS: [(Kind, Option<DType>); 9] = [
    (Kind::Tree(1), Some(DType::F32)),
    (Kind::Tree(2), Some(DType::F32)),
    (Kind::Gradient(3), Some(DType::F32)),
    (Kind::Choice, Some(DType::F32)),
    (Kind::Comparison, Some(DType::F32)),
    (Kind::Tree(4), Some(DType::F16)),
    (Kind::Tree(5), Some(DType::F64)),
    (Kind::Tree(6), None),
    (Kind::Choice, Some(DType::BF16)),
];

/// How many variants there are.
fn count() -> usize {
    VARIANTS.len()
}

/// The expressions of `f32`.
fn is_essential(variant: usize) -> bool {
    VARIANTS[variant].1 == Some(DType::F32)
}

fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (kind, dtype) = VARIANTS[variant];
    of_kind(kind, dtype, parameters)
}

fn of_kind(kind: Kind, dtype: Option<DType>, parameters: &CaseParameters) -> Case {
    let numbers = &mut Numbers::new(parameters.seed);
    let mut expression = match kind {
        Kind::Tree(seed) => tree(seed),
        Kind::Gradient(seed) => {
            tree(seed).gradient(0).expect("the gradient of a small tree should not be too large")
        }
        Kind::Choice => choice(),
        Kind::Comparison => comparison(),
    };
    expression.scalars_mut().iter_mut().for_each(|scalar| *scalar = numbers.between(-2.0, 2.0));
    let decides = matches!(kind, Kind::Choice | Kind::Comparison);
    let dtype_of = |index: usize| match dtype {
        Some(_) if decides && index == 0 => DType::Bool,
        Some(dtype) => dtype,
        None => [DType::F32, DType::BF16, DType::F16][index % 3],
    };
    let inputs: Vec<Operand> = (0..expression.inputs())
        .map(|index| {
            Operand::input(
                &parameters.shape,
                &parameters.inputs[index % 3],
                dtype_of(index),
                Domain::Any,
                parameters.special && decides,
                numbers,
            )
        })
        .collect();
    let output_dtype = match kind {
        Kind::Comparison => DType::Bool,
        _ => dtype.unwrap_or(DType::F32),
    };
    let output = Operand::output(&parameters.shape, &parameters.output, output_dtype, numbers);
    if decides {
        return Case::new(expression, inputs, output, Tolerance::Exact, Vec::new());
    }
    let scale = error_scales(&expression, &inputs, output.layout.shape());
    Case::new(expression, inputs, output, Tolerance::Elementary, scale)
}

/// An expression of a few inputs, a scalar, and functions that are smooth and defined everywhere.
fn tree(seed: u64) -> Expression {
    let numbers = &mut Numbers::new(seed);
    let inputs = 1 + numbers.below(5) as usize;
    let build = &Builder::new(inputs);
    let mut values: Vec<Value<'_>> = (0..inputs).map(|index| build.input(index)).collect();
    values.push(build.scalar(0.0));
    for _ in 0..4 + numbers.below(5) {
        let mut pick = || values[numbers.below(values.len() as u64) as usize];
        let [a, b, c] = [pick(), pick(), pick()];
        let condition = build.input(0).binary(Binary::Less, build.input(inputs - 1));
        values.push(match numbers.below(20) {
            0 => -a,
            1 => a + b,
            2 => a - b,
            3 => a * b,
            4 => a / (b.unary(Unary::Square) + 0.5),
            5 => a.ternary(Ternary::MulAdd, b, c),
            6 => condition.ternary(Ternary::Where, a, b),
            7 => a.unary(Unary::Sin).unary(Unary::Square),
            8 => {
                let base = a.unary(Unary::Tanh).unary(Unary::Sigmoid);
                base.binary(Binary::Pow, b.unary(Unary::Tanh))
            }
            9 => a.unary(Unary::Tanh).unary(Unary::Exp),
            10 => (a.unary(Unary::Square) + 0.5).unary(Unary::Log),
            11 => (a.unary(Unary::Square) + 0.5).unary(Unary::Sqrt),
            12 => (a.unary(Unary::Square) + 0.5).unary(Unary::Rsqrt),
            13 => a.unary(Unary::Sin),
            14 => a.unary(Unary::Cos),
            15 => a.unary(Unary::Erf),
            16 => a.unary(Unary::Silu),
            17 => a.unary(Unary::GeluErf),
            18 => a.unary(Unary::GeluTanh),
            _ => a.unary(Unary::Tanh),
        });
    }
    // All that was computed has a share in the result.
    let result = values.iter().skip(inputs).copied().reduce(|sum, value| sum + value);
    let result = result.expect("a tree should have a value");
    build.finish(result).expect("a tree should be small")
}

/// The largest, within bounds, where a mask says so, and otherwise one of two.
fn choice() -> Expression {
    let build = Builder::new(4);
    let [mask, x, y, z] = build.inputs();
    let largest = x.binary(Binary::Maximum, y).ternary(Ternary::Clamp, -1.0, 2.0);
    let smallest = y.binary(Binary::Minimum, z.unary(Unary::Relu));
    let either = x.binary(Binary::Greater, z).binary(Binary::Xor, mask);
    let other = either.ternary(Ternary::Where, smallest, z.unary(Unary::Abs));
    build.finish(mask.ternary(Ternary::Where, largest, other)).expect("a choice should be small")
}

fn comparison() -> Expression {
    let build = Builder::new(3);
    let [mask, x, y] = build.inputs();
    let different = x.unary(Unary::Floor).binary(Binary::NotEqual, y.unary(Unary::Round));
    let outside = x.binary(Binary::GreaterEqual, y).unary(Unary::Not);
    let either = different.binary(Binary::And, mask).binary(Binary::Or, outside);
    build.finish(either).expect("a comparison should be small")
}

/// What the error of each element scales with.
fn error_scales(expression: &Expression, inputs: &[Operand], shape: &Shape) -> Vec<f64> {
    let spaces: Vec<Collapsed<1>> = inputs
        .iter()
        .map(|input| {
            let layout = input.layout.broadcast_to("fused", shape);
            Collapsed::new(shape, [&layout.expect("inputs should broadcast to the shape")])
        })
        .collect();
    let at_point = |point: usize| {
        let element = |index: usize| inputs[index].contents[spaces[index].point(point)[0]];
        error_scale(expression, &element)
    };
    (0..shape.elements()).map(at_point).collect()
}

/// The magnitudes of all values on the way, each times how much the result depends on it.
fn error_scale(expression: &Expression, element: &dyn Fn(usize) -> f64) -> f64 {
    let mut found: Vec<(f64, f64)> = Vec::with_capacity(expression.nodes().len());
    for node in expression.nodes() {
        found.push(match *node {
            Node::Input(index) => (element(index), 0.0),
            Node::Scalar(index) => number(expression.scalars()[index]),
            Node::Constant(bits) => number(f64::from_bits(bits)),
            Node::Apply(function, arguments) => {
                let values = arguments.map(|argument| found[argument].0);
                let value = function.of_numbers(values);
                let inherited = (0..function.arity())
                    .map(|n| found[arguments[n]].1 * slope(function, values, n));
                (value, inherited.sum::<f64>() + rounding_scale(function, values, value))
            }
        });
    }
    found.last().map_or(0.0, |found| found.1)
}

/// A number and the scale of its error: it is rounded.
fn number(value: f64) -> (f64, f64) {
    (value, value.abs())
}

/// How much a function changes with one of its arguments.
fn slope(function: Function, values: [f64; 3], argument: usize) -> f64 {
    let step = 1e-6 * (1.0 + values[argument].abs());
    let moved = |by: f64| {
        let mut values = values;
        values[argument] += by;
        function.of_numbers(values)
    };
    let slope = (moved(step) - moved(-step)).abs() / (2.0 * step);
    if slope.is_finite() { slope } else { 0.0 }
}

/// What a function's own error scales with: its value, or what that is the difference of.
fn rounding_scale(function: Function, [a, b, c]: [f64; 3], value: f64) -> f64 {
    match function {
        Function::Unary(Unary::Sin | Unary::Cos | Unary::GeluErfSlope) => 1.0,
        Function::Unary(Unary::GeluErf | Unary::GeluTanh) => a.abs(),
        Function::Ternary(Ternary::MulAdd) => (a * b).abs() + c.abs(),
        _ => value.abs(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use polaris_runtime::{Runtime, RuntimeOptions};

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 400,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Any tree and any gradient on the CPU, where a structure does not cost a program.
        #[test]
        fn arbitrary_trees_and_gradients(
            seed in any::<u64>(),
            gradient in any::<bool>(),
            dtype in prop::sample::select(vec![
                None, Some(DType::F32), Some(DType::F64), Some(DType::F16), Some(DType::BF16),
            ]),
            parameters in any::<u64>().prop_map(CaseParameters::drawn),
        ) {
            let kind = if gradient { Kind::Gradient(seed) } else { Kind::Tree(seed) };
            let case = of_kind(kind, dtype, &parameters);
            let options = RuntimeOptions { opencl: false, ..RuntimeOptions::default() };
            let runtime = Runtime::discover(&options).unwrap();
            let outcome = case.run(runtime.cpu());
            prop_assert!(outcome.is_ok(), "{outcome:?}");
        }
    }
}
