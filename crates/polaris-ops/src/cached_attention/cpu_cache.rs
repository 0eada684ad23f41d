//! The arrays of attention to a cache on the CPU: rows by token and head, and tiles of the cache.

use std::ops::Range;

use polaris_core::DType;

use super::cpu_loops::Rows;
use super::cpu_tokens::Integers;
use crate::cpu::blocks::Row;
use crate::cpu::map::SendPointer;
use crate::format::{BlockRows, Elements, Stored, read_block_rows, read_blocks, with_block_type};
use crate::matmul::{Strip, Tiles};

/// Rows of blocks shorter than this are gathered: products of so few would be slow.
const SHORT: usize = 16;

/// An `f32` array of tokens and heads.
#[derive(Clone, Copy)]
pub struct Plane {
    pub start: SendPointer,
    pub strides: [usize; 3],
}

impl Plane {
    pub fn row(&self, token: usize, head: usize) -> Row {
        let at = token * self.strides[0] + head * self.strides[1];
        let start = self.start.get().wrapping_add(at * size_of::<f32>());
        Row { start, dtype: DType::F32, stride: self.strides[2] }
    }
}

/// Keys or values. Strides are those of blocks, positions, heads and elements.
#[derive(Clone, Copy)]
pub struct Cache {
    pub start: SendPointer,
    pub stored: Stored,
    pub offset: usize,
    pub strides: [usize; 4],
    /// Elements of a row.
    pub length: usize,
    /// The blocks of each sequence, and positions of a block.
    pub table: Integers,
    pub block_size: usize,
}

impl Cache {
    /// Whether rows are read where they lie.
    fn is_in_place(&self) -> bool {
        self.stored == Stored::Dense(DType::F32) && self.strides[3] == 1
    }

    fn element(&self, block: usize, position: usize, head: usize) -> usize {
        let [of_block, of_position, of_head, _] = self.strides;
        self.offset + block * of_block + position * of_position + head * of_head
    }

    /// Decodes neighbouring positions of a block to dense rows.
    ///
    /// # Safety
    /// The positions must lie inside the cache, which must be registered as read, and the target have room.
    unsafe fn decode(&self, tiles: &Tiles<f32>, first: usize, count: usize, to: *mut f32) {
        let [_, of_position, _, step] = self.strides;
        match self.stored {
            Stored::Dense(dtype) => {
                let strip = Strip {
                    start: self.start.get().wrapping_add(first * dtype.size()),
                    lanes: self.length,
                    lane_stride: step,
                    depth: count,
                    depth_stride: of_position,
                };
                // SAFETY: by the caller's word.
                unsafe { tiles.pack(dtype, &strip, self.length, to) }
            }
            Stored::Block(block) => with_block_type!(block, B => {
                let rows = BlockRows { first, stride: of_position, rows: count, length: self.length };
                if step == 1 && rows.are_whole::<B>() {
                    // SAFETY: by the caller's word.
                    return unsafe { read_block_rows::<B>(tiles.level, self.start.get(), rows, to) };
                }
                for row in 0..count {
                    let (from, to) = (first + row * of_position, to.wrapping_add(row * self.length));
                    let elements = Elements { first: from, stride: step, count: self.length };
                    // SAFETY: by the caller's word.
                    unsafe { read_blocks::<B>(tiles.level, self.start.get(), elements, to, 1) }
                }
            }),
        }
    }

    /// The rows of some positions of a sequence, in place or decoded into `scratch`.
    ///
    /// # Safety
    /// The positions' blocks must be checked, and the cache and the table registered as read for as long as the runs
    /// are used.
    pub unsafe fn runs(
        &self,
        tiles: &Tiles<f32>,
        [sequence, head]: [usize; 2],
        keys: &Range<usize>,
        scratch: &mut [f32],
        runs: &mut Vec<Run>,
    ) {
        runs.clear();
        let Self { block_size, length, .. } = *self;
        let in_place = self.is_in_place() && block_size >= SHORT;
        let mut key = keys.start;
        while key < keys.end {
            let (entry, position) = (key / block_size, key % block_size);
            let count = (block_size - position).min(keys.end - key);
            // SAFETY: by the caller's word.
            let block = unsafe { self.table.at(sequence, entry) } as usize;
            let element = self.element(block, position, head);
            let first = key - keys.start;
            if in_place {
                let start = self.start.get().cast::<f32>().wrapping_add(element);
                runs.push(Run {
                    first,
                    count,
                    rows: Rows { start, stride: self.strides[1], length },
                });
            } else {
                assert!(scratch.len() >= (first + count) * length);
                let to = scratch.as_mut_ptr().wrapping_add(first * length);
                // SAFETY: by the caller's word, and there is room.
                unsafe { self.decode(tiles, element, count, to) };
            }
            key += count;
        }
        if !in_place {
            let rows = Rows { start: scratch.as_ptr(), stride: length, length };
            runs.push(Run { first: 0, count: keys.len(), rows });
        }
    }
}

/// Neighbouring rows of a tile.
pub struct Run {
    pub first: usize,
    pub count: usize,
    pub rows: Rows,
}
