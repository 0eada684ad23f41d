//! The cache of keys and values: blocks of positions that sequences take and give back; and the states of recurrent
//! layers, of which each sequence has one of fixed size.

use std::collections::BTreeSet;

use polaris_core::{DType, Shape};
use polaris_ops::Array;
use polaris_runtime::DeviceRef;

use crate::cache_type::CacheType;
use crate::config::Config;
use crate::{Error, Result};

/// Positions of a block.
pub(crate) const BLOCK: usize = 32;

/// Keys and values of a layer: `[blocks, BLOCK, heads, size]`. Values may be a part of the keys.
#[derive(Debug, Clone)]
pub(crate) struct LayerCache {
    pub keys: Array,
    pub values: Array,
    /// Both in one array, `[blocks, BLOCK, 2 * heads, size]`, where one launch writes them.
    pub both: Option<Array>,
}

/// What a recurrent layer keeps of each sequence. Nothing has to be cleared: a sequence that begins reads none of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LayerState {
    /// The last inputs of the convolution: `[sequences, taps - 1, 1, channels]`.
    pub tail: Option<Array>,
    /// The states: `[sequences, 1, keys, heads * values]`.
    pub state: Option<Array>,
}

/// The keys and values of all sequences, and their states.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Without those of layers that have no keys.
    layers: Vec<Option<LayerCache>>,
    states: Vec<LayerState>,
    /// Blocks that no sequence has; the lowest is taken first.
    free: BTreeSet<u32>,
    blocks: usize,
}

/// The tokens of a sequence, and where their keys and values are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequence {
    pub tokens: Vec<u32>,
    pub blocks: Vec<u32>,
}

impl Cache {
    /// Bytes of a position in all layers.
    pub fn bytes_per_token(config: &Config, ty: CacheType) -> u64 {
        let of = |layer: &crate::config::Layer| {
            let Some((heads, keys, values)) = layer.cached() else { return 0 };
            let row =
                ty.row_bytes(keys).saturating_add(values.map_or(0, |size| ty.row_bytes(size)));
            row.saturating_mul(heads as u64)
        };
        config.layers.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Room for so many tokens of so many sequences.
    pub fn new(
        device: &DeviceRef,
        config: &Config,
        ty: CacheType,
        tokens: usize,
        sequences: usize,
    ) -> Result<Self> {
        let blocks = tokens.div_ceil(BLOCK).max(1);
        let mut layers = Vec::with_capacity(config.layers.len());
        for layer in &config.layers {
            let Some((heads, keys, values)) = layer.cached() else {
                layers.push(layer.shares.and_then(|of| layers.get(of).cloned().flatten()));
                continue;
            };
            let array = |size: usize| ty.zeros(device, &[blocks, BLOCK, heads, size]);
            // A launch costs more than what it writes of a few tokens.
            if device.as_opencl().is_some() && values == Some(keys) {
                match ty.zeros(device, &[blocks, BLOCK, 2 * heads, keys]) {
                    Ok(both) => {
                        let half = |first: usize| both.slice(2, first..first + heads, 1);
                        let (keys, values) = (half(0)?, half(heads)?);
                        layers.push(Some(LayerCache { keys, values, both: Some(both) }));
                        continue;
                    }
                    // In two arrays there may be room.
                    Err(Error::Runtime(polaris_runtime::Error::AllocationTooLarge { .. })) => {}
                    Err(error) => return Err(error),
                }
            }
            let keys = array(keys)?;
            let values = match (values, layer.latent) {
                (Some(size), _) => array(size)?,
                (None, latent) => keys.slice(3, 0..latent.map_or(0, |latent| latent.rank), 1)?,
            };
            layers.push(Some(LayerCache { keys, values, both: None }));
        }
        let free = (0..blocks as u32).collect();
        let states = config.layers.iter().map(|layer| state(device, layer, sequences));
        Ok(Self { layers, states: states.collect::<Result<_>>()?, free, blocks })
    }

    /// What a recurrent layer keeps.
    pub fn state(&self, layer: usize) -> &LayerState {
        &self.states[layer]
    }

    /// The cache of a layer.
    ///
    /// # Errors
    /// If it has none.
    pub fn layer(&self, layer: usize) -> Result<&LayerCache> {
        self.layers[layer]
            .as_ref()
            .ok_or_else(|| Error::model(format!("layer {layer} has no keys and values")))
    }

    /// Positions that it holds in all.
    pub fn capacity(&self) -> usize {
        self.blocks * BLOCK
    }

    /// Gives a sequence the blocks for a number of tokens.
    pub fn grow(&mut self, sequence: &mut Sequence, tokens: usize) -> Result<()> {
        let wanted = tokens.div_ceil(BLOCK);
        if wanted > sequence.blocks.len() + self.free.len() {
            let context = (sequence.blocks.len() + self.free.len()) * BLOCK;
            return Err(Error::ContextFull { tokens, context });
        }
        while sequence.blocks.len() < wanted {
            let block = self.free.pop_first().expect("there should be enough free blocks");
            sequence.blocks.push(block);
        }
        Ok(())
    }

    /// Forgets the tokens of a sequence from some position on.
    pub fn truncate(&mut self, sequence: &mut Sequence, tokens: usize) {
        sequence.tokens.truncate(tokens);
        let needed = sequence.tokens.len().div_ceil(BLOCK);
        self.free.extend(sequence.blocks.drain(needed.min(sequence.blocks.len())..));
    }
}

/// What a layer keeps of each sequence.
fn state(device: &DeviceRef, layer: &crate::config::Layer, sequences: usize) -> Result<LayerState> {
    let Some(recurrence) = &layer.recurrence else { return Ok(LayerState::default()) };
    let array = |dims: &[usize]| -> Result<Option<Array>> {
        let shape = Shape::new(dims)?;
        if shape.elements() == 0 {
            return Ok(None);
        }
        let array = Array::empty(device, DType::F32, shape)?;
        array.buffer().fill(0.0f32)?;
        Ok(Some(array))
    };
    let rows = recurrence.taps.saturating_sub(1);
    Ok(LayerState {
        tail: array(&[sequences, rows, 1, recurrence.channels])?,
        state: array(&[sequences, 1, recurrence.keys, recurrence.inner()])?,
    })
}

impl Sequence {
    /// Where the keys and values of a position are, counted in positions of the cache.
    pub fn slot(&self, position: usize) -> i32 {
        (self.blocks[position / BLOCK] as usize * BLOCK + position % BLOCK) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_and_given_back() {
        let mut cache =
            Cache { layers: Vec::new(), states: Vec::new(), free: (0..3).collect(), blocks: 3 };
        let (mut a, mut b) = (Sequence::default(), Sequence::default());
        cache.grow(&mut a, BLOCK + 1).unwrap();
        a.tokens = vec![7; BLOCK + 1];
        cache.grow(&mut b, 1).unwrap();
        b.tokens = vec![8];
        assert_eq!((a.blocks.clone(), b.blocks.clone()), (vec![0, 1], vec![2]));
        assert_eq!((a.slot(BLOCK), b.slot(0)), (BLOCK as i32, 2 * BLOCK as i32));
        assert!(matches!(
            cache.grow(&mut b, BLOCK + 1),
            Err(Error::ContextFull { tokens, context }) if tokens == BLOCK + 1 && context == BLOCK
        ));
        cache.truncate(&mut a, BLOCK);
        assert_eq!((a.tokens.len(), a.blocks.len()), (BLOCK, 1));
        cache.grow(&mut b, BLOCK + 1).unwrap();
        assert_eq!(b.blocks, [2, 1]);
        cache.truncate(&mut a, 0);
        cache.truncate(&mut b, 0);
        assert_eq!(cache.free.len(), 3);
    }
}
