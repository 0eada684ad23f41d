//! Device memory that passes from one block of a streamed matmul to the next.

use std::sync::Arc;

use polaris_core::{DType, Layout, Shape};
use polaris_runtime::{Buffer, DeviceRef, Error, Event, Queue};

use crate::{Array, Result};

/// An array in memory that is given back.
pub struct Lent {
    pub array: Array,
    /// All of the memory, of which the array may use a part.
    whole: Buffer,
}

/// Memory that was given back, with the event after which it may be used again.
#[derive(Default)]
pub struct Spares {
    free: Vec<(Buffer, Event)>,
}

impl Spares {
    /// An array on a queue, in memory that is free, or new.
    pub fn take(
        &mut self,
        device: &DeviceRef,
        queue: &Arc<dyn Queue>,
        dtype: DType,
        shape: Shape,
    ) -> Result<Lent> {
        let fits = |buffer: &Buffer| {
            buffer.queue().id() == queue.id()
                && buffer.dtype() == dtype
                && buffer.len() >= shape.elements()
        };
        let candidates = self.free.iter().enumerate().filter(|(_, (buffer, _))| fits(buffer));
        let smallest = candidates.min_by_key(|(_, (buffer, _))| buffer.len());
        let whole = match smallest.map(|(index, _)| index) {
            Some(index) => {
                let (buffer, used) = self.free.remove(index);
                queue.wait_for(&used)?;
                buffer
            }
            None => match Buffer::shaped(device, queue, dtype, shape) {
                // What lies here free is of other sizes.
                Err(Error::OutOfMemory { .. }) if !self.free.is_empty() => {
                    self.free.clear();
                    Buffer::shaped(device, queue, dtype, shape)?
                }
                other => other?,
            },
        };
        let array = Array::new(whole.view(0..shape.elements())?, Layout::contiguous(shape))?;
        Ok(Lent { array, whole })
    }

    /// Takes memory back that is free after an event.
    pub fn put(&mut self, lent: Lent, used: Event) {
        self.free.push((lent.whole, used));
    }
}
