//! Operations whose own reference is quick enough: reductions and transpositions.

use polaris_core::{DType, MAX_RANK, Shape};
use polaris_ops::copy::{
    self, Copy, default_tiling, tiling_config, tiling_of, tiling_source, tiling_space,
};
use polaris_ops::reduce::{
    self, default_grouping, grouping_config, grouping_of, grouping_source, grouping_space,
};
use polaris_ops::{
    Array, Distribution, Operation, Reduction, fill, random, run as run_operation, run_kernel,
};
use polaris_runtime::DeviceRef;
use polaris_runtime::opencl::OpenClDevice;
use polaris_tune::{ProblemKey, Space};

use super::{Prepared, Subject, Work, config, sizes};
use crate::inject::Fault;
use crate::protocol::Config;
use crate::{Error, Result};

/// The largest relative error of a reduction that is right: sums are made in many parts.
const TOLERANCE: f64 = 1e-5;
/// The same for results in half precision.
const HALF_TOLERANCE: f64 = 5e-3;

/// Sums of dense rows; shapes are outputs, elements of each.
pub struct Reduce;

/// Transpositions; shapes are matrices, columns and rows of each in the result.
pub struct Permute;

impl Subject for Reduce {
    fn operation(&self) -> &'static str {
        "reduce"
    }

    fn space(&self, device: &OpenClDevice) -> Space {
        grouping_space(device)
    }

    fn usual(&self, device: &OpenClDevice) -> Vec<Config> {
        vec![config(grouping_config(&default_grouping(device, DType::F32)))]
    }

    fn source(&self) -> String {
        grouping_source()
    }

    fn work(&self, problem: &ProblemKey) -> Work {
        Work::Bytes(bytes(problem))
    }

    fn prepare(
        &self,
        host: &DeviceRef,
        device: &DeviceRef,
        problem: &ProblemKey,
    ) -> Result<Box<dyn Prepared>> {
        let [outputs, elements] = sizes(problem)?;
        let input = values(host, device, problem, &[outputs, elements])?;
        let mut axes = [false; MAX_RANK];
        axes[1] = true;
        let op = reduce::Reduce { reduction: Reduction::Sum, axes };
        let dtype = Reduction::Sum.output_dtype(input.dtype());
        let output = Array::empty(device, dtype, Shape::new(&[outputs])?)?;
        let kernel = |op: &reduce::Reduce, input: &Array, output: &Array, config: &Config| {
            let device = output.device().as_opencl()?;
            let grouping = grouping_of(device, &|name| config.get(name).copied())?;
            let ways = [reduce::Kernel::OnePass(grouping), reduce::Kernel::Tree(grouping)];
            ways.into_iter().find(|&kernel| op.supports(kernel, device, &[input], output))
        };
        Ok(Box::new(Plain::new(op, input, output, TOLERANCE, kernel)?))
    }
}

impl Subject for Permute {
    fn operation(&self) -> &'static str {
        "permute"
    }

    fn space(&self, device: &OpenClDevice) -> Space {
        tiling_space(device)
    }

    fn usual(&self, device: &OpenClDevice) -> Vec<Config> {
        vec![config(tiling_config(&default_tiling(device)))]
    }

    fn source(&self) -> String {
        tiling_source()
    }

    fn work(&self, problem: &ProblemKey) -> Work {
        // Read once and written once.
        Work::Bytes(2.0 * bytes(problem))
    }

    fn prepare(
        &self,
        host: &DeviceRef,
        device: &DeviceRef,
        problem: &ProblemKey,
    ) -> Result<Box<dyn Prepared>> {
        let [outer, width, height] = sizes(problem)?;
        let stored = values(host, device, problem, &[outer, width, height])?;
        let input = stored.permute(&[0, 2, 1])?;
        let output = Array::empty(device, input.dtype(), *input.shape())?;
        let kernel = |op: &Copy, input: &Array, output: &Array, config: &Config| {
            let device = output.device().as_opencl()?;
            let tiling = tiling_of(device, &|name| config.get(name).copied())?;
            let kernel = copy::Kernel::Tiled(tiling);
            op.supports(kernel, device, &[input], output).then_some(kernel)
        };
        Ok(Box::new(Plain::new(Copy, input, output, 0.0, kernel)?))
    }
}

fn dtype_of(problem: &ProblemKey) -> Result<DType> {
    let found = DType::ALL.into_iter().find(|dtype| dtype.name() == problem.dtype);
    found.ok_or_else(|| Error::BadProblem(format!("{:?} is not a data type", problem.dtype)))
}

fn bytes(problem: &ProblemKey) -> f64 {
    let size = dtype_of(problem).map_or(4, DType::size);
    problem.shape.iter().map(|&size| size as f64).product::<f64>() * size as f64
}

/// Random numbers around one, of which no sum is near zero, on the device.
fn values(
    host: &DeviceRef,
    device: &DeviceRef,
    problem: &ProblemKey,
    dims: &[usize],
) -> Result<Array> {
    let distribution = Distribution::Uniform { low: 0.5, high: 1.5 };
    let shape = Shape::new(dims)?;
    let dtype = dtype_of(problem)?;
    if !dtype.is_float() {
        let why = format!("{dtype} cannot be tuned; expected f32, f16, bf16 or f64");
        return Err(Error::BadProblem(why));
    }
    let array = random::random(host, dtype, shape, distribution, 1)?;
    let there = Array::empty(device, dtype, shape)?;
    array.buffer().copy_to(there.buffer())?;
    Ok(there)
}

/// The kernel of a configuration; none if the device cannot run it.
type KernelOf<O> = fn(&O, &Array, &Array, &Config) -> Option<<O as Operation>::Kernel>;

struct Plain<O: Operation> {
    op: O,
    input: Array,
    output: Array,
    expected: Vec<f64>,
    tolerance: f64,
    kernel: KernelOf<O>,
}

impl<O: Operation> Plain<O> {
    fn new(
        op: O,
        input: Array,
        output: Array,
        tolerance: f64,
        kernel: KernelOf<O>,
    ) -> Result<Self> {
        let elements = numbers(&copy::contiguous(&input)?)?;
        let expected = op.reference(&[elements], &[&input], &output);
        let tolerance = match tolerance {
            tolerance if tolerance > 0.0 && output.dtype().size() == 2 => HALF_TOLERANCE,
            tolerance => tolerance,
        };
        Ok(Self { op, input, output, expected, tolerance, kernel })
    }
}

impl<O: Operation> Prepared for Plain<O> {
    fn run(&self, config: Option<&Config>) -> Result<()> {
        let inputs = [&self.input];
        let Some(config) = config else {
            return Ok(run_operation(&self.op, &inputs, &self.output)?);
        };
        let kernel = (self.kernel)(&self.op, &self.input, &self.output, config)
            .ok_or(Error::BadConfig("for this shape on this device"))?;
        Ok(run_kernel(&self.op, kernel, &inputs, &self.output)?)
    }

    fn finish(&self) -> Result<()> {
        Ok(self.output.device().queue().finish()?)
    }

    fn spoil(&self) -> Result<()> {
        Ok(fill::into(&self.output, f64::NAN)?)
    }

    fn error(&self, fault: Option<Fault>) -> Result<(f64, f64)> {
        let mut found = numbers(&self.output)?;
        if fault == Some(Fault::Wrong) {
            found.iter_mut().step_by(5).for_each(|value| *value = -*value - 1.0);
        }
        let (mut distance, mut norm) = (0.0, 0.0);
        for (found, expected) in found.iter().zip(&self.expected) {
            distance += (found - expected).powi(2);
            norm += expected.powi(2);
        }
        let error = if distance == 0.0 { 0.0 } else { (distance / norm).sqrt() };
        Ok((error, self.tolerance))
    }
}

/// The elements of a dense array.
fn numbers(array: &Array) -> Result<Vec<f64>> {
    use polaris_core::{Element, bf16, f16};
    fn read<T: Element>(array: &Array) -> Result<Vec<f64>> {
        Ok(array.to_vec::<T>()?.into_iter().map(Element::to_f64).collect())
    }
    match array.dtype() {
        DType::F64 => read::<f64>(array),
        DType::F16 => read::<f16>(array),
        DType::BF16 => read::<bf16>(array),
        _ => read::<f32>(array),
    }
}
