//! Matmuls of few rows with columns that are dense along k.

use polaris_runtime::cpu::{SimdLevel, ThreadPool};

use super::dot::{COLUMNS, DotCall, Dots, ROWS};
use super::finish::{Place, Sum, TILE_STRIDE, store};
use super::pack::{Packer, Strip};
use super::plan::even;
use super::product::Product;

/// The most rows for which B is not worth packing.
const MOST_ROWS: usize = 16;
/// Elements of B that are worth a task.
const TASK: usize = 1 << 16;
/// Tasks for each thread, so that one that was held up is not waited for long.
const TASKS_PER_THREAD: usize = 4;

/// What few rows are multiplied with: A and accumulators have one type, B that of the kernels.
#[derive(Clone, Copy)]
pub(super) struct FewRows<S: 'static> {
    pub dots: &'static Dots<S>,
    pub pack: Packer<S>,
}

/// A product of few rows, and what its tasks share.
pub(super) struct Skinny<'a, S: Sum> {
    pub product: &'a Product,
    pub kernels: FewRows<S>,
    pub level: SimdLevel,
    /// The rows of A, dense along k, where they are not so themselves.
    pub rows: *mut S,
}

// SAFETY: `rows` is written before the tasks begin, and read by them.
unsafe impl<S: Sum> Sync for Skinny<'_, S> {}

/// Whether a product is computed here.
pub(super) fn is_skinny(product: &Product) -> bool {
    product.m <= MOST_ROWS && product.b.row_stride == 1 && product.k > 1
}

/// Elements for the rows of A.
pub(super) fn row_elements(product: &Product) -> usize {
    if product.a.column_stride == 1 { 0 } else { product.m * product.k }
}

impl<S: Sum> Skinny<'_, S> {
    /// # Safety
    /// The product's memory must be registered, A be of type `S` and B of the kernels', and `rows` have room.
    pub unsafe fn run(&self, pool: Option<&ThreadPool>) {
        let product = self.product;
        if product.a.column_stride != 1 {
            for row in 0..product.m {
                let strip = Strip {
                    start: product.a.at(row, 0),
                    lanes: 1,
                    lane_stride: 1,
                    depth: product.k,
                    depth_stride: product.a.column_stride,
                };
                // SAFETY: by the caller's word.
                unsafe {
                    (self.kernels.pack)(self.level, &strip, 1, self.rows.add(row * product.k))
                };
            }
        }
        let groups = product.n.div_ceil(COLUMNS);
        let Some(pool) = pool else {
            // SAFETY: by the caller's word.
            return unsafe { self.columns(0..product.n) };
        };
        let tasks = (product.n * product.k / TASK).clamp(1, pool.threads() * TASKS_PER_THREAD);
        let columns = groups.div_ceil(tasks) * COLUMNS;
        pool.run(product.n.div_ceil(columns), |task| {
            // SAFETY: by the caller's word; tasks have disjoint columns.
            unsafe { self.columns(task * columns..product.n.min((task + 1) * columns)) };
        });
    }

    /// # Safety
    /// As for `run`; the columns must be this thread's alone.
    pub unsafe fn columns(&self, columns: std::ops::Range<usize>) {
        let product = self.product;
        let out = &product.out;
        let direct = product.is_plain() && out.dtype == S::DTYPE;
        let tile_rows = even(product.m, ROWS);
        let (a, a_stride) = match product.a.column_stride {
            1 => (product.a.at(0, 0).cast::<S>(), product.a.row_stride),
            _ => (self.rows, product.k),
        };
        for column in columns.clone().step_by(TILE_STRIDE) {
            let width = TILE_STRIDE.min(columns.end - column);
            let mut tile = [S::default(); TILE_STRIDE * MOST_ROWS];
            // A few columns stay in the L1 cache for all rows.
            for first in (0..width).step_by(COLUMNS) {
                for row in (0..product.m).step_by(tile_rows) {
                    let count = COLUMNS.min(width - first);
                    let call = DotCall {
                        a: a.wrapping_add(row * a_stride),
                        a_stride,
                        b: product.b.at(0, column + first),
                        b_stride: product.b.column_stride,
                        columns: count,
                        k: product.k,
                        to: tile[row * TILE_STRIDE + first..].as_mut_ptr(),
                    };
                    let rows = tile_rows.min(product.m - row);
                    let kernel = self.kernels.dots[rows - 1][count - 1];
                    // SAFETY: by the caller's word; the tile has room for all rows.
                    unsafe { kernel(&call) };
                }
            }
            // SAFETY: by the caller's word.
            unsafe {
                if direct {
                    for (i, sums) in tile.chunks_exact(TILE_STRIDE).take(product.m).enumerate() {
                        for (j, &sum) in sums[..width].iter().enumerate() {
                            *out.at(i, column + j).cast::<S>() = sum;
                        }
                    }
                } else {
                    let place = Place { row: 0, rows: product.m, column, columns: width };
                    store(self.level, product, &tile, place);
                }
            }
        }
    }
}
