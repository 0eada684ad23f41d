//! Softmax, LogSoftmax, Hardmax.

use super::along::Lines;
use crate::operators::{Call, one};
use crate::{Result, Tensor, Value};

/// Computes each line again. Before version 13 all axes from the given one on make a line.
fn each_line(call: &Call<'_>, compute: impl Fn(&mut [f64])) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let lines = if call.version() < 13 {
        Lines::flattened(data.shape(), call.attributes().int_or("axis", 1)?)?
    } else {
        Lines::along(data.shape(), call.attributes().int_or("axis", -1)?)?
    };
    let mut values = data.to_f64()?;
    let mut line = vec![0.0; lines.length.min(values.len())];
    for start in lines.starts() {
        for (slot, place) in line.iter_mut().zip(lines.places(start)) {
            *slot = values[place];
        }
        compute(&mut line);
        for (&value, place) in line.iter().zip(lines.places(start)) {
            values[place] = value;
        }
    }
    Ok(one(Tensor::from_f64(data.element(), data.shape(), &values)?))
}

fn largest(line: &[f64]) -> f64 {
    line.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

pub fn softmax(call: &Call<'_>) -> Result<Vec<Value>> {
    each_line(call, |line| {
        let largest = largest(line);
        line.iter_mut().for_each(|x| *x = (*x - largest).exp());
        let sum: f64 = line.iter().sum();
        line.iter_mut().for_each(|x| *x /= sum);
    })
}

pub fn log_softmax(call: &Call<'_>) -> Result<Vec<Value>> {
    each_line(call, |line| {
        let largest = largest(line);
        let log_sum = line.iter().map(|x| (x - largest).exp()).sum::<f64>().ln();
        line.iter_mut().for_each(|x| *x = *x - largest - log_sum);
    })
}

pub fn hardmax(call: &Call<'_>) -> Result<Vec<Value>> {
    each_line(call, |line| {
        let mut best = 0;
        for index in 1..line.len() {
            if line[index] > line[best] {
                best = index;
            }
        }
        line.fill(0.0);
        line[best] = 1.0;
    })
}
