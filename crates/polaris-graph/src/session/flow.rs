//! What flows between a graph's nodes, as the placement sees it: tasks, values and their costs.

use std::collections::{HashMap, HashSet};

use polaris_onnx::{Graph, ValueId};

use super::runner::Wanted;
use crate::cost::{CostModel, Link};
use crate::place::{Problem, Task, Value};
use crate::plan::{Plan, Side, Step};

/// What is to be placed, and the nodes behind its tasks.
pub(super) struct Flow {
    pub problem: Problem,
    /// Nodes of each task.
    nodes: Vec<Vec<usize>>,
}

impl Flow {
    /// From a plan for either side. What a node costs is what its instructions cost there.
    pub fn new(
        graph: &Graph,
        wanted: &Wanted<'_>,
        cpu: &Plan,
        gpu: &Plan,
        without_kernel: &HashSet<usize>,
        model: &CostModel,
        overlap: bool,
    ) -> Self {
        let seconds = [(Side::Cpu, cpu), (Side::Gpu, gpu)]
            .map(|(side, plan)| by_node(graph, side, plan, model));
        let interpreted: HashSet<usize> = (gpu.instructions.iter())
            .filter(|instruction| matches!(instruction.step, Step::Host { .. }))
            .map(|instruction| instruction.node)
            .collect();
        let later: HashSet<usize> =
            cpu.rest.iter().flat_map(|rest| rest.nodes.iter().copied()).collect();
        let mut building = Building::new(graph, cpu);
        for given in &wanted.key.given {
            building.add_value(given.id, None);
        }
        for &node in wanted.nodes.iter().filter(|node| !later.contains(node)) {
            let on_cpu = seconds[0].get(&node).copied();
            let on_gpu = seconds[1].get(&node).copied();
            let possible = !interpreted.contains(&node) && !without_kernel.contains(&node);
            building.add_node(node, on_cpu, on_gpu, possible);
        }
        for (id, _) in &cpu.outputs {
            if let Some(&index) = building.index.get(id) {
                building.values[index].wanted = true;
            }
        }
        let rates = model.side(Side::Gpu).map(|costs| costs.rates);
        let free = Link { latency: 0.0, bytes_per_second: f64::INFINITY };
        let problem = Problem {
            tasks: building.tasks,
            values: building.values,
            links: rates.map_or([free; 2], |rates| [rates.to_host, rates.to_device]),
            launch: rates.map_or(0.0, |rates| rates.launch),
            overlap,
        };
        Self { problem, nodes: building.nodes }
    }

    /// The nodes of tasks that are placed on the CPU.
    pub fn on_cpu(&self, sides: &[Side]) -> HashSet<usize> {
        let tasks = self.nodes.iter().zip(sides).filter(|(_, side)| **side == Side::Cpu);
        tasks.flat_map(|(nodes, _)| nodes.iter().copied()).collect()
    }
}

/// What the instructions of each node cost, without copies between the sides.
fn by_node(graph: &Graph, side: Side, plan: &Plan, model: &CostModel) -> HashMap<usize, f64> {
    let mut seconds: HashMap<usize, f64> = HashMap::new();
    for instruction in &plan.instructions {
        let copied = matches!(instruction.step, Step::Transfer { .. });
        if !copied && instruction.side == side {
            let one = model.predict(&plan.slots, graph, instruction).unwrap_or(0.0);
            *seconds.entry(instruction.node).or_default() += one;
        }
    }
    seconds
}

struct Building<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    tasks: Vec<Task>,
    nodes: Vec<Vec<usize>>,
    values: Vec<Value>,
    index: HashMap<ValueId, usize>,
}

impl<'a> Building<'a> {
    fn new(graph: &'a Graph, plan: &'a Plan) -> Self {
        Self {
            graph,
            plan,
            tasks: Vec::new(),
            nodes: Vec::new(),
            values: Vec::new(),
            index: HashMap::new(),
        }
    }

    fn add_value(&mut self, id: ValueId, producer: Option<usize>) {
        let Some(&bytes) = self.plan.value_bytes.get(&id) else { return };
        self.index.insert(id, self.values.len());
        self.values.push(Value { producer, consumers: Vec::new(), bytes, wanted: false });
    }

    fn add_node(&mut self, node: usize, on_cpu: Option<f64>, on_gpu: Option<f64>, possible: bool) {
        let outputs: Vec<ValueId> =
            self.graph.nodes[node].outputs.iter().flatten().copied().collect();
        let idle = on_cpu.is_none() && on_gpu.is_none();
        if idle && !outputs.iter().any(|id| self.plan.value_bytes.contains_key(id)) {
            // Known before anything runs.
            return;
        }
        let needs: Vec<usize> =
            self.graph.nodes[node].needs().filter_map(|id| self.index.get(&id).copied()).collect();
        let task = match self.only_producer(&needs) {
            // A view of what a task makes lies where that lies; elsewhere it would be a copy.
            Some(producer) if idle => producer,
            _ => {
                let gpu = possible.then(|| on_gpu.unwrap_or(0.0));
                self.tasks.push(Task { seconds: [Some(on_cpu.unwrap_or(0.0)), gpu] });
                self.nodes.push(Vec::new());
                self.tasks.len() - 1
            }
        };
        self.nodes[task].push(node);
        for index in needs {
            let value = &mut self.values[index];
            if value.producer != Some(task) && !value.consumers.contains(&task) {
                value.consumers.push(task);
            }
        }
        for id in outputs {
            self.add_value(id, Some(task));
        }
    }

    /// The task that makes all of these values.
    fn only_producer(&self, values: &[usize]) -> Option<usize> {
        let mut producers = values.iter().map(|&index| self.values[index].producer);
        let first = producers.next()??;
        producers.all(|producer| producer == Some(first)).then_some(first)
    }
}
