//! Which tensors have bytes, and which of them have the same scale.
//!
//! A layer of integers needs bytes and makes bytes. What only moves elements goes on with those it is given, so that bytes flow
//! from layer to layer; sums of two branches and concatenations take part where that saves the way through floats.

use std::collections::{BTreeSet, HashMap};

use polaris_graph::MOVING;
use polaris_onnx::{Graph, Node, ValueId};

use super::graph::{Index, is_one_of, only_result, operand};
use super::layer::{FUSED, Linear};

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
        let sources = sources(&index);
        loop {
            let before = values.len();
            // In both directions, so that what a long chain moves needs one round.
            for at in (0..graph.nodes.len()).chain((0..graph.nodes.len()).rev()) {
                spread(&index, &graph.nodes[at], &sources[at], &mut values);
            }
            if values.len() == before {
                break;
            }
        }
        let all = 0..graph.values.len() as u32;
        let mut regions =
            Self { values, scales: all.map(ValueId).collect(), moved: BTreeSet::new() };
        for (node, sources) in graph.nodes.iter().zip(&sources) {
            regions.unite(node, sources);
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

    fn unite(&mut self, node: &Node, sources: &[ValueId]) {
        let Some(result) = only_result(node).filter(|id| self.values.contains(id)) else { return };
        if sources.is_empty() || sources.iter().any(|id| !self.values.contains(id)) {
            return;
        }
        for &source in sources {
            let (from, to) = (self.scale_of(result), self.scale_of(source));
            self.scales[from.index()] = to;
        }
        self.moved.insert(result);
    }
}

/// An activation function that bytes stand for by where they end, with its ends.
type Cut<'g> = (&'g str, Vec<Option<f64>>);

/// For each node the values whose elements it moves into its result; none, if it does something else.
///
/// With a range that reaches further than an activation function, bytes would not stand for it any more: so a concatenation is
/// among them only if all of its operands are cut off in the same way.
fn sources(index: &Index<'_>) -> Vec<Vec<ValueId>> {
    let mut cuts: HashMap<ValueId, Cut<'_>> = HashMap::new();
    let mut all = Vec::with_capacity(index.graph.nodes.len());
    for node in &index.graph.nodes {
        let mut sources = moved_from(index, node);
        let same = sources.windows(2).all(|pair| cuts.get(&pair[0]) == cuts.get(&pair[1]));
        if !same {
            sources.clear();
        }
        let cut = match sources.first() {
            Some(first) => cuts.get(first).cloned(),
            None => is_one_of(node, FUSED).then(|| cut(index, node)),
        };
        if let (Some(result), Some(cut)) = (only_result(node), cut) {
            cuts.insert(result, cut);
        }
        all.push(sources);
    }
    all
}

fn cut<'g>(index: &Index<'g>, node: &'g Node) -> Cut<'g> {
    let end = |at: usize| index.constant(operand(node, at)?)?.to_f64().ok()?.first().copied();
    (node.operator.as_str(), vec![end(1), end(2)])
}

fn moved_from(index: &Index<'_>, node: &Node) -> Vec<ValueId> {
    let is_moving = is_one_of(node, MOVING);
    if !is_moving && !is_one_of(node, &["Concat"]) || only_result(node).is_none() {
        return Vec::new();
    }
    let count = if is_moving { 1 } else { node.inputs.len() };
    let sources: Option<Vec<ValueId>> = (0..count).map(|at| operand(node, at)).collect();
    let fits = |id: &ValueId| index.is_computed(*id) && index.is_f32(*id);
    sources.filter(|sources| sources.iter().all(fits)).unwrap_or_default()
}

/// Adds what follows from one node.
fn spread(index: &Index<'_>, node: &Node, sources: &[ValueId], values: &mut BTreeSet<ValueId>) {
    if let (Some(result), [_, ..]) = (only_result(node), sources) {
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
