//! Vectors whose sizes come from files: running out of memory is an error, and the process goes on.

use crate::{Error, Result};

/// An empty vector with room for so many elements.
pub(crate) fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    vector
        .try_reserve_exact(count)
        .map_err(|_| Error::OutOfMemory { bytes: count.saturating_mul(size_of::<T>()) })?;
    Ok(vector)
}

/// So many copies of a value.
pub(crate) fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut vector = with_room(count)?;
    vector.resize(count, value);
    Ok(vector)
}

/// As `collect`, of items whose number is known.
pub(crate) trait Collected: ExactSizeIterator + Sized {
    fn collected(self) -> Result<Vec<Self::Item>> {
        let mut vector = with_room(self.len())?;
        vector.extend(self);
        Ok(vector)
    }
}

impl<I: ExactSizeIterator> Collected for I {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_elements_are_an_error() {
        assert_eq!(filled(7u8, 3).unwrap(), [7; 3]);
        assert_eq!((0..3usize).map(|i| i * 2).collected().unwrap(), [0, 2, 4]);
        let huge = isize::MAX as usize / 4;
        for error in [
            filled(0.0f64, huge).unwrap_err(),
            with_room::<u16>(usize::MAX).unwrap_err(),
            (0..huge).map(|i| i as f64).collected().unwrap_err(),
        ] {
            assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        }
    }
}
