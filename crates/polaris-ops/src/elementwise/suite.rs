//! The cases of elementwise functions: every function in `f32`, typical ones in every type.

use polaris_core::DType;

use super::Elementwise;
use crate::families::Family;
use crate::suite::{Case, CaseParameters, Domain, Numbers, Operand, Tolerance};
use crate::{Binary, Function, Ternary, Unary};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "elementwise",
    super::shipped_programs,
    || variants().len(),
    |variant| variants()[variant].1 == DType::F32,
    case,
);

fn variants() -> Vec<(Function, DType)> {
    let of_f32 = Function::all().filter(|f| f.is_defined_for(DType::F32)).map(|f| (f, DType::F32));
    let logic = [Binary::And, Binary::Or, Binary::Xor].map(|f| (Function::Binary(f), DType::Bool));
    let mut variants: Vec<(Function, DType)> = of_f32.chain(logic).collect();
    let typical: [Function; 9] = [
        Binary::Add.into(),
        Binary::Mul.into(),
        Binary::Div.into(),
        Binary::Maximum.into(),
        Binary::Less.into(),
        Unary::Neg.into(),
        Unary::Exp.into(),
        Unary::Not.into(),
        Ternary::Where.into(),
    ];
    for dtype in DType::ALL.into_iter().skip(1) {
        variants
            .extend(typical.into_iter().filter(|f| f.is_defined_for(dtype)).map(|f| (f, dtype)));
    }
    variants
}

fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (function, dtype) = variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let domain = |index: usize| match (function, index) {
        (Function::Unary(Unary::Sqrt | Unary::Log | Unary::Rsqrt), _) => Domain::Positive,
        (Function::Binary(Binary::Pow), 0) => Domain::Positive,
        (Function::Unary(Unary::Reciprocal), _) | (Function::Binary(Binary::Div), 1) => {
            Domain::NonZero
        }
        _ => Domain::Any,
    };
    // Where a device may answer what it likes, there is nothing to compare: powers and angles of
    // infinities, and GELU of minus infinity, which is infinity times a rounded zero.
    let special = parameters.special
        && !matches!(
            function,
            Function::Binary(Binary::Pow)
                | Function::Unary(Unary::Sin | Unary::Cos | Unary::GeluErf | Unary::GeluTanh)
                | Function::Unary(Unary::GeluErfSlope)
        );
    let inputs: Vec<Operand> = (0..function.arity())
        .map(|index| {
            let dtype = function.input_dtype(index, dtype);
            Operand::input(
                &parameters.shape,
                &parameters.inputs[index],
                dtype,
                domain(index),
                special,
                numbers,
            )
        })
        .collect();
    let output = Operand::output(
        &parameters.shape,
        &parameters.output,
        function.output_dtype(dtype),
        numbers,
    );
    let tolerance = match function {
        _ if function.is_predicate() => Tolerance::Exact,
        Function::Unary(unary) => match unary {
            Unary::Neg
            | Unary::Abs
            | Unary::Sign
            | Unary::Relu
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round => Tolerance::Exact,
            Unary::Square => Tolerance::Arithmetic,
            Unary::Sqrt | Unary::Reciprocal => Tolerance::Division,
            _ => Tolerance::Elementary,
        },
        Function::Binary(Binary::Maximum | Binary::Minimum) => Tolerance::Exact,
        Function::Binary(Binary::Div) => Tolerance::Division,
        Function::Binary(Binary::Pow) => Tolerance::Elementary,
        Function::Ternary(Ternary::Where | Ternary::Clamp) => Tolerance::Exact,
        _ => Tolerance::Arithmetic,
    };
    let scale = cancellation_scale(function, &inputs, &output);
    Case::new(Elementwise { function }, inputs, output, tolerance, scale)
}

/// Where a result comes from the difference of larger numbers, its error scales with those.
fn cancellation_scale(function: Function, inputs: &[Operand], output: &Operand) -> Vec<f64> {
    let largest = inputs
        .iter()
        .flat_map(|input| input.contents.iter().copied())
        .filter(|value| value.is_finite())
        .fold(1.0f64, |largest, value| largest.max(value.abs()));
    let scale = match function {
        Function::Unary(Unary::Sin | Unary::Cos | Unary::GeluErfSlope) => 1.0,
        Function::Unary(Unary::GeluErf | Unary::GeluTanh) => largest,
        Function::Ternary(Ternary::MulAdd) => largest * largest,
        _ => return Vec::new(),
    };
    vec![scale; output.layout.elements()]
}
