//! The cases of writing into a cache: slots in any order, of which some are negative.

use polaris_core::{Collapsed, DType};

use super::CacheWrite;
use super::reference::Rounding;
use crate::families::Family;
use crate::format::{Block, Stored};
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "cache_write",
    super::opencl::shipped_programs,
    || VARIANTS.len(),
    |variant| matches!(VARIANTS[variant], Stored::Dense(DType::F16) | Stored::Block(Block::Q8_0)),
    case,
);

/// Types of caches.
const VARIANTS: [Stored; 5] = [
    Stored::Dense(DType::F16),
    Stored::Dense(DType::F32),
    Stored::Dense(DType::BF16),
    Stored::Block(Block::Q8_0),
    Stored::Block(Block::Q4_0),
];

/// The last axes of the shape are the elements of a row, heads and positions of a block.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let numbers = &mut Numbers::new(parameters.seed);
    let from_end = |place: usize| parameters.shape.iter().rev().nth(place).copied();
    let depth = from_end(0).unwrap_or(1);
    let depth = match VARIANTS[variant] {
        Stored::Dense(_) => depth,
        Stored::Block(block) => depth.next_multiple_of(block.elements()),
    };
    let heads = from_end(1).unwrap_or(2).min(20);
    let block_size = from_end(2).unwrap_or(3).min(16);
    let blocks = 1 + numbers.below(4) as usize;
    let slots = blocks * block_size;
    let tokens = numbers.below(slots as u64 + 1) as usize;
    let place = |index: usize| Arrangement {
        broadcast: 0,
        missing_axes: 0,
        ..parameters.inputs[index].clone()
    };
    let special = parameters.special;
    let input = |dims: &[usize], index: usize, dtype: DType, numbers: &mut Numbers| {
        Operand::input(dims, &place(index), dtype, Domain::Any, special, numbers)
    };
    let mut index = input(&[tokens], 0, DType::I32, numbers);
    let dims = [blocks, block_size, heads, depth];
    let cache = match VARIANTS[variant] {
        Stored::Dense(dtype) => input(&dims, 1, dtype, numbers),
        Stored::Block(block) => Operand::blocks(&dims, block, numbers),
    };
    let x = input(&[tokens, heads, depth], 2, DType::F32, numbers);
    // Each slot at most once.
    let mut free: Vec<usize> = (0..slots).collect();
    let space = Collapsed::new(index.layout.shape(), [&index.layout]);
    for token in 0..tokens {
        let chosen = free.swap_remove(numbers.below(free.len() as u64) as usize);
        let is_written = numbers.below(5) > 0;
        let slot = if is_written { chosen as f64 } else { -1.0 - numbers.below(3) as f64 };
        index.contents[space.point(token)[0]] = slot;
    }
    let (output, tolerance, scale) = match VARIANTS[variant] {
        Stored::Dense(dtype) => {
            let output = Operand::output(&dims, &parameters.output, dtype, numbers);
            (output, Tolerance::Exact, Vec::new())
        }
        Stored::Block(block) => {
            let output = Operand::block_output(&dims, block, numbers);
            (output, Tolerance::Levels, slack(block, &index, &x, slots))
        }
    };
    Case::new(CacheWrite, vec![index, cache, x], output, tolerance, scale)
}

/// What each element of the cache may be off.
fn slack(block: Block, index: &Operand, x: &Operand, slots: usize) -> Vec<f64> {
    let row = x.layout.shape()[1] * x.layout.shape()[2];
    let mut slack = vec![0.0; slots * row];
    let elements = x.elements();
    for (token, &slot) in index.elements().iter().enumerate().filter(|(_, slot)| **slot >= 0.0) {
        let from = elements[token * row..][..row].chunks_exact(block.elements());
        let to = slack[slot as usize * row..][..row].chunks_exact_mut(block.elements());
        for (from, to) in from.zip(to) {
            let rounding = Rounding::new(block, from);
            to.iter_mut().zip(from).for_each(|(to, &from)| *to = rounding.slack(from));
        }
    }
    slack
}
