//! Matmul, and products of a few vectors with a matrix.

use polaris_bench::gemm::operands::{Operands, bytes_of, spoil};
use polaris_bench::gemm::reference::Reference;
use polaris_bench::gemm::{Case, Dims, Numbers, Transpose};
use polaris_ops::matmul::{
    Kernel, config_of, default_skinny, skinny_config, skinny_of, skinny_source, skinny_space,
    tile_of, tile_source, tile_space, usual_tiles,
};
use polaris_ops::{MatMul, run as run_operation, run_kernel};
use polaris_runtime::DeviceRef;
use polaris_runtime::opencl::OpenClDevice;
use polaris_tune::{ProblemKey, Space};

use super::{Prepared, Subject, Work, config, sizes};
use crate::inject::Fault;
use crate::protocol::Config;
use crate::{Error, Result};

/// The largest relative error of a configuration that is right.
const TOLERANCE: f64 = 1e-5;
/// The same for results in half precision.
const HALF_TOLERANCE: f64 = 5e-3;
/// The same for factors that are rounded to TF32.
const TF32_TOLERANCE: f64 = 1e-3;

/// The tiled kernel; shapes are m, n, k.
pub struct Gemm;

/// The kernel for a few vectors; shapes are vectors, lines of the matrix, k.
pub struct Gemv;

impl Subject for Gemm {
    fn operation(&self) -> &'static str {
        "matmul"
    }

    fn space(&self, device: &OpenClDevice) -> Space {
        tile_space(device)
    }

    fn usual(&self, device: &OpenClDevice) -> Vec<Config> {
        usual_tiles(device).map(|tile| config(config_of(&tile))).collect()
    }

    fn source(&self) -> String {
        tile_source()
    }

    fn work(&self, problem: &ProblemKey) -> Work {
        operations(problem)
    }

    fn prepare(
        &self,
        host: &DeviceRef,
        device: &DeviceRef,
        problem: &ProblemKey,
    ) -> Result<Box<dyn Prepared>> {
        let transpose: Transpose = problem.layout.parse()?;
        let kernel = |device: &OpenClDevice, config: &Config| {
            tile_of(device, &|name| config.get(name).copied()).map(Kernel::Tiled)
        };
        Ok(Box::new(Product::new(host, device, problem, transpose, kernel)?))
    }
}

impl Subject for Gemv {
    fn operation(&self) -> &'static str {
        "gemv"
    }

    fn space(&self, device: &OpenClDevice) -> Space {
        skinny_space(device)
    }

    fn usual(&self, device: &OpenClDevice) -> Vec<Config> {
        vec![config(skinny_config(&default_skinny(device)))]
    }

    fn source(&self) -> String {
        skinny_source()
    }

    fn work(&self, problem: &ProblemKey) -> Work {
        operations(problem)
    }

    fn prepare(
        &self,
        host: &DeviceRef,
        device: &DeviceRef,
        problem: &ProblemKey,
    ) -> Result<Box<dyn Prepared>> {
        let transpose = match problem.layout.as_str() {
            "dots" => Transpose::Nt,
            "columns" => Transpose::Nn,
            other => {
                let why = format!("{other:?} is neither dots nor columns");
                return Err(Error::BadProblem(why));
            }
        };
        let kernel = |device: &OpenClDevice, config: &Config| {
            skinny_of(device, &|name| config.get(name).copied()).map(Kernel::Skinny)
        };
        Ok(Box::new(Product::new(host, device, problem, transpose, kernel)?))
    }
}

fn operations(problem: &ProblemKey) -> Work {
    Work::Operations(2.0 * problem.shape.iter().map(|&size| size as f64).product::<f64>())
}

/// The kernel of a configuration; none if the device cannot run it.
type KernelOf = fn(&OpenClDevice, &Config) -> Option<Kernel>;

struct Product {
    device: DeviceRef,
    case: Case,
    op: MatMul,
    operands: Operands,
    reference: Reference,
    kernel: KernelOf,
}

impl Product {
    fn new(
        host: &DeviceRef,
        device: &DeviceRef,
        problem: &ProblemKey,
        transpose: Transpose,
        kernel: KernelOf,
    ) -> Result<Self> {
        let [m, n, k] = sizes(problem)?;
        let numbers: Numbers = problem.dtype.parse()?;
        let case = Case { dims: Dims { m, n, k }, numbers, transpose };
        let operands = Operands::new(&case, device, host, false)?;
        let reference = Reference::new(&case, &operands)?;
        let op = MatMul { precision: numbers.precision(), ..MatMul::default() };
        Ok(Self { device: device.clone(), case, op, operands, reference, kernel })
    }
}

impl Prepared for Product {
    fn run(&self, config: Option<&Config>) -> Result<()> {
        let inputs = [&self.operands.a, &self.operands.b];
        let Some(config) = config else {
            return Ok(run_operation(&self.op, &inputs, &self.operands.out)?);
        };
        let opencl = self.device.as_opencl().ok_or(Error::NotOpenCl)?;
        let kernel = (self.kernel)(opencl, config).ok_or(Error::BadConfig("on this device"))?;
        Ok(run_kernel(&self.op, kernel, &inputs, &self.operands.out)?)
    }

    fn finish(&self) -> Result<()> {
        Ok(self.device.queue().finish()?)
    }

    fn spoil(&self) -> Result<()> {
        Ok(spoil(&self.operands.out)?)
    }

    fn error(&self, fault: Option<Fault>) -> Result<(f64, f64)> {
        let mut result = bytes_of(&self.operands.out)?;
        if fault == Some(Fault::Wrong) {
            result.iter_mut().step_by(5).for_each(|byte| *byte ^= 0x3f);
        }
        let output = self.case.numbers.output();
        let allowed = match (output.is_float(), output.size()) {
            (false, _) => 0.0,
            (true, 2) => HALF_TOLERANCE,
            _ if self.case.numbers == Numbers::Tf32 => TF32_TOLERANCE,
            _ => TOLERANCE,
        };
        Ok((self.reference.error_of(&result), allowed))
    }
}
