//! Loops over dense `f32` vectors, to be inlined into code for one instruction set. Lanes are made by `from_fn`: loops
//! over them would stay loops of single numbers.

use std::array::from_fn;

use crate::cpu::math::Real;

/// Numbers that are worked on together: one vector of the widest instruction set.
pub const LANES: usize = 16;

/// The whole vectors of a slice.
#[inline(always)]
fn whole(values: &[f32]) -> &[[f32; LANES]] {
    values.as_chunks().0
}

/// The dot products of some rows with one vector, which are all equally long. The vector is read once.
#[inline(always)]
pub fn dots<const ROWS: usize, const VECTOR_BYTES: usize>(
    rows: [&[f32]; ROWS],
    vector: &[f32],
) -> [f32; ROWS] {
    let rows = rows.map(|row| &row[..vector.len()]);
    let (chunks, rest) = vector.as_chunks::<LANES>();
    let mut sums = [[0.0f32; LANES]; ROWS];
    for (at, chunk) in chunks.iter().enumerate() {
        for (sums, row) in sums.iter_mut().zip(&rows) {
            let row = &whole(row)[at];
            *sums = from_fn(|lane| chunk[lane].multiply_add::<VECTOR_BYTES>(row[lane], sums[lane]));
        }
    }
    let start = vector.len() - rest.len();
    from_fn(|row| {
        let pairs = rest.iter().zip(&rows[row][start..]);
        let last = pairs.fold(0.0, |sum, (&a, &b)| a.multiply_add::<VECTOR_BYTES>(b, sum));
        sum_of_lanes(sums[row]) + last
    })
}

/// The sum in the order of a tree.
#[inline(always)]
pub fn sum_of_lanes(lanes: [f32; LANES]) -> f32 {
    let eight: [f32; 8] = from_fn(|lane| lanes[lane] + lanes[lane + 8]);
    let four: [f32; 4] = from_fn(|lane| eight[lane] + eight[lane + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// `to += factors[0] * rows[0] + factors[1] * rows[1] + ...`
#[inline(always)]
pub fn add_scaled<const ROWS: usize, const VECTOR_BYTES: usize>(
    to: &mut [f32],
    factors: [f32; ROWS],
    rows: [&[f32]; ROWS],
) {
    let rows = rows.map(|row| &row[..to.len()]);
    let (chunks, rest) = to.as_chunks_mut::<LANES>();
    let start = LANES * chunks.len();
    for (at, to) in chunks.iter_mut().enumerate() {
        let mut sums = *to;
        for (&factor, row) in factors.iter().zip(&rows) {
            let row = &whole(row)[at];
            sums = from_fn(|lane| row[lane].multiply_add::<VECTOR_BYTES>(factor, sums[lane]));
        }
        *to = sums;
    }
    for (at, to) in rest.iter_mut().enumerate() {
        for (&factor, row) in factors.iter().zip(&rows) {
            *to = row[start + at].multiply_add::<VECTOR_BYTES>(factor, *to);
        }
    }
}
