//! The cases of sorting: types of every kind and size, in both directions, whole or the first few.

use crate::sort::ArgSort;
use polaris_core::DType;

use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family =
    Family::new("sort", super::shipped_programs, || VARIANTS.len(), is_essential, case);

/// Whether the largest comes first, and the type.
const VARIANTS: [(bool, DType); 8] = [
    (false, DType::F32),
    (true, DType::F32),
    (true, DType::F16),
    (false, DType::F64),
    (false, DType::I32),
    (true, DType::U8),
    (false, DType::I64),
    (true, DType::I8),
];

/// Both directions in `f32`.
fn is_essential(variant: usize) -> bool {
    VARIANTS[variant].1 == DType::F32
}

/// The axis is the first one that a reduction would take; every other case keeps the first few.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (descending, dtype) = VARIANTS[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let mut shape = parameters.shape.clone();
    if shape.is_empty() {
        shape.push(1);
    }
    let axis = parameters.axes.trailing_zeros() as usize % shape.len();
    let arrangement = Arrangement { broadcast: 0, missing_axes: 0, ..parameters.inputs[0].clone() };
    let mut input =
        Operand::input(&shape, &arrangement, dtype, Domain::Any, parameters.special, numbers);
    // Many elements are equal.
    for value in &mut input.contents {
        *value = if numbers.below(2) == 0 { value.trunc() } else { *value };
    }
    if numbers.below(2) == 0 {
        shape[axis] = numbers.below(shape[axis] as u64 + 1) as usize;
    }
    let output = Operand::output(&shape, &parameters.output, DType::I64, numbers);
    let op = ArgSort { axis, descending };
    Case::new(op, vec![input], output, Tolerance::Exact, Vec::new())
}
