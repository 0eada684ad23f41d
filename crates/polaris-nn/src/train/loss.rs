//! What a model is trained to make small.

use polaris_core::DType;
use polaris_ops::CrossEntropyOptions;
use polaris_tensor::Tensor;

use super::data::Task;
use crate::Result;

/// What training makes small. A closure from outputs and targets to the mean loss is one.
///
/// Outputs of half precision are given in single precision, in which the small gradients of a mean survive. A loss
/// that needs more than outputs and targets, such as a penalty on weights, keeps clones of those
/// [`Parameter`](crate::Parameter)s.
pub trait Loss: Send {
    /// The mean loss of a batch: a single number with a gradient.
    ///
    /// # Errors
    /// If outputs and targets do not fit, or there is no room.
    fn training(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor>;

    /// The mean loss of a batch that evaluations report; that of training unless it is written.
    ///
    /// # Errors
    /// As for [`training`](Self::training).
    fn validation(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        self.training(outputs, targets)
    }

    /// The class that the outputs predict for each example, if they do: accuracy is then counted, and decides
    /// which model is the best. Otherwise the smallest loss does.
    ///
    /// # Errors
    /// If the outputs have another shape, or there is no room.
    fn classes(&self, outputs: &Tensor) -> Result<Option<Tensor>> {
        let _ = outputs;
        Ok(None)
    }
}

impl<F: Fn(&Tensor, &Tensor) -> Result<Tensor> + Send> Loss for F {
    fn training(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        self(outputs, targets)
    }
}

/// The loss of a task: cross entropy for classes and tokens, the mean squared error for numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskLoss {
    /// What is predicted.
    pub task: Task,
    /// The part of a target's share that all classes get alike in training.
    pub smoothing: f64,
}

impl TaskLoss {
    /// Without smoothing.
    pub fn new(task: Task) -> Self {
        Self { task, smoothing: 0.0 }
    }
}

impl Loss for TaskLoss {
    fn training(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        Ok(match self.task {
            Task::Number => outputs.reshape(targets.dims())?.mse_loss(targets)?,
            Task::Classes | Task::Tokens => {
                let classes = outputs.dims().last().copied().unwrap_or(1);
                let rows = outputs.elements() / classes.max(1);
                let smoothing = self.smoothing;
                let options = CrossEntropyOptions { smoothing, ..CrossEntropyOptions::default() };
                let outputs = outputs.reshape(&[rows, classes])?;
                outputs.cross_entropy_loss(&targets.flatten()?, None, options)?
            }
        })
    }

    fn validation(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        Self::new(self.task).training(outputs, targets)
    }

    fn classes(&self, outputs: &Tensor) -> Result<Option<Tensor>> {
        match self.task {
            Task::Classes => Ok(Some(outputs.argmax(1, false)?)),
            Task::Number | Task::Tokens => Ok(None),
        }
    }
}

/// Outputs as a loss gets them: in single precision at least.
pub(super) fn for_loss(outputs: &Tensor) -> Result<Tensor> {
    match outputs.dtype() {
        DType::F64 => Ok(outputs.clone()),
        dtype if !dtype.is_float() => Ok(outputs.clone()),
        _ => Ok(outputs.to_dtype(DType::F32)?),
    }
}
