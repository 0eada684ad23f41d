//! Encoders that search scales: what tools for models write files with, where the plain encoders of the formats take what
//! extremes allow.
//!
//! A chunk of 256 elements is encoded at a time, its groups side by side in the lanes of vectors, so that no sum goes across
//! lanes. All candidates for a scale are tried, each with the least squares of the levels that it gives (`fit.rs`). What
//! scales are multiplied by is shared by a block of the K family and rounded again, so integers next to the rounded scales
//! are tried too (`k.rs`).
//!
//! Errors count by weights. Those of large elements count for more, by their magnitude or, with few levels, by their square,
//! which gave Q2_K and Q3_K a smaller divergence from the original model (`bench/llm/quantizers.py`).

mod fit;
mod k;
mod legacy;
mod table;

pub(crate) use k::{q2, q3, q4, q5, q6};
pub(crate) use legacy::{q4_0, q4_1, q5_0, q5_1};
pub(crate) use table::{iq4_nl, iq4_xs};

use crate::CHUNK;

/// The elements of a chunk in `G` groups of `N`, groups side by side.
type Lanes<const G: usize, const N: usize> = [[f32; G]; N];

/// Element `i` of each group is at `i`.
#[inline(always)]
fn lanes<const G: usize, const N: usize>(x: &[f32; CHUNK]) -> Lanes<G, N> {
    const { assert!(G * N == CHUNK) };
    let mut lanes = [[0.0; G]; N];
    for (i, lanes) in lanes.iter_mut().enumerate() {
        for (g, lane) in lanes.iter_mut().enumerate() {
            *lane = x[g * N + i];
        }
    }
    lanes
}

/// What the squared error of each element counts: `of` takes the root of the mean square of the chunk, and the element.
#[inline(always)]
fn weights<const G: usize, const N: usize>(
    x: &Lanes<G, N>,
    of: impl Fn(f32, f32) -> f32,
) -> Lanes<G, N> {
    let mut squares = [0.0f32; G];
    for x in x {
        for g in 0..G {
            squares[g] += x[g] * x[g];
        }
    }
    let mean = squares.iter().sum::<f32>() / CHUNK as f32;
    let root = mean.sqrt();
    let mut weights = [[0.0; G]; N];
    for (weights, x) in weights.iter_mut().zip(x) {
        for g in 0..G {
            weights[g] = of(root, x[g]);
        }
    }
    weights
}

/// That of most formats.
#[inline(always)]
fn by_magnitude(root: f32, x: f32) -> f32 {
    root + x.abs()
}

/// That of formats with few levels.
#[inline(always)]
fn by_square(root: f32, x: f32) -> f32 {
    0.1 * root * root + x * x
}

/// The nearest whole number of one below 2^22, by addition: that vectorises everywhere.
#[inline(always)]
fn rounded(value: f32) -> f32 {
    const FIRST_WHOLE: f32 = 12_582_912.0;
    (value + FIRST_WHOLE) - FIRST_WHOLE
}

/// Level number `i` of the chunk.
#[inline(always)]
fn level<const G: usize, const N: usize>(levels: &Lanes<G, N>, i: usize) -> f32 {
    levels[i % N][i / N]
}

#[cfg(test)]
mod tests {
    use crate::{Block, MOST_ELEMENTS, with_block_type};

    /// Numbers about as weights are: from a normal distribution, a few of them larger.
    fn draw(seed: u64, count: usize) -> Vec<f32> {
        let mut random = polaris_core::random::SplitMix64::new(seed);
        let mut uniform = || random.unit() - 0.5;
        (0..count)
            .map(|i| {
                let sum: f64 = (0..12).map(|_| uniform()).sum();
                (sum * if i % 97 == 0 { 4.0 } else { 1.0 } * 0.02) as f32
            })
            .collect()
    }

    fn error(block: Block, x: &[f32], bytes: &[u8]) -> f64 {
        let mut decoded = vec![0.0; x.len()];
        block.decode(bytes, &mut decoded);
        x.iter().zip(&decoded).map(|(a, b)| f64::from(a - b).powi(2)).sum()
    }

    #[test]
    fn searched_scales_are_nearer_than_those_of_extremes() {
        for block in Block::ALL {
            let x = draw(3, 64 * MOST_ELEMENTS);
            let mut plain = vec![0; x.len() / block.elements() * block.bytes()];
            let mut best = plain.clone();
            block.encode_nearest(&x, &mut plain).unwrap();
            block.encode_best(&x, &mut best).unwrap();
            let ratio = error(block, &x, &best) / error(block, &x, &plain);
            println!("{block}: {ratio:.3}");
            let most = match block {
                // These have the plain encoder.
                Block::Q8_0 | Block::MXFP4 => 1.0,
                // Where errors count by squares, others than the largest come less near.
                Block::Q3_K => 0.98,
                _ => 0.94,
            };
            assert!(ratio <= most, "{block}: {ratio}");
        }
    }

    #[test]
    fn what_levels_can_say_exactly_stays() {
        for block in Block::ALL {
            let mut bytes = vec![0; 8 * block.bytes()];
            let mut decoded = vec![0.0; 8 * block.elements()];
            block.encode_best(&draw(9, 8 * block.elements()), &mut bytes).unwrap();
            block.decode(&bytes, &mut decoded);
            let mut again = vec![0; bytes.len()];
            block.encode_best(&decoded, &mut again).unwrap();
            let square: f64 = decoded.iter().map(|&x| f64::from(x).powi(2)).sum();
            let relative = (error(block, &decoded, &again) / square).sqrt();
            println!("{block}: {relative:.1e}");
            assert!(relative < 0.03, "{block}: {relative}");
        }
    }

    #[test]
    fn rows_may_end_within_a_chunk_and_odd_blocks_do_no_harm() {
        for block in Block::ALL {
            let each = block.elements();
            // Zeros, one that is alone, equal ones, tiny ones, a ramp of one sign.
            let mut x = vec![0.0; 5 * each];
            x[each + 3] = -0.7;
            x[2 * each..3 * each].fill(0.25);
            x[3 * each..4 * each].fill(1e-30);
            for i in 0..each {
                x[4 * each + i] = 3.0 + i as f32 / each as f32;
            }
            let mut bytes = vec![0; 5 * block.bytes()];
            block.encode_best(&x, &mut bytes).unwrap();
            let mut decoded = vec![f32::NAN; x.len()];
            block.decode(&bytes, &mut decoded);
            let near = |at: usize, within: f32| {
                let (found, expected) = (decoded[at], x[at]);
                assert!((found - expected).abs() <= within, "{block} {at}: {found}, {expected}");
            };
            (0..each).for_each(|i| near(i, 0.0));
            near(each + 3, 0.06);
            (2 * each..3 * each).for_each(|i| near(i, 0.03));
            (3 * each..4 * each).for_each(|i| near(i, 1e-7));
            (4 * each..5 * each).for_each(|i| near(i, 1.0));
            with_block_type!(block, B => assert_eq!(bytes.len(), 5 * <B as crate::Blocks>::BYTES));
        }
    }
}
