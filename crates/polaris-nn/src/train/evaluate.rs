//! How good a model is on data that it did not learn from.

use polaris_core::DType;
use polaris_data::Loader;
use polaris_runtime::DeviceRef;
use polaris_tensor::{Tensor, no_grad};
use serde::Serialize;

use super::data::Task;
use super::trainer::{batch_tensors, loss_of};
use crate::{Module, Pass, Result};

/// What an evaluation found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// Examples.
    pub examples: usize,
    /// The mean loss.
    pub loss: f64,
    /// The part of examples whose class was found; none for numbers and tokens.
    pub accuracy: Option<f64>,
    /// How often each class, by rows, was taken for each, by columns.
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
    let mut found = Evaluation {
        examples: 0,
        loss: 0.0,
        accuracy: None,
        confusion: vec![vec![0; classes]; classes],
    };
    no_grad(|| {
        for batch in loader.epoch(0, 0) {
            let batch = batch?;
            let (x, y) = batch_tensors(&batch, device)?;
            let outputs = model.forward(&x, &Pass::evaluation().in_type(compute))?;
            found.loss += loss_of(task, &outputs, &y, 0.0)?.item()? * batch.size as f64;
            found.examples += batch.size;
            if task == Task::Classes {
                count(&outputs, &y, &mut found.confusion)?;
            }
        }
        Ok::<(), crate::Error>(())
    })?;
    found.loss /= found.examples.max(1) as f64;
    if task == Task::Classes {
        let right: u64 = (0..classes).map(|class| found.confusion[class][class]).sum();
        found.accuracy = Some(right as f64 / found.examples.max(1) as f64);
    }
    Ok(found)
}

fn count(outputs: &Tensor, targets: &Tensor, confusion: &mut [Vec<u64>]) -> Result<()> {
    let predicted = outputs.argmax(1, false)?.to_f64()?;
    for (&truth, &predicted) in targets.to_f64()?.iter().zip(&predicted) {
        confusion[truth as usize][predicted as usize] += 1;
    }
    Ok(())
}
