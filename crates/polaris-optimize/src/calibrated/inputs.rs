//! Which matrices have the same inputs.

use std::collections::HashMap;

use polaris_core::random::mix;
use polaris_gguf::TensorType;
use polaris_llm::{Engine, Observation, Observe};

use super::collect::Text;
use crate::{PlannedTensor, Result};

/// Matrices with the same inputs, which share a Hessian.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unit {
    /// Their tensors, by their numbers in the plan.
    pub tensors: Vec<usize>,
    /// Which matrix of each tensor, an expert for example.
    pub matrix: usize,
    /// Elements of an input.
    pub columns: usize,
}

/// Why GPTQ is not for a tensor; an empty reason for those that become no blocks.
pub(crate) fn excluded(tensor: &PlannedTensor) -> Option<&'static str> {
    let is_block = matches!(tensor.to, TensorType::Block(_));
    if !is_block || tensor.from == tensor.to {
        return Some("");
    }
    if tensor.name.starts_with("token_embd") || tensor.name.contains("per_layer_token_embd") {
        return Some("its rows are looked up");
    }
    if tensor.name.contains("attn_kv_b") {
        return Some("it is multiplied from both sides");
    }
    None
}

/// What the first window shows: tensors in the order of the layers, with those that have the same inputs.
struct Probe<'a> {
    is_target: &'a dyn Fn(&str) -> Option<usize>,
    /// Tensors with their matrices, columns, and what their inputs were.
    seen: Vec<(usize, usize, usize, u64)>,
}

impl Observe for Probe<'_> {
    fn observe(&mut self, seen: &Observation<'_>) {
        let Some(tensor) = (self.is_target)(seen.name) else { return };
        let mut hash = mix(seen.columns as u64);
        for row in seen.rows {
            hash = mix(hash ^ u64::from(row.to_bits()));
        }
        for &chosen in seen.chosen {
            hash = mix(hash ^ u64::from(chosen));
        }
        // Inputs that are all zero may differ later on.
        if seen.rows.iter().all(|&x| x == 0.0) {
            hash = mix(hash ^ tensor as u64);
        }
        match self.seen.iter_mut().find(|(other, ..)| *other == tensor) {
            // A tensor may be multiplied in several steps.
            Some((.., before)) => *before = mix(*before ^ hash),
            None => self.seen.push((tensor, seen.matrices, seen.columns, hash)),
        }
    }
}

/// The units of a model, in the order of its layers.
pub(crate) fn units(
    engine: &mut Engine,
    text: &Text<'_>,
    is_target: &dyn Fn(&str) -> Option<usize>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Unit>> {
    let mut probe = Probe { is_target, seen: Vec::new() };
    text.feed(engine, 0, &mut probe, cancelled)?;
    let mut places = HashMap::new();
    let mut groups: Vec<(Vec<usize>, usize, usize)> = Vec::new();
    for (tensor, matrices, columns, hash) in probe.seen {
        let at = *places.entry((hash, matrices, columns)).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((tensors, ..)) => tensors.push(tensor),
            None => groups.push((vec![tensor], matrices, columns)),
        }
    }
    let units = groups.into_iter().flat_map(|(tensors, matrices, columns)| {
        (0..matrices).map(move |matrix| Unit { tensors: tensors.clone(), matrix, columns })
    });
    Ok(units.collect())
}
