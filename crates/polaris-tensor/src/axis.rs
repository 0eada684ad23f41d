//! Axes as PyTorch and NumPy name them: from 0 at the front, or from -1 at the back.

use polaris_core::Error as CoreError;

use crate::Result;

/// A number that names an axis. Negative ones count from the back: -1 is the last axis.
pub trait Axis: Copy {
    /// The axis counted from the front, of as many as there are.
    ///
    /// # Errors
    /// If there is no such axis.
    fn resolve(self, op: &'static str, rank: usize) -> Result<usize>;
}

macro_rules! axis {
    ($($ty:ty)*) => {$(
        impl Axis for $ty {
            // Unsigned numbers are never negative; one body serves both.
            #[allow(unused_comparisons)]
            fn resolve(self, op: &'static str, rank: usize) -> Result<usize> {
                let from_front = match self < 0 {
                    true => isize::try_from(self).ok().and_then(|axis| rank.checked_add_signed(axis)),
                    false => usize::try_from(self).ok(),
                };
                match from_front {
                    Some(axis) if axis < rank => Ok(axis),
                    _ => {
                        let axis = isize::try_from(self).unwrap_or(isize::MAX);
                        Err(CoreError::AxisOutOfRange { op, axis, rank }.into())
                    }
                }
            }
        }
    )*};
}

axis!(usize isize i32 i64);

/// Several axes, counted from the front.
pub(crate) fn resolve_all(op: &'static str, axes: &[impl Axis], rank: usize) -> Result<Vec<usize>> {
    axes.iter().map(|axis| axis.resolve(op, rank)).collect()
}
