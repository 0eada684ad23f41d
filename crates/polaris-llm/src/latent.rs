//! Files of older converters have the matrices of compressed keys and values in one, `attn_kv_b`, with the rows of keys
//! and then of values for each head. Attention takes them apart: values are a part of it, keys are transposed.

use std::collections::BTreeMap;

use polaris_core::{Layout, Shape, f16};
use polaris_gguf::TensorType;
use polaris_ops::Array;

use crate::config::Config;
use crate::form::Form;
use crate::weights::{SourceTensor, Weights};
use crate::{Error, Result};

/// Makes `attn_k_b` and `attn_v_b` where a file has only both together.
pub(crate) fn split(
    config: &Config,
    tensors: &BTreeMap<String, SourceTensor>,
    weights: &mut Weights,
) -> Result<()> {
    for (number, layer) in config.layers.iter().enumerate() {
        let Some(latent) = layer.latent else { continue };
        let name = |part: &str| format!("blk.{number}.{part}.weight");
        let both = name("attn_kv_b");
        let (Some(source), Some(array)) = (tensors.get(&both), weights.find(&both).cloned()) else {
            continue;
        };
        if weights.has(&name("attn_k_b")) {
            continue;
        }
        let (heads, rank, values) = (layer.heads, latent.rank, layer.value_size);
        let keys = layer.key_size - latent.rotated;
        let rows = heads * (keys + values);
        if source.dims != [rows, rank] {
            return Err(Error::TensorShape {
                name: both,
                found: format!("{:?}", source.dims),
                expected: format!("[{rows}, {rank}]"),
            });
        }
        if source.form != Form::Plain {
            return Err(Error::model(format!(
                "the tensor `{both}` has an order that is not supported"
            )));
        }
        let shape = Shape::new(&[heads, values, rank])?;
        let layout = Layout::new(shape, &[(keys + values) * rank, rank, 1], keys * rank)?;
        weights.insert(name("attn_v_b"), array.with_layout(layout)?);
        if keys == 0 {
            continue;
        }
        let elements = polaris_gguf::dequantize(source.ty, &source.parts.concat())?;
        let element = |at: usize| {
            let (head, row, column) = (at / (rank * keys), at / keys % rank, at % keys);
            elements[(head * (keys + values) + column) * rank + row]
        };
        let dims = [heads, rank, keys];
        let all = (0..heads * rank * keys).map(element);
        let device = weights.device();
        // Half precision holds what quantised weights are; floats stay what they are.
        let transposed = match source.ty {
            TensorType::F32 => Array::from_slice(device, &dims, &all.collect::<Vec<f32>>())?,
            _ => Array::from_slice(device, &dims, &all.map(f16::from_f32).collect::<Vec<f16>>())?,
        };
        weights.insert(name("attn_k_b"), transposed);
    }
    Ok(())
}
