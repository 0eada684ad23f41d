//! Information about a model: parameters, operators, work and memory.

use std::collections::BTreeMap;

use polaris_onnx::{Graph, Value, operators};

use crate::UnsupportedOperator;
use crate::plan::{Plan, Step};
use crate::session::unsupported;

/// What a model is made of.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Information {
    /// Elements of constants.
    pub parameters: u64,
    /// Their bytes.
    pub parameter_bytes: u64,
    /// Nodes, with those of subgraphs.
    pub nodes: usize,
    /// Operators by how often they occur.
    pub operators: Vec<OperatorCount>,
    /// Operators that are not there.
    pub unsupported: Vec<UnsupportedOperator>,
}

/// An operator and how often it occurs.
#[derive(Debug, Clone, serde::Serialize)]
pub struct OperatorCount {
    /// Its name with its domain.
    pub operator: String,
    /// How often.
    pub count: usize,
    /// Whether it is there.
    pub supported: bool,
}

/// What a graph is made of, with the graphs inside it.
pub fn information(graph: &Graph) -> Information {
    let mut counts: BTreeMap<(String, bool), usize> = BTreeMap::new();
    let (mut parameters, mut parameter_bytes, mut nodes) = (0, 0, 0);
    let mut open = vec![graph];
    while let Some(graph) = open.pop() {
        for constant in graph.values.iter().filter_map(|slot| slot.constant.as_ref()) {
            if let Value::Tensor(tensor) = constant {
                let count = tensor.elements() as u64;
                let bits = tensor.element().bits_in_files().unwrap_or(0) as u64;
                parameters += count;
                parameter_bytes += (count * bits).div_ceil(8);
            }
        }
        for node in &graph.nodes {
            let supported = operators::find(&node.domain, &node.operator).is_some();
            *counts.entry((node.operator_name(), supported)).or_default() += 1;
            nodes += 1;
            open.extend(node.attributes.graphs().map(|inner| &**inner));
        }
    }
    let mut operators: Vec<OperatorCount> = counts
        .into_iter()
        .map(|((operator, supported), count)| OperatorCount { operator, count, supported })
        .collect();
    operators.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.operator.cmp(&b.operator)));
    Information { parameters, parameter_bytes, nodes, operators, unsupported: unsupported(graph) }
}

/// Work and traffic of one run.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Work {
    /// Additions and multiplications; a function of an element counts as one.
    pub flops: u64,
    /// Bytes that instructions read and write, each operand once.
    pub bytes: u64,
    /// Instructions that run on the host for want of an operation.
    pub on_host: usize,
}

impl Plan {
    /// Work and traffic of one run, without stages that are not planned yet and without what runs on the
    /// host.
    pub fn work(&self) -> Work {
        let mut work = Work::default();
        for instruction in &self.instructions {
            if let Step::Host { .. } = &instruction.step {
                work.on_host += 1;
                continue;
            }
            let one = crate::cost::work_of(instruction);
            work.flops += one.flops;
            work.bytes += one.bytes;
        }
        work
    }
}
