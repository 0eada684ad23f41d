//! A plan: a flat list of instructions for inputs of known shapes, with the place of every operand.

mod action;
pub(crate) mod fuse;
pub(crate) mod given;
pub(crate) mod memory;
mod order;
mod text;
pub(crate) mod types;
pub(crate) mod unused;

use std::collections::HashMap;
use std::sync::Arc;

use polaris_core::{DType, Layout};
use polaris_onnx::{Type, Value, ValueId};
use polaris_ops::{Array, ArrayType, Format};

pub use crate::side::Side;
pub use action::Action;
pub use memory::Life;
pub(crate) use order::dependencies;
pub use text::{PlanText, Row};
pub(crate) use types::{dtype_of, element_of, has_adjacent_channels, with_adjacent_channels};

/// A stretch of memory that holds one array at a time.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The value that it was made for.
    pub name: String,
    /// Its side.
    pub side: Side,
    /// Its size.
    pub bytes: usize,
    /// Where it lies.
    pub home: Home,
}

/// The place of a slot.
#[derive(Debug, Clone)]
pub enum Home {
    /// In the plan's arena, which each run has for itself.
    Arena {
        /// Arenas are cut where a device has a largest allocation.
        chunk: usize,
        /// The first byte.
        offset: usize,
    },
    /// A constant, which all runs share.
    Constant(Array),
    /// Memory that a run brings: an input that lies on the device, or what an output is returned in.
    Bound,
}

/// A value that a plan is made for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Given {
    pub id: ValueId,
    pub ty: Type,
    /// The side where its array lies, which is read there; `None` if it is copied from the host.
    pub side: Option<Side>,
}

/// The place of a slot in a plan's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub usize);

/// An array of an instruction: a layout over a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operand {
    /// The memory.
    pub slot: SlotId,
    /// The type of its elements.
    pub dtype: DType,
    /// How they are stored.
    pub format: Format,
    /// How they lie in it.
    pub layout: Layout,
}

impl Operand {
    /// What it is, without its memory.
    pub fn array_type(&self) -> ArrayType {
        ArrayType { dtype: self.dtype, format: self.format, layout: self.layout }
    }
}

/// What an operator that runs on the host takes.
#[derive(Debug, Clone)]
pub enum HostInput {
    /// A dense array on the CPU.
    Array(Operand, ValueId),
    /// A constant.
    Constant(Value, ValueId),
    /// A value that is not an array: of another type, a sequence, or of a shape that was not foreseen.
    Value(ValueId),
}

/// Where a result of an operator that runs on the host goes.
#[derive(Debug, Clone)]
pub enum HostOutput {
    /// Into a dense array on the CPU.
    Array(Operand),
    /// Into the run's list of values.
    Value(ValueId),
    /// Unused.
    Nowhere,
}

/// Where a dense array is copied from.
#[derive(Debug, Clone, Copy)]
pub enum Origin {
    /// From an array of the other side.
    Array(Operand),
    /// From where an input was given.
    Given(ValueId),
}

/// What happens.
#[derive(Debug, Clone)]
pub enum Step {
    /// An operation on a device.
    Device {
        /// What is computed.
        action: Action,
        /// From what.
        inputs: Vec<Operand>,
        /// Into what.
        output: Operand,
    },
    /// A dense array is copied to the other side.
    Transfer {
        /// From what.
        input: Origin,
        /// Into what.
        output: Operand,
    },
    /// An operator is interpreted on the host.
    Host {
        /// What it takes; `None` where an operand is left out.
        inputs: Vec<Option<HostInput>>,
        /// What graphs inside it refer to.
        captured: Vec<HostInput>,
        /// Where its results go.
        outputs: Vec<HostOutput>,
    },
}

/// Does something with every array of a step, inputs first, through references of either kind.
macro_rules! each_operand {
    ($step:expr, $each:expr, $iter:ident) => {
        match $step {
            Self::Device { inputs, output, .. } => {
                inputs.$iter().for_each(&mut $each);
                $each(output);
            }
            Self::Transfer { input, output } => {
                if let Origin::Array(input) = input {
                    $each(input);
                }
                $each(output);
            }
            Self::Host { inputs, captured, outputs } => {
                for input in inputs.$iter().flatten().chain(captured) {
                    if let HostInput::Array(operand, _) = input {
                        $each(operand);
                    }
                }
                for output in outputs {
                    if let HostOutput::Array(operand) = output {
                        $each(operand);
                    }
                }
            }
        }
    };
}

impl Step {
    /// Does something with every array, inputs first.
    pub fn for_operands(&self, mut each: impl FnMut(&Operand)) {
        each_operand!(self, each, iter);
    }

    /// The same, to change them.
    pub fn for_operands_mut(&mut self, mut each: impl FnMut(&mut Operand)) {
        each_operand!(self, each, iter_mut);
    }
}

/// A step with its place.
#[derive(Debug, Clone)]
pub struct Instruction {
    /// What happens.
    pub step: Step,
    /// Where.
    pub side: Side,
    /// The node of the graph that it is part of.
    pub node: usize,
}

/// An input of a plan.
#[derive(Debug, Clone)]
pub struct PlanInput {
    /// The value.
    pub id: ValueId,
    /// Its array; `None` if it is not an array, or is copied from where it was given.
    pub operand: Option<Operand>,
}

/// A result of a plan.
#[derive(Debug, Clone)]
pub enum PlanOutput {
    /// A dense array.
    Array(Operand, Type),
    /// A value of the run's list.
    Value,
    /// Known before anything runs.
    Constant(Value),
}

/// A list of instructions for inputs of known shapes.
#[derive(Debug)]
pub struct Plan {
    /// What happens, in this order.
    pub instructions: Vec<Instruction>,
    /// The memory.
    pub slots: Vec<Slot>,
    /// Bytes of the chunks of the arena, on either side.
    pub arenas: [Vec<usize>; 2],
    /// What is given.
    pub inputs: Vec<PlanInput>,
    /// What is wanted.
    pub outputs: Vec<(ValueId, PlanOutput)>,
    /// What comes after, where shapes depend on what is computed here.
    pub(crate) rest: Option<Arc<Rest>>,
    /// Bytes of values that are arrays.
    pub(crate) value_bytes: HashMap<ValueId, u64>,
    /// The predictions behind the choice, if it was chosen by them.
    pub prediction: Option<Prediction>,
}

/// How long whole plans took that were tried side by side.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Trial {
    /// Wholly on the CPU; `None` if that was not tried.
    pub cpu: Option<f64>,
    /// On the device, as far as it has the operations.
    pub gpu: Option<f64>,
    /// On both.
    pub hybrid: Option<f64>,
}

/// Predicted seconds of a run for the candidate plans.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Prediction {
    /// All on the CPU.
    pub cpu: f64,
    /// All on the device, as far as it has the operations.
    pub gpu: f64,
    /// On both; as one of the others where nothing is gained.
    pub hybrid: f64,
    /// Which of them was chosen.
    pub chosen: Choice,
    /// Benchmarked times of plans with close predictions.
    pub tried: Option<Trial>,
    /// What is expected of each instruction of the chosen one.
    #[serde(skip)]
    pub instructions: Vec<f64>,
}

impl Prediction {
    /// What a run is expected to take: what the chosen plan took when it was tried, otherwise what was
    /// expected of it.
    pub fn seconds(&self) -> f64 {
        let tried = self.tried.as_ref().and_then(|tried| match self.chosen {
            Choice::Cpu => tried.cpu,
            Choice::Gpu => tried.gpu,
            Choice::Hybrid => tried.hybrid,
        });
        tried.unwrap_or(match self.chosen {
            Choice::Cpu => self.cpu,
            Choice::Gpu => self.gpu,
            Choice::Hybrid => self.hybrid,
        })
    }
}

/// Which plan was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// All on the CPU.
    Cpu,
    /// All on the device.
    Gpu,
    /// On both.
    Hybrid,
}

impl Choice {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Hybrid => "hybrid",
        }
    }
}

/// Nodes that can be planned only when results of others are there.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Nodes of the graph.
    pub nodes: Vec<usize>,
    /// Values of the plan before that they need.
    pub needs: Vec<ValueId>,
    /// Constants that were found on the way.
    pub constants: HashMap<ValueId, Value>,
}

impl Plan {
    /// Whether everything but the rest's nodes runs on this side.
    pub fn is_wholly_on(&self, side: Side) -> bool {
        let all = self.instructions.iter().all(|instruction| match &instruction.step {
            Step::Device { .. } => instruction.side == side,
            Step::Transfer { .. } => true,
            Step::Host { .. } => false,
        });
        all && self.rest.is_none()
    }

    /// When each slot is in use; `None` for those that nothing touches.
    pub fn lives(&self) -> Vec<Option<Life>> {
        memory::lives(&self.instructions, &self.slots, &self.inputs, &self.outputs)
    }

    /// Bytes of the arena on a side.
    pub fn arena_bytes(&self, side: Side) -> usize {
        self.arenas[side.index()].iter().sum()
    }
}
