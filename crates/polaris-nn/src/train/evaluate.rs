//! How good a model is on data that it did not learn from.

use polaris_core::DType;
use polaris_data::Loader;
use polaris_runtime::DeviceRef;
use polaris_tensor::{Tensor, no_grad};
use serde::Serialize;

use super::data::Task;
use super::trainer::{batch_tensors, loss_of};
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

/// Evaluates a model on all examples of a loader, in their order.
///
/// # Errors
/// If data cannot be read, or a device fails.
pub fn evaluate(
    model: &dyn Module,
    loader: &Loader,
    task: Task,
    device: &DeviceRef,
    compute: Option<DType>,
) -> Result<Evaluation> {
    let classes = loader.dataset().classes().len();
    // A matrix of very many classes would be larger than the model, and nobody would read it.
    let shown = if classes <= MOST_CLASSES { classes } else { 0 };
    let confusion = vec![vec![0; shown]; shown];
    let mut found = Evaluation { examples: 0, loss: 0.0, accuracy: None, confusion };
    let mut right = 0;
    no_grad(|| {
        for batch in loader.epoch(0, 0) {
            let batch = batch?;
            let (x, y) = batch_tensors(&batch, device)?;
            let outputs = model.forward(&x, &Pass::evaluation().in_type(compute))?;
            found.loss += loss_of(task, &outputs, &y, 0.0)?.item()? * batch.size as f64;
            found.examples += batch.size;
            if task == Task::Classes {
                right += count(&outputs, &y, &mut found.confusion)?;
            }
        }
        Ok::<(), crate::Error>(())
    })?;
    found.loss /= found.examples.max(1) as f64;
    if task == Task::Classes {
        found.accuracy = Some(right as f64 / found.examples.max(1) as f64);
    }
    Ok(found)
}

/// Counts what was taken for what, and returns how often that was right.
fn count(outputs: &Tensor, targets: &Tensor, confusion: &mut [Vec<u64>]) -> Result<u64> {
    let predicted = outputs.argmax(1, false)?.to_f64()?;
    let mut right = 0;
    for (&truth, &predicted) in targets.to_f64()?.iter().zip(&predicted) {
        right += u64::from(truth == predicted);
        if let Some(row) = confusion.get_mut(truth as usize) {
            row[predicted as usize] += 1;
        }
    }
    Ok(right)
}
