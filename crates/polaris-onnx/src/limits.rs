//! Limits on what files request: a few bytes could request all memory, or an endless loop.
//!
//! Every operator allocates tensors, so limits are not passed from function to function: a run enters its limits, and
//! they apply to its thread until it ends.

use std::cell::RefCell;
use std::marker::PhantomData;

use polaris_core::CancellationToken;

use crate::{ElementType, Error, Result};

/// The largest tensor, in bytes, where no limits were entered.
const DEFAULT_LARGEST_TENSOR: u64 = 8 << 30;

/// What a run may take.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// The largest tensor that is made, in bytes.
    pub largest_tensor: Option<u64>,
    /// The run ends when one of them is cancelled: asked between nodes and between the steps of loops.
    pub cancellation: Vec<CancellationToken>,
}

thread_local! {
    /// The limits in force; those entered last are at the end, and include those around them.
    static ENTERED: RefCell<Vec<Limits>> = const { RefCell::new(Vec::new()) };
}

/// Limits are in force while this lives.
#[derive(Debug)]
#[must_use = "the limits hold while this lives"]
pub struct EnteredLimits {
    /// How many were in force before.
    depth: usize,
    /// It ends on the thread on which it began.
    not_send: PhantomData<*const ()>,
}

impl Limits {
    /// Puts them in force on this thread. Limits that are in force already hold as well.
    pub fn enter(mut self) -> EnteredLimits {
        let depth = ENTERED.with_borrow_mut(|entered| {
            if let Some(around) = entered.last() {
                self.largest_tensor =
                    [self.largest_tensor, around.largest_tensor].into_iter().flatten().min();
                self.cancellation.extend(around.cancellation.iter().cloned());
            }
            entered.push(self);
            entered.len() - 1
        });
        EnteredLimits { depth, not_send: PhantomData }
    }
}

impl Drop for EnteredLimits {
    fn drop(&mut self) {
        ENTERED.with_borrow_mut(|entered| entered.truncate(self.depth));
    }
}

/// The largest tensor that is made on this thread, in bytes.
pub fn largest_tensor() -> u64 {
    let entered = ENTERED.with_borrow(|entered| entered.last()?.largest_tensor);
    entered.unwrap_or(DEFAULT_LARGEST_TENSOR)
}

/// Whether the run on this thread can be cancelled at all.
pub fn is_cancellable() -> bool {
    ENTERED.with_borrow(|entered| entered.last().is_some_and(|last| !last.cancellation.is_empty()))
}

/// Whether the run on this thread may go on.
///
/// # Errors
/// `Cancelled` if it may not.
pub fn check_cancelled() -> Result<()> {
    let cancelled = ENTERED.with_borrow(|entered| {
        entered.last().is_some_and(|last| last.cancellation.iter().any(|one| one.is_cancelled()))
    });
    if cancelled { Err(Error::Cancelled) } else { Ok(()) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_end_with_their_scope_and_never_widen() {
        let token = CancellationToken::new();
        {
            let _outer =
                Limits { largest_tensor: Some(100), cancellation: vec![token.clone()] }.enter();
            assert_eq!(largest_tensor(), 100);
            {
                let _inner = Limits { largest_tensor: Some(1000), ..Limits::default() }.enter();
                assert_eq!(largest_tensor(), 100);
                assert!(check_cancelled().is_ok());
                token.cancel();
                assert!(matches!(check_cancelled(), Err(Error::Cancelled)));
            }
            let _tight = Limits { largest_tensor: Some(10), ..Limits::default() }.enter();
            assert_eq!(largest_tensor(), 10);
            std::thread::spawn(|| {
                assert_eq!(largest_tensor(), DEFAULT_LARGEST_TENSOR);
                assert!(check_cancelled().is_ok());
            })
            .join()
            .unwrap();
        }
        assert_eq!(largest_tensor(), DEFAULT_LARGEST_TENSOR);
        assert!(check_cancelled().is_ok() && !is_cancellable());
    }
}
