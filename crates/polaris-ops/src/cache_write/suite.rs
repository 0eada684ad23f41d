//! The cases of writing into a cache: slots in any order, of which some are negative.

use polaris_core::{Collapsed, DType};

use super::CacheWrite;
use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "cache_write",
    super::opencl::shipped_programs,
    || VARIANTS.len(),
    |variant| VARIANTS[variant] == DType::F16,
    case,
);

/// Types of caches.
const VARIANTS: [DType; 3] = [DType::F16, DType::F32, DType::BF16];

/// The last axes of the shape are the elements of a row, heads and positions of a block.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let dtype = VARIANTS[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let from_end = |place: usize| parameters.shape.iter().rev().nth(place).copied();
    let depth = from_end(0).unwrap_or(1);
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
    let mut input = |dims: &[usize], index: usize, dtype: DType| {
        Operand::input(dims, &place(index), dtype, Domain::Any, special, numbers)
    };
    let mut index = input(&[tokens], 0, DType::I32);
    let dims = [blocks, block_size, heads, depth];
    let (cache, x) = (input(&dims, 1, dtype), input(&[tokens, heads, depth], 2, DType::F32));
    // Each slot at most once.
    let mut free: Vec<usize> = (0..slots).collect();
    let space = Collapsed::new(index.layout.shape(), [&index.layout]);
    for token in 0..tokens {
        let chosen = free.swap_remove(numbers.below(free.len() as u64) as usize);
        let is_written = numbers.below(5) > 0;
        let slot = if is_written { chosen as f64 } else { -1.0 - numbers.below(3) as f64 };
        index.contents[space.point(token)[0]] = slot;
    }
    let output = Operand::output(&dims, &parameters.output, dtype, numbers);
    Case::new(CacheWrite, vec![index, cache, x], output, Tolerance::Exact, Vec::new())
}
