//! Expressions on the CPU: block by block, each step by the elementwise function's own loop, with all intermediate
//! results in the L1 cache. This file decides what is the same for all blocks.

use polaris_core::Collapsed;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::NAME;
use super::cpu_blocks::{OPERANDS, Operand, Run, SHORT, Source, Step, UNIT};
use super::expression::{Expression, MAX_INPUTS, Node};
use crate::cpu::blocks::{LINE, end_streaming};
use crate::cpu::map::{SendPointer, streaming_threshold};
use crate::cpu::math::Real;
use crate::elementwise::cpu_functions::{float, same};
use crate::{Array, Result};

/// Bytes of the registers, numbers and copied inputs of a block: half an L1 cache, which leaves room for the inputs
/// and outputs that are used in place.
const WORKING_SET: usize = 24 << 10;

/// A longer block hides no more of the cost of a call.
const LONGEST: usize = 16 * UNIT;

/// Fewer steps on elements than this are not worth a second thread.
const GRAIN: usize = 16 * 1024;

pub fn run<C: Real>(
    expression: &Expression,
    cpu: &CpuDevice,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    // Operands that are not used walk with the output.
    let mut layouts = [*output.layout(); OPERANDS];
    let mut buffers = [output.buffer(); MAX_INPUTS];
    for (index, input) in inputs.iter().enumerate() {
        buffers[index] = input.buffer();
        if expression.schedule().inputs.contains(&index) {
            layouts[index + 1] = input.layout().broadcast_to(NAME, output.shape())?;
        }
    }
    let space = Collapsed::new(output.shape(), layouts.each_ref());
    let memory = HostOperands::new(NAME, &buffers[..inputs.len()], output.buffer())?;
    let run = plan::<C>(expression, cpu, space, &memory, inputs, output);
    let work = run.block * run.steps.len();
    cpu.pool().for_chunks(run.blocks(), (GRAIN / work).max(1), |chunk| {
        let mut slots = vec![C::default(); run.slots * run.block + LINE];
        let aligned = slots.as_ptr().align_offset(LINE);
        let slots = slots[aligned..].as_mut_ptr();
        // SAFETY: there is room for all slots; the operands' layouts were checked against their
        // buffers, which are registered as read and written; blocks write disjoint elements.
        unsafe {
            run.fill(slots);
            for index in chunk {
                run.block(&run.span(index), slots);
            }
        }
        if run.stream {
            end_streaming();
        }
    });
    Ok(())
}

/// How each operand is had, where each value is kept, and how long blocks are.
fn plan<C: Real>(
    expression: &Expression,
    cpu: &CpuDevice,
    space: Collapsed<OPERANDS>,
    memory: &HostOperands<'_>,
    inputs: &[&Array],
    output: &Array,
) -> Run<C> {
    let schedule = expression.schedule();
    let (length, strides) = space.inner();
    let joined = space.elements() > length && length < SHORT;
    let is_direct = |operand: usize, array: &Array| {
        strides[operand] == 1 && array.dtype() == C::NATIVE && !joined
    };
    let seen = |operand: usize, start: *mut u8, array: &Array| {
        Some(Operand { start: SendPointer(start), dtype: array.dtype(), stride: strides[operand] })
    };
    let mut operands = [None; OPERANDS];
    operands[0] = seen(0, memory.output(), output);
    let mut sources = [None; MAX_INPUTS];
    let mut slots = schedule.registers + schedule.numbers.len();
    for &index in &schedule.inputs {
        let operand = index + 1;
        operands[operand] = seen(operand, memory.input(index).cast_mut(), inputs[index]);
        let single = space.strides(operand).iter().all(|&stride| stride == 0);
        sources[index] = Some(match is_direct(operand, inputs[index]) {
            true => Source::Direct,
            false if single => Source::Single(slots),
            false => Source::Copied(slots),
        });
        slots += usize::from(!matches!(sources[index], Some(Source::Direct)));
    }
    let longest = if joined { LONGEST } else { length.min(LONGEST) };
    let block = (WORKING_SET / size_of::<C>() / slots).min(longest.next_multiple_of(UNIT));
    // The last step may write to the output only if no argument of a step shares its memory.
    let aliased = inputs.iter().any(|input| input.overlaps(output));
    let bytes = output.elements() * output.dtype().size();
    let number = |number: &Node| match *number {
        Node::Scalar(index) => C::of(expression.scalars()[index]),
        Node::Constant(bits) => C::of(f64::from_bits(bits)),
        _ => unreachable!("the numbers of a schedule should be scalars and constants"),
    };
    let steps = schedule.steps.iter().map(|step| Step {
        function: step.function.map_or_else(same, float),
        arity: step.function.map_or(1, |function| function.arity()),
        arguments: step.arguments,
        target: step.target,
    });
    Run {
        simd: cpu.simd(),
        space,
        operands,
        sources,
        steps: steps.collect(),
        numbers: schedule.numbers.iter().map(number).collect(),
        registers: schedule.registers,
        slots,
        length,
        block: (block / UNIT * UNIT).max(UNIT),
        to_output: is_direct(0, output) && !aliased,
        stream: bytes as u64 >= streaming_threshold(cpu),
    }
}
