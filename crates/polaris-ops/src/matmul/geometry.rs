//! The sizes and strides of a matmul, in as few matrices as possible.

use polaris_core::{Collapsed, Error as CoreError, Layout, MAX_RANK, Shape};

use super::problem::{Bias, MatMul, Parts, allows, vector_dtype};
use crate::operation::{alias_is_harmless, writes_each_element_once};
use crate::{Array, Error, Result};

const OP: &str = "matmul";

/// The layout of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Matrix {
    /// From one row to the next.
    pub rows: usize,
    /// From one column to the next.
    pub columns: usize,
}

impl Matrix {
    /// Of an array that is not there.
    const NONE: Self = Self { rows: 0, columns: 0 };

    /// The strides of the last two axes.
    fn of(layout: &Layout) -> Self {
        let strides = layout.strides();
        Self { rows: strides[strides.len() - 2], columns: strides[strides.len() - 1] }
    }
}

/// Operands of [`Geometry::batches`].
pub(crate) const OUT: usize = 0;
pub(crate) const A: usize = 1;
pub(crate) const B: usize = 2;
pub(crate) const C: usize = 3;
pub(crate) const RESIDUAL: usize = 4;

/// A batch of products of `m` by `k` with `k` by `n` matrices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Matrix,
    pub b: Matrix,
    pub out: Matrix,
    /// Zero strides where there is no C.
    pub c: Matrix,
    /// Zero strides where there is no residual.
    pub residual: Matrix,
    /// Where the matrices of each product begin: output, A, B, C and residual. The offsets of
    /// absent arrays mean nothing.
    pub batches: Collapsed<5>,
}

impl Geometry {
    /// Checks that the arrays fit together, and describes them.
    pub fn new(op: &MatMul, parts: &Parts, output: &Array) -> Result<Self> {
        let (a, b) = (parts.a.layout(), parts.b.layout());
        for array in [parts.a, parts.b] {
            if array.shape().rank() < 2 {
                let what = format!("{} is not a matrix; give it at least two axes", array.shape());
                return Err(Error::InvalidParameter { op: OP, what });
            }
        }
        let [m, k] = last_two(a.shape());
        let [inner, n] = last_two(b.shape());
        let mismatch = || CoreError::no_product(OP, *a.shape(), *b.shape()).into();
        if k != inner {
            return Err(mismatch());
        }
        // A single product is by far the most frequent one, and small ones take microseconds.
        let is_single = a.shape().rank() == 2 && b.shape().rank() == 2;
        let (batch, expected) = if is_single {
            (Shape::SCALAR, Shape::new(&[m, n])?)
        } else {
            let batch = Shape::broadcast(OP, &batch_shape(a)?, &batch_shape(b)?)?;
            let dims: Vec<usize> = batch.iter().copied().chain([m, n]).collect();
            (batch, Shape::new(&dims)?)
        };
        if *output.shape() != expected {
            let (lhs, rhs) = (*output.shape(), expected);
            return Err(CoreError::unequal_shapes(OP, lhs, rhs).into());
        }
        check_dtypes(op, parts, output)?;
        check_vectors(op, parts, m, n)?;
        let like_output = |array: Option<&Array>| {
            array.map(|array| array.layout().broadcast_to(OP, &expected)).transpose()
        };
        let (c, residual) = (like_output(parts.c)?, like_output(parts.residual)?);
        let matrix_of = |layout: &Option<Layout>| layout.as_ref().map_or(Matrix::NONE, Matrix::of);
        let batches = if is_single {
            let offset = |layout: &Option<Layout>| layout.as_ref().map_or(0, Layout::offset);
            let starts = [output.layout(), a, b].map(Layout::offset);
            Collapsed::single([starts[0], starts[1], starts[2], offset(&c), offset(&residual)])
        } else {
            let optional = |layout: &Option<Layout>| match layout {
                Some(layout) => batch_layout(layout),
                None => Ok(Layout::new(batch, &[0; MAX_RANK][..batch.rank()], 0)?),
            };
            let starts = [
                batch_layout(output.layout())?,
                batch_layout(a)?.broadcast_to(OP, &batch)?,
                batch_layout(b)?.broadcast_to(OP, &batch)?,
                optional(&c)?,
                optional(&residual)?,
            ];
            Collapsed::new(&batch, starts.each_ref())
        };
        let geometry = Self {
            m,
            n,
            k,
            a: Matrix::of(a),
            b: Matrix::of(b),
            out: Matrix::of(output.layout()),
            c: matrix_of(&c),
            residual: matrix_of(&residual),
            batches,
        };
        check_aliasing(parts, output)?;
        let rows_differ = parts.row_scales.is_some() || op.epilogue.bias == Some(Bias::PerRow);
        Ok(if rows_differ { geometry } else { geometry.fold_batch_into_rows() })
    }

    /// A batch that shares one B, and whose rows follow one another, is one taller product.
    fn fold_batch_into_rows(self) -> Self {
        let (count, strides) = self.batches.inner();
        let follows = |matrix: Matrix, stride: usize| stride == self.m * matrix.rows;
        let foldable = self.batches.rank() == 1
            && strides[B] == 0
            && follows(self.a, strides[A])
            && follows(self.out, strides[OUT])
            && follows(self.c, strides[C])
            && follows(self.residual, strides[RESIDUAL]);
        if !foldable {
            return self;
        }
        Self { m: self.m * count, batches: Collapsed::single(self.batches.offsets), ..self }
    }
}

fn last_two(shape: &Shape) -> [usize; 2] {
    let rank = shape.rank();
    [shape[rank - 2], shape[rank - 1]]
}

fn batch_shape(layout: &Layout) -> Result<Shape> {
    let dims = layout.shape().dims();
    Ok(Shape::new(&dims[..dims.len() - 2])?)
}

/// The axes before the last two, from the array's first element on.
fn batch_layout(layout: &Layout) -> Result<Layout> {
    let strides = layout.strides();
    Ok(Layout::new(batch_shape(layout)?, &strides[..strides.len() - 2], layout.offset())?)
}

fn check_dtypes(op: &MatMul, parts: &Parts, output: &Array) -> Result<()> {
    let (a, b, out) = (parts.a.dtype(), parts.b.dtype(), output.dtype());
    if !allows(a, b, out) {
        let what = format!(
            "{a} times {b} into {out} is not defined; there are f32, f64, f16 and bf16 (into \
             themselves or f32), f32 times f16 or bf16 (into f32), and i8 or u8 times i8 (into i32 or f32)"
        );
        return Err(Error::InvalidParameter { op: OP, what });
    }
    let plain = op.alpha == 1.0 && op.beta == 0.0 && op.epilogue.is_empty();
    if out == polaris_core::DType::I32 && !plain {
        let what = "a result in i32 is the plain product; use an f32 result for factors and \
                    epilogues"
            .to_owned();
        return Err(Error::InvalidParameter { op: OP, what });
    }
    for other in [parts.c, parts.residual].into_iter().flatten() {
        if other.dtype() != out {
            return Err(CoreError::DTypeMismatch { op: OP, lhs: other.dtype(), rhs: out }.into());
        }
    }
    for vector in [parts.row_scales, parts.column_scales, parts.bias].into_iter().flatten() {
        let rhs = vector_dtype(a);
        if vector.dtype() != rhs {
            return Err(CoreError::DTypeMismatch { op: OP, lhs: vector.dtype(), rhs }.into());
        }
    }
    Ok(())
}

fn check_vectors(op: &MatMul, parts: &Parts, m: usize, n: usize) -> Result<()> {
    let bias = if op.epilogue.bias == Some(Bias::PerRow) { m } else { n };
    for (vector, length) in [(parts.row_scales, m), (parts.column_scales, n), (parts.bias, bias)] {
        let Some(vector) = vector else { continue };
        if vector.shape().dims() != [length] {
            let (lhs, rhs) = (*vector.shape(), Shape::new(&[length])?);
            return Err(CoreError::unequal_shapes(OP, lhs, rhs).into());
        }
    }
    Ok(())
}

/// Factors and vectors are read all the time; C and the residual only where an element is written.
fn check_aliasing(parts: &Parts, output: &Array) -> Result<()> {
    writes_each_element_once(OP, output)?;
    let Parts { a, b, row_scales, column_scales, bias, .. } = *parts;
    let always = [Some(a), Some(b), row_scales, column_scales, bias].into_iter().flatten();
    let disjoint = |array: &Array| !array.overlaps(output);
    let once = [parts.c, parts.residual];
    if always.into_iter().all(disjoint)
        && once.into_iter().flatten().all(|array| alias_is_harmless(array, output))
    {
        return Ok(());
    }
    Err(Error::AliasedOutput { op: OP })
}
