//! Tensors that files store in another form than Polaris reads: rows and columns exchanged, two tensors in turns, one
//! added to norms, MXFP4 in two parts. They take their form when they are loaded.

use bytes::Bytes;
use polaris_gguf::TensorType;

use crate::{Error, Result};

/// How the parts of a tensor become its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Form {
    /// They are its bytes, one after another.
    #[default]
    Plain,
    /// Their elements are put in another order, and may become `f32`.
    Elements(Elements),
    /// Blocks of 16 bytes with two neighbours each in the first part, scales in the second: MXFP4 as Hugging Face
    /// has it.
    Mxfp4(Rows),
}

/// The rows of a stored tensor that count: from the first, each `step`th.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// The first.
    pub first: usize,
    /// From one to the next.
    pub step: usize,
}

impl Rows {
    /// All.
    pub const ALL: Self = Self { first: 0, step: 1 };
}

/// Elements in another order or type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Elements {
    /// The type of the parts.
    pub stored: TensorType,
    /// Elements of a row.
    pub width: usize,
    /// The stored rows that count.
    pub rows: Rows,
    /// Whether the matrices of the last two dimensions are stored with rows and columns exchanged.
    pub transposed: bool,
    /// What is added to elements that become `f32`; `None` if they stay as they are.
    pub plus: Option<f32>,
}

impl Form {
    /// The bytes of a tensor of these dimensions.
    ///
    /// # Errors
    /// If the parts are not as large as the dimensions say.
    pub(crate) fn apply(&self, dims: &[usize], parts: &[Bytes]) -> Result<Vec<Bytes>> {
        match self {
            Self::Plain => Ok(parts.to_vec()),
            Self::Elements(form) => form.apply(dims, parts),
            Self::Mxfp4(rows) => mxfp4(*rows, dims, parts),
        }
    }
}

fn wrong(found: usize, expected: Option<usize>) -> Error {
    let expected = expected.map_or("more".to_owned(), |bytes| bytes.to_string());
    Error::model(format!("a tensor has {found} bytes; expected are {expected}"))
}

impl Elements {
    fn apply(&self, dims: &[usize], parts: &[Bytes]) -> Result<Vec<Bytes>> {
        let size = self.stored.block_bytes();
        let stored = match parts {
            [one] => one.clone(),
            several => several.concat().into(),
        };
        let total = self.stored.bytes_of(dims);
        let expected = total.and_then(|bytes| bytes.checked_mul(self.rows.step));
        let is_whole = self.stored.block_elements() == 1
            && self.width > 0
            && self.rows.first < self.rows.step
            && dims.last().is_some_and(|last| self.width == 1 || self.width == *last);
        if expected != Some(stored.len()) || !is_whole {
            return Err(wrong(stored.len(), expected));
        }
        let bytes = match (self.transposed, size) {
            (true, 2) => transposed::<2>(self, dims, &stored),
            (true, _) => transposed::<4>(self, dims, &stored),
            (false, _) if self.rows == Rows::ALL => stored,
            (false, _) => {
                let row = self.width * size;
                let rows = stored.chunks_exact(row).skip(self.rows.first).step_by(self.rows.step);
                rows.flatten().copied().collect::<Vec<u8>>().into()
            }
        };
        let Some(plus) = self.plus else { return Ok(vec![bytes]) };
        let mut values = polaris_gguf::dequantize(self.stored, &bytes)?;
        values.iter_mut().for_each(|value| *value += plus);
        Ok(vec![values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>().into()])
    }
}

/// Matrices with rows and columns exchanged, in squares that stay in the L1 cache; `SIZE` is that of an element.
fn transposed<const SIZE: usize>(form: &Elements, dims: &[usize], stored: &[u8]) -> Bytes {
    const SIDE: usize = 32;
    let (columns, Rows { first, step }) = (form.width, form.rows);
    let rows = dims.iter().rev().nth(1).copied().unwrap_or(1);
    let mut bytes = vec![0; stored.len() / step];
    let matrices = stored.chunks_exact((rows * columns * step * SIZE).max(1));
    for (from, to) in matrices.zip(bytes.chunks_exact_mut((rows * columns * SIZE).max(1))) {
        for top in (0..rows).step_by(SIDE) {
            for left in (0..columns).step_by(SIDE) {
                for row in top..(top + SIDE).min(rows) {
                    for column in left..(left + SIDE).min(columns) {
                        let at = (column * rows * step + row * step + first) * SIZE;
                        let to = &mut to[(row * columns + column) * SIZE..][..SIZE];
                        to.copy_from_slice(&from[at..at + SIZE]);
                    }
                }
            }
        }
    }
    bytes.into()
}

/// MXFP4 as GGUF has it: the scale and 16 bytes, of which the low halves are the first 16 elements.
fn mxfp4(rows: Rows, dims: &[usize], parts: &[Bytes]) -> Result<Vec<Bytes>> {
    const PACKED: usize = 16;
    let columns = dims.last().copied().unwrap_or(1);
    let ([blocks, scales], true) = (parts, columns.is_multiple_of(2 * PACKED)) else {
        let what = format!(
            "a tensor in MXFP4 has rows of {columns} elements; expected are whole blocks of 32"
        );
        return Err(Error::model(what));
    };
    let in_row = columns / (2 * PACKED);
    let elements = dims.iter().try_fold(rows.step, |product, &dim| product.checked_mul(dim));
    let count = elements.map(|elements| elements / (2 * PACKED));
    if in_row == 0
        || count != Some(scales.len())
        || count.map(|count| count * PACKED) != Some(blocks.len())
    {
        return Err(wrong(blocks.len(), count.map(|count| count * PACKED)));
    }
    let mut bytes = Vec::with_capacity(scales.len() / rows.step * (PACKED + 1));
    let scales = scales.chunks_exact(in_row).skip(rows.first).step_by(rows.step);
    let blocks = blocks.chunks_exact(in_row * PACKED).skip(rows.first).step_by(rows.step);
    for (scales, blocks) in scales.zip(blocks) {
        for (scale, block) in scales.iter().zip(blocks.chunks_exact(PACKED)) {
            let (first, last) = block.split_at(PACKED / 2);
            bytes.push(*scale);
            for (low, high) in first.iter().zip(last) {
                bytes.push(low & 15 | high << 4);
                bytes.push(low >> 4 | high & 240);
            }
        }
    }
    Ok(vec![bytes.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Bytes {
        values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
    }

    fn values(made: &[Bytes]) -> Vec<f32> {
        polaris_gguf::dequantize(TensorType::F32, &made.concat()).unwrap()
    }

    const PLAIN: Elements = Elements {
        stored: TensorType::F32,
        width: 1,
        rows: Rows::ALL,
        transposed: false,
        plus: None,
    };

    #[test]
    fn transposition_takes_each_of_several_in_turns() {
        // Two matrices of 70 columns and 3 rows, stored beside those of another tensor.
        let (rows, columns) = (3, 70);
        let stored: Vec<f32> = (0..2 * columns * rows * 2).map(|i| i as f32).collect();
        for first in 0..2 {
            let rows_of = Rows { first, step: 2 };
            let form = Elements { width: columns, transposed: true, rows: rows_of, ..PLAIN };
            let made = Form::Elements(form).apply(&[2, rows, columns], &[bytes(&stored)]).unwrap();
            let made = values(&made);
            for matrix in 0..2 {
                for row in 0..rows {
                    for column in 0..columns {
                        let expected = matrix * 420 + column * 6 + 2 * row + first;
                        let found = made[(matrix * rows + row) * columns + column];
                        assert_eq!(found, expected as f32);
                    }
                }
            }
        }
    }

    #[test]
    fn elements_in_turns_become_floats_with_a_sum() {
        let rows = Rows { first: 1, step: 2 };
        let form = Elements { rows, plus: Some(1.0), ..PLAIN };
        let made = Form::Elements(form).apply(&[2], &[bytes(&[1.0, 2.0, 3.0, 4.0])]).unwrap();
        assert_eq!(values(&made), [3.0, 5.0]);
        let several = Elements { plus: Some(0.0), ..PLAIN };
        let parts = [bytes(&[1.0]), bytes(&[2.0])];
        assert_eq!(values(&Form::Elements(several).apply(&[2, 1], &parts).unwrap()), [1.0, 2.0]);
        for dims in [&[3][..], &[], &[usize::MAX, 8], &[2, 0]] {
            assert!(Form::Elements(several).apply(dims, &parts).is_err(), "{dims:?}");
        }
    }

    #[test]
    fn packed_blocks_are_those_of_gguf() {
        // Element i of a block is i % 16, of the second row 15 - i % 16.
        let block = |of: fn(u8) -> u8| (0..16).map(move |i| of(2 * i) | of(2 * i + 1) << 4);
        let blocks: Vec<u8> = block(|i| i % 16).chain(block(|i| 15 - i % 16)).collect();
        let parts = [Bytes::from(blocks), Bytes::from(vec![127, 130])];
        let table = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        let value = |code: usize| if code < 8 { table[code] } else { -table[code - 8] };
        for first in 0..2 {
            let form = Form::Mxfp4(Rows { first, step: 2 });
            let made = form.apply(&[1, 32], &parts).unwrap().concat();
            let found = polaris_gguf::dequantize(TensorType::MXFP4, &made).unwrap();
            for (i, found) in found.into_iter().enumerate() {
                let expected = match first {
                    0 => value(i % 16),
                    _ => 8.0 * value(15 - i % 16),
                };
                assert_eq!(found, expected, "{i}");
            }
        }
        for dims in [&[1, 16][..], &[2, 32], &[1, 0], &[], &[usize::MAX, 64]] {
            assert!(Form::Mxfp4(Rows { first: 0, step: 2 }).apply(dims, &parts).is_err());
        }
    }
}
