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
    /// What recurrent layers read.
    pub recurrent: Option<RecurrentInputs>,
    /// What was written last, to write into again.
    staged: Staged,
}

/// What recurrent layers read. A sequence has the slot of its number.
#[derive(Debug)]
pub(crate) struct RecurrentInputs {
    /// `i32 [tokens, 2]`: the slot and the position of each.
    pub places: Array,
    /// `i32 [tokens]`: where the input of the convolution goes, or -1 if a later one takes its place.
    pub tails: Array,
    /// `i32 [sequences, 3]`: the slot of the state before, or -1 if there is none; the first token, and how many.
    pub runs: Array,
    /// `i32 [sequences]`: where states go.
    pub slots: Array,
    /// Rows of a tail.
    rows: usize,
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
    /// Of recurrent layers, in the order of their fields.
    recurrent: [Vec<i32>; 4],
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
            recurrent: match config.layers.iter().find_map(|layer| layer.recurrence.as_ref()) {
                Some(recurrence) => Some(RecurrentInputs {
                    places: integers(&[tokens, 2])?,
                    tails: integers(&[tokens])?,
                    runs: integers(&[sequences, 3])?,
                    slots: integers(&[sequences])?,
                    rows: recurrence.taps.saturating_sub(1),
                }),
                None => None,
            },
            staged: Staged::default(),
        })
    }

    /// Writes what a run needs; `numbers` are those of the sequences.
    pub fn write(
        &mut self,
        config: &Config,
        items: &[Item],
        sequences: &[&Sequence],
        numbers: &[usize],
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
        match &self.recurrent {
            Some(recurrent) => recurrent.write(&mut staged.recurrent, items, numbers),
            None => Ok(()),
        }
    }
}

impl RecurrentInputs {
    /// Writes what a run needs. The tokens of a sequence follow one another.
    fn write(&self, staged: &mut [Vec<i32>; 4], items: &[Item], numbers: &[usize]) -> Result<()> {
        let [places, tails, runs, slots] = staged;
        let slot = |item: &Item| numbers[item.sequence];
        fill(places, items.iter().flat_map(|item| [slot(item) as i32, item.position as i32]));
        runs.clear();
        fill(slots, numbers.iter().map(|&number| number as i32));
        tails.clear();
        for (sequence, &number) in numbers.iter().enumerate() {
            let first = items.iter().take_while(|item| item.sequence != sequence).count();
            let mine = items[first..].iter().take_while(|item| item.sequence == sequence);
            let count = mine.clone().count();
            let begins = items.get(first).is_some_and(|item| item.position == 0);
            let before = if begins { -1 } else { number as i32 };
            runs.extend([before, first as i32, count as i32]);
            tails.extend(mine.enumerate().map(|(at, item)| match at + self.rows >= count {
                true => (number * self.rows + item.position % self.rows.max(1)) as i32,
                false => -1,
            }));
        }
        let arrays = [&self.places, &self.tails, &self.runs, &self.slots];
        for (array, values) in arrays.into_iter().zip([&*places, tails, runs, slots]) {
            array.buffer().view(0..values.len())?.write(values.as_slice())?;
        }
        Ok(())
    }
}

/// Replaces the elements of a vector without giving up its memory.
fn fill<T>(to: &mut Vec<T>, from: impl Iterator<Item = T>) {
    to.clear();
    to.extend(from);
}
