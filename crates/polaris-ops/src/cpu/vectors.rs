//! Loops over dense `f32` vectors, to be inlined into code for one instruction set.

use crate::cpu::math::Real;

/// Sums that are kept side by side: one vector of the widest instruction set.
pub const LANES: usize = 16;

/// The dot products of some rows with one vector, which are all equally long. The vector is read once.
#[inline(always)]
pub fn dots<const ROWS: usize, const VECTOR_BYTES: usize>(
    rows: [&[f32]; ROWS],
    vector: &[f32],
) -> [f32; ROWS] {
    let (chunks, rest) = vector.as_chunks::<LANES>();
    let whole = vector.len() - rest.len();
    let mut sums = [[0.0f32; LANES]; ROWS];
    let rows = rows.map(|row| row[..vector.len()].split_at(whole));
    for (at, chunk) in chunks.iter().enumerate() {
        for (sums, (row, _)) in sums.iter_mut().zip(&rows) {
            let row = &row[at * LANES..][..LANES];
            for lane in 0..LANES {
                sums[lane] = chunk[lane].multiply_add::<VECTOR_BYTES>(row[lane], sums[lane]);
            }
        }
    }
    std::array::from_fn(|row| {
        let lanes = &mut sums[row];
        for (lane, (&a, &b)) in lanes.iter_mut().zip(rest.iter().zip(rows[row].1)) {
            *lane = a.multiply_add::<VECTOR_BYTES>(b, *lane);
        }
        sum_of_lanes(*lanes)
    })
}

/// The sum in the order of a tree.
#[inline(always)]
pub fn sum_of_lanes(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// `to += factors[0] * rows[0] + factors[1] * rows[1] + ...`
#[inline(always)]
pub fn add_scaled<const ROWS: usize, const VECTOR_BYTES: usize>(
    to: &mut [f32],
    factors: [f32; ROWS],
    rows: [&[f32]; ROWS],
) {
    let rows = rows.map(|row| &row[..to.len()]);
    for (at, to) in to.iter_mut().enumerate() {
        let mut sum = *to;
        for (factor, row) in factors.iter().zip(&rows) {
            sum = row[at].multiply_add::<VECTOR_BYTES>(*factor, sum);
        }
        *to = sum;
    }
}
