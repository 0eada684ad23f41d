//! Softmax and its gradients by definition, in `f64`.

use polaris_core::Shape;

use super::Form;

pub fn rows(form: Form, inputs: &[Vec<f64>], shape: &Shape) -> Vec<f64> {
    let length = form.length(shape);
    let inner: usize = shape.iter().skip(form.axis + 1).product();
    let mut results = vec![0.0; shape.elements()];
    for start in 0..shape.elements() {
        // The first element of a row has the index zero along the axis.
        if !(start / inner).is_multiple_of(length) {
            continue;
        }
        let places: Vec<usize> = (0..length).map(|i| start + i * inner).collect();
        let row = |input: usize| places.iter().map(|&at| inputs[input][at]).collect::<Vec<f64>>();
        let row = match (form.gradient, form.log) {
            (false, log) => forward(&row(0), log),
            (true, false) => softmax_gradient(&row(0), &row(1)),
            (true, true) => log_softmax_gradient(&row(0), &row(1)),
        };
        places.iter().zip(row).for_each(|(&at, value)| results[at] = value);
    }
    results
}

/// Without the largest taken out first, large numbers would overflow. A NaN is never the largest
/// here, but its exponential makes the sum one.
fn forward(x: &[f64], log: bool) -> Vec<f64> {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum = sum(&x.iter().map(|x| (x - largest).exp()).collect::<Vec<f64>>());
    let one = |x: &f64| if log { x - largest - sum.ln() } else { (x - largest).exp() / sum };
    x.iter().map(one).collect()
}

/// By halves: added one by one, thousands of numbers would lose more of an `f64` than what is judged
/// by this.
fn sum(values: &[f64]) -> f64 {
    if values.len() <= 8 {
        return values.iter().sum();
    }
    let (front, back) = values.split_at(values.len() / 2);
    sum(front) + sum(back)
}

fn softmax_gradient(y: &[f64], g: &[f64]) -> Vec<f64> {
    let sum = sum(&y.iter().zip(g).map(|(y, g)| y * g).collect::<Vec<f64>>());
    y.iter().zip(g).map(|(y, g)| y * (g - sum)).collect()
}

fn log_softmax_gradient(y: &[f64], g: &[f64]) -> Vec<f64> {
    let sum = sum(g);
    y.iter().zip(g).map(|(y, g)| g - y.exp() * sum).collect()
}
