//! Parts of a work for all threads of the CPU.

use std::sync::{Mutex, PoisonError};

use polaris_runtime::cpu::{CpuDevice, ThreadPool};
use polaris_runtime::{DeviceRef, Error as RuntimeError};

use crate::Result;

/// The CPU behind a device.
///
/// # Errors
/// If it is another device.
pub(crate) fn cpu(device: &DeviceRef) -> Result<&CpuDevice> {
    device.as_cpu().ok_or_else(|| {
        let device = device.id();
        polaris_ops::Error::from(RuntimeError::NotHostMemory { device }).into()
    })
}

/// Does something with each part, on whichever thread is free.
pub(crate) fn for_each<T: Send>(
    pool: &ThreadPool,
    parts: impl Iterator<Item = T>,
    work: impl Fn(usize, T) + Sync,
) {
    let parts: Vec<_> = parts.map(|part| Mutex::new(Some(part))).collect();
    pool.run(parts.len(), |number| {
        let part = parts[number].lock().unwrap_or_else(PoisonError::into_inner).take();
        work(number, part.expect("each part should be taken once"));
    });
}
