//! What nobody reads is not computed: a node that was lowered together with the one after it has left
//! instructions of its own behind.

use polaris_onnx::ValueId;

use super::{Instruction, PlanOutput, Step};

/// Removes instructions of devices, and copies between them, whose results nobody reads; says how many.
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
