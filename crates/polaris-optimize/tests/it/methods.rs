//! HQQ, rotation and migration, on data that each is for.

use polaris_core::random::SplitMix64;
use polaris_optimize::Error;
use polaris_optimize::integer::{Clip, Grid, HqqOptions, hqq, hqq_real, nearest};
use polaris_optimize::migration::{divide, divisors, extremes, multiply};
use polaris_optimize::rotation::Rotation;

use crate::drawn::{change, normal, output_error};

/// `sum |w - q|^p`.
fn norm(weights: &[f32], floats: &[f32], p: f64) -> f64 {
    change(weights, floats).iter().map(|&e| f64::from(e.abs()).powf(p)).sum()
}

#[test]
fn hqq_has_the_smaller_norm() {
    let mut weights = normal(3, 64 * 128);
    // Heavy tails: a few weights are large.
    weights.iter_mut().step_by(23).for_each(|w| *w *= 4.0);
    let affine = Grid { symmetric: false, ..Grid::int4(64) };
    for grid in [Grid::int4(64), affine, Grid::int4(37)] {
        let plain = nearest(&weights, 64, 128, grid, Clip::Extremes).unwrap();
        let found = hqq(&weights, 64, 128, grid, &HqqOptions::default()).unwrap();
        let ratio =
            norm(&weights, &found.dequantize(), 0.7) / norm(&weights, &plain.dequantize(), 0.7);
        println!("{grid:?}: {ratio:.3}");
        assert!(ratio < 0.98, "{grid:?}: {ratio}");
    }
    // Real zero points leave less than a searched range, by both norms.
    let found = hqq_real(&weights, 64, 128, affine, &HqqOptions::default()).unwrap().dequantize();
    let searched = nearest(&weights, 64, 128, affine, Clip::Search).unwrap().dequantize();
    for p in [0.7, 2.0] {
        let ratio = norm(&weights, &found, p) / norm(&weights, &searched, p);
        println!("real zero points, {p}: {ratio:.3}");
        assert!(ratio < 0.99, "{p}: {ratio}");
    }
}

#[test]
fn hqq_finds_zero_points_between_levels() {
    // Sixteen evenly spaced floats, none of which is zero.
    let mut random = SplitMix64::new(8);
    let grid = Grid { symmetric: false, ..Grid::int4(64) };
    let mut weights = Vec::new();
    for group in 0..40 {
        let scale = 0.01 + 0.001 * group as f32;
        let level =
            |i: usize| if i < 16 { i as f32 } else { (random.unit() * 16.0).floor() as f32 };
        weights.extend((0..64).map(level).map(|level| scale * (level - 7.4)));
    }
    let error = |floats: Vec<f32>| norm(&weights, &floats, 2.0);
    let found = hqq_real(&weights, 40, 64, grid, &HqqOptions::default()).unwrap();
    let rounded = nearest(&weights, 40, 64, grid, Clip::Search).unwrap();
    let ratio = error(found.dequantize()) / error(rounded.dequantize());
    println!("{ratio:.1e} of the squared error of rounding");
    assert!(ratio < 1e-3, "{ratio}");
}

#[test]
fn hqq_refuses_what_it_cannot_do_and_keeps_what_is_simple() {
    let options = HqqOptions::default();
    for grid in [Grid::INT8, Grid { bits: 2, group: Some(3), symmetric: false }] {
        for weights in [vec![0.0; 10], vec![0.75; 10], vec![1e-38; 10]] {
            let floats = hqq(&weights, 1, 10, grid, &options).unwrap().dequantize();
            assert!(
                change(&weights, &floats).iter().all(|e| e.abs() <= 0.01),
                "{grid:?} {floats:?}"
            );
        }
    }
    assert!(matches!(hqq_real(&[1.0], 1, 1, Grid::INT8, &options), Err(Error::Symmetric)));
    let none = HqqOptions { norm: 0.0, ..options };
    assert!(matches!(hqq(&[1.0], 1, 1, Grid::INT8, &none), Err(Error::Norm { .. })));
    assert!(hqq(&[f32::NAN], 1, 1, Grid::INT8, &options).is_err());
}

/// Inputs of which two columns are fifty times as large as the others.
fn with_outliers(seed: u64, rows: usize, columns: usize) -> Vec<f32> {
    let mut inputs = normal(seed, rows * columns);
    for row in inputs.chunks_mut(columns) {
        row[columns / 3] *= 50.0;
        row[columns - 2] *= 50.0;
    }
    inputs
}

/// The relative error of outputs if weights and inputs are rounded.
fn relative(weights: &[f32], inputs: &[f32], columns: usize, weight: Grid, input: Grid) -> f64 {
    let rounded = |elements: &[f32], grid| {
        nearest(elements, elements.len() / columns, columns, grid, Clip::Extremes)
            .unwrap()
            .dequantize()
    };
    let (w, x) = (rounded(weights, weight), rounded(inputs, input));
    let (mut error, mut square) = (0.0, 0.0);
    for (x, rounded) in inputs.chunks(columns).zip(x.chunks(columns)) {
        for (row, quantised) in weights.chunks(columns).zip(w.chunks(columns)) {
            let dot = |a: &[f32], b: &[f32]| -> f64 {
                a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
            };
            let exact = dot(row, x);
            error += (dot(quantised, rounded) - exact).powi(2);
            square += exact * exact;
        }
    }
    (error / square).sqrt()
}

#[test]
fn rotation_changes_no_product_and_makes_four_bits_suffice() {
    for (columns, block) in [(256, 256), (192, 64), (80, 16), (7, 1), (1, 1)] {
        let rotation = Rotation::new(columns, 5);
        assert_eq!(rotation.block(), block);
        let (weights, inputs) =
            (normal(1, 9 * columns), with_outliers(2, 31, columns.max(3))[..31 * columns].to_vec());
        let (mut w, mut x) = (weights.clone(), inputs.clone());
        rotation.apply(&mut w);
        rotation.apply(&mut x);
        for (row, rotated) in weights.chunks(columns).zip(w.chunks(columns)) {
            for (input, turned) in inputs.chunks(columns).zip(x.chunks(columns)) {
                let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
                let scale = dot(input, input).sqrt() * dot(row, row).sqrt();
                assert!((dot(row, input) - dot(rotated, turned)).abs() <= 1e-5 * scale.max(1e-3));
            }
        }
        if block >= 64 {
            let int4 = Grid { bits: 4, group: None, symmetric: true };
            let before = relative(&weights, &inputs, columns, int4, int4);
            let after = relative(&w, &x, columns, int4, int4);
            println!("{columns}: {before:.3} becomes {after:.3}");
            // Two outliers are spread over 64 elements each, or both over 256.
            let most = if block == 64 { 0.85 } else { 0.6 };
            assert!(after < most * before, "{before} {after}");
        }
        rotation.undo(&mut x);
        assert!(change(&inputs, &x).iter().all(|e| e.abs() < 1e-4));
    }
    assert!(matches!(Rotation::with_blocks(96, 64, 0), Err(Error::Rotation { .. })));
    assert!(matches!(Rotation::with_blocks(96, 3, 0), Err(Error::Rotation { .. })));
    assert_eq!(Rotation::with_blocks(96, 32, 0).unwrap().block(), 32);
}

#[test]
fn migration_changes_no_product_and_makes_eight_bits_suffice() {
    let columns = 120;
    let (weights, inputs) = (normal(1, 40 * columns), with_outliers(2, 60, columns));
    let (mut of_inputs, mut of_weights) = (vec![0.0; columns], vec![0.0; columns]);
    extremes(&inputs, &mut of_inputs);
    extremes(&weights, &mut of_weights);
    let scales = divisors(&of_inputs, &of_weights, 0.5).unwrap();
    let (mut w, mut x) = (weights.clone(), inputs.clone());
    multiply(&mut w, &scales);
    divide(&mut x, &scales);
    let unchanged = output_error(&weights, &inputs, columns) - output_error(&w, &x, columns);
    assert!(unchanged.abs() <= 1e-4 * output_error(&weights, &inputs, columns));
    // One scale for all inputs, as integer kernels have it.
    let tensor = |x: &[f32]| {
        let most = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        x.iter().map(|x| (x / most * 127.0).round() * most / 127.0).collect::<Vec<_>>()
    };
    let error = |w: &[f32], x: &[f32]| {
        let q = nearest(w, 40, columns, Grid::INT8, Clip::Extremes).unwrap().dequantize();
        let rounded = tensor(x);
        let mut sum = 0.0;
        for (x, rounded) in x.chunks(columns).zip(rounded.chunks(columns)) {
            for (w, q) in w.chunks(columns).zip(q.chunks(columns)) {
                let both = w.iter().zip(x).zip(q.iter().zip(rounded));
                let missed: f32 = both.map(|((w, x), (q, r))| w * x - q * r).sum();
                sum += f64::from(missed).powi(2);
            }
        }
        sum
    };
    let (before, after) = (error(&weights, &inputs), error(&w, &x));
    println!("migration leaves {:.3} of the squared error", after / before);
    assert!(after < 0.2 * before, "{before} {after}");
}

#[test]
fn migration_refuses_nonsense_and_leaves_silent_columns() {
    assert_eq!(divisors(&[0.0, 4.0, 1.0], &[1.0, 0.0, 1.0], 0.5).unwrap(), [1.0; 3]);
    assert!(matches!(divisors(&[1.0], &[1.0, 1.0], 0.5), Err(Error::Width { .. })));
    assert!(matches!(divisors(&[1.0], &[1.0], 1.5), Err(Error::Strength { .. })));
    assert!(matches!(divisors(&[1.0], &[1.0], f32::NAN), Err(Error::Strength { .. })));
    assert!(matches!(divisors(&[f32::NAN], &[1.0], 0.5), Err(Error::NotFinite { .. })));
}
