//! Scatters by indices as an operation: the opposite of look-ups.

use polaris_core::{Error as CoreError, Layout, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::indices::{Axis, check_dtype};
use super::lookup::{Lookup, LookupRule, fits_lanes};
use super::opencl_scatter::{self, Kernel};
use super::{cpu_scatter, cpu_take_gradient, reference};
use crate::operation::{Operation, alias_is_harmless, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work, copy};

/// What becomes of the elements that meet at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScatterRule {
    /// The last one stays.
    Assign,
    /// They are added to what is there.
    Add,
    /// The slices of a `take`'s gradient are added up; elsewhere the result is zero.
    TakeGradient,
}

/// A scatter along an axis of the output. The inputs are the index, the base, whose shape the output
/// has, and the source; those of a `take`'s gradient are the indices and the gradient of its result.
/// The base may be the output itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scatter {
    /// What becomes of the elements that meet at one place.
    pub rule: ScatterRule,
    /// The axis of the output that indices are places of.
    pub axis: usize,
}

impl Scatter {
    pub(super) fn adds(&self) -> bool {
        self.rule != ScatterRule::Assign
    }

    pub(super) fn scattered_along(&self, output: &Array) -> Axis {
        Axis { op: self.name(), axis: self.axis, length: output.shape()[self.axis] }
    }

    /// The source with its positions along one axis, and the shape of the part that is scattered. A
    /// `take`'s gradient has the axes of its indices joined to one, for which it may have to move.
    pub(super) fn source(&self, inputs: &[&Array]) -> Result<(Array, Shape)> {
        let index = inputs[0].shape();
        if self.rule != ScatterRule::TakeGradient {
            return Ok((inputs[2].clone(), *index));
        }
        let g = inputs[1];
        let g = if g.layout().is_contiguous() { g.clone() } else { copy::contiguous(g)? };
        let behind = self.axis + index.rank();
        let (outer, inner) = (&g.shape()[..self.axis], &g.shape()[behind..]);
        let shape = Shape::new(&[outer, &[index.elements()], inner].concat())?;
        let start = g.layout().offset();
        let dense = g.buffer().view(start..start + g.elements())?;
        Ok((Array::new(dense, Layout::contiguous(shape))?, shape))
    }
}

impl Operation for Scatter {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Sorted, Kernel::Lanes];

    fn name(&self) -> &'static str {
        match self.rule {
            ScatterRule::Assign => "scatter",
            ScatterRule::Add => "scatter_add",
            ScatterRule::TakeGradient => "take_gradient",
        }
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let expected = if self.rule == ScatterRule::TakeGradient { 2 } else { 3 };
        if inputs.len() != expected {
            return Err(Error::WrongArity { op, expected, found: inputs.len() });
        }
        let index = inputs[0];
        check_dtype(op, index)?;
        output.shape().axis_mask(op, &[self.axis])?;
        if self.adds() && !output.dtype().is_float() {
            let (dtype, hint) = (output.dtype(), "cast to f32 first");
            return Err(CoreError::UnsupportedDType { op, dtype, hint }.into());
        }
        for input in &inputs[1..] {
            let (lhs, rhs) = (input.dtype(), output.dtype());
            if lhs != rhs {
                return Err(CoreError::DTypeMismatch { op, lhs, rhs }.into());
            }
        }
        let mismatch = |lhs: &Shape, rhs: &Shape| {
            let (lhs, rhs) = (*lhs, *rhs);
            Err(CoreError::unequal_shapes(op, lhs, rhs).into())
        };
        if self.rule == ScatterRule::TakeGradient {
            let take = Lookup { rule: LookupRule::Take, axis: self.axis };
            let expected = take.output_shape(index.shape(), output.shape())?;
            if *inputs[1].shape() != expected {
                return mismatch(inputs[1].shape(), &expected);
            }
        } else {
            let (base, source) = (inputs[1], inputs[2]);
            if base.shape() != output.shape() {
                return mismatch(base.shape(), output.shape());
            }
            fits_lanes(op, self.axis, index.shape(), output.shape())?;
            let (part, whole) = (index.shape(), source.shape());
            if part.rank() != whole.rank() || part.iter().zip(whole.iter()).any(|(p, w)| p > w) {
                let what = format!("a source of shape {whole} does not cover the index's {part}");
                return Err(Error::InvalidParameter { op, what });
            }
        }
        let axis = self.scattered_along(output);
        if axis.length == 0 && index.elements() > 0 {
            return Err(axis.out_of_range(index, 0));
        }
        writes_each_element_once(op, output)?;
        let has_base = self.rule != ScatterRule::TakeGradient;
        let harmful = |(place, input): (usize, &&Array)| match place {
            1 if has_base => !alias_is_harmless(input, output),
            _ => input.overlaps(output),
        };
        if inputs.iter().enumerate().any(harmful) {
            return Err(Error::AliasedOutput { op });
        }
        Ok(())
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        opencl_scatter::supports(self, kernel, device, inputs, output)
    }

    fn preferred(
        &self,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> Option<Kernel> {
        opencl_scatter::preferred(self, device, inputs, output)
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
        format!("{}_{}_{}", self.name(), output.dtype(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        match self.rule {
            ScatterRule::TakeGradient => cpu_take_gradient::run(self, cpu, inputs, output),
            _ => cpu_scatter::run(self, cpu, inputs, output),
        }
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl_scatter::run(self, device, kernel, inputs, output)
    }

    fn class(&self) -> Class {
        Class::Indexing
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::per_input(1, inputs, output)
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], output: &Array) -> Vec<f64> {
        reference::scatter(self, inputs, arrays, output.shape())
    }
}
