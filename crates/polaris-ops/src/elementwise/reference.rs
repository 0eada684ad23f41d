//! The functions by their plain definitions, in `f64` and, for integers, in `i128`.

use polaris_core::{Collapsed, DType};

use super::{Binary, Function, Ternary, Unary};
use crate::Array;
use crate::cpu::math::erf_f64;

/// Applies the function point by point. `inputs` hold each array's own elements in row-major
/// order; broadcasting is done here by index arithmetic.
pub fn elementwise(
    function: Function,
    inputs: &[Vec<f64>],
    arrays: &[&Array],
    output: &Array,
) -> Vec<f64> {
    let shape = output.shape();
    let dtype = arrays[arrays.len() - 1].dtype();
    let spaces: Vec<Collapsed<1>> = arrays
        .iter()
        .map(|array| {
            let dense = polaris_core::Layout::contiguous(*array.shape());
            let broadcast = dense.broadcast_to("reference", shape);
            Collapsed::new(shape, [&broadcast.expect("shapes should have been checked")])
        })
        .collect();
    let argument = |index: usize, point: usize| match inputs.get(index) {
        Some(values) => values[spaces[index].point(point)[0]],
        None => 0.0,
    };
    (0..shape.elements())
        .map(|point| {
            let [a, b, c] = [0, 1, 2].map(|index| argument(index, point));
            if dtype.is_float() {
                float(function, a, b, c)
            } else {
                integer(function, a, b, c, dtype)
            }
        })
        .collect()
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// A function of one number.
pub(crate) fn unary(function: Unary, x: f64) -> f64 {
    float(Function::Unary(function), x, 0.0, 0.0)
}

impl Function {
    /// The function of numbers by definition; those that it does not take are ignored. Truth values are 1 and 0, and
    /// whatever is not 0 counts as true.
    pub fn of_numbers(self, [a, b, c]: [f64; 3]) -> f64 {
        float(self, a, b, c)
    }
}

fn float(function: Function, a: f64, b: f64, c: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match function {
        Function::Unary(unary) => match unary {
            Unary::Neg => -a,
            Unary::Abs => a.abs(),
            Unary::Sign if a == 0.0 || a.is_nan() => a,
            Unary::Sign => a.signum(),
            Unary::Square => a * a,
            Unary::Relu if a < 0.0 => 0.0,
            Unary::Relu => a,
            Unary::Sqrt => a.sqrt(),
            Unary::Rsqrt => 1.0 / a.sqrt(),
            Unary::Reciprocal => 1.0 / a,
            Unary::Exp => a.exp(),
            Unary::Log => a.ln(),
            Unary::Sin => a.sin(),
            Unary::Cos => a.cos(),
            Unary::Tanh => a.tanh(),
            Unary::Erf => erf_f64(a),
            Unary::Sigmoid => sigmoid(a),
            Unary::Silu => a * sigmoid(a),
            Unary::GeluErf => 0.5 * a * (1.0 + erf_f64(a * std::f64::consts::FRAC_1_SQRT_2)),
            Unary::GeluTanh => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (a + 0.044715 * a.powi(3));
                0.5 * a * (1.0 + inner.tanh())
            }
            Unary::GeluErfSlope => {
                let density = (-0.5 * a * a).exp() / (2.0 * std::f64::consts::PI).sqrt();
                0.5 * (1.0 + erf_f64(a * std::f64::consts::FRAC_1_SQRT_2)) + a * density
            }
            Unary::Floor => a.floor(),
            Unary::Ceil => a.ceil(),
            Unary::Round => a.round_ties_even(),
            Unary::Not => truth(a == 0.0),
        },
        Function::Binary(binary) => match binary {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            Binary::Pow => a.powf(b),
            Binary::Maximum | Binary::Minimum if a.is_nan() || b.is_nan() => f64::NAN,
            Binary::Maximum => a.max(b),
            Binary::Minimum => a.min(b),
            Binary::Equal => truth(a == b),
            Binary::NotEqual => truth(a != b),
            Binary::Less => truth(a < b),
            Binary::LessEqual => truth(a <= b),
            Binary::Greater => truth(a > b),
            Binary::GreaterEqual => truth(a >= b),
            Binary::And => truth(a != 0.0 && b != 0.0),
            Binary::Or => truth(a != 0.0 || b != 0.0),
            Binary::Xor => truth((a != 0.0) != (b != 0.0)),
        },
        Function::Ternary(ternary) => match ternary {
            Ternary::Where => {
                if a != 0.0 {
                    b
                } else {
                    c
                }
            }
            Ternary::MulAdd => a * b + c,
            Ternary::Clamp if a < b => b,
            Ternary::Clamp if a > c => c,
            Ternary::Clamp => a,
        },
    }
}

fn integer(function: Function, a: f64, b: f64, c: f64, dtype: DType) -> f64 {
    let (x, y, z) = (a as i128, b as i128, c as i128);
    let wrap = |value: i128| match dtype {
        DType::I8 => value as i8 as f64,
        DType::U8 => value as u8 as f64,
        DType::I32 => value as i32 as f64,
        _ => value as i64 as f64,
    };
    match function {
        Function::Unary(Unary::Neg) => wrap(-x),
        Function::Unary(Unary::Abs) => wrap(x.abs()),
        Function::Unary(Unary::Sign) => wrap(x.signum()),
        Function::Unary(Unary::Square) => wrap(x * x),
        Function::Unary(Unary::Relu) => wrap(x.max(0)),
        Function::Binary(Binary::Add) => wrap(x + y),
        Function::Binary(Binary::Sub) => wrap(x - y),
        Function::Binary(Binary::Mul) => wrap(x * y),
        Function::Binary(Binary::Div) => wrap(if y == 0 { 0 } else { x / y }),
        Function::Binary(Binary::Maximum) => wrap(x.max(y)),
        Function::Binary(Binary::Minimum) => wrap(x.min(y)),
        Function::Ternary(Ternary::MulAdd) => wrap(x * y + z),
        // Comparisons, choices and logic are the same for numbers of every kind.
        _ => float(function, a, b, c),
    }
}
