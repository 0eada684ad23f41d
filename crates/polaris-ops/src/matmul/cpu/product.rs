//! One matmul on the CPU as plain data: operands, strides and epilogue.

use polaris_core::DType;

use crate::cpu::blocks::Row;
use crate::cpu::map::SendPointer;
use crate::matmul::problem::Activation;

/// A matrix in memory. Strides are in elements.
#[derive(Clone, Copy)]
pub(crate) struct Plane {
    pub start: SendPointer,
    pub dtype: DType,
    pub row_stride: usize,
    pub column_stride: usize,
}

impl Plane {
    pub fn at(&self, row: usize, column: usize) -> *mut u8 {
        let element = row * self.row_stride + column * self.column_stride;
        self.start.get().wrapping_add(element * self.dtype.size())
    }

    /// A row from a column on.
    pub fn row(&self, row: usize, column: usize) -> Row {
        Row { start: self.at(row, column), dtype: self.dtype, stride: self.column_stride }
    }

    pub fn transposed(self) -> Self {
        Self { row_stride: self.column_stride, column_stride: self.row_stride, ..self }
    }

    /// The same matrix some elements further on.
    pub fn moved(self, elements: usize) -> Self {
        let start = self.start.get().wrapping_add(elements * self.dtype.size());
        Self { start: SendPointer(start), ..self }
    }
}

/// The epilogue.
#[derive(Clone, Copy)]
pub(crate) struct Finish {
    pub alpha: f64,
    pub beta: f64,
    pub c: Option<Plane>,
    pub row_scales: Option<Row>,
    pub column_scales: Option<Row>,
    pub row_bias: Option<Row>,
    pub column_bias: Option<Row>,
    pub activation: Activation,
    pub scale: f64,
    pub residual: Option<Plane>,
}

/// One product of matrices: `m` by `k` times `k` by `n`.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Plane,
    pub b: Plane,
    pub out: Plane,
    pub finish: Finish,
    /// Whether C or the residual are the output's own elements.
    pub in_place: bool,
}

// SAFETY: the vectors' pointers are read only, by any thread, while the operation runs; planes
// are `Send` and `Sync` themselves.
unsafe impl Send for Product {}
// SAFETY: as above.
unsafe impl Sync for Product {}

impl Product {
    /// The same product the other way round: the transposed result is B transposed times A
    /// transposed.
    pub fn transposed(self) -> Self {
        let finish = self.finish;
        Self {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            out: self.out.transposed(),
            finish: Finish {
                c: finish.c.map(Plane::transposed),
                residual: finish.residual.map(Plane::transposed),
                row_scales: finish.column_scales,
                column_scales: finish.row_scales,
                row_bias: finish.column_bias,
                column_bias: finish.row_bias,
                ..finish
            },
            ..self
        }
    }

    /// The stored result is the plain sum.
    pub fn is_plain(&self) -> bool {
        let finish = &self.finish;
        let vectors =
            [finish.row_scales, finish.column_scales, finish.row_bias, finish.column_bias];
        finish.alpha == 1.0
            && finish.c.is_none()
            && finish.residual.is_none()
            && vectors.iter().all(Option::is_none)
            && finish.activation == Activation::Identity
            && finish.scale == 1.0
    }
}
