//! The sizes of an attention, and which keys a query sees.

use polaris_core::{Error as CoreError, Shape};

use super::Attention;
use crate::{Array, Error, Result};

/// The sizes of one attention, checked against each other, with everything that has a default.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub batch: usize,
    pub heads: usize,
    pub key_heads: usize,
    pub queries: usize,
    pub keys: usize,
    /// Elements of a query and of a key.
    pub depth: usize,
    /// Elements of a value.
    pub values: usize,
    pub scale: f64,
    /// Query `i` sees key `j` if `j <= i + border`. Without causality it is the number of keys, so
    /// that all are seen; it is never beyond what tells queries and keys apart.
    pub border: i64,
}

impl Sizes {
    pub fn new(op: &'static str, problem: &Attention, [q, k, v]: [&Array; 3]) -> Result<Self> {
        let dims = |array: &Array| -> Result<[usize; 4]> {
            array.shape().dims().try_into().map_err(|_| Error::InvalidParameter {
                op,
                what: format!("the shape {} does not have four axes", array.shape()),
            })
        };
        let ([batch, heads, queries, depth], [.., values]) = (dims(q)?, dims(v)?);
        let [_, key_heads, keys, _] = dims(k)?;
        let mismatch = |lhs: &Array, rhs: &[usize]| -> Error {
            match Shape::new(rhs) {
                Ok(rhs) => CoreError::unequal_shapes(op, *lhs.shape(), rhs).into(),
                Err(error) => error.into(),
            }
        };
        for (array, expected) in
            [(k, [batch, key_heads, keys, depth]), (v, [batch, key_heads, keys, values])]
        {
            if array.shape().dims() != expected {
                return Err(mismatch(array, &expected));
            }
        }
        if heads != 0 && (key_heads == 0 || !heads.is_multiple_of(key_heads)) {
            let what = format!("{heads} heads cannot share {key_heads} heads of keys evenly");
            return Err(Error::InvalidParameter { op, what });
        }
        let scale = problem.scale.unwrap_or_else(|| 1.0 / (depth.max(1) as f64).sqrt());
        if !scale.is_finite() {
            let what = format!("the scale {scale} must be finite");
            return Err(Error::InvalidParameter { op, what });
        }
        let (first, last) = (-(queries as i64), keys as i64);
        let border = if problem.causal { problem.causal_offset.clamp(first, last) } else { last };
        Ok(Self { batch, heads, key_heads, queries, keys, depth, values, scale, border })
    }

    /// How many keys a query sees: the first ones.
    pub fn seen(&self, query: usize) -> usize {
        (query as i64 + self.border + 1).clamp(0, self.keys as i64) as usize
    }

    /// The first query that sees a key; as many as there are if none does.
    pub fn first_query(&self, key: usize) -> usize {
        (key as i64 - self.border).clamp(0, self.queries as i64) as usize
    }

    /// Heads that share one of keys.
    pub fn group(&self) -> usize {
        self.heads / self.key_heads.max(1)
    }

    /// Queries of all heads and batches.
    pub fn rows(&self) -> usize {
        self.batch * self.heads * self.queries
    }

    /// Keys of all heads and batches.
    pub fn key_rows(&self) -> usize {
        self.batch * self.key_heads * self.keys
    }

    pub fn output_dims(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.values]
    }

    pub fn row_dims(&self) -> [usize; 3] {
        [self.batch, self.heads, self.queries]
    }

    /// What a mask broadcasts to.
    pub fn score_shape(&self) -> Result<Shape> {
        Ok(Shape::new(&[self.batch, self.heads, self.queries, self.keys])?)
    }

    /// The output and the log-sum-exp behind each other.
    pub fn forward_shape(&self) -> Result<Shape> {
        flat(&[self.rows().checked_mul(self.values), Some(self.rows())])
    }

    /// The gradients of q, k and v behind each other.
    pub fn gradient_shape(&self) -> Result<Shape> {
        let (rows, key_rows) = (self.rows(), self.key_rows());
        flat(&[
            rows.checked_mul(self.depth),
            key_rows.checked_mul(self.depth),
            key_rows.checked_mul(self.values),
        ])
    }

    /// Where the gradients of k and v begin.
    pub fn gradient_starts(&self) -> [usize; 2] {
        let of_k = self.rows() * self.depth;
        [of_k, of_k + self.key_rows() * self.depth]
    }
}

/// A single axis for all of these elements.
fn flat(parts: &[Option<usize>]) -> Result<Shape> {
    let sum = |total: Option<usize>, part: &Option<usize>| total?.checked_add((*part)?);
    let elements = parts.iter().fold(Some(0), sum).unwrap_or(usize::MAX);
    Ok(Shape::new(&[elements])?)
}
