//! Points as numbers that a forest can split well, and what forests learn from them.

use super::History;
use crate::{Forest, ForestOptions, Points, Random};

/// The features of points, worked out when they are first asked for.
pub(super) struct Features {
    rows: Vec<Option<Vec<f32>>>,
    /// How many parameters vary: so many features come first, before their pairs.
    pub single: usize,
}

impl Features {
    pub fn new(points: &Points) -> Self {
        let varies = |place: &usize| points.levels(*place).len() > 1;
        let single = (0..points.names().len()).filter(varies).count();
        Self { rows: vec![None; points.len()], single }
    }

    /// The logarithms of the values and of their products and quotients in pairs: sizes of tiles,
    /// work for each thread and the like are such products, and a tree needs many splits to find
    /// them by itself. The logarithm of the predicted time is one more, where there is one.
    pub fn of(&mut self, points: &Points, point: usize, prior: Option<&[f64]>) -> &[f32] {
        self.rows[point].get_or_insert_with(|| {
            // One above the logarithm, so that 1 is not the same as 0.
            let log = |&value: &i64| {
                if value > 0 { (value as f32).log2() + 1.0 } else { value as f32 }
            };
            // What has one value everywhere tells no two points apart.
            let varies = |&(place, _): &(usize, &i64)| points.levels(place).len() > 1;
            let values = points.values(point).iter().enumerate().filter(varies);
            let mut row: Vec<f32> = values.map(|(_, value)| log(value)).collect();
            let single = row.len();
            for a in 0..single {
                for b in a + 1..single {
                    row.push(row[a] + row[b]);
                    row.push(row[a] - row[b]);
                }
            }
            if let Some(prior) = prior {
                let seconds = prior.get(point).copied().unwrap_or(f64::INFINITY);
                // Beyond a factor of a trillion there is nothing to tell apart.
                row.push(seconds.ln().clamp(-30.0, 30.0) as f32);
            }
            row
        })
    }

    /// A forest of how likely points work, once one failed.
    pub fn learn_failures(
        &mut self,
        points: &Points,
        history: &History,
        prior: Option<&[f64]>,
        random: &mut Random,
    ) -> Option<Forest> {
        let works = |seconds: Option<f64>| if seconds.is_some() { 1.0 } else { 0.0 };
        let targets: Vec<f32> = history.trials.iter().map(|t| works(t.seconds)).collect();
        if !targets.contains(&0.0) {
            return None;
        }
        let trials = history.trials.iter();
        let rows: Vec<_> = trials.map(|t| self.of(points, t.point, prior).to_vec()).collect();
        // Failures have sharp borders: of all features the one that draws them best is wanted.
        let features_per_split = Some(usize::MAX);
        let options = ForestOptions { min_leaf: 1, features_per_split, ..ForestOptions::default() };
        Some(Forest::fit(&rows, &targets, &options, random))
    }
}

/// How likely a point works. What the forest has only seen fail may still work: a little hope
/// keeps such points in order.
pub(super) fn likely(working: Option<&Forest>, row: &[f32]) -> f64 {
    working.map_or(1.0, |forest| forest.predict(row).mean).max(0.001)
}
