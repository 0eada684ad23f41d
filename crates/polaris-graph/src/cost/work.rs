//! The work of instructions. Operations report their own; of transfers and interpreted operators only the memory
//! traffic is known.

use polaris_ops::{Class, Work};

use crate::plan::{HostInput, HostOutput, Instruction, Operand, Step};

/// The class of an instruction.
pub fn class_of(step: &Step) -> Class {
    match step {
        Step::Transfer { .. } => Class::Transfer,
        Step::Host { .. } => Class::Host,
        Step::Device { action, .. } => action.class(),
    }
}

/// The work of an instruction.
pub fn work_of(instruction: &Instruction) -> Work {
    match &instruction.step {
        Step::Device { action, inputs, output } => action.work(inputs, output),
        Step::Transfer { output, .. } => {
            let parallelism = output.layout.elements() as u64;
            Work { flops: 0, bytes: 2 * bytes(output), parallelism }
        }
        Step::Host { inputs, captured, outputs } => {
            let read = inputs.iter().flatten().chain(captured).map(|input| match input {
                HostInput::Array(operand, _) => bytes(operand),
                HostInput::Constant(polaris_onnx::Value::Tensor(tensor), _) => {
                    (tensor.elements() * tensor.element().size()) as u64
                }
                _ => 0,
            });
            let written = outputs.iter().map(|output| match output {
                HostOutput::Array(operand) => bytes(operand),
                _ => 0,
            });
            Work { flops: 0, bytes: read.chain(written).sum(), parallelism: 1 }
        }
    }
}

fn bytes(operand: &Operand) -> u64 {
    operand.array_type().bytes() as u64
}
