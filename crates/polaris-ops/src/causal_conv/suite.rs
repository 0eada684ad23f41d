//! The cases of causal convolution: prompts and single tokens of several sequences, at their beginning and later.

use polaris_core::{Collapsed, DType};

use super::CausalConv;
use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family =
    Family::new("causal_conv", super::opencl::shipped_programs, || 1, |_| true, case);

/// The last two axes of the shape are tokens and channels.
fn case(_: usize, parameters: &CaseParameters) -> Case {
    let numbers = &mut Numbers::new(parameters.seed);
    let op = CausalConv { bias: numbers.below(2) == 1, silu: numbers.below(2) == 1 };
    let from_end = |place: usize| parameters.shape.iter().rev().nth(place).copied();
    let channels = from_end(0).unwrap_or(5);
    let tokens = from_end(1).unwrap_or(1 + numbers.below(20) as usize).min(50);
    let taps = [4, 3, 2, 5, 9][numbers.below(5) as usize];
    let slots = 1 + numbers.below(4) as usize;
    let place = |index: usize| Arrangement {
        broadcast: 0,
        missing_axes: 0,
        ..parameters.inputs[index].clone()
    };
    let mut input = |dims: &[usize], index: usize, dtype: DType| {
        Operand::input(dims, &place(index), dtype, Domain::Any, false, numbers)
    };
    let x = input(&[tokens, channels], 0, DType::F32);
    let tail = input(&[slots, taps - 1, channels], 1, DType::F32);
    let mut places = input(&[tokens, 2], 2, DType::I32);
    let weight = input(&[channels, taps], 1, DType::F32);
    let bias = input(&[channels], 2, DType::F32);
    // Each slot has one run of tokens, in any order; what is left belongs to the last.
    let mut free: Vec<usize> = (0..slots).collect();
    let space = Collapsed::new(places.layout.shape(), [&places.layout]);
    let (mut slot, mut position, mut left) = (0, 0, 0);
    for token in 0..tokens {
        if left == 0 && !free.is_empty() {
            slot = free.swap_remove(numbers.below(free.len() as u64) as usize);
            position = [0, numbers.below(4) as usize, numbers.below(1000) as usize]
                [numbers.below(3) as usize];
            left = 1 + numbers.below(2 * (tokens / slots) as u64 + 2) as usize;
        }
        left = left.saturating_sub(1);
        places.contents[space.point(2 * token)[0]] = slot as f64;
        places.contents[space.point(2 * token + 1)[0]] = position as f64;
        position += 1;
    }
    let mut inputs = vec![x, tail, places, weight];
    if op.bias {
        inputs.push(bias);
    }
    let output = Operand::output(&[tokens, channels], &parameters.output, DType::F32, numbers);
    // Each of the products is 16 at most.
    let scale = vec![16.0 * (taps + 1) as f64; output.layout.elements()];
    Case::new(op, inputs, output, Tolerance::Accumulated, scale)
}
