//! The gradient of padding along one axis: what was copied is added up.

use std::ops::Range;

use polaris_core::{Collapsed, Error as CoreError, Layout, Shape};
use polaris_runtime::Device;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::opencl::{self, Kernel};
use super::{PadMode, cpu, reference};
use crate::operation::{Operation, writes_each_element_once};
use crate::{Array, Error, Result};

/// The gradient of [`pad`](super::pad) along one axis. The input is longer than the output by the
/// padding; the types are the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PadGradient {
    /// The axis.
    pub axis: usize,
    /// Elements of padding in front.
    pub before: usize,
    /// Elements of padding behind.
    pub after: usize,
    /// What was copied.
    pub mode: PadMode,
}

/// How a fold walks its arrays.
pub(super) struct FoldSpace {
    /// The output, the input at the start of the axis, and the index along the axis.
    pub space: Collapsed<3>,
    /// The input's stride along the axis.
    pub stride: usize,
}

impl PadGradient {
    pub(super) fn space(&self, g: &Array, output: &Array) -> Result<FoldSpace> {
        let shape = output.shape();
        let mut from = g.layout().strides().to_vec();
        let stride = std::mem::replace(&mut from[self.axis], 0);
        let mut along = vec![0; shape.rank()];
        along[self.axis] = 1;
        let from = Layout::new(*shape, &from, g.layout().offset())?;
        let along = Layout::new(*shape, &along, 0)?;
        let space = Collapsed::new(shape, [output.layout(), &from, &along]);
        Ok(FoldSpace { space, stride })
    }

    /// The places in front of an element's own and behind it that are copies of it, of `length`.
    pub(super) fn copies(&self, index: usize, length: usize) -> [Range<usize>; 2] {
        let Self { before, after, .. } = *self;
        let end = before + length;
        let one = |is_there: bool, at: usize| if is_there { at..at + 1 } else { 0..0 };
        match self.mode {
            PadMode::Constant(_) => [0..0, 0..0],
            PadMode::Reflect => {
                let back = length - 1 - index;
                [
                    one((1..=before).contains(&index), before.wrapping_sub(index)),
                    one((1..=after).contains(&back), end - 1 + back),
                ]
            }
            PadMode::Replicate => [
                if index == 0 { 0..before } else { 0..0 },
                if index + 1 == length { end..end + after } else { 0..0 },
            ],
            PadMode::Circular => [
                one(index + before >= length, (index + before).wrapping_sub(length)),
                one(index < after, end + index),
            ],
        }
    }
}

impl Operation for PadGradient {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Strided];

    fn name(&self) -> &'static str {
        "pad_gradient"
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let [g] = inputs else {
            return Err(Error::WrongArity { op, expected: 1, found: inputs.len() });
        };
        output.shape().axis_mask(op, &[self.axis])?;
        let length = output.shape()[self.axis];
        let widths = (self.before, self.after);
        if !self.mode.reaches(length, widths) {
            let Self { before, after, axis, mode } = self;
            let what = format!(
                "{mode:?} cannot have made {before} elements before and {after} after axis {axis} of \
                 {length}"
            );
            return Err(Error::InvalidParameter { op, what });
        }
        let mut dims = output.shape().to_vec();
        dims[self.axis] = length.saturating_add(self.before).saturating_add(self.after);
        let expected = Shape::new(&dims)?;
        if *g.shape() != expected {
            return Err(CoreError::unequal_shapes(op, *g.shape(), expected).into());
        }
        let (lhs, rhs) = (g.dtype(), output.dtype());
        if !lhs.is_float() {
            let hint = "cast to f32 first";
            return Err(CoreError::UnsupportedDType { op, dtype: lhs, hint }.into());
        }
        if lhs != rhs {
            return Err(CoreError::DTypeMismatch { op, lhs, rhs }.into());
        }
        writes_each_element_once(op, output)?;
        if g.overlaps(output) {
            return Err(Error::AliasedOutput { op });
        }
        Ok(())
    }

    fn supports(&self, _: Kernel, device: &OpenClDevice, _: &[&Array], output: &Array) -> bool {
        device.capabilities().supports(output.dtype())
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
        format!("pad_gradient_{}_{}", output.dtype(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::fold(self, cpu, inputs[0], output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        _: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::fold(self, device, inputs[0], output)
    }

    fn reference(&self, inputs: &[Vec<f64>], _: &[&Array], output: &Array) -> Vec<f64> {
        reference::fold(self, &inputs[0], output.shape())
    }
}
