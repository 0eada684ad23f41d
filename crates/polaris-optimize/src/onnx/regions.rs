//! Which tensors have bytes, and which of them have the same scale.
//!
//! A layer of integers needs bytes and makes bytes. What only moves elements goes on with those it is given, so that bytes flow
//! from layer to layer; sums of two branches and concatenations take part where that saves the way through floats.

use std::collections::BTreeSet;

use polaris_onnx::{Graph, Node, ValueId};

use super::graph::{Index, is_one_of, only_result, operand};
use super::layer::{FUSED, Linear};

/// Operators whose results are some of their first operand's elements.
const MOVING: &[&str] = &[
    "DepthToSpace",
    "Flatten",
    "MaxPool",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// Operators that take means: they compute with floats, and are no reason to leave bytes behind.
const POOLS: &[&str] = &["AveragePool", "GlobalAveragePool", "ReduceMean"];

/// The tensors that have bytes.
#[derive(Debug, Clone)]
pub struct Regions {
    /// In the order of their numbers.
    pub values: BTreeSet<ValueId>,
    /// Of each value of the graph, one that has the same scale: the same one for all of them.
    scales: Vec<ValueId>,
    /// Values that are moved or joined from others, so that they need no range of their own.
    moved: BTreeSet<ValueId>,
}

impl Regions {
    /// Those that layers of integers ask for, and what follows.
    pub fn of(graph: &Graph, linears: &[Linear]) -> Self {
        let index = Index::new(graph);
        let mut values = BTreeSet::new();
        for linear in linears.iter().filter(|linear| linear.is_int8) {
            values.extend([linear.x, linear.last]);
        }
        loop {
            let before = values.len();
            for node in &graph.nodes {
                spread(&index, node, &mut values);
            }
            if values.len() == before {
                break;
            }
        }
        let all = 0..graph.values.len() as u32;
        let mut regions =
            Self { values, scales: all.map(ValueId).collect(), moved: BTreeSet::new() };
        for node in &graph.nodes {
            regions.unite(&index, node);
        }
        regions
    }

    /// The value that stands for all with the same scale.
    pub fn scale_of(&self, mut id: ValueId) -> ValueId {
        while self.scales[id.index()] != id {
            id = self.scales[id.index()];
        }
        id
    }

    /// The values whose ranges are needed.
    pub fn origins(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.values.iter().copied().filter(|id| !self.moved.contains(id))
    }

    fn unite(&mut self, index: &Index<'_>, node: &Node) {
        let Some(result) = only_result(node).filter(|id| self.values.contains(id)) else { return };
        let sources = moved_from(index, node);
        if sources.is_empty() || sources.iter().any(|id| !self.values.contains(id)) {
            return;
        }
        for source in sources {
            let (from, to) = (self.scale_of(result), self.scale_of(source));
            self.scales[from.index()] = to;
        }
        self.moved.insert(result);
    }
}

/// The values whose elements a node moves into its result; none, if it does something else.
fn moved_from(index: &Index<'_>, node: &Node) -> Vec<ValueId> {
    let is_moving = is_one_of(node, MOVING);
    if !is_moving && !is_one_of(node, &["Concat"]) || only_result(node).is_none() {
        return Vec::new();
    }
    let count = if is_moving { 1 } else { node.inputs.len() };
    let sources: Option<Vec<ValueId>> = (0..count).map(|at| operand(node, at)).collect();
    let fits = |id: &ValueId| index.is_computed(*id) && index.is_f32(*id);
    let sources = sources.filter(|sources| sources.iter().all(fits)).unwrap_or_default();
    let ends: Vec<_> = sources.iter().map(|&id| cut_off(index, id)).collect();
    if ends.windows(2).all(|pair| pair[0] == pair[1]) { sources } else { Vec::new() }
}

/// The activation function that a value comes from, with its operands, if bytes stand for it by where they end. With a range
/// that reaches further they would not: so values share one only if they are cut off in the same way.
fn cut_off<'g>(index: &Index<'g>, mut id: ValueId) -> Option<(&'g str, Vec<Option<f64>>)> {
    loop {
        let node = index.maker(id)?;
        if !is_one_of(node, MOVING) {
            let end =
                |at: usize| index.constant(operand(node, at)?)?.to_f64().ok()?.first().copied();
            return is_one_of(node, FUSED).then(|| (node.operator.as_str(), vec![end(1), end(2)]));
        }
        id = operand(node, 0)?;
    }
}

/// Adds what follows from one node.
fn spread(index: &Index<'_>, node: &Node, values: &mut BTreeSet<ValueId>) {
    let sources = moved_from(index, node);
    if let (Some(result), [_, ..]) = (only_result(node), sources.as_slice()) {
        let count = sources.iter().filter(|id| values.contains(id)).count();
        // A concatenation takes part if all of its operands do, or its result and one of them.
        let is_wanted = values.contains(&result) && (count > 0 || sources.len() == 1);
        if count == sources.len() || is_wanted {
            values.insert(result);
            values.extend(sources);
        }
    }
    if is_one_of(node, &["Add"]) {
        sum(index, node, values);
    }
}

/// A sum of two branches: if its result has bytes, and one of them, so has the other; if both have, its result does where a
/// mean is taken of it.
fn sum(index: &Index<'_>, node: &Node, values: &mut BTreeSet<ValueId>) -> Option<()> {
    let (a, b, mut result) = (operand(node, 0)?, operand(node, 1)?, only_result(node)?);
    if ![a, b].iter().all(|&id| index.is_computed(id) && index.is_f32(id)) {
        return None;
    }
    if index.dims(a).is_none() || index.dims(a) != index.dims(b) {
        return None;
    }
    if let Some(user) = index.sole_user(result).map(|at| &index.graph.nodes[at])
        && is_one_of(user, &["Relu"])
    {
        result = only_result(user)?;
    }
    let pooled = |&at: &usize| is_one_of(&index.graph.nodes[at], POOLS);
    let (both, one) =
        (values.contains(&a) && values.contains(&b), values.contains(&a) || values.contains(&b));
    if both && index.users(result).iter().any(pooled) {
        values.insert(result);
    }
    if one && values.contains(&result) {
        values.extend([a, b]);
    }
    Some(())
}
