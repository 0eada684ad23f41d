//! Inputs that are only copied to the device are copied directly, without a detour through a host arena.

use polaris_onnx::ValueId;

use super::{Home, Instruction, Operand, Origin, PlanInput, PlanOutput, Slot, Step};

/// Lets copies of whole inputs begin where these were given. Inputs that nothing else reads then, or nothing at
/// all, need no array.
pub fn copy_from_given(
    instructions: &mut [Instruction],
    slots: &[Slot],
    inputs: &mut [PlanInput],
    outputs: &[(ValueId, PlanOutput)],
) {
    for input in inputs {
        let Some(Operand { slot, .. }) = input.operand else { continue };
        if matches!(slots[slot.0].home, Home::Bound) {
            continue;
        }
        let is_whole = |operand: &Operand| {
            let bytes = operand.layout.elements() * operand.dtype.size();
            operand.layout.is_contiguous() && bytes == slots[slot.0].bytes
        };
        let only_copied = instructions.iter().all(|instruction| match &instruction.step {
            Step::Transfer { input: Origin::Array(operand), .. } if operand.slot == slot => {
                is_whole(operand)
            }
            step => {
                let mut touches = false;
                step.for_operands(|operand| touches |= operand.slot == slot);
                !touches
            }
        });
        let is_result = outputs.iter().any(
            |(_, output)| matches!(output, PlanOutput::Array(operand, _) if operand.slot == slot),
        );
        if !only_copied || is_result {
            continue;
        }
        input.operand = None;
        for instruction in instructions.iter_mut() {
            if let Step::Transfer { input: origin, .. } = &mut instruction.step
                && matches!(origin, Origin::Array(operand) if operand.slot == slot)
            {
                *origin = Origin::Given(input.id);
            }
        }
    }
}
