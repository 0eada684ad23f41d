//! Rotary position embedding: pairs of elements are rotated by angles that grow with the position.

mod cpu;
mod opencl;
mod suite;

pub use opencl::Kernel;
pub(crate) use suite::FAMILY;

use polaris_core::{Error as CoreError, Layout, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::copy::Copy;
use crate::operation::{
    Operation, alias_is_harmless, check_apart, is_same_place, run, writes_each_element_once,
};
use crate::{Array, ArrayType, Error, Result, Work};

/// Rotates the pairs of the last axis of x. The arrays are x, the cosines and the sines of the angles; these have an
/// element for each pair along their last axis and broadcast to x along all others. Elements beyond the pairs stay as
/// they are. A pair `(a, b)` becomes `(a cos - b sin, b cos + a sin)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rope {
    /// Which elements are a pair.
    pub pairing: Pairing,
}

/// Which elements of a row are rotated together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// An element of the first half with that of the second half: GPT-NeoX, and most models since.
    Halves,
    /// Neighbours: GPT-J, and LLaMA as it was published.
    Adjacent,
}

/// Rotates the pairs of the last axis into a new array; see [`Rope`].
///
/// # Errors
/// If the arrays do not fit together, or there is no room for the result.
pub fn rope(x: &Array, cos: &Array, sin: &Array, pairing: Pairing) -> Result<Array> {
    let output = Array::empty(x.device(), x.dtype(), *x.shape())?;
    run(&Rope { pairing }, &[x, cos, sin], &output)?;
    Ok(output)
}

/// The pairs of the arrays, as views of one shape.
struct Pairs {
    shape: Shape,
    /// First and second elements of pairs.
    output: [Layout; 2],
    x: [Layout; 2],
    cos: Layout,
    sin: Layout,
}

impl Rope {
    fn pairs(&self, inputs: &[&Array], output: &Array) -> Result<Pairs> {
        let op = self.name();
        let &[x, cos, sin] = inputs else {
            return Err(Error::WrongArity { op, expected: 3, found: inputs.len() });
        };
        for other in [cos, sin, output] {
            if other.dtype() != x.dtype() {
                let (lhs, rhs) = (other.dtype(), x.dtype());
                return Err(CoreError::DTypeMismatch { op, lhs, rhs }.into());
            }
        }
        if !x.dtype().is_float() {
            let (dtype, hint) = (x.dtype(), "angles are floating-point numbers");
            return Err(CoreError::UnsupportedDType { op, dtype, hint }.into());
        }
        if x.shape() != output.shape() {
            return Err(CoreError::unequal_shapes(op, *x.shape(), *output.shape()).into());
        }
        let last = |array: &Array| array.shape().last().copied();
        let (Some(size), Some(half)) = (last(x), last(cos)) else {
            let what = "x and the angles need an axis of pairs".to_owned();
            return Err(Error::InvalidParameter { op, what });
        };
        if half.checked_mul(2).is_none_or(|rotated| rotated > size) || last(sin) != Some(half) {
            let what = format!(
                "{half} cosines and {} sines rotate twice as many elements, and rows have {size}",
                last(sin).unwrap_or(0)
            );
            return Err(Error::InvalidParameter { op, what });
        }
        let axis = x.shape().rank() - 1;
        let mut dims = x.shape().to_vec();
        dims[axis] = half;
        let shape = Shape::new(&dims)?;
        let of = |array: &Array| -> Result<[Layout; 2]> {
            let slice = |range, step| array.layout().slice(axis, range, step);
            Ok(match self.pairing {
                Pairing::Halves => [slice(0..half, 1)?, slice(half..2 * half, 1)?],
                Pairing::Adjacent if half == 0 => [slice(0..0, 1)?; 2],
                Pairing::Adjacent => [slice(0..2 * half - 1, 2)?, slice(1..2 * half, 2)?],
            })
        };
        Ok(Pairs {
            shape,
            output: of(output)?,
            x: of(x)?,
            cos: cos.layout().broadcast_to(op, &shape)?,
            sin: sin.layout().broadcast_to(op, &shape)?,
        })
    }

    /// What lies beyond the pairs.
    fn copy_rest(pairs: &Pairs, x: &Array, output: &Array) -> Result<()> {
        let axis = x.shape().rank() - 1;
        let (size, rotated) = (x.shape()[axis], 2 * pairs.shape[axis]);
        if rotated == size || is_same_place(x, output) {
            return Ok(());
        }
        let rest = |array: &Array| array.slice(axis, rotated..size, 1);
        run(&Copy, &[&rest(x)?], &rest(output)?)
    }
}

impl Operation for Rope {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Strided];

    fn name(&self) -> &'static str {
        "rope"
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        self.pairs(inputs, output)?;
        writes_each_element_once(self.name(), output)?;
        check_apart(self.name(), inputs[1], output)?;
        check_apart(self.name(), inputs[2], output)?;
        match alias_is_harmless(inputs[0], output) {
            true => Ok(()),
            false => Err(Error::AliasedOutput { op: self.name() }),
        }
    }

    fn supports(
        &self,
        _: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        self.pairs(inputs, output).is_ok_and(|pairs| opencl::supports(device, &pairs, output))
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
        format!("rope_{}_{}", output.dtype(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        let pairs = self.pairs(inputs, output)?;
        cpu::run(cpu, &pairs, inputs, output)?;
        Self::copy_rest(&pairs, inputs[0], output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        _: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        let pairs = self.pairs(inputs, output)?;
        opencl::run(device, &pairs, inputs, output)?;
        Self::copy_rest(&pairs, inputs[0], output)
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::per_result(3, inputs, output)
    }

    fn works_in_place(&self) -> bool {
        true
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], output: &Array) -> Vec<f64> {
        let shape = output.shape();
        let size = shape.last().copied().unwrap_or(1);
        let half = inputs[1].shape().last().copied().unwrap_or(0);
        let mut dims = shape.to_vec();
        dims[shape.rank() - 1] = half;
        let pairs = Shape::new(&dims).expect("a smaller shape should be one");
        // The angle of a pair, wherever broadcasting takes it from.
        let angle = |table: usize, row: usize, pair: usize| {
            let dense = Layout::contiguous(*inputs[table].shape());
            let all = dense.broadcast_to("reference", &pairs).expect("checked to broadcast");
            let place = polaris_core::Collapsed::new(&pairs, [&all]).point(row * half + pair);
            values[table][place[0]]
        };
        let mut result = values[0].clone();
        for row in 0..result.len() / size.max(1) {
            for pair in 0..half {
                let [first, second] = match self.pairing {
                    Pairing::Halves => [pair, half + pair],
                    Pairing::Adjacent => [2 * pair, 2 * pair + 1],
                };
                let [a, b] = [first, second].map(|at| values[0][row * size + at]);
                let (cos, sin) = (angle(1, row, pair), angle(2, row, pair));
                result[row * size + first] = a * cos - b * sin;
                result[row * size + second] = b * cos + a * sin;
            }
        }
        result
    }
}
