//! The cases of linear layers: every format alone and mixed, with norms, biases and gates, of one row and several.

use polaris_core::DType;

use super::{Linears, MOST_WEIGHTS};
use crate::families::Family;
use crate::format::Block;
use crate::matmul::{Activation, Precision};
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "linears",
    super::opencl::shipped_programs,
    || 2 * (1 + Block::ALL.len()),
    |variant| variant < 2,
    case,
);

/// Functions of gates.
const GATES: [Activation; 4] =
    [Activation::Silu, Activation::GeluTanh, Activation::GeluErf, Activation::Relu];

/// The format of the second weight beside those of a format, as files have them.
fn beside(block: Block) -> Block {
    match block {
        Block::Q4_K | Block::Q5_K => Block::Q6_K,
        Block::Q8_0 => Block::Q4_0,
        _ => Block::Q8_0,
    }
}

/// Dense weights, then each format; of each, layers side by side and a gate.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let numbers = &mut Numbers::new(parameters.seed);
    let from_end = |place: usize| parameters.shape.iter().rev().nth(place).copied();
    let rows = from_end(1).unwrap_or(3).min(20);
    let n = from_end(0).unwrap_or(9).min(80);
    let block = (variant / 2).checked_sub(1).map(|at| Block::ALL[at]);
    let gate = (variant % 2 == 1).then(|| GATES[numbers.below(GATES.len() as u64) as usize]);
    let weights = match gate {
        Some(_) => 2,
        None => 1 + numbers.below(MOST_WEIGHTS as u64) as usize,
    };
    let norm = (numbers.below(2) == 0).then(|| [1e-5, 1e-6, 0.5][numbers.below(3) as usize]);
    let op =
        Linears { norm, weights, bias: numbers.below(2) == 0, gate, precision: Precision::Full };
    // Blocks of several formats have the largest of their lengths.
    let k = match block {
        Some(block) => {
            block.elements().max(256) * (1 + numbers.below(3) as usize)
                + if block.elements() == 32 { 32 } else { 0 }
        }
        None => [70, 1, 5, 64][numbers.below(4) as usize],
    };
    let place = |index: usize| Arrangement {
        broadcast: 0,
        missing_axes: 0,
        ..parameters.inputs[index].clone()
    };
    let dense = |dims: &[usize], index: usize, special: bool, numbers: &mut Numbers| {
        Operand::input(dims, &place(index), DType::F32, Domain::Any, special, numbers)
    };
    // Squares of the largest numbers are beyond f32.
    let x = dense(&[rows, k], 0, parameters.special && norm.is_none(), numbers);
    let mut inputs = vec![x];
    if norm.is_some() {
        inputs.push(dense(&[k], 1, false, numbers));
    }
    let first = inputs.len();
    let mut columns = 0;
    let mut lines = Vec::new();
    for at in 0..weights {
        let own = if gate.is_some() { n } else { n / (at + 1) + at };
        let other = block.filter(|_| at == 1 && gate.is_none()).map(beside);
        inputs.push(match block {
            Some(block) => Operand::blocks(&[own, k], other.unwrap_or(block), numbers),
            None => dense(&[own, k], 2, false, numbers),
        });
        lines.push(own);
        columns += own;
    }
    if op.bias {
        for own in lines {
            inputs.push(dense(&[own], 1, false, numbers));
        }
    }
    let columns = if gate.is_some() { n } else { columns };
    let output = Operand::output(&[rows, columns], &parameters.output, DType::F32, numbers);
    let finite = |value: f64| if value.is_finite() { value.abs() } else { 0.0 };
    let largest =
        |operand: &Operand| operand.contents.iter().copied().map(finite).fold(0.0, f64::max);
    // A normalised row has elements up to the root of its length.
    let of_x = match norm {
        Some(_) => (k as f64).sqrt() * largest(&inputs[1]),
        None => largest(&inputs[0]),
    };
    let of_weights = inputs[first..first + weights].iter().map(largest).fold(0.0, f64::max);
    let of_layer = 4.0 + k as f64 * of_x * of_weights;
    let scale = if gate.is_some() { of_layer * of_layer } else { of_layer };
    let scale = vec![scale; output.layout.elements()];
    Case::new(op, inputs, output, Tolerance::Accumulated, scale)
}
