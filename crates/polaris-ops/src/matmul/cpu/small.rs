//! Matmuls so small that planning would take as long as computing: one thread walks over the tiles, and
//! every operand is read in place.

use super::finish::Sum;
use super::kernel::Kernels;
use super::multiply::{SMALL, SMALL_MATRIX};
use super::panels::Arithmetic;
use super::plan::MOST_STEPS;
use super::product::Product;
use super::tiles::{TileProduct, multiply};

/// Whether a product is computed here: nothing follows it, vectors of B and of the result are
/// whole, and k is one block, as it would be elsewhere, so that accumulators are the same.
pub(super) fn is_small<P, S: Sum>(arithmetic: &Arithmetic<P, S>, product: &Product) -> bool {
    let Product { m, n, k, a, b, out, .. } = product;
    let lanes = arithmetic.kernels.lanes;
    arithmetic.left_in_place
        && arithmetic.right_in_place
        && *k <= MOST_STEPS
        && m * k <= SMALL_MATRIX
        && n * k <= SMALL_MATRIX
        && m * n * k <= SMALL
        && n & (lanes - 1) == 0
        && (a.row_stride == 1 || a.column_stride == 1)
        && b.column_stride == 1
        && out.column_stride == 1
        && out.dtype == S::DTYPE
        && product.is_plain()
}

/// Computes a small product.
///
/// # Safety
/// The product's memory must be registered, and the product be small.
pub(super) unsafe fn run<P, S>(kernels: &Kernels<P, S>, product: &Product) {
    let Product { m, n, k, a, b, out, .. } = product;
    let a_rows_are_adjacent = a.row_stride == 1;
    let tiles = TileProduct {
        m: *m,
        n: *n,
        k: *k,
        a: a.at(0, 0).cast_const().cast(),
        a_stride: if a_rows_are_adjacent { a.column_stride } else { a.row_stride },
        a_rows_are_adjacent,
        b: b.at(0, 0).cast_const().cast(),
        b_stride: b.row_stride,
        from: std::ptr::null(),
        to: out.at(0, 0).cast(),
        to_stride: out.row_stride,
    };
    // SAFETY: by the caller's word; vectors of B and of the result are whole.
    unsafe { multiply(kernels, &tiles) }
}
