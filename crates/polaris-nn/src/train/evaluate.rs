//! How good a model is on data that it did not learn from.

use polaris_core::DType;
use polaris_runtime::DeviceRef;
use polaris_tensor::{Tensor, no_grad};
use serde::Serialize;

use super::batches::{BatchSource, batch_tensors};
use super::loss::{Loss, for_loss};
use crate::{Module, Pass, Result};

/// The most classes that what was taken for what is counted of.
const MOST_CLASSES: usize = 1024;

/// What an evaluation found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// Examples.
    pub examples: usize,
    /// The mean loss.
    pub loss: f64,
    /// The part of examples whose class was found; none for numbers and tokens.
    pub accuracy: Option<f64>,
    /// How often each class, by rows, was taken for each, by columns; empty for very many classes.
    pub confusion: Vec<Vec<u64>>,
}

impl Evaluation {
    /// The larger, the better.
    pub fn score(&self) -> f64 {
        self.accuracy.unwrap_or(-self.loss)
    }
}

/// Evaluates a model on all examples of the first epoch of some data; `compute` is the type that layers compute
/// in, if it is not that of the parameters.
///
/// # Errors
/// If data cannot be read, or a device fails.
pub fn evaluate(
    model: &dyn Module,
    data: &dyn BatchSource,
    loss: &dyn Loss,
    device: &DeviceRef,
    compute: Option<DType>,
) -> Result<Evaluation> {
    let classes = data.classes().len();
    // A matrix of very many classes would be larger than the model, and nobody would read it.
    let shown = if classes <= MOST_CLASSES { classes } else { 0 };
    let confusion = vec![vec![0; shown]; shown];
    let mut found = Evaluation { examples: 0, loss: 0.0, accuracy: None, confusion };
    let mut right = None;
    no_grad(|| {
        for batch in data.epoch(0, 0) {
            let batch = batch?;
            let (x, y) = batch_tensors(&batch, device)?;
            let outputs = for_loss(&model.forward(&x, &Pass::evaluation().in_type(compute))?)?;
            found.loss += loss.validation(&outputs, &y)?.item()? * batch.size as f64;
            found.examples += batch.size;
            if let Some(predicted) = loss.classes(&outputs)? {
                *right.get_or_insert(0) += count(&predicted, &y, &mut found.confusion)?;
            }
        }
        Ok::<(), crate::Error>(())
    })?;
    let examples = found.examples.max(1) as f64;
    found.loss /= examples;
    found.accuracy = right.map(|right| right as f64 / examples);
    Ok(found)
}

/// Counts what was taken for what, and returns how often that was right.
fn count(predicted: &Tensor, targets: &Tensor, confusion: &mut [Vec<u64>]) -> Result<u64> {
    let mut right = 0;
    for (&truth, &predicted) in targets.to_f64()?.iter().zip(&predicted.to_f64()?) {
        right += u64::from(truth == predicted);
        let row = confusion.get_mut(truth as usize);
        // A model of one's own may have more outputs than there are classes.
        if let Some(place) = row.and_then(|row| row.get_mut(predicted as usize)) {
            *place += 1;
        }
    }
    Ok(right)
}
