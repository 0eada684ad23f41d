//! What forests learn, and how long it takes them.

use super::*;

/// Random rows and a target that needs the first two features only.
fn sample(count: usize, width: usize, seed: u64) -> (Vec<Vec<f32>>, Vec<f32>) {
    let mut random = Random::new(seed);
    let mut row = || (0..width).map(|_| random.unit() as f32).collect::<Vec<_>>();
    let rows: Vec<_> = (0..count).map(|_| row()).collect();
    let target = |row: &Vec<f32>| 4.0 * row[0] + if row[1] > 0.5 { 2.0 } else { 0.0 };
    let targets = rows.iter().map(target).collect();
    (rows, targets)
}

#[test]
fn what_was_learnt_holds_for_other_rows() {
    let (rows, targets) = sample(400, 6, 1);
    let forest = Forest::fit(&rows, &targets, &ForestOptions::default(), &mut Random::new(2));
    let (rows, targets) = sample(200, 6, 3);
    let error =
        |(row, target): (&Vec<f32>, &f32)| (forest.predict(row).mean - f64::from(*target)).powi(2);
    let mean_square = rows.iter().zip(&targets).map(error).sum::<f64>() / 200.0;
    // Of a variance of 2.3 less than a seventh stays unexplained.
    assert!(mean_square < 0.33, "{mean_square}");
    let importance = forest.importance();
    assert!((importance.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(importance[0] + importance[1] > 0.9, "{importance:?}");
}

#[test]
fn trees_agree_on_known_rows_and_differ_on_strange_ones() {
    let rows: Vec<Vec<f32>> = (0..20).map(|x| vec![x as f32 + 30.0 * (x / 10) as f32]).collect();
    let targets: Vec<f32> = rows.iter().map(|row| row[0]).collect();
    let options = ForestOptions { min_leaf: 1, ..ForestOptions::default() };
    let forest = Forest::fit(&rows, &targets, &options, &mut Random::new(1));
    let known = forest.predict(&rows[4]);
    assert!(known.deviation < 1e-9 && (known.mean - 4.0).abs() < 1e-6, "{known:?}");
    assert!(forest.predict(&[25.0]).deviation > 5.0);
}

#[test]
fn odd_inputs_do_no_harm() {
    let fit = |rows: &[Vec<f32>], targets: &[f32]| {
        Forest::fit(rows, targets, &ForestOptions::default(), &mut Random::new(1))
    };
    assert_eq!(fit(&[], &[]).predict(&[1.0]), Estimate { mean: 0.0, deviation: 0.0 });
    assert_eq!(fit(&[vec![], vec![]], &[1.0, 3.0]).predict(&[]).mean, 2.0);
    let rows = vec![vec![f32::NAN, 1.0], vec![f32::INFINITY, 1.0], vec![0.0, 1.0]];
    let forest = fit(&rows, &[1.0, 2.0, 3.0]);
    assert_eq!((forest.nodes(), forest.predict(&rows[0]).mean), (40, 2.0));
}

#[test]
fn a_forest_survives_being_written() {
    let (rows, targets) = sample(60, 4, 5);
    let forest = Forest::fit(&rows, &targets, &ForestOptions::default(), &mut Random::new(2));
    let text = serde_json::to_string(&forest).unwrap();
    assert_eq!(serde_json::from_str::<Forest>(&text).unwrap(), forest);
}
