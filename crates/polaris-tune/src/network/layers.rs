//! The weights of a network, the way through them and back, and the steps that change them.

use serde::{Deserialize, Serialize};

use crate::Random;

/// Neurons of each hidden layer. A constant, so that the inner loops have a known length and a
/// prediction fits on the stack.
const HIDDEN: usize = 48;
type Layer = [f32; HIDDEN];

/// All weights, or all of something that there is for each weight. Those of one input to all
/// neurons lie side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Weights {
    first: Vec<f32>,
    first_bias: Vec<f32>,
    second: Vec<f32>,
    second_bias: Vec<f32>,
    last: Vec<f32>,
    last_bias: Vec<f32>,
}

impl Weights {
    pub(super) fn zeros(inputs: usize) -> Self {
        Self {
            first: vec![0.0; inputs * HIDDEN],
            first_bias: vec![0.0; HIDDEN],
            second: vec![0.0; HIDDEN * HIDDEN],
            second_bias: vec![0.0; HIDDEN],
            last: vec![0.0; HIDDEN],
            last_bias: vec![0.0],
        }
    }

    /// Weights that keep the size of what passes through them.
    pub(super) fn random(inputs: usize, random: &mut Random) -> Self {
        let mut weights = Self::zeros(inputs);
        let mut fill = |values: &mut [f32], gain: f64, inputs: usize| {
            let deviation = (gain / inputs.max(1) as f64).sqrt();
            values.iter_mut().for_each(|value| *value = (random.normal() * deviation) as f32);
        };
        fill(&mut weights.first, 2.0, inputs);
        fill(&mut weights.second, 2.0, HIDDEN);
        fill(&mut weights.last, 1.0, HIDDEN);
        weights
    }

    /// Whether these are the weights of a network with so many inputs.
    pub(super) fn are_for(&self, inputs: usize) -> bool {
        let Self { first, first_bias, second, second_bias, last, last_bias } = self;
        let lengths = [first, first_bias, second, second_bias, last, last_bias].map(Vec::len);
        lengths == [inputs * HIDDEN, HIDDEN, HIDDEN * HIDDEN, HIDDEN, HIDDEN, 1]
    }

    pub(super) fn parts(&mut self) -> [&mut Vec<f32>; 6] {
        let Self { first, first_bias, second, second_bias, last, last_bias } = self;
        [first, first_bias, second, second_bias, last, last_bias]
    }
}

/// What the neurons of a row's pass got, for the way back.
pub(super) struct Pass {
    /// Before and after the first hidden layer's activation.
    first: (Layer, Layer),
    second: (Layer, Layer),
    /// What came out at the end.
    pub(super) output: f32,
}

impl Weights {
    pub(super) fn pass(&self, inputs: impl Iterator<Item = f32>) -> Pass {
        let first = layer(inputs, &self.first, &self.first_bias);
        let second = layer(first.1.iter().copied(), &self.second, &self.second_bias);
        let output = dot(&self.last, &second.1) + self.last_bias.first().copied().unwrap_or(0.0);
        Pass { first, second, output }
    }

    /// Adds to `gradient` what a row contributes whose output is off by `error`.
    pub(super) fn pass_back(
        &self,
        inputs: &[f32],
        pass: &Pass,
        error: f32,
        gradient: &mut Weights,
    ) {
        gradient.last_bias[0] += error;
        add_scaled(&mut gradient.last, &pass.second.1, error);
        let mut delta = [0.0; HIDDEN];
        for (place, delta) in delta.iter_mut().enumerate() {
            *delta = error * self.last[place] * slope(pass.second.0[place]);
        }
        let mut before = [0.0; HIDDEN];
        for (place, before) in before.iter_mut().enumerate() {
            let weights = &self.second[place * HIDDEN..][..HIDDEN];
            *before = dot(weights, &delta) * slope(pass.first.0[place]);
            let gradient = &mut gradient.second[place * HIDDEN..][..HIDDEN];
            add_scaled(gradient, &delta, pass.first.1[place]);
        }
        add_scaled(&mut gradient.second_bias, &delta, 1.0);
        for (gradient, &input) in gradient.first.chunks_exact_mut(HIDDEN).zip(inputs) {
            add_scaled(gradient, &before, input);
        }
        add_scaled(&mut gradient.first_bias, &before, 1.0);
    }
}

/// The sums of a layer's neurons, and what they pass on.
fn layer(inputs: impl Iterator<Item = f32>, weights: &[f32], bias: &[f32]) -> (Layer, Layer) {
    let mut sums = [0.0; HIDDEN];
    add_scaled(&mut sums, bias, 1.0);
    for (input, weights) in inputs.zip(weights.chunks_exact(HIDDEN)) {
        add_scaled(&mut sums, weights, input);
    }
    (sums, sums.map(|sum| sum * sigmoid(sum)))
}

fn add_scaled(sums: &mut [f32], values: &[f32], factor: f32) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * factor);
}

/// In eight sums: the compiler may not reorder the additions of a single one.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for place in 0..8 {
            sums[place] += a[place] * b[place];
        }
    }
    sums.iter().sum()
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// The derivative of x · sigmoid(x).
fn slope(x: f32) -> f32 {
    let sigmoid = sigmoid(x);
    sigmoid * (1.0 + x * (1.0 - sigmoid))
}

/// The running means that Adam divides its steps by.
pub(super) struct Adam {
    means: Weights,
    squares: Weights,
    steps: i32,
}

impl Adam {
    pub(super) fn new(inputs: usize) -> Self {
        Self { means: Weights::zeros(inputs), squares: Weights::zeros(inputs), steps: 0 }
    }

    pub(super) fn step(
        &mut self,
        weights: &mut Weights,
        gradient: &mut Weights,
        rate: f32,
        decay: f32,
    ) {
        const KEPT: f32 = 0.9;
        const SQUARES_KEPT: f32 = 0.999;
        self.steps += 1;
        // The means begin at zero; this makes up for it.
        let rise = 1.0 / (1.0 - KEPT.powi(self.steps));
        let squares_rise = 1.0 / (1.0 - SQUARES_KEPT.powi(self.steps));
        let parts = weights.parts().into_iter().zip(gradient.parts());
        for ((weights, gradient), (means, squares)) in
            parts.zip(self.means.parts().into_iter().zip(self.squares.parts()))
        {
            for (((weight, slope), mean), square) in
                weights.iter_mut().zip(gradient).zip(means).zip(squares)
            {
                *mean = KEPT * *mean + (1.0 - KEPT) * *slope;
                *square = SQUARES_KEPT * *square + (1.0 - SQUARES_KEPT) * *slope * *slope;
                let step = *mean * rise / ((*square * squares_rise).sqrt() + 1e-8);
                *weight -= rate * (step + decay * *weight);
            }
        }
    }
}
