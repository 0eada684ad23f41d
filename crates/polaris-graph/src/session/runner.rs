//! Runs a graph: plans by the types of what is given, contexts for runs at the same time, and graphs
//! inside nodes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use polaris_onnx::{Graph, Type, Value, ValueId};
use polaris_ops::{Array, copy};

use super::context::{Context, Memory};
use super::observe::Observer;
use super::plans::{Entry, Key, MOST_LATER_PLANS, MOST_PLANS, Plans};
use super::value::SessionValue;
use crate::build::{Builder, Constants, Engine, Reorder, Request, lock};
use crate::plan::{Given, Plan, Side, Step};
use crate::{Error, Result};

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
    pub fn plan_for(&self, given: Vec<(ValueId, Type)>) -> Result<Arc<Plan>> {
        let given = given.into_iter().map(|(id, ty)| Given { id, ty, side: None }).collect();
        let key = Key { given, keeps_outputs: false };
        if let Some(entry) = self.plans.find(&key) {
            return Ok(Arc::clone(&entry.plan));
        }
        let nodes: Vec<usize> = (0..self.graph.nodes.len()).collect();
        let wanted = Wanted { nodes: &nodes, key: &key, values: &[], constants: &HashMap::new() };
        self.with_memory(|memory| {
            let (entry, context) = self.entry(&self.plans, &wanted, memory)?;
            entry.put(context);
            Ok(Arc::clone(&entry.plan))
        })
    }

    /// Does something with a memory that nobody else has meanwhile. It is found when a plan needs it.
    fn with_memory<T>(&self, work: impl FnOnce(&mut Memory) -> Result<T>) -> Result<T> {
        let mut memory = Memory::default();
        let result = work(&mut memory);
        match &result {
            Err(error) if error.is_device_failure() => self.plans.forget(Some(memory.number())),
            _ if memory.bytes() > 0 => lock(&self.memories).push(memory),
            _ => {}
        }
        result
    }

    /// Outputs of the graph on the host, in the order in which they are wanted.
    pub fn run_on_host(
        &self,
        given: Vec<(ValueId, Value)>,
        wanted: &[ValueId],
    ) -> Result<Vec<Value>> {
        let given = given.into_iter().map(|(id, value)| (id, value.into())).collect();
        let outputs = self.run(given, wanted, false, &mut ())?;
        outputs.into_iter().map(SessionValue::into_host).collect()
    }

    /// Outputs of the graph, in the order in which they are wanted, while somebody looks on. Those that are
    /// computed on a device may stay there.
    pub fn run<O: Observer>(
        &self,
        mut given: Vec<(ValueId, SessionValue)>,
        wanted: &[ValueId],
        keeps_outputs: bool,
        observer: &mut O,
    ) -> Result<Vec<SessionValue>> {
        let mut known: HashMap<ValueId, SessionValue> = given.iter().cloned().collect();
        let all: Vec<usize> = (0..self.graph.nodes.len()).collect();
        let none = HashMap::new();
        let mut stage: Option<Arc<Entry>> = None;
        loop {
            let rest = stage.as_ref().and_then(|entry| Some((entry, entry.plan.rest.as_ref()?)));
            let (plans, nodes, constants) = match rest {
                None => (&self.plans, &all, &none),
                Some((entry, rest)) => (&entry.later, &rest.nodes, &rest.constants),
            };
            let given_here = |(id, value): &(ValueId, SessionValue)| {
                let side = value.side(&self.engine.devices);
                Given { id: *id, ty: value.ty(), side }
            };
            let key = Key { given: given.iter().map(given_here).collect(), keeps_outputs };
            let request = Wanted { nodes, key: &key, values: &given, constants };
            let entry = self.with_memory(|memory| {
                let (entry, context) = self.entry(plans, &request, memory)?;
                observer.begin(&entry.plan);
                known.extend(self.execute(&entry.plan, &context, &given, wanted, observer)?);
                entry.put(context);
                Ok(entry)
            })?;
            match &entry.plan.rest {
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
                    stage = Some(Arc::clone(&entry));
                }
            }
        }
        let missing = |id: ValueId| {
            let name = &self.graph.value(id).name;
            Error::from(polaris_onnx::Error::operands(format!("`{name}` was not computed")))
        };
        let constant = |id: ValueId| self.graph.value(id).constant.clone().map(SessionValue::Host);
        wanted
            .iter()
            .map(|&id| known.get(&id).cloned().or_else(|| constant(id)).ok_or_else(|| missing(id)))
            .collect()
    }

    /// What is given as plans can take it: dense arrays of this session's devices, everything else from the host.
    /// Plans for both sides are chosen for inputs on the host.
    pub fn reachable(
        &self,
        given: Vec<(ValueId, SessionValue)>,
    ) -> Result<Vec<(ValueId, SessionValue)>> {
        let reachable = |(id, value): (ValueId, SessionValue)| {
            let is_here =
                self.engine.hybrid.is_none() && value.side(&self.engine.devices).is_some();
            Ok(match value {
                SessionValue::Device(array) if is_here => (id, copy::contiguous(&array)?.into()),
                other => (id, other.into_host()?.into()),
            })
        };
        given.into_iter().map(reachable).collect()
    }

    /// A plan that was made before or a new one, with its arrays in a memory.
    fn entry(
        &self,
        plans: &Plans,
        wanted: &Wanted<'_>,
        memory: &mut Memory,
    ) -> Result<(Arc<Entry>, Context)> {
        if let Some(entry) = plans.find(wanted.key) {
            self.make_room(&entry.plan, memory)?;
            let mut context = match entry.take(memory.number()) {
                Some(context) => context,
                None => Context::new(&entry.plan, memory, &self.engine)?,
            };
            context.bind(&entry.plan, &self.engine, wanted.values)?;
            return Ok((entry, context));
        }
        let first = std::ptr::eq(plans, &self.plans);
        let (plan, context) = match &self.engine.hybrid {
            Some(costs) => self.place(costs, wanted, first && self.outermost, memory)?,
            None => self.build(wanted, &self.constants, &HashSet::new(), None, memory)?,
        };
        let entry = Arc::new(Entry::new(plan));
        let most = if first { MOST_PLANS } else { MOST_LATER_PLANS };
        plans.keep(wanted.key.clone(), &entry, most);
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
                given: &wanted.key.given,
                keeps_outputs: wanted.key.keeps_outputs,
                constants: wanted.constants,
                side: self.engine.side,
                on_cpu: &on_cpu,
                arrays,
                largest_chunk: self.engine.largest_chunks(),
                reorder,
            })?;
            self.make_room(&plan, memory)?;
            let mut context = Context::new(&plan, memory, &self.engine)?;
            context.bind(&plan, &self.engine, wanted.values)?;
            let missing = without_kernel(&plan, &context);
            if missing.iter().all(|node| on_cpu.contains(node)) {
                return Ok((plan, context));
            }
            lock(&self.on_cpu).extend(missing);
        }
    }

    /// Makes room for a plan. Of memories that are not in use, the smallest that has room is taken, otherwise the
    /// largest, which grows; where there is no room left, all others are given back.
    pub(super) fn make_room(&self, plan: &Plan, memory: &mut Memory) -> Result<()> {
        if !memory.has_room_for(plan) && memory.bytes() == 0 {
            *memory = take_best(&mut lock(&self.memories), plan).unwrap_or_default();
        }
        if memory.has_room_for(plan) {
            return Ok(());
        }
        self.plans.forget(Some(memory.number()));
        match memory.grow(plan, &self.engine) {
            Err(error) if error.is_device_failure() => {
                lock(&self.memories).clear();
                self.plans.forget(None);
                memory.grow(plan, &self.engine)
            }
            result => result,
        }
    }

    /// Gives back a memory at once, with all arrays in it.
    pub(super) fn drop_memory(&self, memory: &mut Memory) {
        self.plans.forget(Some(memory.number()));
        *memory = Memory::default();
    }

    /// The runner of a graph inside a node.
    pub(super) fn inner(&self, graph: &Arc<Graph>) -> Arc<Self> {
        let key = Arc::as_ptr(graph) as usize;
        let mut inner = lock(&self.inner);
        let new = || {
            let runner = Self::new(Arc::clone(&self.engine), Arc::clone(graph));
            Arc::new(Self { outermost: false, ..runner })
        };
        Arc::clone(inner.entry(key).or_insert_with(new))
    }
}

/// Takes the smallest memory that has room for a plan, otherwise the largest.
fn take_best(memories: &mut Vec<Memory>, plan: &Plan) -> Option<Memory> {
    let fitting = (memories.iter().enumerate())
        .filter(|(_, memory)| memory.has_room_for(plan))
        .min_by_key(|(_, memory)| memory.bytes());
    let largest = memories.iter().enumerate().max_by_key(|(_, memory)| memory.bytes());
    let (at, _) = fitting.or(largest)?;
    Some(memories.swap_remove(at))
}

/// What a plan is made for.
pub(super) struct Wanted<'a> {
    pub nodes: &'a [usize],
    pub key: &'a Key,
    /// What is given, where a plan is made to be run.
    pub values: &'a [(ValueId, SessionValue)],
    pub constants: &'a HashMap<ValueId, Value>,
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
