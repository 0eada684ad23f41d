//! The memory of one run of a plan, with every instruction's arrays made ready. Runs that follow one
//! another use the same; runs at the same time have one each.

use polaris_core::DType;
use polaris_ops::Array;
use polaris_runtime::{Buffer, DeviceExt};

use super::runner::Engine;
use crate::Result;
use crate::plan::{Home, HostInput, HostOutput, Operand, Plan, PlanOutput, Side, Step};

/// The arrays of an instruction.
#[derive(Debug)]
pub struct Ready {
    /// Of inputs that are arrays, in their order; those of captured values follow.
    pub inputs: Vec<Array>,
    /// Of outputs that are arrays, in their order.
    pub outputs: Vec<Array>,
}

/// The memory of one run.
#[derive(Debug)]
pub struct Context {
    /// One for each instruction.
    pub ready: Vec<Ready>,
    /// One for each input that is an array.
    pub inputs: Vec<Option<Array>>,
    /// One for each output that is an array.
    pub outputs: Vec<Option<Array>>,
}

impl Context {
    pub fn new(plan: &Plan, engine: &Engine) -> Result<Self> {
        let mut arenas: [Vec<Buffer>; 2] = [Vec::new(), Vec::new()];
        for side in Side::ALL {
            for &bytes in &plan.arenas[side.index()] {
                arenas[side.index()].push(engine.device(side).allocate(DType::U8, bytes)?);
            }
        }
        let array = |operand: &Operand| -> Result<Array> {
            let slot = &plan.slots[operand.slot.0];
            let buffer = match &slot.home {
                Home::Constant(array) => array.buffer().clone(),
                Home::Arena { chunk, offset } => {
                    let elements = slot.bytes / operand.dtype.size();
                    match arenas[slot.side.index()].get(*chunk) {
                        Some(arena) => arena.elements_at(*offset, operand.dtype, elements)?,
                        // Nothing touches it.
                        None => engine.device(slot.side).allocate(operand.dtype, elements)?,
                    }
                }
            };
            Ok(Array::new(buffer, operand.layout)?)
        };
        let mut ready = Vec::with_capacity(plan.instructions.len());
        for instruction in &plan.instructions {
            let mut arrays = Ready { inputs: Vec::new(), outputs: Vec::new() };
            match &instruction.step {
                Step::Device { inputs, output, .. } => {
                    arrays.inputs = inputs.iter().map(array).collect::<Result<_>>()?;
                    arrays.outputs.push(array(output)?);
                }
                Step::Transfer { input, output } => {
                    arrays.inputs.push(array(input)?);
                    arrays.outputs.push(array(output)?);
                }
                Step::Host { inputs, captured, outputs } => {
                    for input in inputs.iter().flatten().chain(captured) {
                        if let HostInput::Array(operand, _) = input {
                            arrays.inputs.push(array(operand)?);
                        }
                    }
                    for output in outputs {
                        if let HostOutput::Array(operand) = output {
                            arrays.outputs.push(array(operand)?);
                        }
                    }
                }
            }
            ready.push(arrays);
        }
        let inputs = (plan.inputs.iter())
            .map(|input| input.operand.as_ref().map(array).transpose())
            .collect::<Result<_>>()?;
        let outputs = (plan.outputs.iter())
            .map(|(_, output)| match output {
                PlanOutput::Array(operand, _) => array(operand).map(Some),
                _ => Ok(None),
            })
            .collect::<Result<_>>()?;
        Ok(Self { ready, inputs, outputs })
    }
}

/// The part of a buffer that a dense array covers.
pub fn dense_part(array: &Array) -> Result<Buffer> {
    let start = array.layout().offset();
    Ok(array.buffer().view(start..start + array.elements())?)
}
