//! Rounding of each element by itself, to the levels of a range that is searched for.

use super::{Grid, IntMatrix, Scaling, check_matrix};
use crate::Result;

/// How the range of a group is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clip {
    /// From the smallest to the largest element.
    Extremes,
    /// The part of that with the least squared error, of those that are tried.
    #[default]
    Search,
}

/// Parts of the extremes that are tried, in hundredths.
const LEAST: u32 = 40;
const STEP: usize = 2;

/// Each element at the nearest level.
///
/// # Errors
/// If the grid is none, the matrix does not have the elements it should, or some are not finite.
pub fn nearest(
    elements: &[f32],
    rows: usize,
    columns: usize,
    grid: Grid,
    clip: Clip,
) -> Result<IntMatrix> {
    grid.check()?;
    check_matrix(elements, rows, columns)?;
    let mut levels = Vec::with_capacity(elements.len());
    let mut scalings = Vec::new();
    for row in elements.chunks(columns.max(1)) {
        for group in row.chunks(grid.group_in(columns)) {
            let scaling = range(group, &[], grid, clip);
            levels.extend(group.iter().map(|&element| scaling.level(element, grid)));
            scalings.push(scaling);
        }
    }
    Ok(IntMatrix { grid, rows, columns, levels, scalings })
}

/// What the levels of a group mean. Squared errors count by `costs`; equally if there are none.
pub(crate) fn range(group: &[f32], costs: &[f32], grid: Grid, clip: Clip) -> Scaling {
    let low = group.iter().copied().fold(0.0, f32::min);
    let high = group.iter().copied().fold(0.0, f32::max);
    let widest = Scaling::of_range(low, high, grid);
    if clip == Clip::Extremes {
        return widest;
    }
    let error = |scaling: Scaling| -> f64 {
        let of = |x: f32| f64::from(x - scaling.value(scaling.level(x, grid))).powi(2);
        match costs {
            [] => group.iter().map(|&x| of(x)).sum(),
            _ => group.iter().zip(costs).map(|(&x, &cost)| f64::from(cost) * of(x)).sum(),
        }
    };
    let mut best = (error(widest), widest);
    for hundredths in (LEAST..100).rev().step_by(STEP) {
        let part = hundredths as f32 / 100.0;
        let scaling = Scaling::of_range(low * part, high * part, grid);
        let error = error(scaling);
        if error < best.0 {
            best = (error, scaling);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use polaris_core::random::SplitMix64;

    use super::*;

    fn draw(count: usize, seed: u64) -> Vec<f32> {
        let mut random = SplitMix64::new(seed);
        (0..count).map(|_| (0..6).map(|_| random.unit() - 0.5).sum::<f64>() as f32).collect()
    }

    fn error(elements: &[f32], matrix: &IntMatrix) -> f64 {
        let pairs = elements.iter().zip(matrix.dequantize());
        pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum()
    }

    #[test]
    fn no_element_is_farther_than_half_a_step() {
        for bits in 2..=8 {
            for symmetric in [false, true] {
                for group in [None, Some(7), Some(32)] {
                    let grid = Grid { bits, group, symmetric };
                    let elements = draw(5 * 45, u64::from(bits));
                    let matrix = nearest(&elements, 5, 45, grid, Clip::Extremes).unwrap();
                    assert_eq!(matrix.scalings.len(), 5 * matrix.groups());
                    for (at, value) in matrix.dequantize().into_iter().enumerate() {
                        let scale = matrix.scaling(at / 45, at % 45).scale;
                        // Where zero is rounded to a level, the range moves by up to half a step.
                        let most = if symmetric { 0.5001 } else { 1.0001 };
                        assert!((value - elements[at]).abs() <= most * scale, "{grid:?} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_searched_range_is_never_worse_and_with_four_bits_better() {
        let elements = draw(16 * 256, 3);
        for grid in [Grid::INT8, Grid::int4(32), Grid { symmetric: false, ..Grid::int4(128) }] {
            let of = |clip| error(&elements, &nearest(&elements, 16, 256, grid, clip).unwrap());
            let (plain, searched) = (of(Clip::Extremes), of(Clip::Search));
            assert!(searched <= plain, "{grid:?}: {searched} {plain}");
            assert!(grid.bits == 8 || searched < 0.97 * plain, "{grid:?}: {searched} {plain}");
        }
    }

    #[test]
    fn what_is_constant_or_zero_stays() {
        for symmetric in [false, true] {
            let grid = Grid { symmetric, ..Grid::int4(4) };
            for value in [0.0, 0.7, -1.4, 1e-20] {
                let matrix = nearest(&[value; 12], 2, 6, grid, Clip::Search).unwrap();
                for found in matrix.dequantize() {
                    assert!((found - value).abs() <= 1e-6 * value.abs(), "{value} {found}");
                }
            }
        }
        assert!(nearest(&[], 0, 0, Grid::INT8, Clip::Search).unwrap().dequantize().is_empty());
    }

    #[test]
    fn what_is_no_matrix_is_refused() {
        let refused = |elements: &[f32], rows, columns, grid| {
            nearest(elements, rows, columns, grid, Clip::Search).unwrap_err().to_string()
        };
        assert!(refused(&[1.0; 5], 2, 3, Grid::INT8).contains("5 elements"));
        assert!(refused(&[1.0, f32::NAN], 1, 2, Grid::INT8).contains("NaN"));
        assert!(refused(&[1.0], 1, 1, Grid { bits: 9, ..Grid::INT8 }).contains("9 bits"));
        assert!(refused(&[1.0], 1, 1, Grid::int4(0)).contains("group"));
    }
}
