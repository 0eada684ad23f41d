//! The cases of running sums.

use crate::scan::CumSum;
use polaris_core::DType;

use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family =
    Family::new("scan", super::shipped_programs, || VARIANTS.len(), is_essential, case);

/// Whether sums run from the end, and the type.
const VARIANTS: [(bool, DType); 5] = [
    (false, DType::F32),
    (true, DType::F32),
    (false, DType::F16),
    (true, DType::BF16),
    (true, DType::F64),
];

/// Both directions in `f32`.
fn is_essential(variant: usize) -> bool {
    VARIANTS[variant].1 == DType::F32
}

/// The axis is the first one that a reduction would take.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (reverse, dtype) = VARIANTS[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let mut shape = parameters.shape.clone();
    match shape.as_mut_slice() {
        [] => shape.push(1),
        // Kernels cut lanes of more than 8192 elements into segments.
        [length] if *length >= 5000 => *length *= 2,
        _ => {}
    }
    let axis = parameters.axes.trailing_zeros() as usize % shape.len();
    let arrangement = Arrangement { broadcast: 0, missing_axes: 0, ..parameters.inputs[0].clone() };
    let input =
        Operand::input(&shape, &arrangement, dtype, Domain::Any, parameters.special, numbers);
    let output = Operand::output(&shape, &parameters.output, dtype, numbers);
    // The error of a sum scales with the magnitudes it is made of, not with what is left.
    let finite =
        || input.contents.iter().filter(|value| value.is_finite()).map(|value| value.abs());
    let average = finite().sum::<f64>() / finite().count().max(1) as f64;
    let scale = vec![average * shape[axis] as f64; output.layout.elements()];
    let op = CumSum { axis, reverse };
    Case::new(op, vec![input], output, Tolerance::Accumulated, scale)
}
