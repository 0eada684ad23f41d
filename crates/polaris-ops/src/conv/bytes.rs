//! Convolutions of bytes: images and results are quantised, weights are signed bytes that were made ready
//! once, and sums are whole numbers. What becomes of a sum is part of the convolution, so that a result
//! leaves in bytes and is never anything wider in memory.

use polaris_core::{DType, Shape};
use polaris_runtime::cpu::SimdLevel;

use super::cpu::bytes as cpu;
use super::geometry::{Form, Geometry};
use super::problem::{Convolution, OP};
use crate::operation::check_apart;
use crate::{Array, Error, Result};

/// A convolution of bytes. A byte stands for its distance from a zero point, times a scale; scales are
/// all in the factors. For each output channel:
///
/// `saturate(round((sum of (x - input zero) (weight - weight zero) + bias) factor) + output zero)`
///
/// with ties to even. Beyond the border lies the input's zero point.
#[derive(Debug, Clone, Copy)]
pub struct ByteProblem<'a> {
    /// How the kernel slides.
    pub problem: Convolution,
    /// The type of images, `u8` or `i8`, and the byte that stands for zero.
    pub input: (DType, i32),
    /// What stands for zero in the weight: one number, or one for each output channel.
    pub weight_zeros: &'a [i32],
    /// What is added to the sums of each output channel.
    pub bias: Option<&'a [i32]>,
    /// What sums are multiplied by: one number, or one for each output channel.
    pub factors: &'a [f32],
    /// The type of results, `u8` or `i8`, and the byte that stands for zero.
    pub output: (DType, i32),
    /// Whether negative results become zero.
    pub relu: bool,
}

/// The weight of a [`ByteProblem`] in the form that the CPU likes best, with all that belongs to it.
#[derive(Debug)]
pub struct ByteConvolution {
    problem: Convolution,
    input: DType,
    output: DType,
    /// Only the shape of the weight: every element is the same.
    weight: Array,
    packed: cpu::Packed,
}

impl ByteConvolution {
    /// Packs a weight of `u8` or `i8`. `None` if it has no such form: kernels of more than two axes,
    /// weights that are no signed bytes without their zero points, or sums that could overflow.
    ///
    /// # Errors
    /// If parameters contradict each other, the weight is in use, or there is no room.
    pub fn new(problem: &ByteProblem<'_>, weight: &Array) -> Result<Option<Self>> {
        match weight.device().as_cpu() {
            Some(device) => Self::at_level(device.simd(), problem, weight),
            None => Ok(None),
        }
    }

    /// For the instructions of a level, which the processor must have.
    pub(super) fn at_level(
        level: SimdLevel,
        problem: &ByteProblem<'_>,
        weight: &Array,
    ) -> Result<Option<Self>> {
        let shape = *weight.shape();
        let is_byte = |dtype| matches!(dtype, DType::U8 | DType::I8);
        let dtypes = [weight.dtype(), problem.input.0, problem.output.0];
        if !dtypes.into_iter().all(is_byte)
            || !(3..=4).contains(&shape.rank())
            || shape.elements() == 0
        {
            return Ok(None);
        }
        check_lengths(problem, shape[0])?;
        let Some(packed) = cpu::Packed::new(level, problem, weight)? else { return Ok(None) };
        let one = Shape::new(&[1; 4][..shape.rank()])?;
        let one = Array::empty(weight.device(), weight.dtype(), one)?;
        Ok(Some(Self {
            problem: problem.problem,
            input: problem.input.0,
            output: problem.output.0,
            weight: one.broadcast_to(&shape)?,
            packed,
        }))
    }

    /// How the kernel slides.
    pub fn problem(&self) -> &Convolution {
        &self.problem
    }

    /// The shape of the weight.
    pub fn shape(&self) -> &Shape {
        self.weight.shape()
    }

    /// Computes. Images and results may lie as they like; fast are those with adjacent channels.
    ///
    /// # Errors
    /// If the arrays do not fit together, or there is no room.
    pub fn run(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let [x] = inputs else {
            return Err(Error::WrongArity { op: OP, expected: 1, found: inputs.len() });
        };
        for (found, expected) in [(x.dtype(), self.input), (output.dtype(), self.output)] {
            if found != expected {
                let (lhs, rhs) = (found, expected);
                return Err(polaris_core::Error::DTypeMismatch { op: OP, lhs, rhs }.into());
            }
        }
        check_apart(OP, x, output)?;
        let arrays = [*x, &self.weight];
        let geometry = Geometry::of_any_type(Form::Output, &self.problem, &arrays, output)?;
        let Some(device) = output.device().as_cpu() else {
            let device = output.device().id();
            return Err(polaris_runtime::Error::NotHostMemory { device }.into());
        };
        if output.elements() == 0 {
            return Ok(());
        }
        cpu::run(device, &self.packed, &geometry, x, output)
    }
}

/// Whether there is one number of everything, or one for each output channel.
fn check_lengths(problem: &ByteProblem<'_>, channels: usize) -> Result<()> {
    let bias = problem.bias.map_or(channels, <[i32]>::len);
    let lengths = [problem.weight_zeros.len(), problem.factors.len()];
    let single_or_all = |length: &usize| *length == 1 || *length == channels;
    if bias == channels && lengths.iter().all(single_or_all) {
        return Ok(());
    }
    let what = format!(
        "{} zero points, {} factors and {bias} numbers to add for {channels} channels",
        lengths[0], lengths[1]
    );
    Err(Error::InvalidParameter { op: OP, what })
}
