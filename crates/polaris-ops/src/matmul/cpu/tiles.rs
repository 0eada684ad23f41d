//! Matmuls of tiles in the caches, one after another on the calling thread, for small matmuls and for operations that
//! consist of many. Nothing is planned or packed.

use polaris_core::{DType, bf16, f16};
use polaris_runtime::cpu::SimdLevel;

use super::kernel::{Call, Ending, Kernels, f32_kernels, f64_kernels};
use super::pack::{Packer, Strip, pack};
use super::plan::even;
use super::stored::Native;
use crate::cpu::math::Real;

/// `to = from + A B`, of `m` by `k` times `k` by `n`. Strides are in elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TileProduct<P, S = P> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: *const P,
    /// The stride of k if rows are adjacent, of rows if k is.
    pub a_stride: usize,
    pub a_rows_are_adjacent: bool,
    /// Columns are adjacent, and there are whole vectors of them.
    pub b: *const P,
    pub b_stride: usize,
    /// Zero if null; it may be `to`.
    pub from: *const S,
    pub to: *mut S,
    /// The stride of the rows of `from` and `to`, whose columns are adjacent.
    pub to_stride: usize,
}

impl<P, S> TileProduct<P, S> {
    /// The part from a row and a column on.
    fn call(&self, row: usize, column: usize, columns: usize) -> Call<P, S> {
        let at = row * self.to_stride + column;
        let a_at = if self.a_rows_are_adjacent { row } else { row * self.a_stride };
        Call {
            a: self.a.wrapping_add(a_at),
            a_stride: self.a_stride,
            b: self.b.wrapping_add(column),
            b_stride: self.b_stride,
            steps: self.k,
            pieces: 1,
            a_jump: 0,
            from: if self.from.is_null() { self.from } else { self.from.wrapping_add(at) },
            from_stride: self.to_stride,
            to: self.to.wrapping_add(at),
            to_stride: self.to_stride,
            columns,
            ending: Ending::PLAIN,
        }
    }
}

/// Computes a product.
///
/// # Safety
/// The pointers must be valid for what the product describes.
pub(super) unsafe fn multiply<P, S>(kernels: &Kernels<P, S>, product: &TileProduct<P, S>) {
    let TileProduct { m, n, a_rows_are_adjacent, .. } = *product;
    let (wide, wide_columns) = (kernels.wide(), 4 * kernels.lanes);
    let mut column = 0;
    while column < n {
        let rest = n - column;
        let is_wide = !a_rows_are_adjacent && !wide.is_empty() && rest >= wide_columns;
        let columns = if is_wide { wide_columns } else { kernels.columns().min(rest) };
        let most = if is_wide { wide.len() } else { kernels.rows(!a_rows_are_adjacent) };
        let step = even(m, most);
        let mut row = 0;
        while row < m {
            let rows = step.min(m - row);
            let kernel = match (a_rows_are_adjacent, is_wide) {
                (true, _) => kernels.for_adjacent_rows(rows, columns),
                (false, true) => wide[rows - 1],
                (false, false) => kernels.for_adjacent_steps(rows, columns, true),
            };
            // SAFETY: the tile lies inside the matrices, by the caller's word.
            unsafe { kernel(&product.call(row, column, columns)) };
            row += rows;
        }
        column += columns;
    }
}

/// A type whose tiles can be multiplied, and packed from every type that is computed in it.
pub(crate) trait TileNumber: Real {
    #[doc(hidden)]
    fn tiles(level: SimdLevel) -> Tiles<Self>;

    #[doc(hidden)]
    fn packer(stored: DType) -> Packer<Self>;
}

impl TileNumber for f32 {
    fn tiles(level: SimdLevel) -> Tiles<Self> {
        Tiles { level, kernels: f32_kernels(level) }
    }

    fn packer(stored: DType) -> Packer<Self> {
        match stored {
            DType::F16 => pack::<f16>,
            DType::BF16 => pack::<bf16>,
            _ => pack::<Native<f32>>,
        }
    }
}

impl TileNumber for f64 {
    fn tiles(level: SimdLevel) -> Tiles<Self> {
        Tiles { level, kernels: f64_kernels(level) }
    }

    fn packer(_: DType) -> Packer<Self> {
        pack::<Native<f64>>
    }
}

/// The arithmetic of one type and instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Tiles<T: 'static> {
    pub level: SimdLevel,
    kernels: &'static Kernels<T, T>,
}

impl<T: TileNumber> Tiles<T> {
    /// Columns of a tile: products of as many are no slower by themselves than together.
    pub fn columns(&self) -> usize {
        self.kernels.columns()
    }

    /// Computes a product.
    ///
    /// # Safety
    /// The pointers must be valid for what the product describes.
    pub unsafe fn multiply(&self, product: &TileProduct<T>) {
        // SAFETY: by the caller's word.
        unsafe { multiply(self.kernels, product) }
    }

    /// Copies a strip of a type that is computed in this one: `width` elements for each step, of
    /// which those beyond the strip's lanes are zero.
    ///
    /// # Safety
    /// The strip must be readable, and the target writable for as many rows as the strip is deep.
    pub unsafe fn pack(&self, stored: DType, strip: &Strip, width: usize, target: *mut T) {
        // SAFETY: by the caller's word.
        unsafe { T::packer(stored)(self.level, strip, width, target) }
    }
}
