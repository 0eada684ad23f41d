//! Elementwise functions, of two operands that are broadcast, and conversions.

use polaris_onnx::ElementType;

use super::build::{Builder, Made};
use crate::models::{float, int};

/// Functions that are continuous, and bend moderately where inputs are moderate.
const SMOOTH: [&str; 17] = [
    "Sigmoid",
    "Tanh",
    "Erf",
    "Softplus",
    "LeakyRelu",
    "Elu",
    "Selu",
    "HardSigmoid",
    "HardSwish",
    "Mish",
    "Sin",
    "Cos",
    "Atan",
    "Softsign",
    "Celu",
    "Sinh",
    "Asinh",
];
/// Functions that give the same bits whoever computes them.
const PLAIN: [&str; 4] = ["Relu", "Neg", "Abs", "Identity"];
/// Functions with steps.
const STEPS: [&str; 7] = ["Floor", "Ceil", "Round", "Sign", "ThresholdedRelu", "Shrink", "IsNaN"];

pub fn propose(builder: &mut Builder) {
    match builder.random.below(10) {
        0 | 1 => unary(builder),
        2 => narrow(builder),
        3 | 4 => binary(builder),
        5 => integers(builder),
        6 => truth(builder),
        7 => cast(builder),
        8 => clip(builder),
        _ => quantize(builder),
    }
}

fn unary(builder: &mut Builder) {
    let Some(x) = builder.find(Made::is_float) else { return };
    match builder.random.below(4) {
        0 => {
            let operator = *builder.random.pick(&PLAIN);
            builder.add(operator, &[Some(&x)], 1, vec![], true);
        }
        1 if x.exact => {
            let operator = *builder.random.pick(&STEPS);
            builder.add(operator, &[Some(&x)], 1, vec![], true);
        }
        _ => {
            let operator = *builder.random.pick(&SMOOTH);
            let alpha = matches!(operator, "LeakyRelu" | "Elu" | "Celu");
            let attributes = if alpha { vec![float("alpha", 0.3)] } else { vec![] };
            builder.add(operator, &[Some(&x)], 1, attributes, false);
        }
    }
}

/// Functions that are moderate on a part of the numbers only.
fn narrow(builder: &mut Builder) {
    let (operator, attributes) = match builder.random.below(8) {
        0 => ("Exp", vec![]),
        1 => ("Sqrt", vec![]),
        2 => ("Log", vec![]),
        3 => ("Reciprocal", vec![]),
        4 if builder.opset() >= 20 => ("Gelu", vec![]),
        5 => ("Asin", vec![]),
        6 => ("Acosh", vec![]),
        _ => ("Tan", vec![]),
    };
    let fits = |x: f64| match operator {
        "Exp" => x.abs() < 4.0,
        "Sqrt" | "Log" => x > 0.1,
        "Reciprocal" => x.abs() > 0.1,
        "Asin" => x.abs() < 0.9,
        "Acosh" => x > 1.1 && x < 100.0,
        "Tan" => x.abs() < 1.2,
        _ => true,
    };
    let Some(x) = builder.find(|made| made.is_float() && made.all(fits)) else { return };
    builder.add(operator, &[Some(&x)], 1, attributes, false);
}

/// Another operand of the same type that can be broadcast with this one: a value or a constant.
pub fn partner(builder: &mut Builder, x: &Made) -> Made {
    let shape = x.tensor.shape().to_vec();
    let fits = |other: &Made| {
        let pairs = other.tensor.shape().iter().rev().zip(shape.iter().rev());
        other.element() == x.element() && pairs.clone().all(|(a, b)| a == b || *a == 1 || *b == 1)
    };
    if builder.random.once_in(2)
        && let Some(other) = builder.find(fits)
    {
        return other;
    }
    let cut = builder.random.below(shape.len() + 1);
    let lengths: Vec<usize> = shape[cut..]
        .iter()
        .map(|&length| if builder.random.once_in(3) { 1 } else { length })
        .collect();
    builder.constant(x.element(), &lengths)
}

fn binary(builder: &mut Builder) {
    let Some(x) = builder.find(Made::is_float) else { return };
    let y = partner(builder, &x);
    let (x, y) = if builder.random.once_in(3) { (y, x) } else { (x, y) };
    let operands = [Some(&x), Some(&y)];
    match builder.random.below(9) {
        0 | 1 => builder.add("Add", &operands, 1, vec![], false),
        2 => builder.add("Sub", &operands, 1, vec![], false),
        3 => builder.add("Mul", &operands, 1, vec![], false),
        4 if y.all(|y| y.abs() > 0.1) => builder.add("Div", &operands, 1, vec![], false),
        5 => builder.add("Max", &operands, 1, vec![], true),
        6 => builder.add("Min", &operands, 1, vec![], true),
        7 => builder.add("PRelu", &operands, 1, vec![], false),
        _ if x.all(|x| x > 0.1) && y.all(|y| y.abs() < 3.0) => {
            builder.add("Pow", &operands, 1, vec![], false)
        }
        _ => builder.add("Mean", &operands, 1, vec![], false),
    };
}

fn integers(builder: &mut Builder) {
    let Some(x) = builder.find(|made| made.element().is_integer()) else { return };
    let y = partner(builder, &x);
    let operands = [Some(&x), Some(&y)];
    let wide = matches!(x.element(), ElementType::I32 | ElementType::I64);
    match builder.random.below(8) {
        0 if wide => builder.add("Add", &operands, 1, vec![], true),
        1 if wide => builder.add("Sub", &operands, 1, vec![], true),
        2 if wide => builder.add("Mul", &operands, 1, vec![], true),
        3 if wide && y.all(|y| y != 0.0) => builder.add("Div", &operands, 1, vec![], true),
        4 if y.all(|y| y != 0.0) => builder.add("Mod", &operands, 1, vec![], true),
        5 => builder.add("Max", &operands, 1, vec![], true),
        6 => builder.add("BitwiseAnd", &operands, 1, vec![], true),
        _ => builder.add("Min", &operands, 1, vec![], true),
    };
}

fn truth(builder: &mut Builder) {
    if builder.random.once_in(2)
        && let Some(x) = builder.find(|made| made.exact && made.element() != ElementType::Bool)
    {
        let y = partner(builder, &x);
        if y.exact {
            let operators = ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"];
            let operator = *builder.random.pick(&operators);
            builder.add(operator, &[Some(&x), Some(&y)], 1, vec![], true);
        }
        return;
    }
    let Some(condition) = builder.find(|made| made.element() == ElementType::Bool) else { return };
    match builder.random.below(3) {
        0 => {
            builder.add("Not", &[Some(&condition)], 1, vec![], true);
        }
        1 => {
            let other = partner(builder, &condition);
            let operator = *builder.random.pick(&["And", "Or", "Xor"]);
            builder.add(operator, &[Some(&condition), Some(&other)], 1, vec![], true);
        }
        _ => {
            let Some(x) = builder.find(Made::is_float) else { return };
            let y = partner(builder, &x);
            builder.add("Where", &[Some(&condition), Some(&x), Some(&y)], 1, vec![], true);
        }
    }
}

fn cast(builder: &mut Builder) {
    use ElementType::{Bool, F16, F32, F64, I32, I64, U8};
    let Some(x) = builder.find(|_| true) else { return };
    let to = *builder.random.pick(&[F32, F32, F64, F16, I32, I64, U8, Bool]);
    // What does not fit an integer is cast to what the machine likes.
    if to == U8 && !x.all(|x| (0.0..=255.0).contains(&x)) {
        return;
    }
    builder.add("Cast", &[Some(&x)], 1, vec![int("to", i64::from(to.code()))], true);
}

fn clip(builder: &mut Builder) {
    let Some(x) = builder.find(Made::is_float) else { return };
    let (low, high) = (builder.constant(x.element(), &[]), builder.constant(x.element(), &[]));
    match builder.random.below(3) {
        0 => builder.add("Clip", &[Some(&x), Some(&low)], 1, vec![], true),
        1 => builder.add("Clip", &[Some(&x), None, Some(&high)], 1, vec![], true),
        _ if low.tensor.to_f64().ok() <= high.tensor.to_f64().ok() => {
            builder.add("Clip", &[Some(&x), Some(&low), Some(&high)], 1, vec![], true)
        }
        _ => builder.add("Clip", &[Some(&x), Some(&high), Some(&low)], 1, vec![], true),
    };
}

fn quantize(builder: &mut Builder) {
    let is_f32 = |made: &Made| made.element() == ElementType::F32;
    let small = [ElementType::U8, ElementType::I8];
    let scale = polaris_onnx::Tensor::scalar(0.05f32);
    if builder.random.once_in(2)
        && let Some(x) = builder.find(|made| small.contains(&made.element()))
    {
        let (scale, zero) = (builder.keep(scale), builder.constant(x.element(), &[]));
        builder.add("DequantizeLinear", &[Some(&x), Some(&scale), Some(&zero)], 1, vec![], false);
    } else if let Some(x) = builder.find(|made| is_f32(made) && made.exact) {
        let element = *builder.random.pick(&small);
        let (scale, zero) = (builder.keep(scale), builder.constant(element, &[]));
        builder.add("QuantizeLinear", &[Some(&x), Some(&scale), Some(&zero)], 1, vec![], true);
    }
}
