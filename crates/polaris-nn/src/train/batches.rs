//! Where batches come from, and how they get to a device.

use polaris_data::{Batch, Loader, Values};
use polaris_runtime::DeviceRef;
use polaris_tensor::Tensor;

use crate::{Error, Result};

/// Gives the batches of an epoch, as often as they are asked for.
///
/// A [`Loader`] makes them of any [`Dataset`](polaris_data::Dataset), shuffled and ahead of time; a `Vec` of
/// batches gives the same ones in each epoch.
pub trait BatchSource: Send + Sync {
    /// Batches of an epoch, always the same number.
    fn batches(&self) -> usize;

    /// Examples of an epoch.
    fn examples(&self) -> usize;

    /// The batches of an epoch from the `first`-th on. They depend on the epoch alone: a training that is
    /// resumed in the middle of one gets what would have come.
    fn epoch(&self, epoch: u64, first: usize) -> Box<dyn Iterator<Item = Result<Batch>> + '_>;

    /// Names of the classes, if targets are classes: evaluations count what was taken for what.
    fn classes(&self) -> &[String] {
        &[]
    }
}

impl BatchSource for Loader {
    fn batches(&self) -> usize {
        Self::batches(self)
    }

    fn examples(&self) -> usize {
        Self::examples(self)
    }

    fn epoch(&self, epoch: u64, first: usize) -> Box<dyn Iterator<Item = Result<Batch>> + '_> {
        Box::new(Self::epoch(self, epoch, first).map(|batch| batch.map_err(Error::from)))
    }

    fn classes(&self) -> &[String] {
        self.dataset().classes()
    }
}

impl BatchSource for Vec<Batch> {
    fn batches(&self) -> usize {
        self.len()
    }

    fn examples(&self) -> usize {
        self.iter().map(|batch| batch.size).sum()
    }

    fn epoch(&self, _epoch: u64, first: usize) -> Box<dyn Iterator<Item = Result<Batch>> + '_> {
        Box::new(self.iter().skip(first).cloned().map(Ok))
    }
}

/// A batch on a device: inputs and targets.
///
/// # Errors
/// If its values and dimensions do not go together, or there is no room.
pub(super) fn batch_tensors(batch: &Batch, device: &DeviceRef) -> Result<(Tensor, Tensor)> {
    batch.check()?;
    let tensor = |values: &Values, dims: &[usize]| -> Result<Tensor> {
        Ok(match values {
            Values::F32(values) => Tensor::from_slice(device, dims, values)?,
            Values::I64(values) => Tensor::from_slice(device, dims, values)?,
        })
    };
    Ok((tensor(&batch.inputs, &batch.input_dims)?, tensor(&batch.targets, &batch.target_dims)?))
}

/// The first examples of a batch that was checked.
pub(super) fn beginning(batch: &Batch, size: usize) -> Batch {
    let part = |values: &Values| {
        let count = values.len() / batch.size.max(1) * size;
        match values {
            Values::F32(values) => Values::F32(values[..count].to_vec()),
            Values::I64(values) => Values::I64(values[..count].to_vec()),
        }
    };
    let dims = |dims: &[usize]| [&[size], &dims[1..]].concat();
    Batch {
        size,
        inputs: part(&batch.inputs),
        input_dims: dims(&batch.input_dims),
        targets: part(&batch.targets),
        target_dims: dims(&batch.target_dims),
        indices: batch.indices[..size].to_vec(),
    }
}
