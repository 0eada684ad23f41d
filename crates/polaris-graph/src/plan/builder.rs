//! Makes a plan: goes through the nodes, keeps track of what is known of each value and where it lies,
//! and lets each operator be lowered to operations of a device or interpreted on the host.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use polaris_core::{DType, Layout, Shape};
use polaris_onnx::infer::{Fact, infer_node};
use polaris_onnx::operators::NoScope;
use polaris_onnx::{Dim, ElementType, Graph, Node, Tensor, Type, Value, ValueId, interpret_node};
use polaris_ops::Convolution;
use polaris_ops::conv::{ByteConvolution, ByteProblem, PackedConvolution};
use polaris_ops::copy::Copy;
use polaris_ops::matmul::PackedMatrix;

use super::fuse::fuse;
use super::given::copy_from_given;
use super::memory::{place, share_in_place};
use super::unused::remove_unused;
use super::{
    Action, Home, HostInput, HostOutput, Instruction, Operand, Origin, Plan, PlanInput, PlanOutput,
    Rest, Side, Slot, SlotId, Step,
};
use crate::lower;
use crate::passes::{FOLDED_ELEMENTS, is_determined};
use crate::session::{Constants, Plans};
use crate::{Error, Result};

/// What a plan is made for.
pub(crate) struct Request<'a> {
    pub graph: &'a Graph,
    /// The nodes to plan, in order.
    pub nodes: &'a [usize],
    /// Types of what is given.
    pub given: &'a [(ValueId, Type)],
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

/// Where a value lies.
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
        let given: HashSet<ValueId> = self.request.given.iter().map(|(id, _)| *id).collect();
        for (index, slot) in graph.values.iter().enumerate() {
            let id = ValueId(index as u32);
            let constant = self.request.constants.get(&id).or(slot.constant.as_ref());
            if let (Some(value), false) = (constant, given.contains(&id)) {
                self.set_constant(id, value.clone());
            }
        }
        let mut inputs = Vec::new();
        for (id, ty) in self.request.given {
            self.facts[id.index()].ty = Some(ty.clone());
            let operand = match array_type(ty) {
                Some((dtype, shape)) => {
                    let operand = self.slot_for(&graph.value(*id).name, Side::Cpu, dtype, shape);
                    self.located[id.index()].places[Side::Cpu.index()] = Some(operand);
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

    /// An instruction that interprets the node on the host.
    fn interpret(&mut self, node: &Node) -> Result<()> {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for id in &node.inputs {
            inputs.push(match id {
                Some(id) => Some(self.host_input(*id)?),
                None => None,
            });
        }
        let outer: Vec<ValueId> = node
            .attributes
            .graphs()
            .flat_map(|graph| graph.captures.iter().map(|capture| capture.outer))
            .collect();
        let captured =
            outer.into_iter().map(|id| self.host_input(id)).collect::<Result<Vec<_>>>()?;
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for output in &node.outputs {
            let Some(id) = *output else {
                outputs.push(HostOutput::Nowhere);
                continue;
            };
            let ty = self.facts[id.index()].ty.clone();
            outputs.push(match ty.as_ref().and_then(array_type) {
                Some((dtype, shape)) => {
                    let name = &self.request.graph.value(id).name;
                    let operand = self.slot_for(name, Side::Cpu, dtype, shape);
                    self.located[id.index()].places[Side::Cpu.index()] = Some(operand);
                    HostOutput::Array(operand)
                }
                None => {
                    self.located[id.index()].value = true;
                    HostOutput::Value(id)
                }
            });
        }
        self.push(Step::Host { inputs, captured, outputs }, Side::Cpu);
        Ok(())
    }

    fn host_input(&mut self, id: ValueId) -> Result<HostInput> {
        if let Some(value) = self.constants.get(&id) {
            return Ok(HostInput::Constant(value.clone(), id));
        }
        if self.located[id.index()].value {
            return Ok(HostInput::Value(id));
        }
        let operand = self.operand_on(id, Side::Cpu)?;
        Ok(HostInput::Array(self.dense(operand)?, id))
    }

    fn finish(mut self, mut inputs: Vec<PlanInput>, deferred: Vec<usize>) -> Result<Plan> {
        let graph = self.request.graph;
        let made: HashSet<ValueId> = (deferred.iter())
            .flat_map(|&node| graph.nodes[node].outputs.iter().flatten().copied())
            .collect();
        let mut wanted: Vec<ValueId> = Vec::new();
        let needed = deferred.iter().flat_map(|&node| graph.nodes[node].needs());
        for id in graph.outputs.iter().copied().chain(needed) {
            if !made.contains(&id) && !wanted.contains(&id) && self.is_there(id) {
                wanted.push(id);
            }
        }
        let mut outputs = Vec::new();
        for &id in &wanted {
            outputs.push((id, self.plan_output(id)?));
        }
        remove_unused(&mut self.instructions, self.slots.len(), &outputs);
        copy_from_given(&mut self.instructions, &self.slots, &mut inputs, &outputs);
        fuse(&mut self.instructions, &self.slots, &inputs, &outputs);
        if let Some(reorder) = self.request.reorder {
            let order = reorder(&self.instructions, &self.slots);
            self.instructions = order.iter().map(|&at| self.instructions[at].clone()).collect();
        }
        let value_bytes = self.value_bytes();
        share_in_place(&mut self.instructions, &self.slots, &inputs, &mut outputs);
        let arenas = place(
            &self.instructions,
            &mut self.slots,
            &inputs,
            &outputs,
            self.request.largest_chunk,
        );
        let rest = (!deferred.is_empty()).then(|| {
            let constants = (wanted.iter())
                .filter_map(|id| Some((*id, self.constants.get(id)?.clone())))
                .collect();
            let needs: Vec<ValueId> = (wanted.iter())
                .filter(|id| !self.constants.contains_key(id))
                .filter(|id| {
                    deferred.iter().any(|&node| graph.nodes[node].needs().any(|need| need == **id))
                })
                .copied()
                .collect();
            Arc::new(Rest { nodes: deferred, needs, constants, plans: Plans::default() })
        });
        let (instructions, slots) = (self.instructions, self.slots);
        let prediction = None;
        Ok(Plan { instructions, slots, arenas, inputs, outputs, rest, value_bytes, prediction })
    }

    /// Bytes of all values that lie somewhere.
    fn value_bytes(&self) -> HashMap<ValueId, u64> {
        let places = self.located.iter().enumerate();
        let bytes = |(index, located): (usize, &Located)| {
            let id = ValueId(index as u32);
            let place = located.places.iter().flatten().next()?;
            let bytes = (place.layout.elements() * place.dtype.size()) as u64;
            (!self.constants.contains_key(&id)).then_some((id, bytes))
        };
        places.filter_map(bytes).collect()
    }

    /// Whether a value is made here, given or constant.
    fn is_there(&self, id: ValueId) -> bool {
        let located = &self.located[id.index()];
        self.constants.contains_key(&id)
            || located.value
            || located.places.iter().any(Option::is_some)
    }

    fn plan_output(&mut self, id: ValueId) -> Result<PlanOutput> {
        if let Some(value) = self.constants.get(&id) {
            return Ok(PlanOutput::Constant(value.clone()));
        }
        let located = self.located[id.index()];
        if located.value {
            return Ok(PlanOutput::Value);
        }
        let ty = self.facts[id.index()].ty.clone();
        let ty = ty.ok_or_else(|| self.lost(id))?;
        // Read from where it lies.
        let place = located.places[0].or(located.places[1]).ok_or_else(|| self.lost(id))?;
        Ok(PlanOutput::Array(self.dense(place)?, ty))
    }

    fn lost(&self, id: ValueId) -> Error {
        let name = &self.request.graph.value(id).name;
        polaris_onnx::Error::operands(format!("`{name}` is nowhere")).into()
    }

    // What lowerings use.

    /// The type and shape of a value, if it can be an array.
    pub fn array_type(&self, id: ValueId) -> Option<(DType, Shape)> {
        let fact = &self.facts[id.index()];
        let known = fact.ty.as_ref().and_then(array_type)?;
        let there = self.constants.contains_key(&id)
            || self.located[id.index()].places.iter().any(Option::is_some);
        there.then_some(known)
    }

    /// The type and shape that a result will have, if it can be an array.
    pub fn result_type(&self, id: ValueId) -> Option<(DType, Shape)> {
        self.facts[id.index()].ty.as_ref().and_then(array_type)
    }

    /// The elements of a constant.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        match self.constants.get(&id) {
            Some(Value::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }

    /// The array of a value on the node's side; copied there if it lies elsewhere.
    ///
    /// # Errors
    /// If it is no array, or there is no room for a constant.
    pub fn operand(&mut self, id: ValueId) -> Result<Operand> {
        self.operand_on(id, self.side)
    }

    fn operand_on(&mut self, id: ValueId, side: Side) -> Result<Operand> {
        if let Some(operand) = self.located[id.index()].places[side.index()] {
            return Ok(operand);
        }
        if let Some(value) = self.constants.get(&id) {
            let shared = self.request.graph.value(id).constant.is_some();
            let array = self.request.arrays.array(id, value.tensor()?, side, shared)?;
            let (dtype, layout) = (array.dtype(), *array.layout());
            let operand = self.constant_slot(&self.request.graph.value(id).name, side, array);
            let operand = Operand { dtype, layout, ..operand };
            self.located[id.index()].places[side.index()] = Some(operand);
            return Ok(operand);
        }
        let elsewhere = self.located[id.index()].places[side.other().index()];
        let elsewhere = elsewhere.ok_or_else(|| self.lost(id))?;
        let input = self.dense(elsewhere)?;
        let name = self.slots[input.slot.0].name.clone();
        let output = self.slot_for(&name, side, input.dtype, *input.layout.shape());
        self.push(Step::Transfer { input: Origin::Array(input), output }, side);
        self.located[id.index()].places[side.index()] = Some(output);
        Ok(output)
    }

    fn constant_slot(&mut self, name: &str, side: Side, array: polaris_ops::Array) -> Operand {
        let slot = SlotId(self.slots.len());
        let (dtype, layout) = (array.dtype(), *array.layout());
        let bytes = array.buffer().bytes();
        self.slots.push(Slot { name: name.to_owned(), side, bytes, home: Home::Constant(array) });
        Operand { slot, dtype, layout }
    }

    /// A constant that a lowering makes itself.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new_constant(&mut self, tensor: &Tensor) -> Result<Operand> {
        let array = self.request.arrays.upload(tensor, self.side)?;
        Ok(self.constant_slot("constant", self.side, array))
    }

    /// Whether the node is computed on the CPU.
    pub fn is_on_cpu(&self) -> bool {
        self.side == Side::Cpu
    }

    /// A constant matrix, possibly turned, packed as the second factor of products on the CPU. `None`
    /// if the value is no such constant, or the node's side is another.
    ///
    /// # Errors
    /// If there is no room.
    pub fn packed_matrix(&self, id: ValueId, turned: bool) -> Result<Option<Arc<PackedMatrix>>> {
        match self.shared_constant(id) {
            Some(tensor) if is_matrix(tensor.shape()) => {
                self.request.arrays.matrix(id, tensor, turned).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The constant weight of a convolution, packed for the CPU, if there is such a form.
    ///
    /// # Errors
    /// If there is no room.
    pub fn packed_weight(
        &self,
        id: ValueId,
        problem: &Convolution,
    ) -> Result<Option<Arc<PackedConvolution>>> {
        match self.shared_constant(id) {
            Some(tensor) => self.request.arrays.weight(id, tensor, problem),
            None => Ok(None),
        }
    }

    /// A convolution of bytes with a constant weight that makes a value, packed for the CPU, if there
    /// is such a form. The weight of a product is turned.
    ///
    /// # Errors
    /// If there is no room, or parameters contradict each other.
    pub fn byte_weight(
        &self,
        made: ValueId,
        weight: ValueId,
        turned: bool,
        problem: &ByteProblem<'_>,
    ) -> Result<Option<Arc<ByteConvolution>>> {
        match self.constant(weight).filter(|tensor| self.is_on_cpu() && tensor.elements() > 0) {
            Some(tensor) => self.request.arrays.byte_weight(made, tensor, turned, problem),
            None => Ok(None),
        }
    }

    /// The node of this graph that makes a value as its first result, if it is this operator of ONNX' own.
    pub fn made_by(&self, id: ValueId, operator: &str) -> Option<&'a Node> {
        let node = &self.request.graph.nodes[*self.makers.get(&id)?];
        (node.domain.is_empty() && node.operator == operator).then_some(node)
    }

    /// A constant of the graph that can be packed for the CPU.
    fn shared_constant(&self, id: ValueId) -> Option<&Tensor> {
        let shared = self.request.graph.value(id).constant.is_some();
        let fits = |tensor: &&Tensor| tensor.element() == ElementType::F32 && tensor.elements() > 0;
        self.constant(id).filter(|_| shared && self.is_on_cpu()).filter(fits)
    }

    /// Memory for a result of the node that is being lowered, densely.
    pub fn new_array(&mut self, dtype: DType, shape: Shape) -> Operand {
        let name = self.request.graph.nodes[self.node].path.clone();
        self.slot_for(&name, self.side, dtype, shape)
    }

    /// Memory for a result of an operation on single elements, or one that leaves channels apart, of an
    /// operand: adjacent channels stay so.
    pub fn new_array_like(&mut self, operand: &Operand, dtype: DType, shape: Shape) -> Operand {
        let array = self.new_array(dtype, shape);
        match has_adjacent_channels(&operand.layout)
            && shape.rank() == operand.layout.shape().rank()
        {
            true => Operand { layout: with_adjacent_channels(&shape), ..array },
            false => array,
        }
    }

    /// An operation on single elements into a new array. Where the first operand of the result's shape
    /// has adjacent channels, so has the result, and all are looked at in the order of memory.
    ///
    /// # Errors
    /// If an operand cannot be repeated to the shape.
    pub fn compute_elements(
        &mut self,
        action: Action,
        operands: &[Operand],
        dtype: DType,
        shape: Shape,
    ) -> Result<Operand> {
        let whole = operands.iter().find(|operand| *operand.layout.shape() == shape);
        if !whole.is_some_and(|operand| has_adjacent_channels(&operand.layout)) {
            return Ok(self.compute(action, operands, dtype, shape));
        }
        let rank = shape.rank();
        let in_memory: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
        let turned = (operands.iter())
            .map(|operand| {
                let layout = operand.layout.broadcast_to("elementwise", &shape)?;
                Ok(Operand { layout: layout.permute(&in_memory)?, ..*operand })
            })
            .collect::<Result<Vec<Operand>>>()?;
        let turned_shape = *turned[0].layout.shape();
        let result = self.compute(action, &turned, dtype, turned_shape);
        Ok(Operand { layout: with_adjacent_channels(&shape), ..result })
    }

    fn slot_for(&mut self, name: &str, side: Side, dtype: DType, shape: Shape) -> Operand {
        let slot = SlotId(self.slots.len());
        let bytes = shape.elements() * dtype.size();
        let home = Home::Arena { chunk: 0, offset: 0 };
        self.slots.push(Slot { name: name.to_owned(), side, bytes, home });
        Operand { slot, dtype, layout: Layout::contiguous(shape) }
    }

    /// The same elements, one after another in memory.
    ///
    /// # Errors
    /// Never, at present.
    pub fn dense(&mut self, operand: Operand) -> Result<Operand> {
        if operand.layout.is_contiguous() {
            return Ok(operand);
        }
        let Slot { name, side, .. } = self.slots[operand.slot.0].clone();
        let output = self.slot_for(&name, side, operand.dtype, *operand.layout.shape());
        let step = Step::Device { action: Action::Copy(Copy), inputs: vec![operand], output };
        self.push(step, side);
        Ok(output)
    }

    /// The same elements in another shape; copied where their places do not allow it.
    ///
    /// # Errors
    /// If the shape holds another number of them.
    pub fn reshaped(&mut self, operand: Operand, shape: Shape) -> Result<Operand> {
        if let Some(layout) = operand.layout.reshape(&shape) {
            return Ok(Operand { layout, ..operand });
        }
        let dense = self.dense(operand)?;
        let layout = dense.layout.reshape(&shape).ok_or_else(|| {
            polaris_onnx::Error::operands(format!("{} cannot become {shape}", dense.layout.shape()))
        })?;
        Ok(Operand { layout, ..dense })
    }

    /// An operation into an array.
    pub fn emit(&mut self, action: Action, inputs: &[Operand], output: Operand) {
        let step = Step::Device { action, inputs: inputs.to_vec(), output };
        self.push(step, self.side);
    }

    /// An operation into a new array.
    pub fn compute(
        &mut self,
        action: Action,
        inputs: &[Operand],
        dtype: DType,
        shape: Shape,
    ) -> Operand {
        let output = self.new_array(dtype, shape);
        self.emit(action, inputs, output);
        output
    }

    /// A result of the node lies here.
    pub fn set(&mut self, id: Option<ValueId>, operand: Operand) {
        if let Some(id) = id {
            self.located[id.index()].places[self.slots[operand.slot.0].side.index()] =
                Some(operand);
        }
    }

    fn push(&mut self, step: Step, side: Side) {
        self.instructions.push(Instruction { step, side, node: self.node });
    }
}

/// The node that makes each value as its first result.
fn makers(graph: &Graph) -> HashMap<ValueId, usize> {
    let first = |(at, node): (usize, &Node)| Some((*node.outputs.first()?.as_ref()?, at));
    graph.nodes.iter().enumerate().filter_map(first).collect()
}

/// Whether all axes but the first two have one element.
fn is_matrix(shape: &[usize]) -> bool {
    shape.len() >= 2 && shape[2..].iter().all(|&length| length == 1)
}

/// Whether the channels of dense images are adjacent in memory, and nothing else is. Images are
/// `[N, C, ...]`.
pub(crate) fn has_adjacent_channels(layout: &Layout) -> bool {
    let shape = layout.shape();
    let expected = || with_adjacent_channels(shape);
    (3..=4).contains(&shape.rank())
        && layout.offset() == 0
        && !layout.is_contiguous()
        && layout.strides() == expected().strides()
}

/// Dense images whose channels are adjacent.
pub(crate) fn with_adjacent_channels(shape: &Shape) -> Layout {
    let rank = shape.rank();
    let mut order: Vec<usize> = shape.to_vec();
    let channels = order.remove(1);
    order.push(channels);
    let in_memory = Shape::new(&order).expect("a shape in another order should be one");
    let back: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    Layout::contiguous(in_memory).permute(&back).expect("all axes should be there once")
}

/// The type of an array's elements, if devices have it.
pub(crate) fn dtype_of(element: ElementType) -> Option<DType> {
    Some(match element {
        ElementType::F32 => DType::F32,
        ElementType::F64 => DType::F64,
        ElementType::F16 => DType::F16,
        ElementType::BF16 => DType::BF16,
        ElementType::I8 => DType::I8,
        ElementType::U8 => DType::U8,
        ElementType::I32 => DType::I32,
        ElementType::I64 => DType::I64,
        ElementType::Bool => DType::Bool,
        _ => return None,
    })
}

/// The type of a tensor's elements.
pub(crate) fn element_of(dtype: DType) -> ElementType {
    match dtype {
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::F16 => ElementType::F16,
        DType::BF16 => ElementType::BF16,
        DType::I8 => ElementType::I8,
        DType::U8 => ElementType::U8,
        DType::I32 => ElementType::I32,
        DType::I64 => ElementType::I64,
        DType::Bool => ElementType::Bool,
    }
}

/// The type and shape of an array for a tensor, if devices have them.
fn array_type(ty: &Type) -> Option<(DType, Shape)> {
    let (element, dims) = ty.known_tensor()?;
    let elements = dims.iter().try_fold(1usize, |product, &length| product.checked_mul(length))?;
    let bytes = elements.checked_mul(element.size())? as u64;
    let fits = bytes <= polaris_onnx::largest_tensor();
    Some((dtype_of(element)?, Shape::new(&dims).ok().filter(|_| fits)?))
}
