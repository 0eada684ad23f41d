//! Runs a graph: plans by the types of what is given, contexts for runs at the same time, and graphs
//! inside nodes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polaris_onnx::operators::Scope;
use polaris_onnx::{Graph, Tensor, Type, Value, ValueId, interpret_node};
use polaris_ops::Array;
use polaris_runtime::{DeviceRef, MappedFile};

use super::constants::Constants;
use super::context::{Context, Memory, Ready, dense_part};
use super::observe::Observer;
use super::packs::Packs;
use crate::cost::Costs;
use crate::plan::{
    Builder, HostInput, HostOutput, Origin, Plan, PlanOutput, Reorder, Request, Side, Step,
    element_of,
};
use crate::{Error, Result};

/// Plans that are kept for a graph. Loops may come by with ever new shapes.
const MOST_PLANS: usize = 16;
/// Plans that are kept for each later stage of each plan.
const MOST_LATER_PLANS: usize = 2;

/// What all graphs of a model share.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Weights that were packed before.
    pub packs: Arc<Packs>,
    pub devices: [Option<DeviceRef>; 2],
    pub side: Side,
    pub files: Vec<MappedFile>,
    /// What instructions cost, if nodes are placed by that.
    pub hybrid: Option<Arc<Costs>>,
}

impl Engine {
    pub fn device(&self, side: Side) -> &DeviceRef {
        self.devices[side.index()].as_ref().expect("a plan should only use sides that are there")
    }

    fn largest_chunks(&self) -> [usize; 2] {
        self.devices.each_ref().map(|device| match device {
            Some(device) => {
                usize::try_from(device.capabilities().max_allocation_bytes).unwrap_or(usize::MAX)
            }
            None => usize::MAX,
        })
    }
}

/// Types of what is given, by which plans are found again.
type Key = Vec<(ValueId, Type)>;

/// Plans by the types of what is given, the last used one at the end.
#[derive(Debug, Default)]
pub(crate) struct Plans(Mutex<Vec<(Key, Arc<Entry>)>>);

/// A plan with its arrays in the memories that it ran in.
#[derive(Debug)]
pub(crate) struct Entry {
    pub plan: Arc<Plan>,
    idle: Mutex<Vec<Context>>,
}

impl Entry {
    /// The arrays in a memory, if the plan ran there before.
    fn take(&self, memory: u64) -> Option<Context> {
        let mut idle = lock(&self.idle);
        let at = idle.iter().position(|context| context.memory == memory)?;
        Some(idle.swap_remove(at))
    }
}

impl Plans {
    fn find(&self, key: &[(ValueId, Type)]) -> Option<Arc<Entry>> {
        let mut list = lock(&self.0);
        let at = list.iter().position(|(other, _)| other == key)?;
        let found = list.remove(at);
        let entry = Arc::clone(&found.1);
        list.push(found);
        Some(entry)
    }

    fn keep(&self, key: Key, entry: &Arc<Entry>, most: usize) {
        let mut list = lock(&self.0);
        if list.len() >= most {
            list.remove(0);
        }
        list.push((key, Arc::clone(entry)));
    }

    /// Lets go of all arrays in a memory.
    fn forget(&self, memory: u64) {
        for (_, entry) in lock(&self.0).iter() {
            lock(&entry.idle).retain(|context| context.memory != memory);
            if let Some(rest) = &entry.plan.rest {
                rest.plans.forget(memory);
            }
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A graph with its plans.
#[derive(Debug)]
pub(crate) struct Runner {
    pub engine: Arc<Engine>,
    pub graph: Arc<Graph>,
    pub(super) constants: Constants,
    plans: Plans,
    /// Those of runs that are over, the last one at the end.
    memories: Mutex<Vec<Memory>>,
    /// Nodes that the device has no kernel for.
    pub(super) on_cpu: Mutex<HashSet<usize>>,
    /// Whether this is the model's own graph, and none inside a node.
    pub(super) outermost: bool,
    /// Graphs inside nodes, by their address, which the graph above keeps alive.
    inner: Mutex<HashMap<usize, Arc<Runner>>>,
}

impl Runner {
    pub fn new(engine: Arc<Engine>, graph: Arc<Graph>) -> Self {
        Self {
            constants: Constants::new(Arc::clone(&engine)),
            engine,
            graph,
            plans: Plans::default(),
            memories: Mutex::default(),
            on_cpu: Mutex::default(),
            outermost: true,
            inner: Mutex::default(),
        }
    }

    /// The plan for what is given, without running it.
    pub fn plan_for(&self, given: &[(ValueId, Type)]) -> Result<Arc<Plan>> {
        let nodes: Vec<usize> = (0..self.graph.nodes.len()).collect();
        let none = HashMap::new();
        self.with_memory(|memory| {
            let (entry, _) = self.entry(&self.plans, given, &nodes, &none, memory)?;
            Ok(Arc::clone(&entry.plan))
        })
    }

    /// Does something with a memory that nobody else has meanwhile.
    fn with_memory<T>(&self, work: impl FnOnce(&mut Memory) -> Result<T>) -> Result<T> {
        let mut memory = lock(&self.memories).pop().unwrap_or_default();
        let result = work(&mut memory);
        match result.is_ok() {
            true => lock(&self.memories).push(memory),
            // Work that failed may have left something behind.
            false => self.plans.forget(memory.number()),
        }
        result
    }

    /// The outputs of the graph.
    pub fn run(&self, given: Vec<(ValueId, Value)>) -> Result<Vec<Value>> {
        self.run_watched(given, &mut ())
    }

    /// The outputs of the graph, while somebody looks on.
    pub fn run_watched<O: Observer>(
        &self,
        mut given: Vec<(ValueId, Value)>,
        observer: &mut O,
    ) -> Result<Vec<Value>> {
        let mut known: HashMap<ValueId, Value> = given.iter().cloned().collect();
        let all: Vec<usize> = (0..self.graph.nodes.len()).collect();
        let none = HashMap::new();
        let mut stage: Option<Arc<crate::plan::Rest>> = None;
        loop {
            let (plans, nodes, constants) = match &stage {
                None => (&self.plans, &all, &none),
                Some(rest) => (&rest.plans, &rest.nodes, &rest.constants),
            };
            let types: Key = given.iter().map(|(id, value)| (*id, value.ty())).collect();
            let plan = self.with_memory(|memory| {
                let (entry, context) = self.entry(plans, &types, nodes, constants, memory)?;
                observer.begin(&entry.plan);
                known.extend(self.execute(&entry.plan, &context, &given, observer)?);
                lock(&entry.idle).push(context);
                Ok(Arc::clone(&entry.plan))
            })?;
            match &plan.rest {
                None => break,
                // Nothing was computed, so nothing more will be known.
                Some(rest) if rest.nodes.len() == nodes.len() => {
                    let node = &self.graph.nodes[rest.nodes[0]];
                    let why = "an operand is missing, or of a type that cannot be known";
                    return Err(polaris_onnx::Error::operands(why).at(node).into());
                }
                Some(rest) => {
                    let need = |id: &ValueId| Some((*id, known.get(id)?.clone()));
                    given = rest.needs.iter().filter_map(need).collect();
                    stage = Some(Arc::clone(rest));
                }
            }
        }
        let missing = |id: ValueId| {
            let name = &self.graph.value(id).name;
            Error::from(polaris_onnx::Error::operands(format!("`{name}` was not computed")))
        };
        let constant = |id: ValueId| self.graph.value(id).constant.clone();
        self.graph
            .outputs
            .iter()
            .map(|&id| known.get(&id).cloned().or_else(|| constant(id)).ok_or_else(|| missing(id)))
            .collect()
    }

    /// A plan that was made before or a new one, with its arrays in a memory.
    fn entry(
        &self,
        plans: &Plans,
        given: &[(ValueId, Type)],
        nodes: &[usize],
        constants: &HashMap<ValueId, Value>,
        memory: &mut Memory,
    ) -> Result<(Arc<Entry>, Context)> {
        if let Some(entry) = plans.find(given) {
            let context = entry.take(memory.number());
            let context = context.map_or_else(|| self.context(&entry.plan, memory), Ok)?;
            return Ok((entry, context));
        }
        let first = std::ptr::eq(plans, &self.plans);
        let wanted = Wanted { nodes, given, constants };
        let (plan, context) = match &self.engine.hybrid {
            Some(costs) => self.place(costs, &wanted, first && self.outermost, memory)?,
            None => self.build(&wanted, &self.constants, &HashSet::new(), None, memory)?,
        };
        let entry = Arc::new(Entry { plan: Arc::new(plan), idle: Mutex::default() });
        let most = if first { MOST_PLANS } else { MOST_LATER_PLANS };
        plans.keep(given.to_vec(), &entry, most);
        self.constants.keep_packs();
        Ok((entry, context))
    }

    /// A plan with its arrays in a memory. Nodes run on the CPU that are named, and those that the device has
    /// no kernel for.
    pub(super) fn build(
        &self,
        wanted: &Wanted<'_>,
        arrays: &Constants,
        named: &HashSet<usize>,
        reorder: Option<&Reorder<'_>>,
        memory: &mut Memory,
    ) -> Result<(Plan, Context)> {
        loop {
            let mut on_cpu = lock(&self.on_cpu).clone();
            on_cpu.extend(named);
            let plan = Builder::plan(Request {
                graph: &self.graph,
                nodes: wanted.nodes,
                given: wanted.given,
                constants: wanted.constants,
                side: self.engine.side,
                on_cpu: &on_cpu,
                arrays,
                largest_chunk: self.engine.largest_chunks(),
                reorder,
            })?;
            let context = self.context(&plan, memory)?;
            let missing = without_kernel(&plan, &context);
            if missing.iter().all(|node| on_cpu.contains(node)) {
                return Ok((plan, context));
            }
            lock(&self.on_cpu).extend(missing);
        }
    }

    /// A plan's arrays in a memory, which grows if it must; where there is no room left, memories that are
    /// not in use are given back.
    fn context(&self, plan: &Plan, memory: &mut Memory) -> Result<Context> {
        if !memory.has_room_for(plan) {
            self.plans.forget(memory.number());
            match memory.grow(plan, &self.engine) {
                Err(error) if error.is_device_failure() => {
                    for idle in lock(&self.memories).drain(..) {
                        self.plans.forget(idle.number());
                    }
                    memory.grow(plan, &self.engine)?;
                }
                result => result?,
            }
        }
        Context::new(plan, &self.engine, memory)
    }

    pub(super) fn execute<O: Observer>(
        &self,
        plan: &Plan,
        context: &Context,
        given: &[(ValueId, Value)],
        observer: &mut O,
    ) -> Result<Vec<(ValueId, Value)>> {
        let mut values: HashMap<ValueId, Value> = HashMap::new();
        for ((input, array), (id, value)) in plan.inputs.iter().zip(&context.inputs).zip(given) {
            debug_assert_eq!(input.id, *id, "inputs should be those of the plan");
            match array {
                Some(array) => dense_part(array)?.write_bytes(value.tensor()?.bytes()?)?,
                None => {
                    values.insert(*id, value.clone());
                }
            }
        }
        for (instruction, ready) in plan.instructions.iter().zip(&context.ready) {
            polaris_onnx::check_stop()?;
            match &instruction.step {
                Step::Device { action, .. } => {
                    let inputs: Vec<&Array> = ready.inputs.iter().collect();
                    action
                        .run(&inputs, &ready.outputs[0])
                        .map_err(|error| Error::at(&self.graph.nodes[instruction.node], error))?;
                }
                Step::Transfer { input: Origin::Array(_), .. } => {
                    dense_part(&ready.inputs[0])?.copy_to(&dense_part(&ready.outputs[0])?)?;
                }
                Step::Transfer { input: Origin::Given(id), .. } => {
                    let value = values.get(id).expect("what is given should be there");
                    dense_part(&ready.outputs[0])?.write_bytes(value.tensor()?.bytes()?)?;
                }
                Step::Host { .. } => {
                    self.interpret(instruction.node, &instruction.step, ready, &mut values)?
                }
            }
            observer.after(&self.engine, instruction)?;
        }
        let mut outputs = Vec::with_capacity(plan.outputs.len());
        for ((id, output), array) in plan.outputs.iter().zip(&context.outputs) {
            let value = match (output, array) {
                (PlanOutput::Constant(value), _) => Some(value.clone()),
                (_, Some(array)) => Some(Value::Tensor(read(array)?)),
                _ => values.get(id).cloned(),
            };
            if let Some(value) = value {
                outputs.push((*id, value));
            }
        }
        Ok(outputs)
    }

    /// Runs an operator on the host.
    fn interpret(
        &self,
        node: usize,
        step: &Step,
        ready: &Ready,
        values: &mut HashMap<ValueId, Value>,
    ) -> Result<()> {
        let Step::Host { inputs, captured, outputs } = step else { return Ok(()) };
        let node = &self.graph.nodes[node];
        let mut arrays = ready.inputs.iter();
        let mut take = |input: &HostInput| -> Result<(ValueId, Value)> {
            Ok(match input {
                HostInput::Array(_, id) => {
                    let array = arrays.next().expect("each array should be made ready");
                    (*id, Value::Tensor(read(array)?))
                }
                HostInput::Constant(value, id) => (*id, value.clone()),
                HostInput::Value(id) => {
                    let missing = || polaris_onnx::Error::operands("an operand was not computed");
                    (*id, values.get(id).cloned().ok_or_else(missing)?)
                }
            })
        };
        let mut operands = Vec::with_capacity(inputs.len());
        for input in inputs {
            operands.push(input.as_ref().map(&mut take).transpose()?.map(|(_, value)| value));
        }
        let captured = captured.iter().map(&mut take).collect::<Result<HashMap<_, _>>>()?;
        let results = interpret_node(node, &operands, &Surroundings { runner: self, captured })?;
        let mut arrays = ready.outputs.iter();
        for (output, value) in outputs.iter().zip(results) {
            match output {
                HostOutput::Nowhere => {}
                HostOutput::Value(id) => {
                    values.insert(*id, value);
                }
                HostOutput::Array(_) => {
                    let array = arrays.next().expect("each array should be made ready");
                    write(array, value.tensor()?).map_err(|error| match error {
                        Error::Onnx(error) => error.at(node).into(),
                        other => other,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The runner of a graph inside a node.
    fn inner(&self, graph: &Arc<Graph>) -> Arc<Self> {
        let key = Arc::as_ptr(graph) as usize;
        let mut inner = lock(&self.inner);
        let new = || {
            let runner = Self::new(Arc::clone(&self.engine), Arc::clone(graph));
            Arc::new(Self { outermost: false, ..runner })
        };
        Arc::clone(inner.entry(key).or_insert_with(new))
    }
}

/// What a plan is made for.
pub(super) struct Wanted<'a> {
    pub nodes: &'a [usize],
    pub given: &'a [(ValueId, Type)],
    pub constants: &'a HashMap<ValueId, Value>,
}

/// What surrounds an operator that runs on the host.
struct Surroundings<'a> {
    runner: &'a Runner,
    captured: HashMap<ValueId, Value>,
}

impl Scope for Surroundings<'_> {
    fn value(&self, id: ValueId) -> Option<Value> {
        self.captured.get(&id).cloned()
    }

    fn evaluate(
        &self,
        graph: &Arc<Graph>,
        inputs: &[Option<Value>],
        captured: &[Value],
    ) -> polaris_onnx::Result<Vec<Value>> {
        let inputs = graph.inputs.iter().zip(inputs);
        let mut given: Vec<(ValueId, Value)> =
            inputs.filter_map(|(&id, value)| Some((id, value.clone()?))).collect();
        let captures = graph.captures.iter().zip(captured);
        given.extend(captures.map(|(capture, value)| (capture.inner, value.clone())));
        self.runner.inner(graph).run(given).map_err(|error| match error {
            Error::Onnx(error) => error,
            other => polaris_onnx::Error::operands(other.to_string()),
        })
    }
}

/// Nodes of instructions that an OpenCL device has no kernel for.
fn without_kernel(plan: &Plan, context: &Context) -> HashSet<usize> {
    let mut nodes = HashSet::new();
    for (instruction, ready) in plan.instructions.iter().zip(&context.ready) {
        if let (Step::Device { action, .. }, Side::Gpu) = (&instruction.step, instruction.side) {
            let inputs: Vec<&Array> = ready.inputs.iter().collect();
            if !action.has_kernel(&inputs, &ready.outputs[0]) {
                nodes.insert(instruction.node);
            }
        }
    }
    nodes
}

/// A dense array as a tensor.
fn read(array: &Array) -> Result<Tensor> {
    let part = dense_part(array)?;
    let mut bytes = vec![0; part.bytes()];
    part.read_bytes(&mut bytes)?;
    Ok(Tensor::from_bytes(element_of(array.dtype()), array.shape(), bytes.into())?)
}

/// A tensor into a dense array, which was made for its type and shape.
fn write(array: &Array, tensor: &Tensor) -> Result<()> {
    let expected = (element_of(array.dtype()), array.shape().dims());
    if expected != (tensor.element(), tensor.shape()) {
        let found = (tensor.element(), tensor.shape());
        let why = format!("{expected:?} was foreseen, {found:?} was made");
        return Err(polaris_onnx::Error::operands(why).into());
    }
    Ok(dense_part(array)?.write_bytes(tensor.bytes()?)?)
}
