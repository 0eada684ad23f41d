//! Batch normalisation by definition, in `f64`. Inputs begin with x; further ones are those of the operations, in
//! their order.

use polaris_core::Shape;

/// The channel of each element, in row-major order.
fn channels(shape: &Shape) -> impl Iterator<Item = usize> {
    let inner: usize = shape[2..].iter().product();
    let count = shape[1];
    (0..shape.elements()).map(move |at| at / inner % count)
}

/// Elements of a channel.
fn size(shape: &Shape) -> f64 {
    let others: usize =
        shape.iter().enumerate().filter(|(axis, _)| *axis != 1).map(|(_, d)| d).product();
    others as f64
}

/// The sum of a function of each element, for each channel.
fn sum(shape: &Shape, function: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let mut sums = vec![0.0; shape[1]];
    channels(shape).enumerate().for_each(|(at, channel)| sums[channel] += function(at, channel));
    sums
}

/// Means, then variances.
pub fn statistics(x: &[f64], shape: &Shape) -> Vec<f64> {
    let mean: Vec<f64> = sum(shape, |at, _| x[at]).iter().map(|sum| sum / size(shape)).collect();
    let squares = sum(shape, |at, channel| (x[at] - mean[channel]).powi(2));
    let variance: Vec<f64> = squares.iter().map(|sum| sum / size(shape)).collect();
    [mean, variance].concat()
}

pub fn norm(
    inputs: &[Vec<f64>],
    shape: &Shape,
    weight: Option<&[f64]>,
    bias: Option<&[f64]>,
    epsilon: f64,
) -> Vec<f64> {
    let [x, mean, variance] = [&inputs[0], &inputs[1], &inputs[2]];
    let one = |(at, channel): (usize, usize)| {
        let normal = (x[at] - mean[channel]) / (variance[channel] + epsilon).sqrt();
        let scaled = normal * weight.map_or(1.0, |weight| weight[channel]);
        bias.map_or(scaled, |bias| scaled + bias[channel])
    };
    channels(shape).enumerate().map(one).collect()
}

/// The gradients of the weight, then those of the bias.
pub fn sums(inputs: &[Vec<f64>], shape: &Shape, epsilon: f64) -> Vec<f64> {
    let [x, g, mean, variance] = [&inputs[0], &inputs[1], &inputs[2], &inputs[3]];
    let of_weight = sum(shape, |at, channel| {
        g[at] * (x[at] - mean[channel]) / (variance[channel] + epsilon).sqrt()
    });
    [of_weight, sum(shape, |at, _| g[at])].concat()
}

/// Where the statistics are those of x, a gradient along the channel's mean or deviation changes
/// nothing; `sums` are the gradients of weight and bias then.
pub fn gradient(
    inputs: &[Vec<f64>],
    shape: &Shape,
    weight: Option<&[f64]>,
    sums: Option<[&[f64]; 2]>,
    epsilon: f64,
) -> Vec<f64> {
    let [x, g, mean, variance] = [&inputs[0], &inputs[1], &inputs[2], &inputs[3]];
    let one = |(at, channel): (usize, usize)| {
        let deviation = (variance[channel] + epsilon).sqrt();
        let along = sums.map_or(0.0, |[of_weight, of_bias]| {
            let normal = (x[at] - mean[channel]) / deviation;
            (of_bias[channel] + normal * of_weight[channel]) / size(shape)
        });
        weight.map_or(1.0, |weight| weight[channel]) / deviation * (g[at] - along)
    };
    channels(shape).enumerate().map(one).collect()
}
