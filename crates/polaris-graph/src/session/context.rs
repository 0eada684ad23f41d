//! The memory of runs, and a plan's arrays in it, made ready for every instruction. Runs that follow one
//! another use the same memory, also those of other plans; runs at the same time have one each.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use polaris_core::{DType, Shape};
use polaris_onnx::ValueId;
use polaris_ops::Array;
use polaris_runtime::{Buffer, DeviceExt};

use super::value::SessionValue;
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
    /// Where arrays stand that only a run has memory for.
    bound: Vec<(Operand, Place)>,
    /// Stands there between runs, so that a context keeps nothing of its caller's.
    nothing: Option<Array>,
}

/// Where an array stands.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Among the inputs of an instruction.
    Input(usize, usize),
    /// Among the outputs of an instruction.
    Output(usize, usize),
    /// Among the inputs of the plan.
    Given(usize),
    /// Among the outputs of the plan.
    Result(usize),
}

impl Context {
    /// In a memory that has room for the plan. What is bound is missing until [`Self::bind`].
    pub fn new(plan: &Plan, memory: &Memory, engine: &Engine) -> Result<Self> {
        let is_bound = plan.slots.iter().any(|slot| matches!(slot.home, Home::Bound));
        let nothing = match is_bound {
            true => Some(Array::empty(engine.device(Side::Cpu), DType::U8, Shape::new(&[0])?)?),
            false => None,
        };
        let mut bound = Vec::new();
        let mut array = |operand: &Operand, place: Place| -> Result<Array> {
            let slot = &plan.slots[operand.slot.0];
            match &slot.home {
                Home::Constant(array) => Ok(array.with_layout(operand.layout)?),
                Home::Arena { chunk, offset } => {
                    part(&memory.arenas[slot.side.index()][*chunk], *offset, slot.bytes, operand)
                }
                Home::Bound => {
                    bound.push((*operand, place));
                    Ok(nothing.clone().expect("a plan with bound slots should have a stand-in"))
                }
            }
        };
        let mut ready = Vec::with_capacity(plan.instructions.len());
        for (at, instruction) in plan.instructions.iter().enumerate() {
            let mut arrays = Ready { inputs: Vec::new(), outputs: Vec::new() };
            let (inputs, outputs) = arrays_of(&instruction.step);
            for (place, operand) in inputs.into_iter().enumerate() {
                arrays.inputs.push(array(operand, Place::Input(at, place))?);
            }
            for (place, operand) in outputs.into_iter().enumerate() {
                arrays.outputs.push(array(operand, Place::Output(at, place))?);
            }
            ready.push(arrays);
        }
        let inputs = (plan.inputs.iter().enumerate())
            .map(|(at, input)| {
                input.operand.as_ref().map(|operand| array(operand, Place::Given(at))).transpose()
            })
            .collect::<Result<_>>()?;
        let outputs = (plan.outputs.iter().enumerate())
            .map(|(at, (_, output))| match output {
                PlanOutput::Array(operand, _) => array(operand, Place::Result(at)).map(Some),
                _ => Ok(None),
            })
            .collect::<Result<_>>()?;
        let (memory, last_run) = (memory.number, Cell::new(None));
        Ok(Self { memory, ready, inputs, outputs, last_run, bound, nothing })
    }

    /// Takes the memory of a run: that of inputs which lie on a device, and new memory for outputs that stay there.
    pub fn bind(
        &mut self,
        plan: &Plan,
        engine: &Engine,
        given: &[(ValueId, SessionValue)],
    ) -> Result<()> {
        if self.bound.is_empty() {
            return Ok(());
        }
        let mut homes: HashMap<usize, Buffer> = HashMap::new();
        for (input, (_, value)) in plan.inputs.iter().zip(given) {
            if let (Some(operand), SessionValue::Device(array)) = (&input.operand, value)
                && matches!(plan.slots[operand.slot.0].home, Home::Bound)
            {
                homes.insert(operand.slot.0, dense_part(array)?);
            }
        }
        for (operand, place) in std::mem::take(&mut self.bound) {
            let slot = &plan.slots[operand.slot.0];
            let home = match homes.entry(operand.slot.0) {
                Entry::Occupied(home) => home.into_mut(),
                Entry::Vacant(home) => {
                    home.insert(engine.device(slot.side).allocate(DType::U8, slot.bytes)?)
                }
            };
            let array = part(home, 0, slot.bytes, &operand)?;
            self.put(place, array);
            self.bound.push((operand, place));
        }
        Ok(())
    }

    /// Lets go of the memory of a run.
    pub fn unbind(&mut self) {
        let Some(nothing) = self.nothing.clone() else { return };
        for at in 0..self.bound.len() {
            self.put(self.bound[at].1, nothing.clone());
        }
    }

    fn put(&mut self, place: Place, array: Array) {
        match place {
            Place::Input(instruction, at) => self.ready[instruction].inputs[at] = array,
            Place::Output(instruction, at) => self.ready[instruction].outputs[at] = array,
            Place::Given(at) => self.inputs[at] = Some(array),
            Place::Result(at) => self.outputs[at] = Some(array),
        }
    }
}

/// The operands of a step that are arrays: those that it reads, captured ones last, and those that it writes.
fn arrays_of(step: &Step) -> (Vec<&Operand>, Vec<&Operand>) {
    match step {
        Step::Device { inputs, output, .. } => (inputs.iter().collect(), vec![output]),
        Step::Transfer { input: Origin::Array(input), output } => (vec![input], vec![output]),
        Step::Transfer { input: Origin::Given(_), output } => (Vec::new(), vec![output]),
        Step::Host { inputs, captured, outputs } => {
            let read = inputs.iter().flatten().chain(captured).filter_map(|input| match input {
                HostInput::Array(operand, _) => Some(operand),
                _ => None,
            });
            let written = outputs.iter().filter_map(|output| match output {
                HostOutput::Array(operand) => Some(operand),
                _ => None,
            });
            (read.collect(), written.collect())
        }
    }
}

/// An array in a slot, which begins at a byte of a buffer.
fn part(buffer: &Buffer, byte: usize, bytes: usize, operand: &Operand) -> Result<Array> {
    let elements = bytes / operand.dtype.size();
    Ok(Array::new(buffer.elements_at(byte, operand.dtype, elements)?, operand.layout)?)
}

/// The part of a buffer that a dense array covers.
pub fn dense_part(array: &Array) -> Result<Buffer> {
    let start = array.layout().offset();
    Ok(array.buffer().view(start..start + array.elements())?)
}
