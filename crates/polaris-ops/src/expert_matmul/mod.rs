//! Matmul with the experts of a mixture: each token is multiplied with the weights of the experts that were
//! chosen for it.

mod cpu;
mod cpu_int8;
mod cpu_lines;
mod opencl;
mod suite;
#[cfg(test)]
mod tests;

pub use opencl::Kernel;
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::format::Format;
use crate::matmul::Precision;
use crate::operation::{Operation, check_apart, run, writes_each_element_once};
use crate::work::elements;
use crate::{Array, ArrayType, Class, Error, Result, Work};

const NAME: &str = "expert_matmul";

/// Matmul with experts. The inputs are:
///
/// - x, `f32` `[tokens, used, k]`, or `[tokens, 1, k]` if all experts of a token are given the same;
/// - the weight, `[experts, n, k]`, `f32`, `f16`, `bf16` or in a block format;
/// - the experts of each token, `i32` `[tokens, used]`;
/// - if there is a bias, `f32` `[experts, n]`.
///
/// The output is `f32` `[tokens, used, n]`. Sums are computed in `f32`. On the CPU an expert that does not exist is an
/// error; OpenCL devices take the nearest that does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpertMatMul {
    /// Whether each expert has a bias.
    pub bias: bool,
    /// How x may be multiplied: `Int8` as in [`MatMul`](crate::MatMul).
    pub precision: Precision,
}

/// Multiplies each token with the weights of its experts, into a new array; see [`ExpertMatMul`].
///
/// # Errors
/// If shapes or types do not fit, an expert does not exist (on the CPU), or there is no room for the result.
pub fn expert_matmul(
    x: &Array,
    weight: &Array,
    ids: &Array,
    bias: Option<&Array>,
) -> Result<Array> {
    let op = ExpertMatMul { bias: bias.is_some(), ..ExpertMatMul::default() };
    let inputs: Vec<&Array> = [x, weight, ids].into_iter().chain(bias).collect();
    let sizes = op.sizes(&inputs)?;
    let shape = Shape::new(&[sizes.tokens, sizes.used, sizes.n])?;
    let output = Array::empty(x.device(), DType::F32, shape)?;
    run(&op, &inputs, &output)?;
    Ok(output)
}

/// The sizes, checked against each other.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    tokens: usize,
    used: usize,
    experts: usize,
    n: usize,
    k: usize,
    /// Whether all experts of a token are given the same.
    shared: bool,
}

impl ExpertMatMul {
    fn sizes(&self, inputs: &[&Array]) -> Result<Sizes> {
        let op = NAME;
        let (expected, found) = (3 + usize::from(self.bias), inputs.len());
        if found != expected {
            return Err(Error::WrongArity { op, expected, found });
        }
        let (x, weight, ids) = (inputs[0], inputs[1], inputs[2]);
        let mistake = |what: String| Err(Error::InvalidParameter { op, what });
        let dims = (x.shape().dims(), weight.shape().dims(), ids.shape().dims());
        let (&[tokens, rows, k], &[experts, n, _], &[_, used]) = dims else {
            return mistake(format!(
                "x of shape {}, a weight of shape {} and ids of shape {} should have 3, 3 and 2 axes",
                x.shape(),
                weight.shape(),
                ids.shape()
            ));
        };
        let has_dims = |array: &Array, expected: &[usize]| -> Result<()> {
            match array.shape().dims() == expected {
                true => Ok(()),
                false => {
                    let expected = Shape::new(expected)?;
                    Err(CoreError::unequal_shapes(op, *array.shape(), expected).into())
                }
            }
        };
        has_dims(ids, &[tokens, used])?;
        has_dims(weight, &[experts, n, k])?;
        if rows != 1 && rows != used {
            return mistake(format!(
                "x has {rows} rows for each token, and {used} experts are used; give 1 or {used}"
            ));
        }
        let bias = inputs.get(3);
        if let Some(bias) = bias {
            has_dims(bias, &[experts, n])?;
        }
        let typed = [(Some(&x), DType::F32), (Some(&ids), DType::I32), (bias, DType::F32)];
        for (array, rhs) in typed {
            if let Some(lhs) = array.map(|array| array.dtype()).filter(|&dtype| dtype != rhs) {
                return Err(CoreError::DTypeMismatch { op, lhs, rhs }.into());
            }
        }
        if !matches!(weight.dtype(), DType::F32 | DType::F16 | DType::BF16) {
            let (dtype, hint) = (weight.dtype(), "weights are f32, f16, bf16 or blocks");
            return Err(CoreError::UnsupportedDType { op, dtype, hint }.into());
        }
        if experts == 0 && tokens * used > 0 {
            return mistake(format!("there is no expert for {tokens} tokens"));
        }
        Ok(Sizes { tokens, used, experts, n, k, shared: rows == 1 })
    }
}

impl Operation for ExpertMatMul {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Blocks, Kernel::Lines, Kernel::Serial];

    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let Sizes { tokens, used, n, .. } = self.sizes(inputs)?;
        let expected = Shape::new(&[tokens, used, n])?;
        if *output.shape() != expected {
            return Err(CoreError::unequal_shapes(NAME, *output.shape(), expected).into());
        }
        if output.dtype() != DType::F32 {
            let (lhs, rhs) = (output.dtype(), DType::F32);
            return Err(CoreError::DTypeMismatch { op: NAME, lhs, rhs }.into());
        }
        writes_each_element_once(NAME, output)?;
        inputs.iter().try_for_each(|input| check_apart(NAME, input, output))
    }

    fn accepts(&self, input: usize, format: Format) -> bool {
        input == 1 && matches!(format, Format::Block(_))
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        self.sizes(inputs)
            .is_ok_and(|sizes| opencl::supports(kernel, device, &sizes, inputs, output))
    }

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _: &Array) -> String {
        format!("{NAME}_{}_{}", inputs[1].stored(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::run(self.precision, &self.sizes(inputs)?, cpu, inputs, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run(kernel, device, &self.sizes(inputs)?, inputs, output)
    }

    fn class(&self) -> Class {
        Class::MatMul
    }

    /// Of the experts count as many as there can be chosen ones.
    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let length = |input: usize, axis: usize| {
            let dims = inputs.get(input).map_or(&[][..], |array| array.layout.shape().dims());
            dims.get(axis).map_or(1, |&length| length as u64)
        };
        let results = elements(output);
        let experts = length(1, 0).max(1);
        let chosen = experts.min(length(2, 0) * length(2, 1));
        let bytes = |input: usize| inputs.get(input).map_or(0, |array| array.bytes() as u64);
        Work {
            flops: 2 * results * length(0, 2),
            bytes: bytes(0) + bytes(1) / experts * chosen + bytes(2) + 4 * results,
            parallelism: results.max(1),
        }
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], _: &Array) -> Vec<f64> {
        let sizes = self.sizes(inputs).expect("the inputs should be checked");
        let Sizes { tokens, used, n, k, shared, .. } = sizes;
        let mut result = Vec::with_capacity(tokens * used * n);
        for pair in 0..tokens * used {
            let expert = values[2][pair] as usize;
            let row = if shared { pair / used } else { pair };
            let x = &values[0][row * k..][..k];
            for line in 0..n {
                let weight = &values[1][(expert * n + line) * k..][..k];
                let bias = if self.bias { values[3][expert * n + line] } else { 0.0 };
                result.push(x.iter().zip(weight).map(|(x, w)| x * w).sum::<f64>() + bias);
            }
        }
        result
    }
}
