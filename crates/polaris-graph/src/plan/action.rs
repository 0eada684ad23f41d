//! The action of an instruction on a device.

use std::any::Any;
use std::sync::Arc;

use polaris_ops::{AnyOperation, Array, Class, Operation, Work};

use super::Operand;

/// An operation with its parameters. Which operations there are is known to `polaris-ops` alone.
#[derive(Debug, Clone)]
pub struct Action(Arc<dyn AnyOperation>);

impl Action {
    /// An operation.
    pub fn new<O: Operation + Send + 'static>(operation: O) -> Self {
        Self(Arc::new(operation))
    }

    /// The operation, if it is of this kind.
    pub fn downcast<O: Operation + 'static>(&self) -> Option<&O> {
        let operation: &dyn Any = &*self.0;
        operation.downcast_ref()
    }

    /// Its name in a plan.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// What is computed.
    pub fn parameters(&self) -> String {
        format!("{:?}", self.0)
    }

    /// Computes.
    ///
    /// # Errors
    /// If the arrays do not fit together, or the device fails.
    pub fn run(&self, inputs: &[&Array], output: &Array) -> polaris_ops::Result<()> {
        self.0.run(inputs, output)
    }

    /// Whether an OpenCL device has a kernel for it that is not quarantined. A device without one would send the
    /// arrays to the CPU and back.
    pub fn has_kernel(&self, inputs: &[&Array], output: &Array) -> bool {
        output.elements() == 0 || self.0.has_trusted_kernel(inputs, output)
    }

    /// Whether the result may lie where an operand of the same layout lies.
    pub fn works_in_place(&self) -> bool {
        self.0.works_in_place()
    }

    /// What it is like in the share of a device's speed that it reaches.
    pub fn class(&self) -> Class {
        self.0.class()
    }

    /// What it has to do with these operands.
    pub fn work(&self, inputs: &[Operand], output: &Operand) -> Work {
        let inputs: Vec<_> = inputs.iter().map(Operand::array_type).collect();
        self.0.work(&inputs, &output.array_type())
    }
}
