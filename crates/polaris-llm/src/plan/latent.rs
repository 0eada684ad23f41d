//! Multi-head latent attention, in its absorbed form. Keys and values of all heads are products of one short vector for
//! each token, and only that vector is cached, with the rotated part that keys share. The matrices of keys and values
//! are applied to queries and results in its place, so attention has one head of keys for all heads of queries, and
//! values are the first elements of keys.

use polaris_core::DType;
use polaris_ops::fill::Fill;
use polaris_ops::matmul::Precision;
use polaris_ops::{ExpertMatMul, NormKind};

use super::Value;
use super::decoder::{Decoder, LayerScope};
use crate::config::Latent;
use crate::{Error, Result};

impl Decoder<'_> {
    /// Writes the vectors of the new tokens and the rotated parts of their keys to the cache.
    pub(super) fn write_latent(
        &mut self,
        scope: &LayerScope<'_>,
        latent: Latent,
        x: Value,
        keys: Value,
    ) -> Result<()> {
        let Latent { rank, rotated } = latent;
        let both = self.linear_required(x, &scope.name("attn_kv_a_mqa"))?;
        self.has_width(both, rank + rotated, scope, "attn_kv_a_mqa")?;
        let vector = self.build.slice(both, 1, 0..rank)?;
        let vector = self
            .norm_of(NormKind::Rms, vector, &scope.name("attn_kv_a_norm"))?
            .ok_or_else(|| missing(scope, "attn_kv_a_norm"))?;
        let vector = self.build.split_last(vector, rank)?;
        let rest = self.build.slice(both, 1, rank..rank + rotated)?;
        let rest = self.build.split_last(rest, rotated)?;
        let rest = self.rotate(scope, rest)?;
        let first = self.build.slice(keys, 3, 0..rank)?;
        let last = self.build.slice(keys, 3, rank..rank + rotated)?;
        self.write(first, vector, "cache_latent")?;
        self.write(last, rest, "cache_rotated")
    }

    /// Queries for the cached vectors, `[tokens, heads, rank + rotated]`.
    pub(super) fn latent_queries(
        &mut self,
        scope: &LayerScope<'_>,
        latent: Latent,
        x: Value,
    ) -> Result<Value> {
        let Latent { rank, rotated } = latent;
        let (heads, size) = (scope.layer.heads, scope.layer.key_size);
        let (q, name) = match self.linear(x, &scope.name("attn_q_a"))? {
            Some(compressed) => {
                let normed = self
                    .norm_of(NormKind::Rms, compressed, &scope.name("attn_q_a_norm"))?
                    .ok_or_else(|| missing(scope, "attn_q_a_norm"))?;
                (self.linear_required(normed, &scope.name("attn_q_b"))?, "attn_q_b")
            }
            None => (self.linear_required(x, &scope.name("attn_q"))?, "attn_q"),
        };
        self.has_width(q, heads * size, scope, name)?;
        let q = self.build.split_last(q, size)?;
        let output = self.build.make(DType::F32, &[self.size.tokens, heads, rank + rotated])?;
        let (first, last) = (
            self.build.slice(output, 2, 0..rank)?,
            self.build.slice(output, 2, rank..rank + rotated)?,
        );
        match size - rotated {
            // Keys that are rotated as a whole have no part that is compressed.
            0 => self.build.emit("no_latent", Fill { value: 0.0 }, &[], first),
            plain => {
                let x = self.build.slice(q, 2, 0..plain)?;
                self.by_head(scope, "attn_k_b", x, [rank, plain], first)?;
            }
        }
        let rest = self.build.slice(q, 2, size - rotated..size)?;
        self.rotate_into(scope, rest, last)?;
        Ok(output)
    }

    /// Values of heads, `[tokens, heads, value size]`, from sums of cached vectors.
    pub(super) fn latent_values(
        &mut self,
        scope: &LayerScope<'_>,
        latent: Latent,
        x: Value,
    ) -> Result<Value> {
        let (heads, size) = (scope.layer.heads, scope.layer.value_size);
        let output = self.build.make(DType::F32, &[self.size.tokens, heads, size])?;
        self.by_head(scope, "attn_v_b", x, [size, latent.rank], output)?;
        Ok(output)
    }

    /// The product of each head with a matrix of its own: heads are experts that every token has.
    fn by_head(
        &mut self,
        scope: &LayerScope<'_>,
        name: &str,
        x: Value,
        [rows, columns]: [usize; 2],
        output: Value,
    ) -> Result<()> {
        let heads = scope.layer.heads;
        let full = scope.name(&format!("{name}.weight"));
        let weight = self.weights.require(&full)?;
        // Files leave out a single head.
        let dims = weight.shape().dims();
        if dims != [heads, rows, columns] && !(heads == 1 && dims == [rows, columns]) {
            return Err(Error::TensorShape {
                name: full,
                found: weight.shape().to_string(),
                expected: format!("[{heads}, {rows}, {columns}]"),
            });
        }
        let weight = match *weight.layout().strides() {
            [row, column] => {
                let shape = polaris_core::Shape::new(&[heads, rows, columns])?;
                let strides = [rows * columns, row, column];
                let offset = weight.layout().offset();
                weight.with_layout(polaris_core::Layout::new(shape, &strides, offset)?)?
            }
            _ => weight.clone(),
        };
        let weight = self.build.given(&weight);
        let ids: Vec<i32> = (0..self.size.tokens).flat_map(|_| 0..heads as i32).collect();
        let dims = [self.size.tokens, heads];
        let ids = polaris_ops::Array::from_slice(self.weights.device(), &dims, &ids)?;
        let ids = self.build.given(&ids);
        let product = ExpertMatMul { bias: false, precision: Precision::Int8 };
        self.build.emit(name, product, &[x, weight, ids], output);
        Ok(())
    }

    fn has_width(
        &self,
        x: Value,
        expected: usize,
        scope: &LayerScope<'_>,
        name: &str,
    ) -> Result<()> {
        let found = self.build.dims(x)[1];
        match found == expected {
            true => Ok(()),
            false => Err(Error::TensorShape {
                name: scope.name(&format!("{name}.weight")),
                found: format!("[{found}, ..]"),
                expected: format!("[{expected}, ..]"),
            }),
        }
    }
}

fn missing(scope: &LayerScope<'_>, name: &str) -> Error {
    Error::model(format!("the tensor `{}.weight` is missing", scope.name(name)))
}
