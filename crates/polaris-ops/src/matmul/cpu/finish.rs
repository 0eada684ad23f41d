//! The epilogue of a tile: scales, C, bias, activation, residual, and the store, in one pass over the accumulators.

use polaris_core::DType;
use polaris_runtime::cpu::SimdLevel;

use super::kernel::MAX_COLUMNS;
use super::product::{Plane, Product};
use crate::cpu::blocks::Row;
use crate::cpu::math::Real;
use crate::cpu::simd::multiversion;
use crate::elementwise::cpu_functions::{
    Apply, Clamp, GeluErf, GeluTanh, Relu, Same, Sigmoid, Silu, Tanh,
};
use crate::matmul::problem::Activation;

/// The most rows of a tile.
const MAX_ROWS: usize = 16;
/// Elements that are finished at a time: a tile's row, so that the chains of long functions overlap.
const CHUNK: usize = MAX_COLUMNS;
/// Elements at a time at the end of a row.
const HALF: usize = CHUNK / 2;
/// From one row of a tile to the next.
pub(crate) const TILE_STRIDE: usize = MAX_COLUMNS;

/// What products are summed in.
pub(crate) trait Sum: Copy + Default + Send + Sync + 'static {
    /// What the rest is computed in.
    type Real: Real;
    const DTYPE: DType;

    fn real(self) -> Self::Real;
    /// The nearest number.
    fn of(value: f64) -> Self;
}

impl Sum for f32 {
    type Real = f32;
    const DTYPE: DType = DType::F32;

    #[inline(always)]
    fn real(self) -> f32 {
        self
    }

    fn of(value: f64) -> Self {
        value as f32
    }
}

impl Sum for f64 {
    type Real = f64;
    const DTYPE: DType = DType::F64;

    #[inline(always)]
    fn real(self) -> f64 {
        self
    }

    fn of(value: f64) -> Self {
        value
    }
}

impl Sum for i32 {
    type Real = f32;
    const DTYPE: DType = DType::I32;

    #[inline(always)]
    fn real(self) -> f32 {
        self as f32
    }

    fn of(value: f64) -> Self {
        value as i32
    }
}

/// The position of a tile in the result.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub row: usize,
    pub rows: usize,
    pub column: usize,
    pub columns: usize,
}

/// Finishes and stores a tile, whose rows are `TILE_STRIDE` apart. Columns beyond the place's may
/// hold anything.
///
/// # Safety
/// The product's memory must be registered, and the tile's place be this thread's alone.
pub(crate) unsafe fn store<S: Sum>(level: SimdLevel, product: &Product, sums: &[S], place: Place) {
    let finish = match product.finish.activation {
        Activation::Identity => finish_tile::<S, Same>,
        Activation::Relu => finish_tile::<S, Relu>,
        Activation::GeluErf => finish_tile::<S, GeluErf>,
        Activation::GeluTanh => finish_tile::<S, GeluTanh>,
        Activation::Silu => finish_tile::<S, Silu>,
        Activation::Sigmoid => finish_tile::<S, Sigmoid>,
        Activation::Tanh => finish_tile::<S, Tanh>,
        Activation::Clamp { .. } => finish_tile::<S, Clamp>,
    };
    finish(level, product, sums, place);
}

/// Which functions can be activations in the epilogue.
trait Activate<S: Sum>: Apply<S::Real> {}

impl<S: Sum, F: Apply<S::Real>> Activate<S> for F {}

multiversion! {
    /// Must only be called by `store`, whose caller vouches for the memory.
    fn finish_tile<S: Sum, F: Activate<S>>(product: &Product, sums: &[S], place: Place) {
        // Whole rows of a tile, so that the chains of long functions overlap; then what is left.
        let mut first = 0;
        while first < place.columns {
            let rest = place.columns - first;
            if rest >= CHUNK {
                finish_columns::<S, F, CHUNK>(product, sums, place, first, CHUNK);
                first += CHUNK;
            } else {
                finish_columns::<S, F, HALF>(product, sums, place, first, rest.min(HALF));
                first += HALF;
            }
        }
    }
}

/// Finishes `count` columns, at most `N`, of a tile.
#[inline(always)]
fn finish_columns<S: Sum, F: Activate<S>, const N: usize>(
    product: &Product,
    sums: &[S],
    place: Place,
    first: usize,
    count: usize,
) {
    let finish = &product.finish;
    let of = |value: f64| <S::Real as Real>::of(value);
    let (low, high) = match finish.activation {
        Activation::Clamp { low, high } => (of(low), of(high)),
        _ => (of(0.0), of(0.0)),
    };
    let has_factors =
        finish.alpha != 1.0 || finish.row_scales.is_some() || finish.column_scales.is_some();
    let (alpha, beta, scale) = (of(finish.alpha), of(finish.beta), of(finish.scale));
    let row_scales: [S::Real; MAX_ROWS] =
        vector(&finish.row_scales, place.row, place.rows, of(1.0));
    let row_bias: [S::Real; MAX_ROWS] = vector(&finish.row_bias, place.row, place.rows, of(0.0));
    let column = place.column + first;
    let scales: [S::Real; N] = vector(&finish.column_scales, column, count, of(1.0));
    let bias: [S::Real; N] = vector(&finish.column_bias, column, count, of(0.0));
    for row in 0..place.rows {
        let sums = &sums[row * TILE_STRIDE + first..][..N];
        let mut x: [S::Real; N] = std::array::from_fn(|i| sums[i].real());
        if has_factors {
            let factor = alpha * row_scales[row];
            x = std::array::from_fn(|i| x[i] * factor * scales[i]);
        }
        if let Some(c) = &finish.c {
            let c = chunk::<S::Real, N>(c, place.row + row, column, count);
            x = std::array::from_fn(|i| x[i] + c[i] * beta);
        }
        let offset = row_bias[row];
        x = std::array::from_fn(|i| x[i] + (offset + bias[i]));
        // A loop, which becomes vectors also where the function is long.
        for x in &mut x {
            *x = F::apply(*x, low, high);
        }
        if finish.scale != 1.0 {
            x = std::array::from_fn(|i| x[i] * scale);
        }
        if let Some(residual) = &finish.residual {
            let residual = chunk::<S::Real, N>(residual, place.row + row, column, count);
            x = std::array::from_fn(|i| x[i] + residual[i]);
        }
        write(&product.out, place.row + row, column, count, &x);
    }
}

/// Elements of a vector from `first` on, and `otherwise` where there are none.
#[inline(always)]
fn vector<R: Real, const N: usize>(
    vector: &Option<Row>,
    first: usize,
    count: usize,
    otherwise: R,
) -> [R; N] {
    let mut values = [otherwise; N];
    if let Some(row) = vector {
        let mut scratch = [otherwise; N];
        // SAFETY: the vector is as long as the result has rows or columns, and is registered as
        // read.
        let loaded = unsafe { row.load(first, count, &mut scratch) };
        values[..count].copy_from_slice(loaded);
    }
    values
}

/// A chunk of a row of C or of the residual.
#[inline(always)]
fn chunk<R: Real, const N: usize>(
    matrix: &Plane,
    row: usize,
    column: usize,
    count: usize,
) -> [R; N] {
    let row = matrix.row(row, column);
    let mut values = [R::default(); N];
    // SAFETY: the matrix has the result's shape, and is registered as read; or its elements are
    // the output's own, which only this thread touches.
    unsafe {
        if count == N && row.is_direct::<R>() {
            return row.start.cast::<[R; N]>().read_unaligned();
        }
        let mut scratch = [R::default(); N];
        values[..count].copy_from_slice(row.load(0, count, &mut scratch));
    }
    values
}

/// Stores a chunk of a row.
#[inline(always)]
fn write<R: Real, const N: usize>(
    out: &Plane,
    row: usize,
    column: usize,
    count: usize,
    values: &[R; N],
) {
    let row = out.row(row, column);
    // SAFETY: the place lies inside the output, is registered as written, and is this thread's
    // alone.
    unsafe {
        if count == N && row.is_direct::<R>() {
            row.start.cast::<[R; N]>().write_unaligned(*values);
        } else {
            row.store(0, &values[..count]);
        }
    }
}
