//! Short causal convolution along the tokens of sequences, a filter for each channel, as recurrent layers of language
//! models have it: one call serves prompts, single tokens and batches of sequences.
//!
//! | Array | Shape | Type |
//! |---|---|---|
//! | x | `[tokens, channels]` | `f32` |
//! | tail | `[slots, taps - 1, channels]` | `f32`: inputs before this call; that of position `p` is in row `p % (taps - 1)` |
//! | places | `[tokens, 2]` | `i32`: the slot of each token's sequence and its position in the sequence |
//! | weight | `[channels, taps]` | `f32`: the last tap is for the token itself |
//! | bias | `[channels]` | `f32`, if [`CausalConv::bias`] |
//! | output | `[tokens, channels]` | `f32` |
//!
//! Tokens of a sequence follow one another in x. Inputs at positions before 0 are zero, so that a new sequence needs
//! nothing to be cleared. The tail is not changed: [`cache_write`](crate::cache_write) writes the last inputs of each
//! sequence into it afterwards.
//!
//! On the CPU, a slot that does not exist and a negative position are errors. OpenCL devices take the nearest that exists.

mod cpu;
mod opencl;
mod suite;
#[cfg(test)]
mod tests;

pub use opencl::Kernel;
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::operation::{Operation, check_apart, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

const NAME: &str = "causal_conv";

/// The most taps of a filter.
pub const MOST_TAPS: usize = 32;

/// A causal convolution, as plain data. Its inputs are x, the tail, the places, the weight and, if there is one, the
/// bias; see the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CausalConv {
    /// Whether there is a bias.
    pub bias: bool,
    /// Whether the result is multiplied by its sigmoid.
    pub silu: bool,
}

/// The sizes, checked against each other.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    tokens: usize,
    channels: usize,
    slots: usize,
    taps: usize,
}

impl CausalConv {
    fn sizes(&self, inputs: &[&Array]) -> Result<Sizes> {
        let op = NAME;
        let expected = 4 + usize::from(self.bias);
        if inputs.len() != expected {
            return Err(Error::WrongArity { op, expected, found: inputs.len() });
        }
        let (&[tokens, channels], &[_, taps], &[slots, ..]) =
            (inputs[0].shape().dims(), inputs[3].shape().dims(), inputs[1].shape().dims())
        else {
            let what = format!(
                "x of shape {}, a tail of shape {} and weights of shape {} should have 2, 3 and 2 axes",
                inputs[0].shape(),
                inputs[1].shape(),
                inputs[3].shape()
            );
            return Err(Error::InvalidParameter { op, what });
        };
        if !(2..=MOST_TAPS).contains(&taps) {
            let what = format!("a filter of {taps} taps; there may be 2 to {MOST_TAPS}");
            return Err(Error::InvalidParameter { op, what });
        }
        let shapes: [&[usize]; 5] = [
            &[tokens, channels],
            &[slots, taps - 1, channels],
            &[tokens, 2],
            &[channels, taps],
            &[channels],
        ];
        for (index, (input, shape)) in inputs.iter().zip(shapes).enumerate() {
            if input.shape().dims() != shape {
                let expected = Shape::new(shape)?;
                return Err(CoreError::unequal_shapes(op, *input.shape(), expected).into());
            }
            let rhs = if index == 2 { DType::I32 } else { DType::F32 };
            if input.dtype() != rhs {
                return Err(CoreError::DTypeMismatch { op, lhs: input.dtype(), rhs }.into());
            }
        }
        if tokens > 0 && slots == 0 {
            let what = format!("a tail without slots for {tokens} tokens");
            return Err(Error::InvalidParameter { op, what });
        }
        Ok(Sizes { tokens, channels, slots, taps })
    }
}

impl Operation for CausalConv {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Strided];

    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let sizes = self.sizes(inputs)?;
        let expected = Shape::new(&[sizes.tokens, sizes.channels])?;
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

    fn supports(&self, _: Kernel, _: &OpenClDevice, inputs: &[&Array], output: &Array) -> bool {
        self.sizes(inputs).is_ok_and(|sizes| opencl::supports(&sizes, inputs, output))
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], _: &Array) -> String {
        format!("{NAME}_f32_{}", kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::run(self, cpu, &self.sizes(inputs)?, inputs, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        _: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run(self, device, &self.sizes(inputs)?, inputs, output)
    }

    fn class(&self) -> Class {
        Class::Elementwise
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let taps = inputs.get(3).and_then(|weight| weight.layout.shape().last().copied());
        Work::per_result(2 * taps.unwrap_or(1) as u64, inputs, output)
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], _: &Array) -> Vec<f64> {
        let Sizes { tokens, channels, taps, .. } =
            self.sizes(inputs).expect("the inputs should be checked");
        let place = |token: usize| (values[2][2 * token], values[2][2 * token + 1]);
        let mut result = Vec::with_capacity(tokens * channels);
        for token in 0..tokens {
            let (slot, position) = place(token);
            for channel in 0..channels {
                let mut sum = if self.bias { values[4][channel] } else { 0.0 };
                for back in 0..taps {
                    let at = position - back as f64;
                    let is_here = token >= back && place(token - back) == (slot, at);
                    let input = if at < 0.0 {
                        0.0
                    } else if is_here {
                        values[0][(token - back) * channels + channel]
                    } else {
                        let row = slot as usize * (taps - 1) + at as usize % (taps - 1);
                        values[1][row * channels + channel]
                    };
                    sum += values[3][channel * taps + taps - 1 - back] * input;
                }
                result.push(if self.silu { sum / (1.0 + (-sum).exp()) } else { sum });
            }
        }
        result
    }
}
