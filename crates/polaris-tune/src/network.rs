//! A small fully connected network: two hidden layers, trained with Adam on mini-batches.
//!
//! It complements the forest: it is smooth, and goes on where the forest's steps end.

use serde::{Deserialize, Serialize};

use self::layers::{Adam, Weights};
use crate::Random;

mod layers;

/// How many deviations an input may lie from the mean; beyond, the network knows nothing and a
/// straight line would lead anywhere.
const FARTHEST: f32 = 6.0;

/// How to train a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetworkOptions {
    /// At most so many passes over all rows.
    pub epochs: usize,
    /// Stops after so many passes that brought nothing for the rows held out.
    pub patience: usize,
    /// Rows between two steps.
    pub batch: usize,
    /// The length of the first steps; it falls to nothing towards the last epoch.
    pub rate: f32,
    /// How strongly weights are drawn to zero.
    pub decay: f32,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self { epochs: 150, patience: 30, batch: 32, rate: 4e-3, decay: 1e-4 }
    }
}

/// A trained network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Mean of each input.
    means: Vec<f32>,
    /// One over the deviation of each input; 0 for one that never changed, of which nothing is
    /// known.
    scales: Vec<f32>,
    target_mean: f32,
    target_deviation: f32,
    weights: Weights,
}

impl Network {
    /// Trains a network on rows of equally many finite numbers; what is missing in a shorter row
    /// counts as the mean. A tenth of the rows is held out to see when to stop; the weights that
    /// served it best are kept.
    pub fn fit(
        rows: &[Vec<f32>],
        targets: &[f32],
        options: &NetworkOptions,
        random: &mut Random,
    ) -> Self {
        let width = rows.first().map_or(0, Vec::len);
        let (means, scales): (Vec<f32>, Vec<f32>) = (0..width)
            .map(|column| {
                let values = rows.iter().filter_map(|row| row.get(column).copied());
                let (mean, deviation) = mean_and_deviation(values);
                (mean, if deviation > 0.0 { deviation.recip() } else { 0.0 })
            })
            .unzip();
        let (target_mean, deviation) = mean_and_deviation(targets.iter().copied());
        let target_deviation = if deviation > 0.0 { deviation } else { 1.0 };
        let weights = Weights::random(width, random);
        let mut network = Self { means, scales, target_mean, target_deviation, weights };
        let inputs: Vec<f32> =
            rows.iter().flat_map(|row| network.standardised(row).collect::<Vec<_>>()).collect();
        let wanted: Vec<f32> =
            targets.iter().map(|target| (target - target_mean) / target_deviation).collect();

        let mut order: Vec<usize> = (0..rows.len().min(targets.len())).collect();
        random.shuffle(&mut order);
        let held_out = order.split_off(order.len() - order.len() / 10);
        // Too few rows to hold any out: stop by those that are there.
        let judged = if held_out.is_empty() { order.clone() } else { held_out };
        let row = |number: usize| &inputs[number * width..][..width];
        let loss = |weights: &Weights| {
            let error = |&number: &usize| {
                f64::from(weights.pass(row(number).iter().copied()).output - wanted[number])
            };
            judged.iter().map(error).map(|error| error * error).sum::<f64>()
        };

        let mut adam = Adam::new(width);
        let mut best = (loss(&network.weights), network.weights.clone());
        let mut since_best = 0;
        for epoch in 0..options.epochs {
            random.shuffle(&mut order);
            let done = epoch as f32 / options.epochs as f32;
            let rate = options.rate * 0.5 * (1.0 + (done * std::f32::consts::PI).cos());
            for batch in order.chunks(options.batch.max(1)) {
                let mut gradient = Weights::zeros(width);
                for &number in batch {
                    let pass = network.weights.pass(row(number).iter().copied());
                    let error = (pass.output - wanted[number]) / batch.len() as f32;
                    network.weights.pass_back(row(number), &pass, error, &mut gradient);
                }
                adam.step(&mut network.weights, &mut gradient, rate, options.decay);
            }
            let loss = loss(&network.weights);
            since_best += 1;
            if loss < best.0 {
                best = (loss, network.weights.clone());
                since_best = 0;
            }
            if since_best >= options.patience {
                break;
            }
        }
        network.weights = best.1;
        network
    }

    /// What it expects for a row, without allocating anything. A missing input counts as its mean.
    pub fn predict(&self, row: &[f32]) -> f64 {
        let output = self.weights.pass(self.standardised(row)).output;
        f64::from(output) * f64::from(self.target_deviation) + f64::from(self.target_mean)
    }

    /// Whether there are as many weights as it takes.
    pub(crate) fn is_sound(&self) -> bool {
        self.scales.len() == self.means.len() && self.weights.are_for(self.means.len())
    }

    fn standardised<'a>(&'a self, row: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
        let places = self.means.iter().zip(&self.scales).enumerate();
        places.map(|(place, (mean, scale))| {
            let value = row.get(place).unwrap_or(mean);
            ((value - mean) * scale).clamp(-FARTHEST, FARTHEST)
        })
    }
}

fn mean_and_deviation(values: impl Iterator<Item = f32> + Clone) -> (f32, f32) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().map(f64::from).sum::<f64>() / count;
    let variance = values.map(|value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count;
    // A constant column has a tiny deviation rather than none, by rounding.
    let deviation = variance.sqrt();
    (mean as f32, if deviation > 1e-6 * mean.abs() { deviation as f32 } else { 0.0 })
}

#[cfg(test)]
mod tests;
