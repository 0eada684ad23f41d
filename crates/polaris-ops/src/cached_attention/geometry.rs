//! The sizes of attention to a cache, and the positions that a token sees.

use std::ops::Range;

use polaris_core::{DType, Error as CoreError, Shape};

use super::{CachedAttention, NAME};
use crate::{Array, Error, Result};

/// The sizes, checked against each other, with everything that has a default.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub tokens: usize,
    pub heads: usize,
    pub key_heads: usize,
    /// Elements of a query and of a key.
    pub depth: usize,
    /// Elements of a value.
    pub values: usize,
    pub blocks: usize,
    /// Positions of a block.
    pub block_size: usize,
    pub sequences: usize,
    pub most_blocks: usize,
    pub scale: f64,
}

fn mistake<T>(what: String) -> Result<T> {
    Err(Error::InvalidParameter { op: NAME, what })
}

pub fn has_type(array: &Array, dtype: DType) -> Result<()> {
    match array.dtype() {
        found if found == dtype => Ok(()),
        lhs => Err(CoreError::DTypeMismatch { op: NAME, lhs, rhs: dtype }.into()),
    }
}

fn dims<const N: usize>(array: &Array, what: &str) -> Result<[usize; N]> {
    let dims = array.shape().dims().try_into();
    dims.or_else(|_| mistake(format!("{what} of shape {} should have {N} axes", array.shape())))
}

fn has_dims(array: &Array, expected: &[usize]) -> Result<()> {
    match array.shape().dims() == expected {
        true => Ok(()),
        false => Err(CoreError::unequal_shapes(NAME, *array.shape(), Shape::new(expected)?).into()),
    }
}

impl Sizes {
    pub fn new(op: &CachedAttention, inputs: &[&Array]) -> Result<Self> {
        let arrays = op.inputs(inputs)?;
        let [tokens, heads, depth] = dims(arrays.q, "q")?;
        let [blocks, block_size, key_heads, _] = dims(arrays.k, "keys")?;
        let [.., values] = dims::<4>(arrays.v, "values")?;
        let [sequences, most_blocks] = dims(arrays.table, "the table")?;
        has_dims(arrays.k, &[blocks, block_size, key_heads, depth])?;
        has_dims(arrays.v, &[blocks, block_size, key_heads, values])?;
        has_dims(arrays.tokens, &[tokens, 2])?;
        has_type(arrays.q, DType::F32)?;
        has_type(arrays.table, DType::I32)?;
        has_type(arrays.tokens, DType::I32)?;
        for cache in [arrays.k, arrays.v] {
            let dtype = cache.dtype();
            if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
                let hint = "a cache holds f32, f16, bf16 or blocks";
                return Err(CoreError::UnsupportedDType { op: NAME, dtype, hint }.into());
            }
        }
        for vector in arrays.sinks.into_iter().chain(arrays.slopes) {
            has_dims(vector, &[heads])?;
            has_type(vector, DType::F32)?;
        }
        if heads != 0 && (key_heads == 0 || !heads.is_multiple_of(key_heads)) {
            return mistake(format!("{heads} heads cannot share {key_heads} heads of keys evenly"));
        }
        let scale = op.scale.unwrap_or_else(|| 1.0 / (depth.max(1) as f64).sqrt());
        if !scale.is_finite() {
            return mistake(format!("the scale {scale} must be finite"));
        }
        if let Some(cap) = op.softcap.filter(|cap| !cap.is_finite() || *cap <= 0.0) {
            return mistake(format!("the softcap {cap} must be a positive number"));
        }
        if op.window == Some(0) || op.chunk == Some(0) {
            return mistake(
                "a window or chunk of 0 positions sees nothing; use at least 1".to_owned(),
            );
        }
        if op.bidirectional && (op.window.is_some() || op.chunk.is_some() || op.slopes) {
            return mistake("bidirectional attention has no window, chunk or slopes".to_owned());
        }
        let holds = most_blocks.saturating_mul(block_size);
        if tokens > 0 && (sequences == 0 || blocks == 0 || !(1..=holds).contains(&op.longest)) {
            return mistake(format!(
                "a sequence of {} positions does not fit: {sequences} sequences have up to {most_blocks} blocks \
                 of {block_size} positions, and the cache has {blocks} blocks",
                op.longest
            ));
        }
        Ok(Self {
            tokens,
            heads,
            key_heads,
            depth,
            values,
            blocks,
            block_size,
            sequences,
            most_blocks,
            scale,
        })
    }

    /// Heads that share one of keys.
    pub fn group(&self) -> usize {
        self.heads / self.key_heads.max(1)
    }
}

impl CachedAttention {
    /// The positions that a token at a position sees.
    pub(super) fn sight(&self, position: usize) -> Range<usize> {
        if self.bidirectional {
            return 0..self.longest;
        }
        let window = self.window.map_or(0, |window| (position + 1).saturating_sub(window));
        let chunk = self.chunk.map_or(0, |chunk| position / chunk * chunk);
        window.max(chunk)..position + 1
    }
}
