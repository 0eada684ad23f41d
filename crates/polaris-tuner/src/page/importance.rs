//! The importance of each parameter for the time, from the measured points.

use polaris_report::{BarPlot, HeatCell, HeatMap};
use polaris_tune::{Forest, ForestOptions, Points, Random};

use super::Measured;

/// The parameters with more than one value and the share of each in the differences of time, the
/// greatest first.
pub fn ranked(points: &Points, measured: &[Measured]) -> Vec<(usize, f64)> {
    let parameters: Vec<usize> = (0..points.names().len())
        .filter(|&parameter| levels(points, parameter).len() > 1)
        .collect();
    let all_levels: Vec<Vec<i64>> =
        parameters.iter().map(|&parameter| levels(points, parameter)).collect();
    // Places among the values, not the values: thresholds are random, and between far values they would fall more
    // often. Products of parameters, which searches learn from, are not parameters.
    let row = |trial: &Measured| -> Vec<f32> {
        let values = points.values(trial.point);
        let places = parameters.iter().zip(&all_levels);
        places
            .map(|(&parameter, levels)| {
                levels.partition_point(|&level| level < values[parameter]) as f32
            })
            .collect()
    };
    let rows: Vec<Vec<f32>> = measured.iter().map(row).collect();
    // The logarithm of the time, but for a constant.
    let targets: Vec<f32> = measured.iter().map(|trial| -trial.rate.ln() as f32).collect();
    // Splits that must take one of a few parameters would give shares to those that do nothing.
    let options = ForestOptions {
        trees: 100,
        features_per_split: Some(parameters.len()),
        thresholds_per_feature: 4,
        ..ForestOptions::default()
    };
    let forest = Forest::fit(&rows, &targets, &options, &mut Random::new(1));
    let mut ranked: Vec<(usize, f64)> = parameters.into_iter().zip(forest.importance()).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked
}

/// All values of a parameter, in order.
pub fn levels(points: &Points, parameter: usize) -> Vec<i64> {
    let mut levels = points.levels(parameter).to_vec();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// A bar for each parameter.
pub fn bars(points: &Points, ranked: &[(usize, f64)]) -> BarPlot {
    let percent = |&(_, share): &(usize, f64)| Some((1000.0 * share).round() / 10.0);
    BarPlot {
        title: "Importance of the parameters".into(),
        y_label: "%".into(),
        groups: ranked.iter().map(|&(parameter, _)| points.names()[parameter].into()).collect(),
        series: vec![("share".into(), ranked.iter().map(percent).collect())],
        ..BarPlot::default()
    }
}

/// The best speed for each pair of values of two parameters; the first one is the horizontal one.
pub fn map(points: &Points, measured: &[Measured], parameters: [usize; 2], unit: &str) -> HeatMap {
    let [columns, rows] = parameters.map(|parameter| levels(points, parameter));
    // The fastest of those with two values, and how many there are.
    let mut cells: Vec<Option<(f64, usize)>> = vec![None; columns.len() * rows.len()];
    for trial in measured {
        let [x, y] = parameters.map(|parameter| points.values(trial.point)[parameter]);
        let (Ok(column), Ok(row)) = (columns.binary_search(&x), rows.binary_search(&y)) else {
            continue;
        };
        let (rate, count) = cells[row * columns.len() + column].get_or_insert((trial.rate, 0));
        *rate = rate.max(trial.rate);
        *count += 1;
    }
    let cell = |(value, count): (f64, usize)| HeatCell { value, note: format!("best of {count}") };
    let [x, y] = parameters.map(|parameter| points.names()[parameter].to_owned());
    HeatMap {
        title: format!("Best {unit} by {x} and {y}"),
        x_label: x,
        y_label: y,
        unit: unit.to_owned(),
        columns: columns.iter().map(i64::to_string).collect(),
        rows: rows.iter().map(i64::to_string).collect(),
        cells: cells.into_iter().map(|found| found.map(cell)).collect(),
        empty: "not measured".into(),
    }
}

#[cfg(test)]
mod tests {
    use polaris_tune::Space;

    use super::*;

    fn points() -> Points {
        Space::new("a test")
            .parameter("idle", [1, 2, 4])
            .parameter("fixed", [7])
            .parameter("switch", [0, 1])
            .parameter("tile", [16, 128, 64, 32])
            .points()
            .unwrap()
    }

    fn measured(points: &Points, rate: impl Fn(&[i64]) -> f64) -> Vec<Measured> {
        let trial = |point| Measured { number: point + 1, point, rate: rate(points.values(point)) };
        (0..points.len()).map(trial).collect()
    }

    #[test]
    fn what_changes_the_time_most_comes_first() {
        let points = points();
        let speed = |v: &[i64]| v[3] as f64 * if v[2] == 1 { 1.5 } else { 1.0 };
        let ranked = ranked(&points, &measured(&points, speed));
        let names: Vec<&str> = ranked.iter().map(|&(p, _)| points.names()[p]).collect();
        assert_eq!(names, ["tile", "switch", "idle"]);
        assert!((ranked.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(ranked[1].1 > 0.02 && ranked[2].1 < 0.02, "{ranked:?}");
        let plot = bars(&points, &ranked);
        assert_eq!(plot.groups, names);
        let drawn: f64 = plot.series[0].1.iter().flatten().sum();
        assert!((drawn - 100.0).abs() < 0.2, "{plot:?}");
    }

    #[test]
    fn equal_times_give_bars_of_no_length() {
        let points = points();
        let ranked = ranked(&points, &measured(&points, |_| 5.0));
        assert!(ranked.iter().all(|(_, share)| *share == 0.0));
        let plot = bars(&points, &ranked);
        assert!(plot.series[0].1.iter().all(|share| *share == Some(0.0)), "{plot:?}");
    }

    #[test]
    fn cells_hold_the_best_of_their_points() {
        let points = Space::new("a test")
            .parameter("tile", [32, 16])
            .parameter("unroll", [1, 2])
            .parameter("threads", [4, 8])
            .points()
            .unwrap();
        let trial = |values: [i64; 3], rate| {
            let point = points.find(&values).unwrap();
            Measured { number: 1, point, rate }
        };
        let measured = [
            trial([16, 1, 4], 150.0),
            trial([16, 2, 4], 321.0),
            trial([32, 2, 4], 50.0),
            trial([32, 1, 8], 77.0),
        ];
        let map = map(&points, &measured, [0, 2], "GB/s");
        assert_eq!(
            (&map.columns[..], &map.rows[..]),
            (&["16", "32"].map(String::from)[..], &["4", "8"].map(String::from)[..])
        );
        let cell = |value, count| Some(HeatCell { value, note: format!("best of {count}") });
        assert_eq!(map.cells, [cell(321.0, 2), cell(50.0, 1), None, cell(77.0, 1)]);
    }
}
