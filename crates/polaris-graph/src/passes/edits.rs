//! Edits of a graph that keep the meaning of every value: replaced nodes, and equal values.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use polaris_onnx::{Attribute, Graph, Node, Tensor, Value, ValueId, ValueSlot};

/// Nodes that stand in the place of others, with the values that they need. The results of what is
/// replaced must be made by what replaces it, so that the order stays one that can be computed and no
/// other node has to change.
pub struct Edits {
    first: usize,
    slots: Vec<ValueSlot>,
    nodes: BTreeMap<usize, Vec<Node>>,
}

impl Edits {
    pub fn new(graph: &Graph) -> Self {
        Self { first: graph.values.len(), slots: Vec::new(), nodes: BTreeMap::new() }
    }

    /// A value that a new node makes. Its name is that of what it is for, with a number.
    pub fn value(&mut self, name: &str) -> ValueId {
        self.slot(name, None)
    }

    /// A new constant.
    pub fn constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        self.slot(name, Some(tensor.into()))
    }

    fn slot(&mut self, name: &str, constant: Option<Value>) -> ValueId {
        let place = self.first + self.slots.len();
        let name = format!("{name}~{place}");
        self.slots.push(ValueSlot { name, ty: None, constant });
        ValueId(u32::try_from(place).expect("a graph should have few values"))
    }

    /// Puts nodes in the place of one.
    pub fn replace(&mut self, at: usize, nodes: Vec<Node>) {
        self.nodes.insert(at, nodes);
    }

    /// Whether a node has been replaced.
    pub fn has(&self, at: usize) -> bool {
        self.nodes.contains_key(&at)
    }

    /// Changes the graph, and says how many nodes were replaced.
    pub fn apply(mut self, graph: &mut Graph) -> usize {
        let count = self.nodes.len();
        graph.values.append(&mut self.slots);
        if count > 0 {
            let old = std::mem::take(&mut graph.nodes);
            for (at, node) in old.into_iter().enumerate() {
                match self.nodes.remove(&at) {
                    Some(nodes) => graph.nodes.extend(nodes),
                    None => graph.nodes.push(node),
                }
            }
        }
        count
    }
}

/// A node of an operator of ONNX' own in the place of another, with its name, and one result.
pub fn instead(
    old: &Node,
    operator: &str,
    version: i64,
    inputs: &[Option<ValueId>],
    output: ValueId,
) -> Node {
    Node {
        path: old.path.clone(),
        domain: String::new(),
        operator: operator.to_owned(),
        version,
        attributes: Default::default(),
        inputs: inputs.to_vec(),
        outputs: vec![Some(output)],
    }
}

/// A node with a parameter.
pub fn with(mut node: Node, name: &str, attribute: Attribute) -> Node {
    node.attributes.set(name, attribute);
    node
}

/// Lets values stand for others that are always the same: the second of each pair for the first. A result
/// of the graph keeps its name: what stands for it takes that name, or nothing changes. Says how many
/// values are no longer needed.
pub fn merge(graph: &mut Graph, pairs: &[(ValueId, ValueId)]) -> usize {
    let outputs: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    let fixed: HashSet<ValueId> = (graph.inputs.iter().copied())
        .chain(graph.captures.iter().map(|capture| capture.inner))
        .collect();
    let mut stands: HashMap<ValueId, ValueId> = HashMap::new();
    let mut renamed: HashMap<ValueId, ValueId> = HashMap::new();
    let find = |stands: &HashMap<ValueId, ValueId>, mut id: ValueId| {
        while let Some(&next) = stands.get(&id) {
            id = next;
        }
        id
    };
    for &(away, stays) in pairs {
        let (away, stays) = (find(&stands, away), find(&stands, stays));
        if away == stays {
            continue;
        }
        if !outputs.contains(&away) {
            stands.insert(away, stays);
        } else if !outputs.contains(&stays)
            && !fixed.contains(&stays)
            && graph.value(stays).constant.is_none()
        {
            stands.insert(stays, away);
            renamed.insert(stays, away);
        }
    }
    if stands.is_empty() {
        return 0;
    }
    let taken: HashSet<ValueId> = renamed.values().copied().collect();
    for node in &mut graph.nodes {
        // The name goes over from what made the result to what makes the one that stands for it.
        for output in &mut node.outputs {
            *output = match *output {
                Some(id) if taken.contains(&id) => None,
                Some(id) => Some(renamed.get(&id).copied().unwrap_or(id)),
                None => None,
            };
        }
        node.inputs.iter_mut().flatten().for_each(|id| *id = find(&stands, *id));
        if node.attributes.graphs().next().is_some() {
            for inner in node.attributes.graphs_mut() {
                for capture in &mut Arc::make_mut(inner).captures {
                    capture.outer = find(&stands, capture.outer);
                }
            }
        }
    }
    stands.len()
}
