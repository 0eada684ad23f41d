//! The loops of attention to a cache on the CPU: for few queries with a row of scores for each query, in
//! vectors along keys and elements; and what tiles of many queries need beyond those of
//! [`attention`](crate::attention), with a row for each key.

use crate::cpu::math::Real;
use crate::cpu::simd::multiversion;
use crate::cpu::vectors::{LANES, add_scaled, dots, sum_of_lanes};

/// The most queries that are scored without a tile.
pub const FEW: usize = 4;

/// Dense rows, a stride apart. Must be readable for all rows of `length` elements that are asked for.
#[derive(Clone, Copy)]
pub struct Rows {
    pub start: *const f32,
    pub stride: usize,
    pub length: usize,
}

impl Rows {
    /// # Safety
    /// There must be such a row, which nobody writes while the result is used.
    #[inline(always)]
    unsafe fn row<'a>(self, row: usize) -> &'a [f32] {
        // SAFETY: by the caller's word.
        unsafe { std::slice::from_raw_parts(self.start.add(row * self.stride), self.length) }
    }
}

multiversion! {
    /// The products of few queries, which are dense rows, with some keys: a row of `scores` for each query, of which
    /// the elements from `first` on are written. Must only be called with keys that are readable.
    pub fn score_rows<>(queries: &[f32], keys: Rows, count: usize, scores: &mut [f32], width: usize, first: usize) {
        #[inline(always)]
        fn some<const Q: usize, const VECTOR_BYTES: usize>(
            queries: &[f32], keys: Rows, count: usize, scores: &mut [f32], width: usize, first: usize,
        ) {
            let depth = keys.length;
            let queries: [&[f32]; Q] = std::array::from_fn(|at| &queries[at * depth..][..depth]);
            for key in 0..count {
                // SAFETY: by the word of the caller.
                let row = unsafe { keys.row(key) };
                let products = dots::<Q, VECTOR_BYTES>(queries, row);
                for (query, product) in products.into_iter().enumerate() {
                    scores[query * width + first + key] = product;
                }
            }
        }
        match scores.len() / width {
            1 => some::<1, VECTOR_BYTES>(queries, keys, count, scores, width, first),
            2 => some::<2, VECTOR_BYTES>(queries, keys, count, scores, width, first),
            3 => some::<3, VECTOR_BYTES>(queries, keys, count, scores, width, first),
            _ => some::<FEW, VECTOR_BYTES>(queries, keys, count, scores, width, first),
        }
    }
}

multiversion! {
    /// Turns the scores of one query into exponentials and takes them into its running softmax, the largest
    /// score and the sum. Returns what sums that were there before are multiplied by.
    pub fn soften_row<>(scores: &mut [f32], largest: &mut f32, total: &mut f32) -> f32 {
        // A NaN is never the larger one: it shows in the sum.
        let larger = |a: f32, b: f32| if b > a { b } else { a };
        let mut search = [f32::NEG_INFINITY; LANES];
        let (chunks, rest) = scores.as_chunks::<LANES>();
        for chunk in chunks {
            search = std::array::from_fn(|lane| larger(search[lane], chunk[lane]));
        }
        let found = search.into_iter().chain(rest.iter().copied()).fold(*largest, larger);
        // Where nothing was seen yet, minus infinity less itself would be NaN.
        let shift = if found == f32::NEG_INFINITY { 0.0 } else { found };
        let mut sums = [0.0; LANES];
        let (chunks, rest) = scores.as_chunks_mut::<LANES>();
        for chunk in chunks {
            *chunk = std::array::from_fn(|lane| (chunk[lane] - shift).exp_of_small::<VECTOR_BYTES>());
            sums = std::array::from_fn(|lane| sums[lane] + chunk[lane]);
        }
        for (score, sum) in rest.iter_mut().zip(&mut sums) {
            *score = (*score - shift).exp_of_small::<VECTOR_BYTES>();
            *sum += *score;
        }
        let factor = (*largest - shift).exp_of_small::<VECTOR_BYTES>();
        *total = *total * factor + sum_of_lanes(sums);
        *largest = found;
        factor
    }
}

multiversion! {
    /// Adds some values, weighted, to a sum that is multiplied by a factor before. Must only be called with values that
    /// are readable.
    pub fn weigh_rows<>(values: Rows, weights: &[f32], factor: f32, sum: &mut [f32]) {
        const TOGETHER: usize = 4;
        if factor != 1.0 {
            sum.iter_mut().for_each(|sum| *sum *= factor);
        }
        let (fours, rest) = weights.as_chunks::<TOGETHER>();
        for (at, &four) in fours.iter().enumerate() {
            // SAFETY: by the word of the caller.
            let rows = std::array::from_fn(|row| unsafe { values.row(at * TOGETHER + row) });
            add_scaled::<TOGETHER, VECTOR_BYTES>(sum, four, rows);
        }
        for (at, &weight) in rest.iter().enumerate() {
            // SAFETY: as above.
            let row = unsafe { values.row(fours.len() * TOGETHER + at) };
            add_scaled::<1, VECTOR_BYTES>(sum, [weight], [row]);
        }
    }
}

multiversion! {
    /// Keeps scores between plus and minus a number.
    pub fn cap_scores<>(scores: &mut [f32], cap: f32) {
        scores.iter_mut().for_each(|score| *score = cap * (*score / cap).tanh());
    }
}

multiversion! {
    /// Adds to each score a slope times a distance: `slopes` and `from` step through the elements of a row, and `key`
    /// is the position of the first row, or of the first element where there is one slope.
    pub fn add_slopes<>(scores: &mut [f32], slopes: &[f32], from: &[f32], key: f32) {
        if let ([slope], [from]) = (slopes, from) {
            for (at, score) in scores.iter_mut().enumerate() {
                *score += slope * (key + at as f32 - from);
            }
            return;
        }
        for (at, row) in scores.chunks_exact_mut(slopes.len()).enumerate() {
            let key = key + at as f32;
            for (score, (slope, from)) in row.iter_mut().zip(slopes.iter().zip(from)) {
                *score += slope * (key - from);
            }
        }
    }
}

multiversion! {
    /// `to += factor * from`
    pub fn add_row<>(to: &mut [f32], factor: f32, from: &[f32]) {
        add_scaled::<1, VECTOR_BYTES>(to, [factor], [from]);
    }
}
