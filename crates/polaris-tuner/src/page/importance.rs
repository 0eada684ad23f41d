//! How much each parameter matters for the time, as far as the measured points tell.

use std::fmt::Write;

use polaris_tune::{Forest, ForestOptions, Points, Random};

use super::Measured;
use crate::commands::bench_gemm::plot::{COLOURS, escape};

const WIDTH: f64 = 720.0;
const LEFT: f64 = 130.0;
/// The longest bar leaves room for its number.
const LONGEST: f64 = 530.0;
const TOP: f64 = 30.0;
const PITCH: f64 = 22.0;

/// The parameters with more than one value and the share of each in the differences of time, the
/// greatest first.
pub fn ranked(points: &Points, measured: &[Measured]) -> Vec<(usize, f64)> {
    let parameters: Vec<usize> = (0..points.names().len())
        .filter(|&parameter| levels(points, parameter).len() > 1)
        .collect();
    let all_levels: Vec<Vec<i64>> =
        parameters.iter().map(|&parameter| levels(points, parameter)).collect();
    // Places among the values, not the values: thresholds are random, and between far values they
    // would fall more often. Products of parameters, which searches learn from, are no parameters.
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
pub fn bars(points: &Points, ranked: &[(usize, f64)]) -> String {
    let title = "Importance of the parameters";
    let height = TOP + PITCH * ranked.len() as f64 + 6.0;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"18\">{title}</text>\n"
    );
    let most = ranked.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    for (place, &(parameter, share)) in ranked.iter().enumerate() {
        let top = TOP + PITCH * place as f64;
        let length = if most > 0.0 { LONGEST * share / most } else { 0.0 };
        let _ = writeln!(
            svg,
            "<text class=\"end\" x=\"{}\" y=\"{1}\">{2}</text>\
             <rect x=\"{LEFT}\" y=\"{top}\" width=\"{length:.1}\" height=\"{3}\" fill=\"{4}\"/>\
             <text x=\"{5:.1}\" y=\"{1}\">{6:.1}%</text>",
            LEFT - 6.0,
            top + 13.0,
            escape(points.names()[parameter]),
            PITCH - 4.0,
            COLOURS[0],
            LEFT + length + 6.0,
            100.0 * share
        );
    }
    svg.push_str("</svg>\n");
    svg
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
        let svg = bars(&points, &ranked);
        assert!(svg.contains(">tile</text>") && !svg.contains("fixed"), "{svg}");
    }

    #[test]
    fn equal_times_give_bars_of_no_length() {
        let points = points();
        let ranked = ranked(&points, &measured(&points, |_| 5.0));
        assert!(ranked.iter().all(|(_, share)| *share == 0.0));
        let svg = bars(&points, &ranked);
        assert!(svg.contains("width=\"0.0\"") && !svg.contains("NaN"), "{svg}");
    }
}
