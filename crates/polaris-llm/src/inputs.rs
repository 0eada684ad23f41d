//! What differs from run to run, in arrays that plans read: token ids, positions, places in the cache, angles.

use polaris_core::{DType, Shape};
use polaris_ops::Array;
use polaris_runtime::DeviceRef;

use crate::Result;
use crate::cache::{BLOCK, Sequence};
use crate::config::Config;

/// The arrays, with room for a number of tokens; plans read the first ones.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// `i32 [tokens]`.
    pub ids: Array,
    /// `i32 [tokens, 2]`: the sequence and the position of each.
    pub places: Array,
    /// `i32 [tokens]`.
    pub positions: Array,
    /// `i32 [tokens]`: where keys and values go.
    pub slots: Array,
    /// `i32 [sequences, blocks]`: the blocks of each sequence.
    pub table: Array,
    /// `i32 [tokens]`: the tokens whose logits are wanted.
    pub outputs: Array,
    /// For each rotary embedding: cosines and sines, `f32 [tokens, 1, pairs]`.
    pub angles: [Option<Angles>; 2],
    /// `f32 [tokens, 1, 1]`: by what queries are multiplied.
    pub temperature: Option<Array>,
    /// What was written last, to write into again.
    staged: Staged,
}

/// The tables of a rotary embedding.
#[derive(Debug)]
pub(crate) struct Angles {
    pub cos: Array,
    pub sin: Array,
    frequencies: Vec<f64>,
}

#[derive(Debug, Default)]
struct Staged {
    ids: Vec<i32>,
    places: Vec<i32>,
    positions: Vec<i32>,
    slots: Vec<i32>,
    table: Vec<i32>,
    outputs: Vec<i32>,
    cos: Vec<f32>,
    sin: Vec<f32>,
    temperature: Vec<f32>,
}

/// A token to be computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    pub token: u32,
    /// The index of its sequence among those of the run.
    pub sequence: usize,
    pub position: usize,
    pub wants_logits: bool,
}

impl Inputs {
    pub fn new(
        device: &DeviceRef,
        config: &Config,
        tokens: usize,
        sequences: usize,
        capacity: usize,
    ) -> Result<Self> {
        let integers = |dims: &[usize]| -> Result<Array> {
            let array = Array::empty(device, DType::I32, Shape::new(dims)?)?;
            array.buffer().fill(0i32)?;
            Ok(array)
        };
        let floats = |dims: &[usize]| -> Result<Array> {
            Ok(Array::empty(device, DType::F32, Shape::new(dims)?)?)
        };
        let angles = |kind: usize| -> Result<Option<Angles>> {
            let Some(rotary) = &config.rotary[kind] else { return Ok(None) };
            let frequencies = rotary.frequencies()?;
            let dims = [tokens, 1, frequencies.len()];
            Ok(Some(Angles { cos: floats(&dims)?, sin: floats(&dims)?, frequencies }))
        };
        Ok(Self {
            ids: integers(&[tokens])?,
            places: integers(&[tokens, 2])?,
            positions: integers(&[tokens])?,
            slots: integers(&[tokens])?,
            table: integers(&[sequences, capacity.div_ceil(BLOCK)])?,
            outputs: integers(&[tokens])?,
            angles: [angles(0)?, angles(1)?],
            temperature: match config.temperature {
                Some(_) => Some(floats(&[tokens, 1, 1])?),
                None => None,
            },
            staged: Staged::default(),
        })
    }

    /// Writes what a run needs.
    pub fn write(
        &mut self,
        config: &Config,
        items: &[Item],
        sequences: &[&Sequence],
    ) -> Result<()> {
        let staged = &mut self.staged;
        fill(&mut staged.ids, items.iter().map(|item| item.token as i32));
        fill(&mut staged.positions, items.iter().map(|item| item.position as i32));
        let places = items.iter().flat_map(|item| [item.sequence as i32, item.position as i32]);
        fill(&mut staged.places, places);
        fill(
            &mut staged.slots,
            items.iter().map(|item| sequences[item.sequence].slot(item.position)),
        );
        let wanted = items.iter().enumerate().filter(|(_, item)| item.wants_logits);
        fill(&mut staged.outputs, wanted.map(|(row, _)| row as i32));
        let columns = self.table.shape()[1];
        staged.table.clear();
        for sequence in sequences {
            staged.table.extend(sequence.blocks.iter().map(|&block| block as i32));
            let rows = staged.table.len().div_ceil(columns.max(1));
            staged.table.resize(rows * columns, 0);
        }
        let first =
            |array: &Array, values: &[i32]| array.buffer().view(0..values.len())?.write(values);
        first(&self.ids, &staged.ids)?;
        first(&self.places, &staged.places)?;
        first(&self.positions, &staged.positions)?;
        first(&self.slots, &staged.slots)?;
        first(&self.outputs, &staged.outputs)?;
        first(&self.table, &staged.table)?;
        for (angles, rotary) in self.angles.iter().zip(&config.rotary) {
            let (Some(angles), Some(rotary)) = (angles, rotary) else { continue };
            let elements = items.len() * angles.frequencies.len();
            staged.cos.resize(elements, 0.0);
            staged.sin.resize(elements, 0.0);
            let (cos, sin) = (&mut staged.cos[..elements], &mut staged.sin[..elements]);
            rotary.fill(&angles.frequencies, &staged.positions, cos, sin);
            angles.cos.buffer().view(0..elements)?.write(&*cos)?;
            angles.sin.buffer().view(0..elements)?.write(&*sin)?;
        }
        if let (Some(array), Some((scale, length, offset))) =
            (&self.temperature, config.temperature)
        {
            let of = |item: &Item| {
                let turns = ((item.position as f64 + offset) / length).floor();
                (1.0 + scale * turns.ln_1p()) as f32
            };
            fill(&mut staged.temperature, items.iter().map(of));
            array.buffer().view(0..items.len())?.write(&staged.temperature)?;
        }
        Ok(())
    }
}

/// Replaces the elements of a vector without giving up its memory.
fn fill<T>(to: &mut Vec<T>, from: impl Iterator<Item = T>) {
    to.clear();
    to.extend(from);
}
