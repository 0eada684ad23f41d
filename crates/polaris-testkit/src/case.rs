//! One case: run with each kernel, compared with the reference, surroundings looked after.

use std::rc::Rc;

use polaris_ops::{Array, Error, Operation, Result, run, run_kernel, usable_kernels};
use polaris_runtime::DeviceRef;

use crate::operand::Operand;
use crate::tolerance::{Tolerance, agrees};

/// An operation with its arrays.
#[derive(Clone)]
pub struct Case {
    operation: Rc<dyn AnyOperation>,
    pub(crate) inputs: Vec<Operand>,
    pub(crate) output: Operand,
    tolerance: Tolerance,
    /// The magnitude that each output's error scales with, beyond the output's own.
    scale: Vec<f64>,
}

/// What one kernel did with a case.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The kernel's name; the operation's with `_cpu` on the CPU.
    pub kernel: String,
    /// The share of the allowed error that was used, or what was wrong.
    pub outcome: std::result::Result<f64, String>,
}

impl Case {
    /// A case with a scale of the errors for each output, or none.
    pub fn new<O: Operation + 'static>(
        operation: O,
        inputs: Vec<Operand>,
        output: Operand,
        tolerance: Tolerance,
        scale: Vec<f64>,
    ) -> Self {
        Self { operation: Rc::new(operation), inputs, output, tolerance, scale }
    }

    /// The kernels that could run it on a device, most preferred first. On the CPU, and where only
    /// the CPU can do it, a name that stands for that.
    ///
    /// # Errors
    /// If its arrays do not fit on the device.
    pub fn kernels(&self, device: &DeviceRef) -> Result<Vec<String>> {
        let (inputs, output) = self.spaces(device)?;
        let inputs: Vec<&Array> = inputs.iter().collect();
        let mut kernels = self.operation.kernels(&inputs, &output);
        if kernels.is_empty() {
            kernels.push(format!("{}_{}_cpu", self.operation.name(), self.main_dtype()));
        }
        Ok(kernels)
    }

    /// Each entry of the operation's list of OpenCL kernels, and whether it could run this.
    ///
    /// # Errors
    /// If its arrays do not fit on the device.
    pub fn entries(&self, device: &DeviceRef) -> Result<Vec<(String, bool)>> {
        let (inputs, output) = self.spaces(device)?;
        Ok(self.operation.entries(&inputs.iter().collect::<Vec<_>>(), &output))
    }

    /// Whether there is anything to compute. Otherwise no kernel is launched.
    pub fn computes(&self) -> bool {
        self.output.layout.elements() > 0
    }

    /// Runs it with one of those kernels, quarantined or not, and returns the share of the allowed
    /// error that was used.
    ///
    /// # Errors
    /// What was wrong.
    pub fn run_kernel(&self, device: &DeviceRef, index: usize) -> std::result::Result<f64, String> {
        self.evaluate(device, Some(index))
    }

    /// Runs it with every kernel that supports it on a device.
    pub fn run_all_kernels(&self, device: &DeviceRef) -> Vec<Finding> {
        let kernels = match self.kernels(device) {
            Ok(kernels) => kernels,
            Err(error) => vec![format!("{} ({error})", self.operation.name())],
        };
        let run = |(index, kernel)| Finding { kernel, outcome: self.run_kernel(device, index) };
        kernels.into_iter().enumerate().map(run).collect()
    }

    /// Runs it as a user would: with the kernel that is chosen.
    ///
    /// # Errors
    /// What was wrong.
    pub fn run(&self, device: &DeviceRef) -> std::result::Result<f64, String> {
        self.evaluate(device, None)
    }

    fn main_dtype(&self) -> polaris_core::DType {
        self.inputs.last().map_or(self.output.dtype, |input| input.dtype)
    }

    fn arrays(&self, device: &DeviceRef) -> Result<(Vec<Array>, Array)> {
        let inputs = self.inputs.iter().map(|input| input.on(device)).collect::<Result<_>>()?;
        Ok((inputs, self.output.on(device)?))
    }

    /// Arrays that nothing was written to: enough to ask which kernels there are.
    fn spaces(&self, device: &DeviceRef) -> Result<(Vec<Array>, Array)> {
        let inputs = self.inputs.iter().map(|input| input.space_on(device));
        Ok((inputs.collect::<Result<_>>()?, self.output.space_on(device)?))
    }

    fn evaluate(
        &self,
        device: &DeviceRef,
        kernel: Option<usize>,
    ) -> std::result::Result<f64, String> {
        self.try_evaluate(device, kernel).unwrap_or_else(|error| Err(error.to_string()))
    }

    /// As [`Self::run`] and [`Self::run_kernel`], with errors of the operation apart from wrong results.
    pub(crate) fn try_evaluate(
        &self,
        device: &DeviceRef,
        kernel: Option<usize>,
    ) -> Result<std::result::Result<f64, String>> {
        let (inputs, output) = self.arrays(device)?;
        let inputs: Vec<&Array> = inputs.iter().collect();
        match kernel {
            Some(index) => self.operation.run_kernel(index, &inputs, &output)?,
            None => self.operation.run(&inputs, &output)?,
        }
        let (found, touched) = self.output.compare_surroundings(&output)?;
        let values: Vec<Vec<f64>> = self.inputs.iter().map(Operand::elements).collect();
        let expected = self.operation.reference(&values, &inputs, &output);
        Ok(self.judge(&found, &expected, touched))
    }

    fn judge(
        &self,
        found: &[f64],
        expected: &[f64],
        touched: Option<usize>,
    ) -> std::result::Result<f64, String> {
        if let Some(at) = touched {
            return Err(format!("it wrote outside of its output, at element {at}: {self:?}"));
        }
        if found.len() != expected.len() {
            return Err(format!("{} results instead of {}", found.len(), expected.len()));
        }
        let mut worst = 0.0f64;
        for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            let scale = self.scale.get(i).copied().unwrap_or(0.0);
            match agrees(self.tolerance, self.output.dtype, found, expected, scale) {
                Ok(used) => worst = worst.max(used),
                Err(_) => {
                    return Err(format!(
                        "element {i} is {found:e} instead of {expected:e}: {self:?}"
                    ));
                }
            }
        }
        Ok(worst)
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.operation)?;
        for input in &self.inputs {
            write!(f, " of {} {}", input.dtype, input.layout)?;
        }
        write!(f, " into {} {}", self.output.dtype, self.output.layout)
    }
}

/// An operation whose kernels are known by number, so that cases of all operations are alike.
trait AnyOperation: std::fmt::Debug {
    fn name(&self) -> &'static str;
    fn kernels(&self, inputs: &[&Array], output: &Array) -> Vec<String>;
    fn entries(&self, inputs: &[&Array], output: &Array) -> Vec<(String, bool)>;
    fn run(&self, inputs: &[&Array], output: &Array) -> Result<()>;
    fn run_kernel(&self, index: usize, inputs: &[&Array], output: &Array) -> Result<()>;
    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], output: &Array) -> Vec<f64>;
}

impl<O: Operation> AnyOperation for O {
    fn name(&self) -> &'static str {
        Operation::name(self)
    }

    fn kernels(&self, inputs: &[&Array], output: &Array) -> Vec<String> {
        let kernels = usable_kernels(self, inputs, output);
        kernels.into_iter().map(|kernel| self.kernel_name(kernel, inputs, output)).collect()
    }

    fn entries(&self, inputs: &[&Array], output: &Array) -> Vec<(String, bool)> {
        let Some(device) = output.device().as_opencl() else {
            return Vec::new();
        };
        let entry = |&kernel: &O::Kernel| {
            let name = format!("{} {kernel:?}", std::any::type_name::<O>());
            (name, self.supports(kernel, device, inputs, output))
        };
        O::KERNELS.iter().map(entry).collect()
    }

    fn run(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        run(self, inputs, output)
    }

    fn run_kernel(&self, index: usize, inputs: &[&Array], output: &Array) -> Result<()> {
        let kernels = usable_kernels(self, inputs, output);
        match kernels.get(index) {
            Some(&kernel) => run_kernel(self, kernel, inputs, output),
            None if kernels.is_empty() => run(self, inputs, output),
            None => Err(Error::InvalidParameter {
                op: Operation::name(self),
                what: format!("there is no kernel {index}"),
            }),
        }
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], output: &Array) -> Vec<f64> {
        Operation::reference(self, values, inputs, output)
    }
}
