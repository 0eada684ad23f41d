//! Linear layers that have their input in common, with the norm before them and the gate behind them: what a decoder
//! of text has most of. For few rows with weights in blocks all of it is one launch.

mod compose;
mod opencl;
mod suite;

pub use opencl::Kernel;
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::DeviceRef;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::format::Format;
use crate::matmul::{Activation, Precision, activation_reference};
use crate::operation::{Operation, check_apart, writes_each_element_once};
use crate::work::elements;
use crate::{Array, ArrayType, Class, Error, Result, Work};

const NAME: &str = "linears";

/// The most weights.
pub const MOST_WEIGHTS: usize = 3;

/// Linear layers of one input: `x W'`, side by side, or one of them gated by another. The inputs are:
///
/// - x, `f32` `[rows, k]`;
/// - if there is a norm, its weight, `f32` `[k]`;
/// - the weights, `[n, k]` each, `f32`, `f16`, `bf16` or in a block format;
/// - if there are biases, one for each weight, `f32` `[n]`.
///
/// The output is `f32` `[rows, sum of n]`; with a gate, `[rows, n]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Linears {
    /// The epsilon of an RMS norm of x before the layers, `x / sqrt(mean(x^2) + epsilon) * weight`.
    pub norm: Option<f64>,
    /// How many weights there are, from one to [`MOST_WEIGHTS`]; with a gate two.
    pub weights: usize,
    /// Whether each layer has a bias.
    pub bias: bool,
    /// The result is `gate(first) * second`.
    pub gate: Option<Activation>,
    /// How x may be multiplied, as in [`MatMul`](crate::MatMul).
    pub precision: Precision,
}

/// Whether one launch computes layers of so many rows with these weights on a device, `[n, k]` each; with `gated` the
/// first gates the second.
pub fn is_one_launch(device: &DeviceRef, rows: usize, weights: &[&Array], gated: bool) -> bool {
    device.as_opencl().is_some_and(|device| opencl::takes(device, rows, weights, gated))
}

/// The inputs by their roles.
#[derive(Debug, Clone, Copy)]
struct Parts<'a> {
    x: &'a Array,
    norm: Option<&'a Array>,
    weights: &'a [&'a Array],
    biases: &'a [&'a Array],
}

impl Linears {
    /// Sorts the inputs by their roles.
    fn parts<'a>(&self, inputs: &'a [&'a Array]) -> Result<Parts<'a>> {
        let has_norm = usize::from(self.norm.is_some());
        let biases = if self.bias { self.weights } else { 0 };
        let (expected, found) = (1 + has_norm + self.weights + biases, inputs.len());
        if expected != found {
            return Err(Error::WrongArity { op: NAME, expected, found });
        }
        let (before, rest) = inputs.split_at(1 + has_norm);
        let (weights, biases) = rest.split_at(self.weights);
        Ok(Parts { x: before[0], norm: before.get(1).copied(), weights, biases })
    }

    fn checked<'a>(&self, inputs: &'a [&'a Array]) -> Result<(Parts<'a>, Shape)> {
        let op = NAME;
        let mistake = |what: String| Err(Error::InvalidParameter { op, what });
        let most = if self.gate.is_some() { 2..=2 } else { 1..=MOST_WEIGHTS };
        if !most.contains(&self.weights) {
            let (first, last) = (most.start(), most.end());
            return mistake(format!("{} weights; give {first} to {last}", self.weights));
        }
        if self.norm.is_some_and(|epsilon| !(epsilon.is_finite() && epsilon >= 0.0)) {
            return mistake("epsilon should be finite and not negative".to_owned());
        }
        let parts = self.parts(inputs)?;
        let &[rows, k] = parts.x.shape().dims() else {
            return mistake(format!("x of shape {} should have two axes", parts.x.shape()));
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
        if let Some(norm) = parts.norm {
            has_dims(norm, &[k])?;
        }
        let mut columns = 0;
        for (at, weight) in parts.weights.iter().enumerate() {
            let &[n, _] = weight.shape().dims() else {
                return mistake(format!(
                    "a weight of shape {} should have two axes",
                    weight.shape()
                ));
            };
            has_dims(weight, &[n, k])?;
            if let Some(bias) = parts.biases.get(at) {
                has_dims(bias, &[n])?;
            }
            if !matches!(weight.dtype(), DType::F32 | DType::F16 | DType::BF16) {
                let (dtype, hint) = (weight.dtype(), "weights are f32, f16, bf16 or blocks");
                return Err(CoreError::UnsupportedDType { op, dtype, hint }.into());
            }
            columns += n;
        }
        if self.gate.is_some() {
            has_dims(parts.weights[1], parts.weights[0].shape().dims())?;
            columns /= 2;
        }
        for array in [parts.x].iter().chain(&parts.norm).chain(parts.biases) {
            if array.dtype() != DType::F32 {
                let (lhs, rhs) = (array.dtype(), DType::F32);
                return Err(CoreError::DTypeMismatch { op, lhs, rhs }.into());
            }
        }
        Ok((parts, Shape::new(&[rows, columns])?))
    }
}

impl Operation for Linears {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Blocks, Kernel::Composed];

    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let (_, expected) = self.checked(inputs)?;
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
        let first = 1 + usize::from(self.norm.is_some());
        (first..first + self.weights).contains(&input) && matches!(format, Format::Block(_))
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        let Ok(parts) = self.parts(inputs) else { return false };
        match kernel {
            Kernel::Blocks => opencl::supports(self, device, &parts, output),
            Kernel::Composed => true,
        }
    }

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _: &Array) -> String {
        let weights = self.parts(inputs).map_or(&[][..], |parts| parts.weights);
        let name = |weight: &&Array| weight.stored().name();
        let stored = match weights.split_first() {
            // It has no kernels of its own.
            _ if kernel == Kernel::Composed => return format!("{NAME}_{}", kernel.name()),
            Some((first, rest)) if rest.iter().all(|weight| name(weight) == name(first)) => {
                name(first)
            }
            _ => "mixed",
        };
        format!("{NAME}_{stored}_{}", kernel.name())
    }

    fn run_cpu(&self, _: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        compose::run(self, &self.parts(inputs)?, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        let parts = self.parts(inputs)?;
        match kernel {
            Kernel::Blocks => opencl::run(self, device, &parts, output),
            Kernel::Composed => compose::run(self, &parts, output),
        }
    }

    fn class(&self) -> Class {
        Class::MatMul
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let k = inputs.first().and_then(|x| x.layout.shape().last().copied()).unwrap_or(0) as u64;
        let layers = if self.gate.is_some() { 2 } else { 1 };
        Work::new(2 * k * layers * elements(output), inputs, output)
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], output: &Array) -> Vec<f64> {
        let parts = self.parts(inputs).expect("the inputs should be checked");
        let [rows, k] = [0, 1].map(|axis| parts.x.shape()[axis]);
        let first = 1 + usize::from(self.norm.is_some());
        let mut result = Vec::with_capacity(output.elements());
        for row in 0..rows {
            let mut x = values[0][row * k..][..k].to_vec();
            if let Some(epsilon) = self.norm {
                let mean = x.iter().map(|x| x * x).sum::<f64>() / k as f64;
                let factor = 1.0 / (mean + epsilon).sqrt();
                for (x, weight) in x.iter_mut().zip(&values[1]) {
                    *x *= factor * weight;
                }
            }
            let layer = |at: usize| -> Vec<f64> {
                let lines = values[first + at].chunks(k.max(1));
                let n = parts.weights[at].shape()[0];
                let bias = self.bias.then(|| &values[first + self.weights + at]);
                let product = |line: &[f64]| x.iter().zip(line).map(|(x, w)| x * w).sum::<f64>();
                let mut sums: Vec<f64> = match k {
                    0 => vec![0.0; n],
                    _ => lines.map(product).collect(),
                };
                for (sum, bias) in sums.iter_mut().zip(bias.into_iter().flatten()) {
                    *sum += bias;
                }
                sums
            };
            let layers: Vec<Vec<f64>> = (0..self.weights).map(layer).collect();
            match self.gate {
                None => result.extend(layers.concat()),
                Some(gate) => {
                    let pairs = layers[0].iter().zip(&layers[1]);
                    result.extend(pairs.map(|(&a, &b)| activation_reference(gate, a) * b));
                }
            }
        }
        result
    }
}
