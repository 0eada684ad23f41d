//! Limits for what files ask for: a few bytes could want all memory, or a loop without an end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{ElementType, Error, Result};

static LARGEST_TENSOR: AtomicU64 = AtomicU64::new(8 << 30);

/// The largest tensor that is made, in bytes.
pub fn largest_tensor() -> u64 {
    LARGEST_TENSOR.load(Ordering::Relaxed)
}

/// Sets the largest tensor that is made, in bytes, for the whole process.
pub fn set_largest_tensor(bytes: u64) {
    LARGEST_TENSOR.store(bytes, Ordering::Relaxed);
}

static STOP: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets who says, for the whole process, that models shall stop running: asked between nodes and between
/// the steps of loops. The first one stays.
pub fn stop_when(stop: fn() -> bool) {
    let _ = STOP.set(stop);
}

/// Whether a model may go on.
///
/// # Errors
/// `Stopped` if it shall not.
pub fn check_stop() -> Result<()> {
    match STOP.get() {
        Some(stop) if stop() => Err(Error::Stopped),
        _ => Ok(()),
    }
}

/// The number of elements of a shape, if a tensor of it is within the limit.
pub(crate) fn checked_elements(element: ElementType, shape: &[usize]) -> Result<usize> {
    // Large lengths beside a zero take no memory, but products of some of them would overflow.
    let product = |least: usize| {
        shape.iter().try_fold(1usize, |product, &length| product.checked_mul(length.max(least)))
    };
    let limit = largest_tensor();
    product(1)
        .and_then(|_| product(0))
        .filter(|&elements| {
            let bytes = elements.checked_mul(element.size());
            bytes.is_some_and(|bytes| bytes as u64 <= limit)
                && shape.iter().all(|&length| length as u64 <= limit)
        })
        .ok_or_else(|| Error::TooLarge { element, shape: shape.to_vec(), limit })
}
