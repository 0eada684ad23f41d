//! One case: run with each kernel, compared with the reference, with guard zones checked.

use std::rc::Rc;

use crate::operation::AnyOperation;
use crate::{Array, Operation, Result};
use polaris_runtime::DeviceRef;

use super::operand::{Operand, Storage};
use super::tolerance::{Tolerance, agrees};

/// An operation with its arrays.
#[derive(Clone)]
pub struct Case {
    operation: Rc<dyn AnyOperation>,
    /// The inputs.
    pub inputs: Vec<Operand>,
    /// The output.
    pub output: Operand,
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
    pub fn new<O: Operation + Send + 'static>(
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
            kernels.push(format!("{}_{}_cpu", self.operation.name(), self.storage_name()));
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

    /// What tells the ways apart that the CPU has: how a weight is stored, otherwise the type of the last input.
    fn storage_name(&self) -> String {
        let weight = self.inputs.iter().find(|input| !matches!(input.storage, Storage::Dense));
        weight.or(self.inputs.last()).unwrap_or(&self.output).storage_name()
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
    ///
    /// # Errors
    /// If the operation refuses the arrays, or the device fails.
    pub fn try_evaluate(
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
            write!(f, " of {} {}", input.storage_name(), input.layout)?;
        }
        write!(f, " into {} {}", self.output.dtype, self.output.layout)
    }
}
