//! The sizes of linear attention.

use polaris_core::{DType, Error as CoreError, Shape};

use super::{Decay, LinearAttention, NAME, Sharing};
use crate::{Array, Error, Result};

/// The sizes, checked against each other.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub tokens: usize,
    pub sequences: usize,
    pub slots: usize,
    pub groups: usize,
    pub heads: usize,
    /// Elements of a query and of a key.
    pub keys: usize,
    /// Elements of a value.
    pub values: usize,
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
    pub fn new(op: &LinearAttention, inputs: &[&Array]) -> Result<Self> {
        let arrays = op.inputs(inputs)?;
        let [tokens, groups, keys] = dims(arrays.q, "q")?;
        let [_, heads, values] = dims(arrays.v, "v")?;
        let [slots, ..] = dims::<4>(arrays.states, "states")?;
        let [sequences, _] = dims(arrays.runs, "runs")?;
        has_dims(arrays.k, &[tokens, groups, keys])?;
        has_dims(arrays.v, &[tokens, heads, values])?;
        let width = match op.decay {
            Decay::Head => 1,
            Decay::Key => keys,
            Decay::Rates => values,
        };
        has_dims(arrays.decay, &[tokens, heads, width])?;
        has_dims(arrays.states, &[slots, keys, heads, values])?;
        has_dims(arrays.runs, &[sequences, 3])?;
        if let Some(beta) = arrays.beta {
            has_dims(beta, &[tokens, heads])?;
        }
        if let Some(rates) = arrays.rates {
            has_dims(rates, &[keys, heads, values])?;
        }
        for (place, input) in inputs.iter().enumerate() {
            has_type(input, if place == 5 { DType::I32 } else { DType::F32 })?;
        }
        if heads != 0 && (groups == 0 || !heads.is_multiple_of(groups)) {
            return mistake(format!("{heads} heads cannot share {groups} groups evenly"));
        }
        for scale in [op.query_scale, op.key_scale] {
            if !scale.is_finite() {
                return mistake(format!("the scale {scale} must be finite"));
            }
        }
        Ok(Self { tokens, sequences, slots, groups, heads, keys, values })
    }

    /// Rows of the output.
    pub fn rows(&self) -> Result<usize> {
        let rows = self.sequences.checked_mul(self.keys);
        match rows.and_then(|rows| rows.checked_add(self.tokens)) {
            Some(rows) => Ok(rows),
            None => mistake(format!("{} states of {} keys", self.sequences, self.keys)),
        }
    }

    /// The group of a head.
    pub fn group(&self, sharing: Sharing, head: usize) -> usize {
        match sharing {
            Sharing::Neighbours => head / (self.heads / self.groups),
            Sharing::Tiled => head % self.groups,
        }
    }
}
