//! The cases of quantisation: each rule with both int8 types.

use polaris_core::DType;

use super::{Requantize, Scale};
use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "quantize",
    super::opencl::shipped_programs,
    || VARIANTS.len(),
    |variant| VARIANTS[variant].1 == DType::U8,
    case,
);

#[derive(Debug, Clone, Copy)]
enum Rule {
    Quantize,
    Dequantize,
    Add,
}

/// The rule and the type of bytes.
const VARIANTS: [(Rule, DType); 6] = [
    (Rule::Quantize, DType::U8),
    (Rule::Quantize, DType::I8),
    (Rule::Dequantize, DType::U8),
    (Rule::Dequantize, DType::I8),
    (Rule::Add, DType::U8),
    (Rule::Add, DType::I8),
];

fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (rule, byte) = VARIANTS[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let scale = |numbers: &mut Numbers| {
        let zero = numbers.below(256) as i32 - if byte == DType::I8 { 128 } else { 0 };
        Scale { scale: numbers.between(0.01, 0.1) as f32, zero }
    };
    let [a, b, to] = [scale(numbers), scale(numbers), scale(numbers)];
    let (op, from, to) = match rule {
        Rule::Quantize => (Requantize::Quantize(a), DType::F32, byte),
        Rule::Dequantize => (Requantize::Dequantize(a), byte, DType::F32),
        Rule::Add => {
            let relu = numbers.below(2) == 1;
            (Requantize::Add { inputs: [a, b], output: to, relu }, byte, byte)
        }
    };
    let count = if matches!(rule, Rule::Add) { 2 } else { 1 };
    let inputs = (0..count).map(|index| {
        let place =
            Arrangement { broadcast: 0, missing_axes: 0, ..parameters.inputs[index].clone() };
        let special = parameters.special;
        Operand::input(&parameters.shape, &place, from, Domain::Any, special, numbers)
    });
    let inputs = inputs.collect();
    let output = Operand::output(&parameters.shape, &parameters.output, to, numbers);
    Case::new(op, inputs, output, Tolerance::Exact, Vec::new())
}
