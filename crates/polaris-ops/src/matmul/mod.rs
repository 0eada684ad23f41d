//! Matmul: dense, batched, of any layout, with a fused epilogue.

pub(crate) mod cpu;
mod geometry;
mod opencl;
mod problem;
mod reference;
mod spares;
mod strassen;
mod stream;
mod suite;
mod timeline;

pub use crate::opencl::tuned::{Explanation, explain};
pub(crate) use cpu::Strip;
pub(crate) use cpu::tiles::{TileNumber, TileProduct, Tiles};
pub(crate) use opencl::{CHANNEL_BYTES, activation_expression, shipped_programs};
pub use opencl::{
    Kernel, MultiplyAdd, Skinny, TILE_FEATURES, Technique, Tensor, Tile, TileCopy, TileTarget,
    VARIANTS, Variant, config_of, default_skinny, default_tile, skinny_config, skinny_of,
    skinny_source, skinny_space, tile_features, tile_of, tile_program, tile_source, tile_space,
    tile_splits, usual_tiles,
};
pub(crate) use problem::widens;
pub use problem::{Activation, Bias, Epilogue, MatMul, Precision};
pub(crate) use reference::activate as activation_reference;
pub use strassen::{strassen, strassen_into};
pub use stream::Streamed;
pub(crate) use suite::FAMILY;
pub use timeline::Overlap;

use polaris_core::{DType, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::format::Format;
use crate::operation::{Operation, run};
use crate::{Array, ArrayType, Class, Result, Work};
use geometry::Geometry;

/// The product of two matrices, or of batches of them as in NumPy. Integers give `i32`, every
/// other type itself.
///
/// # Errors
/// If the shapes or types do not fit, or there is no room for the result.
pub fn matmul(a: &Array, b: &Array) -> Result<Array> {
    let dtype = if a.dtype().is_float() { a.dtype() } else { DType::I32 };
    MatMul::default().apply(&[a, b], dtype)
}

impl MatMul {
    /// Computes into a new array. `inputs` are listed at [`MatMul`].
    ///
    /// # Errors
    /// If the arrays do not fit together, or there is no room for the result.
    pub fn apply(&self, inputs: &[&Array], dtype: DType) -> Result<Array> {
        let parts = self.parts(inputs)?;
        let (a, b) = (parts.a.shape().dims(), parts.b.shape().dims());
        let rows_columns = [a.len(), b.len()].map(|rank| rank.saturating_sub(2));
        let batch = Shape::broadcast(
            "matmul",
            &Shape::new(&a[..rows_columns[0]])?,
            &Shape::new(&b[..rows_columns[1]])?,
        )?;
        let last = |dims: &[usize], from_end: usize| {
            dims.len().checked_sub(from_end).map_or(1, |axis| dims[axis])
        };
        let dims: Vec<usize> = batch.iter().copied().chain([last(a, 2), last(b, 1)]).collect();
        let output = Array::empty(parts.a.device(), dtype, Shape::new(&dims)?)?;
        run(self, inputs, &output)?;
        Ok(output)
    }

    /// Computes into an array that is there.
    ///
    /// # Errors
    /// If the arrays do not fit together, or the device fails.
    pub fn run(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        run(self, inputs, output)
    }
}

impl Operation for MatMul {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = opencl::KERNELS;

    fn name(&self) -> &'static str {
        "matmul"
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        // On the CPU whoever computes makes the geometry, and with it all checks: to do so twice
        // would be a good part of the time of a small product. Nobody does where there is nothing
        // to compute.
        if output.device().as_cpu().is_some() && output.elements() > 0 {
            return Ok(());
        }
        Geometry::new(self, &self.parts(inputs)?, output).map(|_| ())
    }

    fn accepts(&self, input: usize, format: Format) -> bool {
        input == 1 && format != Format::Dense
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        opencl::supports(self, kernel, device, inputs, output)
    }

    fn preferred(
        &self,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> Option<Kernel> {
        opencl::preferred(self, device, inputs, output)
    }

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _output: &Array) -> String {
        match inputs[1].format() {
            Format::Block(block) => format!("matmul_{}_{}", block.lower_name(), kernel.name()),
            _ if widens(inputs[0].dtype(), inputs[1].dtype()) => {
                let [a, b] = [inputs[0].dtype(), inputs[1].dtype()];
                format!("matmul_{a}_{b}_{}", kernel.name())
            }
            _ => format!("matmul_{}_{}", inputs[0].dtype(), kernel.name()),
        }
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::run(self, cpu, inputs, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run(self, device, kernel, inputs, output)
    }

    fn class(&self) -> Class {
        Class::MatMul
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let k = inputs.first().and_then(|a| a.layout.shape().last()).map_or(1, |&k| k as u64);
        Work::per_result(2 * k, inputs, output)
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], output: &Array) -> Vec<f64> {
        reference::matmul(self, inputs, arrays, output)
    }
}
