//! The cases of attention to a cache: prompts and single tokens of several sequences, blocks in any order,
//! windows, chunks, caps, sinks and slopes. What no token sees is NaN, and entries of the table that nobody
//! needs lead nowhere.

use polaris_core::{Collapsed, DType};

use super::CachedAttention;
use super::geometry::Sizes;
use super::reference::{scores, softmax};
use crate::families::Family;
use crate::format::Block;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "cached_attention",
    super::opencl::shipped_programs,
    || VARIANTS.len(),
    |variant| variant == 0,
    case,
);

/// How keys and values are stored.
#[derive(Debug, Clone, Copy)]
enum Cache {
    Dense(DType),
    Blocks(Block),
}

const VARIANTS: [[Cache; 2]; 5] = [
    [Cache::Dense(DType::F32); 2],
    [Cache::Dense(DType::F16); 2],
    [Cache::Blocks(Block::Q8_0); 2],
    [Cache::Blocks(Block::Q4_0); 2],
    [Cache::Dense(DType::BF16), Cache::Dense(DType::F32)],
];

/// Elements of a key and of a value.
const WIDTHS: [(usize, usize); 9] =
    [(64, 64), (1, 3), (3, 1), (40, 40), (80, 33), (96, 96), (128, 128), (256, 256), (20, 130)];
/// Positions of a block.
const BLOCK_SIZES: [usize; 5] = [16, 1, 5, 32, 64];

/// What the last two axes of the shape are: positions and tokens.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let numbers = &mut Numbers::new(parameters.seed);
    let dims = &parameters.shape;
    let from_end = |place: usize| dims.iter().rev().nth(place).copied();
    let longest = from_end(0).unwrap_or(7).clamp(1, 700);
    // The reference takes all pairs.
    let tokens = from_end(1).unwrap_or(1 + numbers.below(6) as usize).min(40).min(4000 / longest);
    let key_heads = 1 + numbers.below(3) as usize;
    let group = [1, 2, 3, 8][numbers.below(4) as usize];
    let heads = key_heads * group;
    let (depth, values) = WIDTHS[numbers.below(WIDTHS.len() as u64) as usize];
    let [depth, values] =
        [(depth, 0), (values, 1)].map(|(width, at)| match VARIANTS[variant][at] {
            Cache::Dense(_) => width,
            Cache::Blocks(block) => width.next_multiple_of(block.elements()),
        });
    let block_size = BLOCK_SIZES[numbers.below(BLOCK_SIZES.len() as u64) as usize];
    let most_blocks = longest.div_ceil(block_size) + numbers.below(2) as usize;
    let blocks = most_blocks + numbers.below(4) as usize;
    let sequences = 1 + numbers.below(3) as usize;
    let one_of =
        |choices: [Option<usize>; 4], numbers: &mut Numbers| choices[numbers.below(4) as usize];
    let bidirectional = numbers.below(5) == 0;
    let op = CachedAttention {
        bidirectional,
        scale: [None, Some(0.3), Some(-0.1)][numbers.below(3) as usize],
        window: one_of([None, None, Some(1), Some(1 + longest / 2)], numbers),
        chunk: one_of([None, None, Some(3), Some(1 + longest / 3)], numbers),
        softcap: [None, Some(5.0)][numbers.below(2) as usize],
        sinks: numbers.below(2) == 1,
        slopes: numbers.below(2) == 1,
        longest,
    };
    let op = match bidirectional {
        true => CachedAttention { window: None, chunk: None, slopes: false, ..op },
        false => op,
    };
    let place = |index: usize| Arrangement {
        broadcast: 0,
        missing_axes: 0,
        ..parameters.inputs[index].clone()
    };
    let dense = |dims: &[usize], index: usize, dtype: DType, numbers: &mut Numbers| {
        Operand::input(dims, &place(index), dtype, Domain::Any, false, numbers)
    };
    let cache = |at: usize, width: usize, numbers: &mut Numbers| {
        let dims = [blocks, block_size, key_heads, width];
        match VARIANTS[variant][at] {
            Cache::Dense(dtype) => dense(&dims, 1 + at, dtype, numbers),
            Cache::Blocks(block) => Operand::blocks(&dims, block, numbers),
        }
    };
    let mut q = dense(&[tokens, heads, depth], 0, DType::F32, numbers);
    if parameters.special && !q.contents.is_empty() {
        let many = q.contents.len() as u64;
        for value in [f64::NAN, f64::INFINITY] {
            q.contents[numbers.below(many) as usize] = value;
        }
    }
    let [mut k, mut v] = [cache(0, depth, numbers), cache(1, values, numbers)];
    let placed = tokens_of(tokens, sequences, longest, numbers);
    let mut of_tokens = dense(&[tokens, 2], 0, DType::I32, numbers);
    set(
        &mut of_tokens,
        &placed.iter().flat_map(|&(s, p)| [s as f64, p as f64]).collect::<Vec<_>>(),
    );
    let mut entries = vec![-7.0; sequences * most_blocks];
    let mut seen = vec![false; blocks * block_size];
    for &(sequence, position) in &placed {
        for key in op.sight(position) {
            let entry = &mut entries[sequence * most_blocks + key / block_size];
            if *entry < 0.0 {
                *entry = numbers.below(blocks as u64) as f64;
            }
            seen[*entry as usize * block_size + key % block_size] = true;
        }
    }
    let mut table = dense(&[sequences, most_blocks], 1, DType::I32, numbers);
    set(&mut table, &entries);
    for (at, cache) in [&mut k, &mut v].into_iter().enumerate() {
        if matches!(VARIANTS[variant][at], Cache::Dense(_)) {
            spoil_unseen(cache, &seen, key_heads);
        }
    }
    let mut inputs = vec![q, k, v, table, of_tokens];
    for _ in 0..usize::from(op.sinks) + usize::from(op.slopes) {
        inputs.push(dense(&[heads], 2, DType::F32, numbers));
    }
    let output = Operand::output(&[tokens, heads, values], &parameters.output, DType::F32, numbers);
    let sizes = Sizes {
        tokens,
        heads,
        key_heads,
        depth,
        values,
        blocks,
        block_size,
        sequences,
        most_blocks,
        scale: op.scale.unwrap_or(1.0 / (depth as f64).sqrt()),
    };
    let scale = magnitudes(&op, &sizes, &inputs);
    Case::new(op, inputs, output, Tolerance::Accumulated, scale)
}

/// The sequence and position of each token: runs of neighbours, and now and then any.
fn tokens_of(
    count: usize,
    sequences: usize,
    longest: usize,
    numbers: &mut Numbers,
) -> Vec<(usize, usize)> {
    let mut placed: Vec<(usize, usize)> = Vec::new();
    for _ in 0..count {
        let next = match placed.last() {
            Some(&(sequence, position)) if position + 1 < longest && numbers.below(8) > 0 => {
                (sequence, position + 1)
            }
            _ => (numbers.below(sequences as u64) as usize, numbers.below(longest as u64) as usize),
        };
        placed.push(next);
    }
    placed
}

/// Sets the elements, in row-major order.
fn set(operand: &mut Operand, values: &[f64]) {
    let space = Collapsed::new(operand.layout.shape(), [&operand.layout]);
    for (point, &value) in values.iter().enumerate() {
        operand.contents[space.point(point)[0]] = value;
    }
}

/// Makes every position NaN that nobody sees.
fn spoil_unseen(cache: &mut Operand, seen: &[bool], key_heads: usize) {
    let space = Collapsed::new(cache.layout.shape(), [&cache.layout]);
    let row = key_heads * cache.layout.shape()[3];
    for point in 0..cache.layout.elements() {
        if !seen[point / row] {
            cache.contents[space.point(point)[0]] = f64::NAN;
        }
    }
}

/// A weight is off by as much as its score, relative to itself; one below the normal numbers may be zero.
fn magnitudes(op: &CachedAttention, sizes: &Sizes, inputs: &[Operand]) -> Vec<f64> {
    let elements: Vec<Vec<f64>> = inputs.iter().map(Operand::elements).collect();
    let absolute = |values: &[f64]| values.iter().map(|value| value.abs()).collect();
    let mut magnitudes = elements.clone();
    magnitudes[0] = absolute(&elements[0]);
    magnitudes[1] = absolute(&elements[1]);
    // Scores of magnitudes, without what makes them smaller.
    let plain = CachedAttention { softcap: None, slopes: false, ..*op };
    let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
    let smallest = f64::from(f32::MIN_POSITIVE / f32::EPSILON);
    let mut scales = Vec::with_capacity(sizes.tokens * sizes.heads * sizes.values);
    for token in 0..sizes.tokens {
        for head in 0..sizes.heads {
            let (rows, values) = scores(op, sizes, &elements, token, head);
            let weights = softmax(&values, op.sinks.then(|| elements[5][head]));
            let (_, sums) = scores(&plain, sizes, &magnitudes, token, head);
            let added = if op.slopes { 4.0 * op.longest as f64 } else { 0.0 };
            let error =
                sums.iter().fold(1.0f64, |most, sum| most.max(finite(1.0 + sum.abs() + added)));
            for i in 0..sizes.values {
                let terms = rows.iter().zip(&weights).map(|(row, weight)| {
                    finite(error * weight.max(smallest) * elements[2][row * sizes.values + i].abs())
                });
                scales.push(terms.sum());
            }
        }
    }
    scales
}
