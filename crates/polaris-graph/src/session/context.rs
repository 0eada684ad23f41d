//! The memory of runs, and a plan's arrays in it, made ready for every instruction. Runs that follow one
//! another use the same memory, also those of other plans; runs at the same time have one each.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use polaris_core::DType;
use polaris_ops::Array;
use polaris_runtime::{Buffer, DeviceExt};

use crate::Result;
use crate::build::Engine;
use crate::plan::{Home, HostInput, HostOutput, Operand, Origin, Plan, PlanOutput, Side, Step};

/// The arrays of an instruction.
#[derive(Debug)]
pub struct Ready {
    /// Of inputs that are arrays, in their order; those of captured values follow.
    pub inputs: Vec<Array>,
    /// Of outputs that are arrays, in their order.
    pub outputs: Vec<Array>,
}

/// Arenas of either side for one run at a time; none in the beginning. It grows with the largest plan that it is
/// used for.
#[derive(Debug, Default)]
pub struct Memory {
    /// Tells it from all others, and from itself before it grew.
    number: u64,
    arenas: [Vec<Buffer>; 2],
}

impl Memory {
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn bytes(&self) -> usize {
        self.arenas.iter().flatten().map(Buffer::bytes).sum()
    }

    pub fn has_room_for(&self, plan: &Plan) -> bool {
        (plan.arenas.iter().zip(&self.arenas)).all(|(sizes, arenas)| {
            let enough = sizes.iter().zip(arenas).all(|(&bytes, arena)| bytes <= arena.bytes());
            enough && sizes.len() <= arenas.len()
        })
    }

    /// Makes room for a plan. Arenas that are too small are let go of before larger ones are taken.
    pub fn grow(&mut self, plan: &Plan, engine: &Engine) -> Result<()> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        self.number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        for side in Side::ALL {
            let arenas = &mut self.arenas[side.index()];
            for (chunk, &bytes) in plan.arenas[side.index()].iter().enumerate() {
                if arenas.get(chunk).is_some_and(|arena| bytes <= arena.bytes()) {
                    continue;
                }
                // Those behind it go too: they are few, and seldom there at all.
                arenas.truncate(chunk);
                arenas.push(engine.device(side).allocate(DType::U8, bytes)?);
            }
        }
        Ok(())
    }
}

/// A plan's arrays in a memory.
#[derive(Debug)]
pub struct Context {
    /// The number of the memory.
    pub memory: u64,
    /// One for each instruction.
    pub ready: Vec<Ready>,
    /// One for each input that is an array.
    pub inputs: Vec<Option<Array>>,
    /// One for each output that is an array.
    pub outputs: Vec<Option<Array>>,
    /// How long the last run took.
    pub last_run: Cell<Option<Duration>>,
}

impl Context {
    /// In a memory that has room for the plan.
    pub fn new(plan: &Plan, memory: &Memory) -> Result<Self> {
        let array = |operand: &Operand| -> Result<Array> {
            let slot = &plan.slots[operand.slot.0];
            match &slot.home {
                Home::Constant(array) => Ok(array.with_layout(operand.layout)?),
                Home::Arena { chunk, offset } => {
                    let elements = slot.bytes / operand.dtype.size();
                    let arena = &memory.arenas[slot.side.index()][*chunk];
                    let buffer = arena.elements_at(*offset, operand.dtype, elements)?;
                    Ok(Array::new(buffer, operand.layout)?)
                }
            }
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
                    if let Origin::Array(input) = input {
                        arrays.inputs.push(array(input)?);
                    }
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
        Ok(Self { memory: memory.number, ready, inputs, outputs, last_run: Cell::new(None) })
    }
}

/// The part of a buffer that a dense array covers.
pub fn dense_part(array: &Array) -> Result<Buffer> {
    let start = array.layout().offset();
    Ok(array.buffer().view(start..start + array.elements())?)
}
