//! Makes a plan: walks the nodes, tracks what is known of each value and its place, and lowers each operator to
//! operations of a device or an instruction of the interpreter.

mod constants;
mod engine;
mod finish;
mod host;
mod lower;
mod lowering;
mod packs;

use std::collections::{HashMap, HashSet};

use polaris_onnx::infer::{Fact, infer_node};
use polaris_onnx::operators::NoScope;
use polaris_onnx::{Dim, Graph, Node, Tensor, Type, Value, ValueId, interpret_node};

pub(crate) use constants::{Constants, Usage};
pub(crate) use engine::{Engine, lock};
pub(crate) use packs::Packs;

use crate::Result;
use crate::passes::{FOLDED_ELEMENTS, is_determined};
use crate::plan::types::array_type;
use crate::plan::{Given, Home, Instruction, Operand, Plan, PlanInput, Side, Slot};

/// What a plan is made for.
pub(crate) struct Request<'a> {
    pub graph: &'a Graph,
    /// The nodes to plan, in order.
    pub nodes: &'a [usize],
    pub given: &'a [Given],
    /// Whether outputs of the graph stay on their devices, in memory of their own.
    pub keeps_outputs: bool,
    /// Constants besides those of the graph.
    pub constants: &'a HashMap<ValueId, Value>,
    /// Where to compute what can be computed there.
    pub side: Side,
    /// Nodes that the device has no kernel for.
    pub on_cpu: &'a HashSet<usize>,
    /// Arrays of the graph's constants.
    pub arrays: &'a Constants,
    /// The largest allocation on either side.
    pub largest_chunk: [usize; 2],
    /// Another order of the instructions, before they get their places in memory.
    pub reorder: Option<&'a Reorder<'a>>,
}

/// The order in which instructions shall run, by their places in the list.
pub(crate) type Reorder<'a> = dyn Fn(&[Instruction], &[Slot]) -> Vec<usize> + 'a;

/// The place of a value.
#[derive(Debug, Clone, Copy, Default)]
struct Located {
    /// On either side.
    places: [Option<Operand>; 2],
    /// In the run's list of values.
    value: bool,
}

pub(crate) struct Builder<'a> {
    request: Request<'a>,
    facts: Vec<Fact>,
    constants: HashMap<ValueId, Value>,
    located: Vec<Located>,
    slots: Vec<Slot>,
    instructions: Vec<Instruction>,
    /// Constants that were prepared for what they are used for.
    weights: HashMap<(ValueId, Usage, Side), Operand>,
    /// The node that makes each value as its first result.
    makers: HashMap<ValueId, usize>,
    /// Side and place of the node that is being lowered.
    side: Side,
    node: usize,
}

impl<'a> Builder<'a> {
    /// Makes the plan.
    pub fn plan(request: Request<'a>) -> Result<Plan> {
        let values = request.graph.values.len();
        let mut builder = Self {
            facts: vec![Fact::default(); values],
            constants: HashMap::new(),
            located: vec![Located::default(); values],
            slots: Vec::new(),
            instructions: Vec::new(),
            weights: HashMap::new(),
            makers: makers(request.graph),
            side: request.side,
            node: 0,
            request,
        };
        let inputs = builder.given()?;
        let deferred = builder.walk()?;
        builder.finish(inputs, deferred)
    }

    /// Takes up what is given and what is constant.
    fn given(&mut self) -> Result<Vec<PlanInput>> {
        let graph = self.request.graph;
        let given: HashSet<ValueId> = self.request.given.iter().map(|given| given.id).collect();
        for (index, slot) in graph.values.iter().enumerate() {
            let id = ValueId(index as u32);
            let constant = self.request.constants.get(&id).or(slot.constant.as_ref());
            if let (Some(value), false) = (constant, given.contains(&id)) {
                self.set_constant(id, value.clone());
            }
        }
        let mut inputs = Vec::new();
        for Given { id, ty, side } in self.request.given {
            self.facts[id.index()].ty = Some(ty.clone());
            let operand = match array_type(ty) {
                Some((dtype, shape)) => {
                    let on = side.unwrap_or(Side::Cpu);
                    let operand = self.slot_for(&graph.value(*id).name, on, dtype, shape);
                    if side.is_some() {
                        self.slots[operand.slot.0].home = Home::Bound;
                    }
                    self.located[id.index()].places[on.index()] = Some(operand);
                    Some(operand)
                }
                None => {
                    self.located[id.index()].value = true;
                    None
                }
            };
            inputs.push(PlanInput { id: *id, operand });
        }
        Ok(inputs)
    }

    fn set_constant(&mut self, id: ValueId, value: Value) {
        let fact = &mut self.facts[id.index()];
        fact.ty = Some(value.ty());
        if let Value::Tensor(tensor) = &value {
            fact.value = Some(tensor.clone());
        }
        self.constants.insert(id, value);
    }

    /// Lowers node after node. Returns those that must wait until shapes are known.
    fn walk(&mut self) -> Result<Vec<usize>> {
        let graph = self.request.graph;
        let mut deferred = Vec::new();
        let mut waiting: HashSet<ValueId> = HashSet::new();
        for &index in self.request.nodes {
            let node = &graph.nodes[index];
            let must_wait = node.needs().any(|id| waiting.contains(&id) || self.is_open(id));
            if must_wait {
                deferred.push(index);
                waiting.extend(node.outputs.iter().flatten());
                continue;
            }
            self.node = index;
            self.lower_node(node)?;
        }
        Ok(deferred)
    }

    /// Whether a value is a tensor of a shape that is not known yet.
    fn is_open(&self, id: ValueId) -> bool {
        if self.constants.contains_key(&id) {
            return false;
        }
        match &self.facts[id.index()].ty {
            Some(Type::Sequence(_) | Type::Optional(_) | Type::Other(_)) => false,
            Some(ty) => ty.known_tensor().is_none(),
            None => true,
        }
    }

    fn lower_node(&mut self, node: &Node) -> Result<()> {
        let facts: Vec<Option<Fact>> =
            node.inputs.iter().map(|id| id.map(|id| self.facts[id.index()].clone())).collect();
        let inferred = infer_node(node, &facts).map_err(|error| error.at(node))?;
        for (output, fact) in node.outputs.iter().zip(inferred) {
            if let Some(id) = output {
                let declared = self.request.graph.value(*id).ty.as_ref();
                // What a file declares of sequences and optionals is all that is known of them.
                let kind_only = declared
                    .filter(|ty| matches!(ty, Type::Sequence(_) | Type::Optional(_)))
                    .cloned();
                self.facts[id.index()] = Fact { ty: fact.ty.or(kind_only), ..fact };
            }
        }
        if self.fold(node)? {
            return Ok(());
        }
        let graph_side = self.request.side;
        self.side = if self.request.on_cpu.contains(&self.node) { Side::Cpu } else { graph_side };
        if lower::lower(self, node)? {
            return Ok(());
        }
        self.side = Side::Cpu;
        self.interpret(node)
    }

    /// Computes a node whose operands are constants, or whose results are known by inference.
    fn fold(&mut self, node: &Node) -> Result<bool> {
        let known = |id: &ValueId| -> Option<Tensor> {
            let fact = &self.facts[id.index()];
            let (element, shape) = fact.ty.as_ref()?.known_tensor()?;
            let dims = fact.dims.as_ref()?.iter().map(Dim::known).collect::<Option<Vec<_>>>()?;
            let values: Vec<i128> = dims.into_iter().map(|length| length as i128).collect();
            Tensor::from_integers(element, &shape, &values).ok()
        };
        let by_inference: Option<Vec<(ValueId, Tensor)>> =
            node.outputs.iter().flatten().map(|id| Some((*id, known(id)?))).collect();
        if let Some(list) = by_inference.filter(|list| !list.is_empty()) {
            list.into_iter().for_each(|(id, tensor)| self.set_constant(id, tensor.into()));
            return Ok(true);
        }
        let small = |id: &ValueId| {
            let known = self.facts[id.index()].ty.as_ref().and_then(Type::known_tensor);
            known.is_some_and(|(_, shape)| {
                shape
                    .iter()
                    .try_fold(1usize, |count, &length| count.checked_mul(length))
                    .is_some_and(|count| count <= FOLDED_ELEMENTS)
            })
        };
        let constant = |id: &ValueId| self.constants.contains_key(id);
        let foldable = is_determined(node)
            && node.inputs.iter().flatten().all(constant)
            && (node.operator == "Constant" || node.outputs.iter().flatten().all(small));
        if !foldable {
            return Ok(false);
        }
        let operands: Vec<Option<Value>> = (node.inputs.iter())
            .map(|id| id.and_then(|id| self.constants.get(&id).cloned()))
            .collect();
        let results = interpret_node(node, &operands, &NoScope)?;
        for (output, value) in node.outputs.iter().zip(results) {
            if let Some(id) = output {
                self.set_constant(*id, value);
            }
        }
        Ok(true)
    }
}

/// The node that makes each value as its first result.
fn makers(graph: &Graph) -> HashMap<ValueId, usize> {
    let first = |(at, node): (usize, &Node)| Some((*node.outputs.first()?.as_ref()?, at));
    graph.nodes.iter().enumerate().filter_map(first).collect()
}
