//! Negative log-likelihood and cross-entropy losses.

use crate::operators::Call;
use crate::{Error, Result, Tensor, Value};

/// Scores of classes along the second axis.
struct Scores {
    values: Vec<f64>,
    batch: usize,
    classes: usize,
    /// Elements after the axis of classes.
    inner: usize,
}

impl Scores {
    fn new(tensor: &Tensor) -> Result<Self> {
        let &[batch, classes, ref rest @ ..] = tensor.shape() else {
            let found = tensor.shape();
            return Err(Error::operands(format!("{found:?} has no axis of classes")));
        };
        Ok(Self { values: tensor.to_f64()?, batch, classes, inner: rest.iter().product() })
    }

    fn place(&self, row: usize, class: usize, at: usize) -> usize {
        (row * self.classes + class) * self.inner + at
    }

    /// Turns scores into logarithms of probabilities.
    fn log_softmax(&mut self) {
        if self.values.is_empty() {
            return;
        }
        for row in 0..self.batch {
            for at in 0..self.inner {
                let places = (0..self.classes).map(|class| self.place(row, class, at));
                let scores = places.clone().map(|place| self.values[place]);
                let largest = scores.clone().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.map(|score| (score - largest).exp()).sum();
                let shift = largest + total.ln();
                for place in places.collect::<Vec<usize>>() {
                    self.values[place] -= shift;
                }
            }
        }
    }
}

pub(super) fn negative_log_likelihood_loss(call: &Call<'_>) -> Result<Vec<Value>> {
    let scores = Scores::new(call.tensor(0)?)?;
    Ok(vec![Value::Tensor(loss(call, &scores)?)])
}

pub(super) fn softmax_cross_entropy_loss(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let mut scores = Scores::new(x)?;
    scores.log_softmax();
    let loss = loss(call, &scores)?;
    let logarithms = Tensor::from_f64(x.element(), x.shape(), &scores.values)?;
    Ok(vec![Value::Tensor(loss), Value::Tensor(logarithms)])
}

/// The loss for logarithms of probabilities, reduced as the node says.
fn loss(call: &Call<'_>, scores: &Scores) -> Result<Tensor> {
    let (x, target) = (call.tensor(0)?, call.tensor(1)?);
    let mut expected = x.shape().to_vec();
    expected.remove(1);
    if target.shape() != expected {
        let found = target.shape();
        return Err(Error::operands(format!("labels of {found:?} instead of {expected:?}")));
    }
    let weights = match call.optional(2)? {
        None => vec![1.0; scores.classes],
        Some(weights) if weights.shape() == [scores.classes] => weights.to_f64()?,
        Some(weights) => {
            let found = weights.shape();
            return Err(Error::operands(format!("weights of {found:?} do not fit the classes")));
        }
    };
    let ignored = call.attributes().int("ignore_index")?;
    let (mut losses, mut total_weight) = (Vec::with_capacity(target.elements()), 0.0);
    for (index, label) in target.to_i64()?.into_iter().enumerate() {
        if Some(label) == ignored {
            losses.push(0.0);
            continue;
        }
        let class = usize::try_from(label).ok().filter(|&class| class < scores.classes);
        let class = class.ok_or_else(|| Error::operands(format!("there is no class {label}")))?;
        let (row, at) = (index / scores.inner, index % scores.inner);
        losses.push(-scores.values[scores.place(row, class, at)] * weights[class]);
        total_weight += weights[class];
    }
    let sum = || losses.iter().sum::<f64>();
    match call.attributes().string_or("reduction", "mean")? {
        "none" => Tensor::from_f64(x.element(), target.shape(), &losses),
        "sum" => Tensor::from_f64(x.element(), &[], &[sum()]),
        "mean" => Tensor::from_f64(x.element(), &[], &[sum() / total_weight]),
        other => Err(Error::operands(format!("there is no reduction `{other}`"))),
    }
}
