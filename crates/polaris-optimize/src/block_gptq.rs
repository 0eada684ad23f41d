//! GPTQ in the block formats of GGUF files.
//!
//! The scales of a block are those that the searching encoder finds for what its columns should be when the block begins;
//! then numbers are chosen column by column, each nearest to what it should be given the errors of those before it.

use polaris_blocks::{Block, Step};
use polaris_ops::encode_best;

use crate::descent::{Curves, DescentOptions};
use crate::feedback::{self, ROWS};
use crate::hessian::{Factor, Hessian};
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

/// The blocks of a matrix, whose rows are in `elements`, and its damped loss. If there is a Hessian, descent moves numbers
/// afterwards.
///
/// # Errors
/// If rows do not fill blocks, elements are not finite or too large, or `cancelled` says so.
pub fn gptq_blocks(
    elements: &[f32],
    block: Block,
    factor: &Factor,
    refined: Option<(&Hessian, &DescentOptions)>,
    cancelled: &dyn Fn() -> bool,
) -> Result<(Vec<u8>, f64)> {
    let columns = factor.columns();
    check_matrix(elements, elements.len() / columns, columns)?;
    if !columns.is_multiple_of(block.elements()) {
        return Err(Error::Blocks { block, columns });
    }
    let curves = refined.map(|(hessian, options)| Curves::new(hessian, options)).transpose()?;
    let row = columns / block.elements() * block.bytes();
    let mut bytes = vec![0; elements.len() / columns * row];
    let rows = (STRIP / columns / ROWS).max(1) * ROWS;
    let mut loss = 0.0;
    for (elements, bytes) in elements.chunks(rows * columns).zip(bytes.chunks_mut(rows * row)) {
        loss += strip(elements, block, factor, curves.as_ref(), bytes, cancelled)?;
    }
    Ok((bytes, loss))
}

fn strip(
    elements: &[f32],
    block: Block,
    factor: &Factor,
    curves: Option<&Curves>,
    bytes: &mut [u8],
    cancelled: &dyn Fn() -> bool,
) -> Result<f64> {
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
    let mut loss = feedback::run(elements, factor, width, &mut all, decide, cancelled)?;
    if let Some(curves) = curves {
        let floats = |rows: &Rows<'_>| -> Vec<f32> {
            let pairs = rows.steps.iter().zip(&rows.numbers);
            pairs.map(|(step, &number)| step.element(values, number)).collect()
        };
        let mut floats: Vec<f32> = all.iter().flat_map(floats).collect();
        let step = |row: usize, column: usize| all[row / ROWS].steps[row % ROWS * columns + column];
        let nearest = |row, column, wanted| {
            let step = step(row, column);
            step.element(values, step.nearest(values, wanted))
        };
        curves.descend(elements, &mut floats, nearest, cancelled)?;
        loss = curves.loss(elements, &floats)?;
        for (rows, floats) in all.iter_mut().zip(floats.chunks(ROWS * columns)) {
            for ((number, step), &float) in rows.numbers.iter_mut().zip(&rows.steps).zip(floats) {
                *number = step.nearest(values, float);
            }
        }
    }
    for rows in &mut all {
        block.write_numbers(&rows.numbers, rows.bytes);
    }
    Ok(loss)
}
