//! The places of slots in an arena: those that are not needed at the same time may share memory.

use super::Side;
use super::{Home, Instruction, Operand, PlanInput, PlanOutput, Slot, Step};

/// Every slot begins at a multiple of this: a cache line, and what OpenCL promises for views.
const ALIGNMENT: usize = 256;

/// From the first to the last instruction that touches a slot.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    /// The first.
    pub first: usize,
    /// The last; the number of instructions for what is read after the last one.
    pub last: usize,
}

/// Lets results lie where an operand lies that nobody needs afterwards.
pub fn share_in_place(
    instructions: &mut [Instruction],
    slots: &[Slot],
    inputs: &[PlanInput],
    outputs: &mut [(polaris_onnx::ValueId, PlanOutput)],
) {
    let lives = lives(instructions, slots, inputs, outputs);
    let mut moved: Vec<usize> = (0..slots.len()).collect();
    // The last instruction that needs what a slot holds now, with all that moved into it.
    let mut last: Vec<usize> = lives.iter().map(|life| life.map_or(0, |life| life.last)).collect();
    for (at, instruction) in instructions.iter().enumerate() {
        let Step::Device { action, inputs, output } = &instruction.step else { continue };
        if !action.works_in_place() || !output.layout.is_contiguous() || output.layout.offset() > 0
        {
            continue;
        }
        let target = output.slot.0;
        // Something else is written into the same slot, as into parts of a concatenation.
        if lives[target].is_none_or(|life| life.first != at) || moved[target] != target {
            continue;
        }
        let candidate = inputs.iter().find(|input| {
            let home = moved[input.slot.0];
            let same = input.dtype == output.dtype && input.layout == output.layout;
            let arena = matches!(slots[home].home, Home::Arena { .. });
            // Other views of the same memory would be overwritten while they are read.
            let only_view = inputs.iter().all(|other| {
                moved[other.slot.0] != home
                    || (other.dtype == input.dtype && other.layout == input.layout)
            });
            let fits = arena && slots[home].bytes == slots[target].bytes;
            same && only_view && fits && last[home] == at
        });
        if let Some(input) = candidate {
            let home = moved[input.slot.0];
            moved[target] = home;
            last[home] = last[target];
        }
    }
    let place = |operand: &mut Operand| operand.slot.0 = moved[operand.slot.0];
    for instruction in instructions {
        instruction.step.for_operands_mut(place);
    }
    for (_, output) in outputs {
        if let PlanOutput::Array(operand, _) = output {
            place(operand);
        }
    }
}

/// Places every slot of the arena; returns the sizes of the chunks on either side. A chunk is no larger
/// than a device allows, unless one slot alone is.
pub fn place(
    instructions: &[Instruction],
    slots: &mut [Slot],
    inputs: &[PlanInput],
    outputs: &[(polaris_onnx::ValueId, PlanOutput)],
    largest_chunk: [usize; 2],
) -> [Vec<usize>; 2] {
    let lives = lives(instructions, slots, inputs, outputs);
    let mut arenas = [Vec::new(), Vec::new()];
    for side in Side::ALL {
        let mut order: Vec<usize> = (0..slots.len())
            .filter(|&slot| {
                slots[slot].side == side && matches!(slots[slot].home, Home::Arena { .. })
            })
            .filter(|&slot| lives[slot].is_some())
            .collect();
        // The largest first: what is small fits into the gaps.
        order.sort_by_key(|&slot| (std::cmp::Reverse(slots[slot].bytes), slot));
        let mut placed: Vec<usize> = Vec::new();
        let chunks: &mut Vec<usize> = &mut arenas[side.index()];
        for slot in order {
            let bytes = slots[slot].bytes.max(1).next_multiple_of(ALIGNMENT);
            let life = lives[slot].expect("only slots with a life should be placed");
            let mut chunk = 0;
            let offset = loop {
                let offset = lowest_gap(&placed, slots, &lives, chunk, bytes, life);
                let fits = offset + bytes <= largest_chunk[side.index()];
                if fits || chunks.get(chunk).is_none_or(|&size| size == 0) {
                    break offset;
                }
                chunk += 1;
            };
            if chunks.len() <= chunk {
                chunks.resize(chunk + 1, 0);
            }
            chunks[chunk] = chunks[chunk].max(offset + bytes);
            slots[slot].home = Home::Arena { chunk, offset };
            placed.push(slot);
        }
    }
    arenas
}

/// The lowest place in a chunk that no slot of an overlapping life has.
fn lowest_gap(
    placed: &[usize],
    slots: &[Slot],
    lives: &[Option<Life>],
    chunk: usize,
    bytes: usize,
    life: Life,
) -> usize {
    let mut taken: Vec<(usize, usize)> = placed
        .iter()
        .filter_map(|&other| {
            let Home::Arena { chunk: at, offset } = slots[other].home else { return None };
            let theirs = lives[other]?;
            let overlap = life.first <= theirs.last && theirs.first <= life.last;
            let size = slots[other].bytes.max(1).next_multiple_of(ALIGNMENT);
            (at == chunk && overlap).then_some((offset, offset + size))
        })
        .collect();
    taken.sort_unstable();
    let mut offset = 0;
    for (start, end) in taken {
        if start >= offset + bytes {
            break;
        }
        offset = offset.max(end);
    }
    offset
}

/// When slots are in use. Inputs are there from the beginning, outputs to the end.
pub fn lives(
    instructions: &[Instruction],
    slots: &[Slot],
    inputs: &[PlanInput],
    outputs: &[(polaris_onnx::ValueId, PlanOutput)],
) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; slots.len()];
    let mut touch = |operand: &Operand, at: usize| {
        let life = lives[operand.slot.0].get_or_insert(Life { first: at, last: at });
        life.first = life.first.min(at);
        life.last = life.last.max(at);
    };
    for input in inputs {
        if let Some(operand) = &input.operand {
            touch(operand, 0);
        }
    }
    for (at, instruction) in instructions.iter().enumerate() {
        instruction.step.for_operands(|operand| touch(operand, at));
    }
    for (_, output) in outputs {
        if let PlanOutput::Array(operand, _) = output {
            touch(operand, instructions.len());
        }
    }
    lives
}
