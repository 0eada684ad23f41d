//! Dependencies between instructions: writes before reads and overwrites.

use super::{HostInput, HostOutput, Instruction, Origin, Slot, Step};

/// The instructions that each one must come after. Views of one slot count as the whole slot. What the
/// interpreter does stays in its order, since its values lie outside of slots.
pub fn dependencies(instructions: &[Instruction], slots: &[Slot]) -> Vec<Vec<usize>> {
    let mut writer: Vec<Option<usize>> = vec![None; slots.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); slots.len()];
    let mut host: Option<usize> = None;
    let mut all = Vec::with_capacity(instructions.len());
    for (at, instruction) in instructions.iter().enumerate() {
        let (read, written) = slots_of(&instruction.step);
        let mut after: Vec<usize> = Vec::new();
        after.extend(read.iter().filter_map(|&slot| writer[slot]));
        for &slot in &written {
            after.extend(writer[slot]);
            after.append(&mut readers[slot]);
            writer[slot] = Some(at);
        }
        for &slot in read.iter().filter(|slot| !written.contains(slot)) {
            readers[slot].push(at);
        }
        if let Step::Host { .. } = instruction.step {
            after.extend(host.replace(at));
        }
        after.retain(|&before| before != at);
        after.sort_unstable();
        after.dedup();
        all.push(after);
    }
    all
}

/// Slots that a step reads and writes.
fn slots_of(step: &Step) -> (Vec<usize>, Vec<usize>) {
    match step {
        Step::Device { inputs, output, .. } => {
            (inputs.iter().map(|input| input.slot.0).collect(), vec![output.slot.0])
        }
        Step::Transfer { input: Origin::Array(input), output } => {
            (vec![input.slot.0], vec![output.slot.0])
        }
        Step::Transfer { input: Origin::Given(_), output } => (Vec::new(), vec![output.slot.0]),
        Step::Host { inputs, captured, outputs } => {
            let read = inputs.iter().flatten().chain(captured).filter_map(|input| match input {
                HostInput::Array(operand, _) => Some(operand.slot.0),
                _ => None,
            });
            let written = outputs.iter().filter_map(|output| match output {
                HostOutput::Array(operand) => Some(operand.slot.0),
                _ => None,
            });
            (read.collect(), written.collect())
        }
    }
}
