//! What cached keys and values are stored in.

use polaris_core::{DType, Shape, f16};
use polaris_ops::{Array, Block, weight};
use polaris_runtime::DeviceRef;

use crate::config::Config;
use crate::{Error, Result};

/// The type of cached keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(non_camel_case_types, reason = "the names that files, tools and papers use")]
pub enum CacheType {
    /// Single precision.
    F32,
    /// Half precision.
    #[default]
    F16,
    /// 8 bits, with a scale for 32 elements: 53 % of the memory of half precision.
    Q8_0,
    /// 4 bits, with a scale for 32 elements: 28 % of the memory of half precision.
    Q4_0,
}

/// How elements are stored.
enum Storage {
    Dense(DType),
    Blocks(Block),
}

impl CacheType {
    /// All of them, from the most precise on.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Q8_0, Self::Q4_0];

    /// Its name: `f32`, `f16`, `q8_0`, `q4_0`.
    pub const fn name(self) -> &'static str {
        match self.storage() {
            Storage::Dense(dtype) => dtype.name(),
            Storage::Blocks(block) => block.lower_name(),
        }
    }

    const fn storage(self) -> Storage {
        match self {
            Self::F32 => Storage::Dense(DType::F32),
            Self::F16 => Storage::Dense(DType::F16),
            Self::Q8_0 => Storage::Blocks(Block::Q8_0),
            Self::Q4_0 => Storage::Blocks(Block::Q4_0),
        }
    }

    /// Bytes of a row of so many elements.
    pub(crate) fn row_bytes(self, elements: usize) -> u64 {
        let (count, bytes) = match self.storage() {
            Storage::Dense(dtype) => (elements, dtype.size()),
            Storage::Blocks(block) => (elements.div_ceil(block.elements()), block.bytes()),
        };
        (count as u64).saturating_mul(bytes as u64)
    }

    /// That the rows that a model caches, one for each token and head, are whole blocks.
    ///
    /// # Errors
    /// If they are not; the error has their size and what to use.
    pub fn check(self, config: &Config) -> Result<()> {
        let Storage::Blocks(block) = self.storage() else { return Ok(()) };
        for layer in &config.layers {
            let Some((_, keys, values)) = layer.cached() else { continue };
            // The vectors of latent attention and the rotated keys are written one after the other, into one row.
            let (rows, sizes) = match layer.latent {
                Some(latent) => ("latent vectors or rotated keys", [latent.rank, latent.rotated]),
                None => ("attention heads", [keys, values.unwrap_or(0)]),
            };
            let is_cut = |size: &usize| !size.is_multiple_of(block.elements());
            if let Some(size) = sizes.into_iter().find(is_cut) {
                let what = format!(
                    "a cache in {self} holds blocks of {} elements, but the model's {rows} have {size}, which is no \
                     multiple; use f16 or f32",
                    block.elements()
                );
                return Err(Error::Argument { what });
            }
        }
        Ok(())
    }

    /// A cache of a shape. What is not written yet is multiplied by a weight of zero, which would not make a NaN vanish:
    /// so it is zero.
    pub(crate) fn zeros(self, device: &DeviceRef, dims: &[usize]) -> Result<Array> {
        let dtype = match self.storage() {
            Storage::Dense(dtype) => dtype,
            Storage::Blocks(block) => return Ok(weight::zeros(device, dims, block)?),
        };
        let array = Array::empty(device, dtype, Shape::new(dims)?)?;
        match dtype {
            DType::F16 => array.buffer().fill(f16::ZERO)?,
            _ => array.buffer().fill(0.0f32)?,
        }
        Ok(array)
    }
}

impl std::fmt::Display for CacheType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole_blocks() {
        let bytes = |elements: usize| CacheType::ALL.map(|ty| ty.row_bytes(elements));
        assert_eq!(bytes(128), [512, 256, 136, 72]);
        assert_eq!(bytes(576), [2304, 1152, 612, 324]);
        assert_eq!(CacheType::ALL.map(CacheType::name), ["f32", "f16", "q8_0", "q4_0"]);
    }
}
