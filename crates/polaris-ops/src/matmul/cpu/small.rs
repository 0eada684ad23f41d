//! Products so small that planning them would take as long as computing them: one thread walks
//! over the tiles, and every operand is read where it lies.

use super::finish::Sum;
use super::kernel::{Call, Kernels};
use super::multiply::{SMALL, SMALL_MATRIX};
use super::panels::Arithmetic;
use super::plan::{MOST_STEPS, even};
use super::product::Product;

/// Whether a product is computed here: nothing follows it, vectors of B and of the result are
/// whole, and k is one block, as it would be elsewhere, so that sums are the same.
pub(super) fn is_small<P, S: Sum>(arithmetic: &Arithmetic<P, S>, product: &Product) -> bool {
    let Product { m, n, k, a, b, out, .. } = product;
    let lanes = arithmetic.kernels.lanes;
    arithmetic.in_place
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
    let Product { m, n, a, .. } = product;
    let rows_are_adjacent = a.row_stride == 1;
    let (wide, wide_columns) = (kernels.wide(), 4 * kernels.lanes);
    let mut column = 0;
    while column < *n {
        let rest = n - column;
        let is_wide = !rows_are_adjacent && !wide.is_empty() && rest >= wide_columns;
        let columns = if is_wide { wide_columns } else { kernels.columns().min(rest) };
        let most = if is_wide { wide.len() } else { kernels.rows(!rows_are_adjacent) };
        let step = even(*m, most);
        let mut row = 0;
        while row < *m {
            let rows = step.min(m - row);
            let kernel = match (rows_are_adjacent, is_wide) {
                (true, _) => kernels.for_adjacent_rows(rows, columns),
                (false, true) => wide[rows - 1],
                (false, false) => kernels.for_adjacent_steps(rows, columns, true),
            };
            // SAFETY: the tile lies inside the matrices, whose vectors are whole.
            unsafe { kernel(&call(product, row, column, columns)) };
            row += rows;
        }
        column += columns;
    }
}

fn call<P, S>(product: &Product, row: usize, column: usize, columns: usize) -> Call<P, S> {
    let Product { a, b, out, k, .. } = product;
    Call {
        a: a.at(row, 0).cast_const().cast(),
        a_stride: if a.row_stride == 1 { a.column_stride } else { a.row_stride },
        b: b.at(0, column).cast_const().cast(),
        b_stride: b.row_stride,
        steps: *k,
        from: std::ptr::null(),
        from_stride: 0,
        to: out.at(row, column).cast(),
        to_stride: out.row_stride,
        columns,
    }
}
