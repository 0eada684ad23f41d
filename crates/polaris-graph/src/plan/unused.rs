//! Removes instructions whose results are not read, such as those of a node that was lowered together with the next
//! one.

use polaris_onnx::ValueId;

use super::{Instruction, PlanOutput, Step};

/// Removes instructions of devices, and copies between them, whose results are not read; says how many.
pub fn remove_unused(
    instructions: &mut Vec<Instruction>,
    slots: usize,
    outputs: &[(ValueId, PlanOutput)],
) -> usize {
    let before = instructions.len();
    let mut read = vec![false; slots];
    for (_, output) in outputs {
        if let PlanOutput::Array(operand, _) = output {
            read[operand.slot.0] = true;
        }
    }
    let mut kept: Vec<Instruction> = Vec::with_capacity(before);
    for instruction in instructions.drain(..).rev() {
        let wanted = match &instruction.step {
            Step::Device { output, .. } | Step::Transfer { output, .. } => read[output.slot.0],
            Step::Host { .. } => true,
        };
        if wanted {
            // The result is among them, but it is read already, or nobody asks.
            instruction.step.for_operands(|operand| read[operand.slot.0] = true);
            kept.push(instruction);
        }
    }
    kept.reverse();
    *instructions = kept;
    before - instructions.len()
}
