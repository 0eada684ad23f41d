//! The cases of rotary embeddings: both pairings in every type, with and without elements beyond the pairs.

use polaris_core::DType;

use super::{Pairing, Rope};
use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "rope",
    super::opencl::shipped_programs,
    || VARIANTS.len(),
    |variant| VARIANTS[variant].1 == DType::F32,
    case,
);

const VARIANTS: [(Pairing, DType); 5] = [
    (Pairing::Halves, DType::F32),
    (Pairing::Adjacent, DType::F32),
    (Pairing::Halves, DType::F16),
    (Pairing::Adjacent, DType::BF16),
    (Pairing::Halves, DType::F64),
];

fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (pairing, dtype) = VARIANTS[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let mut shape = parameters.shape.clone();
    if shape.is_empty() {
        shape.push(3);
    }
    let last = shape.len() - 1;
    // All elements, or some.
    let pairs = match numbers.below(2) {
        0 => shape[last] / 2,
        _ => numbers.below(shape[last] as u64 / 2 + 1) as usize,
    };
    let mut angles = shape.clone();
    angles[last] = pairs;
    let x = Arrangement { broadcast: 0, missing_axes: 0, ..parameters.inputs[0].clone() };
    // Pairs themselves are not repeated.
    let table = |index: usize| Arrangement {
        broadcast: parameters.inputs[index].broadcast & !(1 << last),
        missing_axes: parameters.inputs[index].missing_axes.min(last),
        ..parameters.inputs[index].clone()
    };
    let mut draw = |shape: &[usize], place: &Arrangement| {
        Operand::input(shape, place, dtype, Domain::Any, false, numbers)
    };
    let inputs = vec![draw(&shape, &x), draw(&angles, &table(1)), draw(&angles, &table(2))];
    let output = Operand::output(&shape, &parameters.output, dtype, numbers);
    // Numbers of magnitude 4 at most are multiplied and subtracted.
    let scale = vec![32.0; output.layout.elements()];
    Case::new(Rope { pairing }, inputs, output, Tolerance::Arithmetic, scale)
}
