//! What attention and its gradient share on the CPU: operands by batch and head, tiles of scores, and
//! the threads that take blocks of queries.
//!
//! A tile of scores has a row for each key and a column for each query. So k and v are left operands, which are read
//! in place; only the queries of a block are transposed, once for all keys.

use std::sync::atomic::{AtomicUsize, Ordering};

use polaris_core::{DType, Layout};
use polaris_runtime::cpu::ThreadPool;

use super::cpu_loops::{LANES, add};
use super::geometry::Sizes;
use crate::cpu::map::SendPointer;
use crate::matmul::{Strip, TileNumber, TileProduct, Tiles};

/// Queries of a block.
pub const QUERIES: usize = 64;
/// Keys of a tile: with their values and weights they stay in the L2 cache.
pub const KEYS: usize = 128;

/// An array of rows by batch and head. Strides are in elements.
#[derive(Clone, Copy)]
pub struct Operand {
    start: SendPointer,
    dtype: DType,
    strides: [usize; 4],
}

impl Operand {
    /// An array that begins at the layout's offset from `start`. Axes that it lacks are at the end.
    pub fn new(start: *const u8, dtype: DType, layout: &Layout) -> Self {
        let mut strides = [1; 4];
        strides[..layout.strides().len()].copy_from_slice(layout.strides());
        let start = start.cast_mut().wrapping_add(layout.offset() * dtype.size());
        Self { start: SendPointer(start), dtype, strides }
    }

    /// Some rows of a head.
    pub fn rows(&self, batch: usize, head: usize, first: usize, count: usize) -> Rows {
        let [of_batch, of_head, of_row, step] = self.strides;
        let at = batch * of_batch + head * of_head + first * of_row;
        let start = self.start.get().wrapping_add(at * self.dtype.size());
        Rows { start, dtype: self.dtype, count, stride: of_row, step }
    }
}

/// Rows of one head.
#[derive(Clone, Copy)]
pub struct Rows {
    start: *const u8,
    dtype: DType,
    count: usize,
    stride: usize,
    step: usize,
}

impl Rows {
    /// The rows without their first elements.
    pub fn from(&self, first: usize) -> Self {
        let bytes = first * self.step * self.dtype.size();
        Self { start: self.start.wrapping_add(bytes), ..*self }
    }

    /// Copies `length` elements of each row to a dense row of `width`, with zeros at the end.
    ///
    /// # Safety
    /// The rows must be readable and nobody may write them.
    pub unsafe fn copy<C: TileNumber>(
        &self,
        tiles: &Tiles<C>,
        length: usize,
        width: usize,
        target: &mut [C],
    ) {
        assert!(target.len() >= self.count * width && width >= length);
        let strip = Strip {
            start: self.start,
            lanes: length,
            lane_stride: self.step,
            depth: self.count,
            depth_stride: self.stride,
        };
        // SAFETY: by the caller's word, and the target has room.
        unsafe { tiles.pack(self.dtype, &strip, width, target.as_mut_ptr()) }
    }

    /// Copies `length` elements of each row to a dense column, beside columns of zeros up to
    /// `width`.
    ///
    /// # Safety
    /// As for [`Self::copy`].
    pub unsafe fn turn<C: TileNumber>(
        &self,
        tiles: &Tiles<C>,
        length: usize,
        width: usize,
        target: &mut [C],
    ) {
        let turned = Self { count: length, stride: self.step, step: self.stride, ..*self };
        // SAFETY: by the caller's word: the same elements in another order.
        unsafe { turned.copy(tiles, self.count, width, target) }
    }

    /// The rows as a left factor: where they are, if their elements are dense and of the compute
    /// type.
    ///
    /// # Safety
    /// As for [`Self::copy`], for as long as the result is used.
    pub unsafe fn factor<C: TileNumber>(
        &self,
        tiles: &Tiles<C>,
        length: usize,
        scratch: &mut [C],
    ) -> Factor<C> {
        if self.step == 1 && self.dtype == C::NATIVE {
            return Factor { start: self.start.cast(), stride: self.stride };
        }
        // SAFETY: by the caller's word.
        unsafe { self.copy(tiles, length, length, scratch) };
        Factor { start: scratch.as_ptr(), stride: length }
    }
}

/// Dense rows, a stride apart.
#[derive(Clone, Copy)]
pub struct Factor<C> {
    pub start: *const C,
    pub stride: usize,
}

/// A tile of scores: which queries and keys it is about. Rows are keys, columns queries, and both
/// are dense.
#[derive(Clone, Copy)]
pub struct Tile<'a, C: 'static> {
    pub tiles: &'a Tiles<C>,
    pub sizes: &'a Sizes,
    pub first_query: usize,
    /// Columns, of which the last may be of no query.
    pub columns: usize,
    pub first_key: usize,
    pub keys: usize,
}

impl<C: TileNumber> Tile<'_, C> {
    /// Columns that do not see a key, which are the first ones.
    fn blind(&self, key: usize) -> usize {
        let first = self.sizes.first_query(self.first_key + key);
        first.saturating_sub(self.first_query).min(self.columns)
    }

    /// Calls a function with stretches of columns and how many of the keys any of their queries
    /// sees: all columns at once where all see all.
    fn stretches(&self, mut each: impl FnMut(usize, usize, usize)) {
        let all = self.keys == 0 || self.blind(self.keys - 1) == 0;
        let width = if all { self.columns } else { self.tiles.columns() };
        for column in (0..self.columns).step_by(width) {
            let columns = width.min(self.columns - column);
            let seen = self.sizes.seen(self.first_query + column + columns - 1);
            each(column, columns, seen.saturating_sub(self.first_key).min(self.keys));
        }
    }

    /// The products of keys and turned queries (or of values and turned gradients) as far as they
    /// are seen.
    ///
    /// # Safety
    /// The factor must have as many rows as there are keys, of `length` elements.
    pub unsafe fn scores(&self, keys: Factor<C>, queries: &[C], length: usize, target: &mut [C]) {
        assert!(queries.len() >= length * self.columns);
        assert!(target.len() >= self.keys * self.columns);
        self.stretches(|column, columns, seen| {
            let product = TileProduct {
                m: seen,
                n: columns,
                k: length,
                a: keys.start,
                a_stride: keys.stride,
                a_rows_are_adjacent: false,
                b: queries.as_ptr().wrapping_add(column),
                b_stride: self.columns,
                from: std::ptr::null(),
                to: target.as_mut_ptr().wrapping_add(column),
                to_stride: self.columns,
            };
            // SAFETY: the keys by the caller's word; the tiles have room, and their vectors are
            // whole.
            unsafe { self.tiles.multiply(&product) };
        });
    }

    /// Adds to each column of sums the rows of a factor, weighted by a tile's column.
    ///
    /// # Safety
    /// As for [`Self::scores`].
    pub unsafe fn weigh(&self, rows: Factor<C>, weights: &[C], length: usize, sums: &mut [C]) {
        assert!(weights.len() >= self.keys * self.columns);
        assert!(sums.len() >= length * self.columns);
        self.stretches(|column, columns, seen| {
            let sums = sums.as_mut_ptr().wrapping_add(column);
            let product = TileProduct {
                m: length,
                n: columns,
                k: seen,
                a: rows.start,
                a_stride: rows.stride,
                a_rows_are_adjacent: true,
                b: weights.as_ptr().wrapping_add(column),
                b_stride: self.columns,
                from: sums,
                to: sums,
                to_stride: self.columns,
            };
            // SAFETY: as in `scores`.
            unsafe { self.tiles.multiply(&product) };
        });
    }

    /// Adds to each key's row of a dense result the queries' rows, weighted by a tile's row.
    /// `queries` of them are there, each as wide as whole vectors.
    ///
    /// # Safety
    /// The result must be writable for as many rows of `length` elements as there are keys.
    pub unsafe fn weigh_queries(
        &self,
        weights: &[C],
        rows: &[C],
        queries: usize,
        length: usize,
        result: *mut C,
    ) {
        /// Keys that are taken together: those at the causal border see less queries each.
        const TOGETHER: usize = 32;
        let width = length.next_multiple_of(LANES);
        assert!(weights.len() >= self.keys * self.columns && queries <= self.columns);
        assert!(rows.len() >= queries * width);
        for key in (0..self.keys).step_by(TOGETHER) {
            let first = self.blind(key).min(queries);
            let to = result.wrapping_add(key * length);
            let product = TileProduct {
                m: TOGETHER.min(self.keys - key),
                n: length,
                k: queries - first,
                a: weights.as_ptr().wrapping_add(key * self.columns + first),
                a_stride: self.columns,
                a_rows_are_adjacent: false,
                b: rows.as_ptr().wrapping_add(first * width),
                b_stride: width,
                from: to,
                to,
                to_stride: length,
            };
            // SAFETY: the result by the caller's word; the rest is inside the slices.
            unsafe { self.tiles.multiply(&product) };
        }
    }

    /// Adds a mask, whose rows are those of the queries from the tile's first key on.
    ///
    /// # Safety
    /// The mask must be readable for all queries of the tile.
    pub unsafe fn add_mask(&self, mask: Rows, scores: &mut [C], scratch: &mut [C]) {
        // SAFETY: by the caller's word.
        unsafe { mask.turn(self.tiles, self.keys, self.columns, scratch) };
        let elements = self.keys * self.columns;
        add(self.tiles.level, &mut scores[..elements], &scratch[..elements]);
    }

    /// Sets what is beyond the causal border.
    pub fn fill_unseen(&self, tile: &mut [C], value: C) {
        for (key, row) in tile.chunks_exact_mut(self.columns).take(self.keys).enumerate() {
            row[..self.blind(key)].fill(value);
        }
    }
}

/// Calls a function for each task, largest number first, with memory that each thread has for
/// itself.
pub fn for_tasks<S>(
    pool: &ThreadPool,
    tasks: usize,
    memory: impl Fn() -> S + Sync,
    task: impl Fn(usize, &mut S) + Sync,
) {
    let taken = AtomicUsize::new(0);
    pool.run(pool.threads().min(tasks), |_| {
        let mut memory = memory();
        loop {
            let index = taken.fetch_add(1, Ordering::Relaxed);
            if index >= tasks {
                return;
            }
            task(tasks - 1 - index, &mut memory);
        }
    });
}
