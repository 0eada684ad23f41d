//! The loops of attention on the CPU over tiles of scores: a row for each key, a column for each
//! query. What belongs to a query is a lane, so that no vector is ever summed across. Lanes are made by
//! `from_fn`: loops over them stay loops of single numbers where the function is long.

use std::array::from_fn;

use crate::cpu::simd::multiversion;
use crate::matmul::TileNumber;

/// Columns that are worked on together; tiles are a multiple of it wide.
pub const LANES: usize = 16;

/// Independent searches for the largest score, whose results wait for each other.
const SEARCHES: usize = 4;

/// A NaN is never the larger one: it shows in the sum, whatever is subtracted from it.
#[inline(always)]
fn larger<C: PartialOrd>(a: C, b: C) -> C {
    if b > a { b } else { a }
}

/// The lanes of a row from a column on.
#[inline(always)]
fn lanes<C>(row: &[C], column: usize) -> &[C; LANES] {
    row[column..][..LANES].try_into().expect("a tile should be whole lanes wide")
}

/// As `lanes`, to be written.
#[inline(always)]
fn lanes_mut<C>(row: &mut [C], column: usize) -> &mut [C; LANES] {
    (&mut row[column..][..LANES]).try_into().expect("a tile should be whole lanes wide")
}

/// What a running softmax knows of each query so far.
#[derive(Debug, Clone)]
pub struct Running<C> {
    /// The largest score.
    pub largest: Vec<C>,
    /// The sum of the exponentials of what scores differ from it.
    pub sums: Vec<C>,
    /// What the last tile made of sums that were there before.
    pub factors: Vec<C>,
}

impl<C: TileNumber> Running<C> {
    /// Of so many queries, before any key.
    pub fn new(columns: usize) -> Self {
        let lowest = C::of(f64::NEG_INFINITY);
        let zeros = vec![C::default(); columns];
        Self { largest: vec![lowest; columns], sums: zeros.clone(), factors: zeros }
    }
}

multiversion! {
    /// Turns a tile of scores into exponentials and takes them into the running softmax. Returns
    /// whether a factor is not one.
    pub fn soften<C: TileNumber>(scores: &mut [C], running: &mut Running<C>) -> bool {
        let columns = running.sums.len();
        let (lowest, zero) = (C::of(f64::NEG_INFINITY), C::default());
        let mut changed = false;
        for column in (0..columns).step_by(LANES) {
            let mut searches = [[lowest; LANES]; SEARCHES];
            let mut search = |at: usize, row: &[C]| {
                let row = lanes(row, column);
                searches[at] = from_fn(|i| larger(searches[at][i], row[i]));
            };
            let mut rows = scores.chunks_exact(SEARCHES * columns);
            for four in &mut rows {
                (0..SEARCHES).for_each(|at| search(at, &four[at * columns..]));
            }
            rows.remainder().chunks_exact(columns).for_each(|row| search(0, row));

            let before = *lanes(&running.largest, column);
            let mut largest = before;
            for search in &searches {
                largest = from_fn(|i| larger(largest[i], search[i]));
            }
            *lanes_mut(&mut running.largest, column) = largest;
            // Where nothing was seen yet, minus infinity less itself would be NaN.
            let shift = largest.map(|largest| if largest == lowest { zero } else { largest });

            let mut sums = [zero; LANES];
            for row in scores.chunks_exact_mut(columns) {
                let row = lanes_mut(row, column);
                *row = from_fn(|i| (row[i] - shift[i]).exp_of_small::<VECTOR_BYTES>());
                sums = from_fn(|i| sums[i] + row[i]);
            }
            let factors: [C; LANES] =
                from_fn(|i| (before[i] - shift[i]).exp_of_small::<VECTOR_BYTES>());
            changed |= factors.iter().any(|&factor| factor != C::of(1.0));
            let totals = lanes_mut(&mut running.sums, column);
            *totals = from_fn(|i| totals[i] * factors[i] + sums[i]);
            *lanes_mut(&mut running.factors, column) = factors;
        }
        changed
    }
}

multiversion! {
    /// Turns scores into weights, and the slopes of weights into those of scores: `p * (s - mean)`
    /// times the scale.
    pub fn slopes_of_scores<C: TileNumber>(
        scores: &mut [C],
        slopes: &mut [C],
        log_sum_exp: &[C],
        means: &[C],
        scale: C,
    ) {
        let columns = means.len();
        for column in (0..columns).step_by(LANES) {
            let (logarithms, means) = (*lanes(log_sum_exp, column), *lanes(means, column));
            let rows = scores.chunks_exact_mut(columns).zip(slopes.chunks_exact_mut(columns));
            for (scores, slopes) in rows {
                let (scores, slopes) = (lanes_mut(scores, column), lanes_mut(slopes, column));
                *scores = from_fn(|i| (scores[i] - logarithms[i]).exp_of_small::<VECTOR_BYTES>());
                *slopes = from_fn(|i| scores[i] * (slopes[i] - means[i]) * scale);
            }
        }
    }
}

multiversion! {
    /// Multiplies the columns of a tile.
    pub fn scale_columns<C: TileNumber>(tile: &mut [C], factors: &[C]) {
        for row in tile.chunks_exact_mut(factors.len()) {
            for (value, &factor) in row.iter_mut().zip(factors) {
                *value = *value * factor;
            }
        }
    }
}

multiversion! {
    /// Multiplies everything.
    pub fn scale<C: TileNumber>(tile: &mut [C], factor: C) {
        tile.iter_mut().for_each(|value| *value = *value * factor);
    }
}

multiversion! {
    /// `to += from`
    pub fn add<C: TileNumber>(to: &mut [C], from: &[C]) {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = *to + from;
        }
    }
}

multiversion! {
    /// The sums of the columns of two tiles' products.
    pub fn sums_of_products<C: TileNumber>(a: &[C], b: &[C], sums: &mut [C]) {
        let columns = sums.len();
        sums.fill(C::default());
        for (a, b) in a.chunks_exact(columns).zip(b.chunks_exact(columns)) {
            for i in 0..columns {
                sums[i] = sums[i] + a[i] * b[i];
            }
        }
    }
}
