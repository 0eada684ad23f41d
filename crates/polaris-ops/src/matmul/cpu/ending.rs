//! Epilogues that kernels apply in registers: an addition or two and limits, for a result with the layout of the
//! accumulators.

use super::finish::Sum;
use super::kernel::Ending;
use super::product::{Finish, Plane, Product};

/// What kernels do besides the product.
#[derive(Clone, Copy)]
pub(crate) struct Direct<S> {
    /// Initial accumulators of each column, or null.
    bias: *const S,
    /// The addend of the accumulators.
    plus: Option<Plane>,
    limits: Option<[S; 2]>,
}

impl<S: Sum> Direct<S> {
    /// How kernels finish this product, if they can.
    pub fn new(product: &Product) -> Option<Self> {
        let Finish { alpha, beta, c, row_scales, column_scales, row_bias, scale, residual, .. } =
            product.finish;
        let fits = |plane: &Plane| plane.dtype == S::DTYPE && plane.column_stride == 1;
        let others = [row_scales, column_scales, row_bias];
        let limits = product.finish.activation.between()?;
        let limits = Some(limits).filter(|limits| limits.iter().any(|limit| limit.is_finite()));
        let plus = match (c, residual) {
            (Some(c), None) if beta == 1.0 => Some(c),
            (None, Some(residual)) if limits.is_none() => Some(residual),
            (None, None) => None,
            _ => return None,
        };
        let bias = match product.finish.column_bias {
            Some(bias) if bias.dtype == S::DTYPE && bias.stride == 1 => bias.start.cast_const(),
            Some(_) => return None,
            None => std::ptr::null(),
        };
        let is_simple = alpha == 1.0 && scale == 1.0 && others.iter().all(Option::is_none);
        (is_simple && fits(&product.out) && plus.iter().all(fits)).then(|| Self {
            bias: bias.cast(),
            plus,
            limits: limits.map(|limits| limits.map(S::of)),
        })
    }

    /// Initial accumulators from a column of the result on, or null.
    pub fn bias(&self, column: usize) -> *const S {
        if self.bias.is_null() { self.bias } else { self.bias.wrapping_add(column) }
    }

    /// The ending of a tile that begins at this row and column of the result.
    pub fn ending(&self, row: usize, column: usize) -> Ending<S> {
        Ending {
            plus: self.plus.map_or(std::ptr::null(), |plus| plus.at(row, column).cast()),
            plus_stride: self.plus.map_or(0, |plus| plus.row_stride),
            limits: self.limits,
            ..Ending::PLAIN
        }
    }
}
