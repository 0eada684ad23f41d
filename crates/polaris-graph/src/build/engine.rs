//! The state that all graphs of a model share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polaris_ops::matmul::Precision;
use polaris_runtime::{DeviceRef, MappedFile};

use super::Packs;
use crate::cost::Costs;
use crate::side::Side;

/// What all graphs of a model share.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Weights that were packed before.
    pub packs: Arc<Packs>,
    pub devices: [Option<DeviceRef>; 2],
    pub side: Side,
    pub files: Vec<MappedFile>,
    /// How activations are multiplied with weights in blocks.
    pub precision: Precision,
    /// What instructions cost, if nodes are placed by that.
    pub hybrid: Option<Arc<Costs>>,
}

impl Engine {
    pub fn device(&self, side: Side) -> &DeviceRef {
        self.devices[side.index()].as_ref().expect("a plan should only use sides that are there")
    }

    pub fn largest_chunks(&self) -> [usize; 2] {
        self.devices.each_ref().map(|device| match device {
            Some(device) => {
                usize::try_from(device.capabilities().max_allocation_bytes).unwrap_or(usize::MAX)
            }
            None => usize::MAX,
        })
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
