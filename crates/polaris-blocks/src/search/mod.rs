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

/// The least that an element counts, beside the most important one of its chunk: sums of `f32` would lose those that count for
/// less, and the text that importance comes from may not have all that a model is used for.
const LEAST_IMPORTANCE: f32 = 1e-5;

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

/// What the squared error of each element counts: `of` takes the root of the mean square of the chunk, and the element. That is
/// times the importance of the element, if there is one.
#[inline(always)]
fn weights<const G: usize, const N: usize>(
    x: &Lanes<G, N>,
    importance: Option<&[f32; CHUNK]>,
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
    let Some(importance) = importance else { return weights };
    let largest = importance.iter().fold(0.0f32, |most, &one| if one > most { one } else { most });
    // Where nothing was seen, all count alike.
    if largest > 0.0 {
        for (weights, importance) in weights.iter_mut().zip(&lanes::<G, N>(importance)) {
            for g in 0..G {
                weights[g] *= (importance[g] / largest).max(LEAST_IMPORTANCE);
            }
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
            block.encode_best(&x, None, &mut best).unwrap();
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
            block.encode_best(&draw(9, 8 * block.elements()), None, &mut bytes).unwrap();
            block.decode(&bytes, &mut decoded);
            let mut again = vec![0; bytes.len()];
            block.encode_best(&decoded, None, &mut again).unwrap();
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
            block.encode_best(&x, None, &mut bytes).unwrap();
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

    /// What columns may count: about as those of models do, few far more than others, some nothing.
    fn importance(seed: u64, count: usize, spread: f64, every: usize) -> Vec<f32> {
        let mut random = polaris_core::random::SplitMix64::new(seed);
        let mut one = |i: usize| match i % every {
            0 => 0.0,
            1 => 1e3,
            _ => ((0..12).map(|_| random.unit() - 0.5).sum::<f64>() * spread).exp(),
        };
        (0..count).map(|i| one(i) as f32).collect()
    }

    fn weighted(block: Block, x: &[f32], by: &[f32], bytes: &[u8]) -> f64 {
        let mut decoded = vec![0.0; x.len()];
        block.decode(bytes, &mut decoded);
        let errors = x.iter().zip(&decoded).map(|(a, b)| f64::from(a - b).powi(2));
        errors.zip(by).map(|(error, &by)| error * f64::from(by)).sum()
    }

    #[test]
    fn what_counts_for_more_comes_nearer() {
        for block in Block::ALL {
            // The blocks at the end fill no chunk.
            let x = draw(4, 32 * MOST_ELEMENTS + block.elements());
            let mut plain = vec![0; x.len() / block.elements() * block.bytes()];
            let mut best = plain.clone();
            block.encode_best(&x, None, &mut plain).unwrap();
            for (spread, every, most) in [(1.0, usize::MAX, 0.97), (2.0, 61, 0.6), (0.0, 17, 0.6)] {
                let by = importance(8, x.len(), spread, every);
                block.encode_best(&x, Some(&by), &mut best).unwrap();
                let ratio = weighted(block, &x, &by, &best) / weighted(block, &x, &by, &plain);
                println!("{block} {spread} {every}: {ratio:.3}");
                match block.is_searched() {
                    true => assert!(ratio < most, "{block}: {ratio}"),
                    false => assert_eq!(best, plain, "{block}"),
                }
                // Their unit is of no account, however small or large.
                for unit in [100, -100] {
                    let by: Vec<f32> = by.iter().map(|by| by * 2f32.powi(unit)).collect();
                    let mut same = plain.clone();
                    block.encode_best(&x, Some(&by), &mut same).unwrap();
                    assert_eq!(same, best, "{block} times 2^{unit}");
                }
            }
            for alike in [0.0, 1.0, 1e-40] {
                block.encode_best(&x, Some(&vec![alike; x.len()]), &mut best).unwrap();
                assert_eq!(best, plain, "{block} of {alike}");
            }
        }
    }

    /// One column counts for all others: they come about as near as without importance, and no sum loses them.
    #[test]
    fn one_that_counts_for_everything_does_no_harm_to_the_others() {
        for block in Block::ALL.into_iter().filter(|block| block.is_searched()) {
            let x = draw(5, 64 * MOST_ELEMENTS);
            let mut plain = vec![0; x.len() / block.elements() * block.bytes()];
            let mut best = plain.clone();
            block.encode_best(&x, None, &mut plain).unwrap();
            let by: Vec<f32> =
                (0..x.len()).map(|i| if i % 256 == 77 { 1e12 } else { 1.0 }).collect();
            block.encode_best(&x, Some(&by), &mut best).unwrap();
            let ratio = error(block, &x, &best) / error(block, &x, &plain);
            let weighted = weighted(block, &x, &by, &best) / weighted(block, &x, &by, &plain);
            println!("{block}: {ratio:.3}, by importance {weighted:.3}");
            assert!(ratio < 2.0 && weighted < 0.5, "{block}: {ratio}, {weighted}");
        }
    }

    #[test]
    fn importance_that_cannot_be_is_refused() {
        let x = draw(4, 2 * MOST_ELEMENTS);
        for block in Block::ALL {
            let mut bytes = vec![0; x.len() / block.elements() * block.bytes()];
            let mut refused =
                |by: &[f32]| block.encode_best(&x, Some(by), &mut bytes).unwrap_err().to_string();
            assert!(refused(&[1.0; 3]).contains("importance of 3"));
            for value in [-1.0, f32::NAN, f32::INFINITY] {
                let mut by = vec![1.0; x.len()];
                by[300] = value;
                let error = refused(&by);
                assert!(
                    error.contains("weight 300") && error.contains(&value.to_string()),
                    "{error}"
                );
            }
        }
    }
}
