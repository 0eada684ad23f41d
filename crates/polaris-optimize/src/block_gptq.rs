//! GPTQ in the block formats of GGUF files.
//!
//! The scales of a block are those that the searching encoder finds for what its columns should be when the block begins;
//! then numbers are chosen column by column, each nearest to what it should be given the errors of those before it.

use polaris_blocks::{Block, Step};
use polaris_ops::encode_best;

use crate::descent::{Curves, DescentOptions};
use crate::feedback::{self, ROWS};
use crate::hessian::{Factor, FactorOptions, Hessian};
use crate::integer::check_matrix;
use crate::parallel::cpu;
use crate::{Error, Result};

/// Columns that are decided before others hear of it: a multiple of all blocks but those of 256.
const WIDTH: usize = 128;
/// Elements that are in memory at once, about twenty times over in bytes.
const STRIP: usize = 1 << 22;

/// Some rows while they are encoded.
struct Rows<'a> {
    bytes: &'a mut [u8],
    steps: Vec<Step>,
    numbers: Vec<u8>,
}

/// GPTQ for matrices that have the same inputs.
#[derive(Debug)]
pub struct BlockGptq {
    factor: Factor,
    curves: Curves,
}

/// A matrix in blocks, and what it costs.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The blocks.
    pub bytes: Vec<u8>,
    /// What they cost.
    pub costs: Costs,
}

/// Means of squares over the inputs, summed over rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Costs {
    /// Of what outputs change by.
    pub error: f64,
    /// The same, if elements were rounded to the nearest with searched scales.
    pub nearest: f64,
    /// Of the outputs.
    pub outputs: f64,
}

impl BlockGptq {
    /// For the inputs of a Hessian. Descent moves numbers after GPTQ, with the same damping.
    ///
    /// # Errors
    /// As for [`Factor::new`].
    pub fn new(hessian: &Hessian, options: &FactorOptions, sweeps: usize) -> Result<Self> {
        let factor = Factor::new(hessian, options)?;
        let descent = DescentOptions { sweeps, damping: factor.damping() };
        Ok(Self { curves: Curves::new(hessian, &descent)?, factor })
    }

    /// The blocks of a matrix, whose rows are in `elements`. A row that rounding to nearest leaves nearer to its outputs, by
    /// the damped loss, is rounded.
    ///
    /// # Errors
    /// If rows do not fill blocks, elements are not finite or too large, or `cancelled` says so.
    pub fn encode(
        &self,
        elements: &[f32],
        block: Block,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Encoded> {
        let columns = self.factor.columns();
        check_matrix(elements, elements.len() / columns, columns)?;
        if !columns.is_multiple_of(block.elements()) {
            return Err(Error::Blocks { block, columns });
        }
        let row = columns / block.elements() * block.bytes();
        let mut bytes = vec![0; elements.len() / columns * row];
        let rows = (STRIP / columns / ROWS).max(1) * ROWS;
        let mut costs = Costs::default();
        for (elements, bytes) in elements.chunks(rows * columns).zip(bytes.chunks_mut(rows * row)) {
            strip(elements, block, &self.factor, &self.curves, bytes, cancelled)?;
            let mut nearest = vec![0; bytes.len()];
            let simd = cpu(self.factor.feedback.device())?.simd();
            encode_best(simd, block, elements, &mut nearest).map_err(Error::Block)?;
            let losses = |bytes: &[u8]| {
                let mut floats = vec![0.0; elements.len()];
                block.decode(bytes, &mut floats);
                self.curves.losses(elements, &floats)
            };
            let (found, rounded) = (losses(bytes)?, losses(&nearest)?);
            let each = bytes.chunks_mut(row).zip(nearest.chunks(row));
            for ((bytes, nearest), (found, rounded)) in each.zip(found.iter().zip(&rounded)) {
                costs.nearest += rounded.outputs;
                costs.error += match found.damped <= rounded.damped {
                    true => found.outputs,
                    false => {
                        bytes.copy_from_slice(nearest);
                        rounded.outputs
                    }
                };
            }
            let outputs = self.curves.losses(elements, &vec![0.0; elements.len()])?;
            costs.outputs += outputs.iter().map(|loss| loss.outputs).sum::<f64>();
        }
        Ok(Encoded { bytes, costs })
    }
}

fn strip(
    elements: &[f32],
    block: Block,
    factor: &Factor,
    curves: &Curves,
    bytes: &mut [u8],
    cancelled: &dyn Fn() -> bool,
) -> Result<()> {
    let columns = factor.columns();
    let (each, size, values) = (block.elements(), block.bytes(), block.values());
    let row_bytes = columns / each * size;
    let simd = cpu(factor.feedback.device())?.simd();
    let encode = |elements: &[f32], bytes: &mut [u8]| {
        encode_best(simd, block, elements, bytes).map_err(Error::Block)
    };
    if !factor.is_natural {
        encode(elements, bytes)?;
    }
    let none = Step { scale: 0.0, offset: 0.0 };
    let chunks = elements.chunks(ROWS * columns).zip(bytes.chunks_mut(ROWS * row_bytes));
    let mut all: Vec<Rows<'_>> = chunks
        .map(|(elements, bytes)| {
            let mut steps = vec![none; elements.len()];
            if !factor.is_natural {
                block.steps(bytes, &mut steps);
            }
            Rows { bytes, steps, numbers: vec![0; elements.len()] }
        })
        .collect();
    let width = if each > WIDTH { each } else { WIDTH };
    let decide = |all: &mut Rows<'_>, part: &mut feedback::Block<'_>| {
        let places = part.places.clone();
        // Blocks of one place in all rows are encoded together: the encoder takes eight of the small ones at once.
        let (mut wanted, mut encoded) = (Vec::new(), vec![0; part.rows() * size]);
        for at in 0..places.len() {
            let place = places.start + at;
            if factor.is_natural && at % each == 0 {
                wanted.clear();
                for row in 0..part.rows() {
                    wanted.extend_from_slice(&part.targets(row)[at..at + each]);
                }
                encode(&wanted, &mut encoded)?;
                let mut steps = vec![none; wanted.len()];
                block.steps(&encoded, &mut steps);
                for row in 0..part.rows() {
                    let to = row * row_bytes + place / each * size;
                    all.bytes[to..to + size].copy_from_slice(&encoded[row * size..][..size]);
                    all.steps[row * columns + place..][..each]
                        .copy_from_slice(&steps[row * each..][..each]);
                }
            }
            let column = factor.order[place];
            for row in 0..part.rows() {
                let step = all.steps[row * columns + column];
                let number = step.nearest(values, part.targets(row)[at]);
                all.numbers[row * columns + column] = number;
                part.decide(row, at, step.element(values, number));
            }
        }
        Ok(())
    };
    feedback::run(elements, factor, width, &mut all, decide, cancelled)?;
    let floats = |rows: &Rows<'_>| -> Vec<f32> {
        let pairs = rows.steps.iter().zip(&rows.numbers);
        pairs.map(|(step, &number)| step.element(values, number)).collect()
    };
    let mut floats: Vec<f32> = all.iter().flat_map(floats).collect();
    let nearest = |row: usize, column: usize, wanted: f32| {
        let step = all[row / ROWS].steps[row % ROWS * columns + column];
        step.element(values, step.nearest(values, wanted))
    };
    curves.descend(elements, &mut floats, nearest, cancelled)?;
    for (rows, floats) in all.iter_mut().zip(floats.chunks(ROWS * columns)) {
        for ((number, step), &float) in rows.numbers.iter_mut().zip(&rows.steps).zip(floats) {
            *number = step.nearest(values, float);
        }
        block.write_numbers(&rows.numbers, rows.bytes);
    }
    Ok(())
}
