//! A model whose matrices have other formats, as large as they would be in its file, to measure its speed.
//!
//! Encoding all of it in every format would take minutes; how long a product takes does not depend on the values. So the
//! beginning of a matrix is encoded and repeated.

use std::collections::BTreeMap;

use bytes::Bytes;
use polaris_gguf::{Gguf, TensorType};
use polaris_llm::{Form, Source, SourceTensor};
use polaris_runtime::cpu::CpuDevice;

use super::role;
use crate::write::{How, encode};
use crate::{Error, PlannedTensor, Result};

/// Elements of a matrix that are encoded, a multiple of all blocks.
const ENCODED: usize = 1 << 18;

/// Bytes of matrices that are in memory at once: several times what caches hold. Layers of larger models take turns in
/// them, so that each of them comes from memory, as those of the file will.
const LARGEST: usize = 256 << 20;

/// The model with these types; tensors without one have that of the plan.
pub(super) fn model(
    gguf: &Gguf,
    cpu: &CpuDevice,
    tensors: &[PlannedTensor],
    types: &BTreeMap<String, TensorType>,
) -> Result<Source> {
    let mut source = Source::from_gguf(gguf)?;
    let of = |tensor: &PlannedTensor| types.get(&tensor.name).copied().unwrap_or(tensor.to);
    let changed = || tensors.iter().filter(|tensor| of(tensor) != tensor.from);
    let total: usize = changed().filter_map(|tensor| of(tensor).bytes_of(&tensor.dims)).sum();
    let mut made = BTreeMap::<_, Vec<Bytes>>::new();
    let mut users = BTreeMap::<_, usize>::new();
    let key = |tensor: &PlannedTensor| {
        (role(&tensor.name).to_owned(), tensor.dims.clone(), of(tensor).name())
    };
    for tensor in changed() {
        *users.entry(key(tensor)).or_default() += 1;
    }
    let mut turn = BTreeMap::<_, usize>::new();
    for tensor in changed() {
        let key = key(tensor);
        let copies = copies(users[&key], total);
        let turn = turn.entry(key.clone()).or_default();
        let there = made.entry(key).or_default();
        if there.len() < copies {
            there.push(repeated(gguf, cpu, tensor, of(tensor))?);
        }
        let parts = vec![there[*turn % there.len()].clone()];
        *turn += 1;
        let replaced =
            SourceTensor { ty: of(tensor), dims: tensor.dims.clone(), parts, form: Form::Plain };
        source.tensors.insert(tensor.name.clone(), replaced);
    }
    Ok(source)
}

/// How many of some matrices have memory of their own, in a model of `total` bytes.
fn copies(matrices: usize, total: usize) -> usize {
    match total <= LARGEST {
        true => matrices,
        false => (matrices as u128 * LARGEST as u128).div_ceil(total as u128) as usize,
    }
}

/// A matrix in a type, of which the beginning is repeated.
fn repeated(gguf: &Gguf, cpu: &CpuDevice, tensor: &PlannedTensor, ty: TensorType) -> Result<Bytes> {
    let missing = || Error::NoSuchTensor { pattern: tensor.name.clone(), some: String::new() };
    let bytes = gguf.find(&tensor.name).ok_or_else(missing)?.bytes();
    let begin = ENCODED / tensor.from.block_elements() * tensor.from.block_bytes();
    let planned = PlannedTensor { to: ty, ..tensor.clone() };
    let (encoded, _) = encode(cpu, &planned, How::Search(None), &bytes[..begin.min(bytes.len())])?;
    let mut all = Vec::with_capacity(planned.bytes());
    while all.len() < planned.bytes() && !encoded.is_empty() {
        let rest = planned.bytes() - all.len();
        all.extend_from_slice(&encoded[..rest.min(encoded.len())]);
    }
    Ok(Bytes::from(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_large_models_take_turns() {
        assert_eq!(copies(24, LARGEST), 24);
        assert_eq!(copies(24, 3 * LARGEST), 8);
        assert_eq!(copies(1, 1000 * LARGEST), 1);
        assert_eq!(copies(1, usize::MAX), 1);
    }
}
