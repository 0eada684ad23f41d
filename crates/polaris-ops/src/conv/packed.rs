//! The weights of a convolution made ready once and used many times, for images whose channels are
//! adjacent.
//!
//! With channels adjacent in memory, the taps of a row of the kernel are one stretch of the image, and
//! positions side by side are rows of a matrix in place: products need no copy of the taps, and channels
//! are what vectors hold. Results are the same whatever the layout of an image; only the time is not.

use polaris_core::{DType, Shape};
use polaris_runtime::DeviceRef;

use super::cpu::packed as cpu;
use super::fused::FusedConvolution;
use super::geometry::{Form, Geometry};
use super::problem::{Convolution, OP};
use crate::{Array, Error, Result};

/// The weights of a convolution of `f32` in the form that the CPU likes best.
#[derive(Debug)]
pub struct PackedConvolution {
    /// Only the shape of the weight: every element is the same.
    weight: Array,
    panels: Array,
}

impl PackedConvolution {
    /// Whether there is such a form for a weight of a type and shape.
    pub fn exists_for(problem: &Convolution, dtype: DType, weight: &Shape) -> bool {
        dtype == DType::F32
            && (3..=4).contains(&weight.rank())
            && weight.elements() > 0
            && (problem.groups == 1 || cpu::is_depthwise(problem.groups, weight))
    }

    /// Packs the weight of convolutions like this one.
    ///
    /// # Errors
    /// If there is no such form, the weight is in use, or there is no room.
    pub fn new(problem: &Convolution, weight: &Array) -> Result<Self> {
        let Some(device) = weight
            .device()
            .as_cpu()
            .filter(|_| Self::exists_for(problem, weight.dtype(), weight.shape()))
        else {
            let what =
                format!("a weight of {} {} cannot be packed", weight.dtype(), weight.shape());
            return Err(Error::InvalidParameter { op: OP, what });
        };
        let panels = cpu::pack(device, problem.groups, weight)?;
        let one = Array::empty(
            weight.device(),
            weight.dtype(),
            Shape::new(&[1; 4][..weight.shape().rank()])?,
        )?;
        Ok(Self { weight: one.broadcast_to(weight.shape())?, panels })
    }

    /// The packed weight as it lies in memory, to be kept for processors with the same instructions.
    ///
    /// # Errors
    /// If the memory is in use.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.panels.buffer().bytes()];
        self.panels.buffer().read_bytes(&mut bytes)?;
        Ok(bytes)
    }

    /// A weight of this shape from its bytes.
    ///
    /// # Errors
    /// If there are more or fewer bytes than such a weight has, or there is no room.
    pub fn from_bytes(
        device: &DeviceRef,
        problem: &Convolution,
        shape: &Shape,
        bytes: &[u8],
    ) -> Result<Self> {
        let mistake = |what: &str| Error::InvalidParameter { op: OP, what: what.to_owned() };
        let cpu = device.as_cpu().ok_or_else(|| mistake("only the CPU has packed weights"))?;
        if !(3..=4).contains(&shape.rank()) {
            return Err(mistake("only weights of images can be packed"));
        }
        let panels = cpu::room(cpu, device, problem.groups, shape)?;
        if panels.buffer().bytes() != bytes.len() {
            return Err(mistake("the packed weight has another size"));
        }
        panels.buffer().write_bytes(bytes)?;
        let one = Array::empty(device, DType::F32, Shape::new(&[1; 4][..shape.rank()])?)?;
        Ok(Self { weight: one.broadcast_to(shape)?, panels })
    }

    /// The shape of the weight.
    pub fn shape(&self) -> &Shape {
        self.weight.shape()
    }

    /// Computes. `inputs` are those of the convolution without the weight. Images and results may lie
    /// as they like; fast are those with adjacent channels.
    ///
    /// # Errors
    /// If the arrays do not fit together, or there is no room.
    pub fn run(&self, op: &FusedConvolution, inputs: &[&Array], output: &Array) -> Result<()> {
        let [x, rest @ ..] = inputs else {
            return Err(Error::WrongArity { op: OP, expected: 2, found: 1 });
        };
        let [bias, residual] = op.rest(rest)?;
        let mut arrays = vec![*x, &self.weight];
        arrays.extend(bias);
        let geometry = Geometry::new(Form::Output, &op.problem, &arrays, output)?;
        if let Some(residual) = residual {
            super::fused::check_residual(residual, output)?;
        }
        let Some(device) = output.device().as_cpu() else {
            let device = output.device().id();
            return Err(polaris_runtime::Error::NotHostMemory { device }.into());
        };
        if output.elements() == 0 {
            return Ok(());
        }
        let call = cpu::Call { geometry: &geometry, activation: op.activation, x, bias, residual };
        cpu::run(device, &call, &self.panels, output)
    }
}
