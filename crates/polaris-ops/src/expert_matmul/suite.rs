//! The cases of matmul with experts: every type of weights, experts of one, few and many tokens.

use polaris_core::{Collapsed, DType};

use super::ExpertMatMul;
use crate::families::Family;
use crate::format::Block;
use crate::matmul::Precision;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "expert_matmul",
    super::opencl::shipped_programs,
    || DENSE.len() + 2 * Block::ALL.len(),
    |variant| variant == 0,
    case,
);

/// Types of dense weights; the formats of blocks follow, with x as it is and rounded to bytes.
const DENSE: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Lengths of lines: one, odd ones, and long enough for all work-items.
const LENGTHS: [usize; 7] = [70, 1, 5, 16, 33, 64, 600];

/// The last axes of the shape are lines and tokens.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let numbers = &mut Numbers::new(parameters.seed);
    let from_end = |place: usize| parameters.shape.iter().rev().nth(place).copied();
    let n = from_end(0).unwrap_or(9).min(80);
    let tokens = from_end(1).unwrap_or(4).min(40);
    let used = 1 + numbers.below(4) as usize;
    let experts = used + numbers.below(6) as usize;
    let k = LENGTHS[numbers.below(LENGTHS.len() as u64) as usize];
    let place = variant.checked_sub(DENSE.len());
    let block = place.map(|at| Block::ALL[at % Block::ALL.len()]);
    let (precision, tolerance) = match place {
        Some(at) if at >= Block::ALL.len() => (Precision::Int8, Tolerance::Int8),
        _ => (Precision::Full, Tolerance::Accumulated),
    };
    let k = block.map_or(k, |block| k.next_multiple_of(block.elements()));
    let rows = if numbers.below(2) == 0 { 1 } else { used };
    let op = ExpertMatMul { bias: numbers.below(2) == 1, precision };
    let place = |index: usize| Arrangement {
        broadcast: 0,
        missing_axes: 0,
        ..parameters.inputs[index].clone()
    };
    let dense =
        |dims: &[usize], index: usize, dtype: DType, special: bool, numbers: &mut Numbers| {
            Operand::input(dims, &place(index), dtype, Domain::Any, special, numbers)
        };
    // One infinity makes all of its group infinite where bytes share a scale.
    let special = parameters.special && precision == Precision::Full;
    let x = dense(&[tokens, rows, k], 0, DType::F32, special, numbers);
    let weight = match block {
        Some(block) => Operand::blocks(&[experts, n, k], block, numbers),
        None => dense(&[experts, n, k], 1, DENSE[variant], false, numbers),
    };
    let mut ids = dense(&[tokens, used], 2, DType::I32, false, numbers);
    // Some experts are used often, and some never.
    let often = 1 + numbers.below(experts as u64);
    let space = Collapsed::new(ids.layout.shape(), [&ids.layout]);
    for pair in 0..tokens * used {
        ids.contents[space.point(pair)[0]] = numbers.below(often) as f64;
    }
    let mut inputs = vec![x, weight, ids];
    if op.bias {
        inputs.push(dense(&[experts, n], 1, DType::F32, false, numbers));
    }
    let output = Operand::output(&[tokens, used, n], &parameters.output, DType::F32, numbers);
    let finite = |value: f64| if value.is_finite() { value.abs() } else { 0.0 };
    let largest =
        |operand: &Operand| operand.contents.iter().copied().map(finite).fold(0.0, f64::max);
    let scale = 4.0 + k as f64 * largest(&inputs[0]) * largest(&inputs[1]);
    let scale = vec![scale; output.layout.elements()];
    Case::new(op, inputs, output, tolerance, scale)
}
