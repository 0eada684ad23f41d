//! Products of matrices, vectors and batches of them.

use polaris_core::{DType, Error as CoreError};
use polaris_ops::copy;
use polaris_ops::matmul::{Bias, Epilogue, MatMul, matmul};

use crate::{Result, Tensor};

impl Tensor {
    /// The product of two matrices; of batches of them, which broadcast; of a vector and a matrix,
    /// where the vector counts as a row on the left and as a column on the right.
    ///
    /// # Errors
    /// If shapes, types or devices do not fit.
    pub fn matmul(&self, other: &Self) -> Result<Self> {
        let (lhs, rhs) = (*self.shape(), *other.shape());
        if self.rank() == 0 || other.rank() == 0 {
            let hint = "give each at least one axis";
            return Err(CoreError::ShapeMismatch { op: "matmul", lhs, rhs, hint }.into());
        }
        let a = if self.rank() == 1 { self.unsqueeze(0)? } else { self.clone() };
        let b = if other.rank() == 1 { other.unsqueeze(1)? } else { other.clone() };
        let result = Self::new(matmul(a.array(), b.array())?);
        let mut result = Self::record("matmul", result, &[&a, &b], |_| {
            let (a, b) = (a.save("matmul"), b.save("matmul"));
            move |gradient: &Self, needed: &[bool]| {
                let (a, b) = (a.get()?, b.get()?);
                let of_a = || gradient.matmul(&b.turned()?)?.sum_to(a.shape());
                // Of a factor in half precision the gradient is, too.
                let of_b = || a.turned()?.matmul(gradient)?.sum_to(b.shape())?.to_dtype(b.dtype());
                Ok(vec![needed[0].then(of_a).transpose()?, needed[1].then(of_b).transpose()?])
            }
        });
        if other.rank() == 1 {
            result = result.squeeze(result.rank() - 1)?;
        }
        if self.rank() == 1 {
            let axis = result.rank() - if other.rank() == 1 { 1 } else { 2 };
            result = result.squeeze(axis)?;
        }
        Ok(result)
    }

    /// A linear layer: `x weight^T + bias`, with a weight of shape `[outputs, inputs]` and the bias
    /// added while the product is still in registers.
    ///
    /// # Errors
    /// If shapes, types or devices do not fit.
    pub fn linear(&self, weight: &Self, bias: Option<&Self>) -> Result<Self> {
        let (lhs, rhs) = (*self.shape(), *weight.shape());
        let ([.., inputs], [outputs, _]) = (self.dims(), weight.dims()) else {
            let hint = "the weight must be [outputs, inputs], and the input end with `inputs`";
            return Err(CoreError::ShapeMismatch { op: "linear", lhs, rhs, hint }.into());
        };
        let mut dims = self.dims().to_vec();
        let last = dims.len() - 1;
        dims[last] = *outputs;
        let rows = dims[..last].iter().product();
        let x = self.reshape(&[rows, *inputs])?;
        let turned = weight.array().permute(&[1, 0])?;
        let product = MatMul {
            epilogue: Epilogue { bias: bias.map(|_| Bias::PerColumn), ..Epilogue::default() },
            ..MatMul::default()
        };
        // Products of halves are summed in single precision, and so is their bias.
        let wide = |bias: &Self| match bias.dtype() {
            DType::F16 | DType::BF16 => copy::cast(bias.array(), DType::F32),
            _ => Ok(bias.array().clone()),
        };
        let wide_bias = bias.map(wide).transpose()?;
        let mut arrays = vec![x.array(), &turned];
        arrays.extend(&wide_bias);
        let result = Self::new(product.apply(&arrays, self.dtype())?);
        let inputs: Vec<&Self> = [Some(&x), Some(weight), bias].into_iter().flatten().collect();
        let result = Self::record("linear", result, &inputs, |result| {
            let weight_dtype = weight.dtype();
            let (x, weight) = (x.save("linear"), weight.save("linear"));
            let bias_dtype = bias.map_or(result.dtype(), Self::dtype);
            move |gradient: &Self, needed: &[bool]| {
                let of_x = || gradient.matmul(&weight.get()?);
                let of_weight = || gradient.turned()?.matmul(&x.get()?)?.to_dtype(weight_dtype);
                let of_bias = || gradient.sum_axes(&[0], false)?.to_dtype(bias_dtype);
                let mut gradients =
                    vec![needed[0].then(of_x).transpose()?, needed[1].then(of_weight).transpose()?];
                if let Some(&needed) = needed.get(2) {
                    gradients.push(needed.then(of_bias).transpose()?);
                }
                Ok(gradients)
            }
        });
        result.reshape(&dims)
    }

    /// The last two axes in each other's place.
    fn turned(&self) -> Result<Self> {
        self.transpose(self.rank() - 2, self.rank() - 1)
    }
}
