//! Who needs each value of a graph, and what is known of it.

use polaris_onnx::infer::{Fact, infer_graph};
use polaris_onnx::{Dim, ElementType, Graph, Node, Tensor, Type, Value, ValueId};

/// A graph with an index of its values.
pub struct Index<'g> {
    pub graph: &'g Graph,
    /// The nodes that need each value, once for each time they do.
    users: Vec<Vec<usize>>,
    is_output: Vec<bool>,
    is_input: Vec<bool>,
    facts: Vec<Fact>,
}

impl<'g> Index<'g> {
    pub fn new(graph: &'g Graph) -> Self {
        let values = graph.values.len();
        let mut index = Self {
            graph,
            users: vec![Vec::new(); values],
            is_output: vec![false; values],
            is_input: vec![false; values],
            facts: infer_graph(graph, &Default::default())
                .unwrap_or_else(|_| vec![Fact::default(); values]),
        };
        for (at, node) in graph.nodes.iter().enumerate() {
            node.needs().for_each(|id| index.users[id.index()].push(at));
        }
        graph.outputs.iter().for_each(|id| index.is_output[id.index()] = true);
        graph.inputs.iter().for_each(|id| index.is_input[id.index()] = true);
        index
    }

    pub fn users(&self, id: ValueId) -> &[usize] {
        &self.users[id.index()]
    }

    pub fn is_output(&self, id: ValueId) -> bool {
        self.is_output[id.index()]
    }

    pub fn is_input(&self, id: ValueId) -> bool {
        self.is_input[id.index()]
    }

    /// The only node that needs a value, as an operand, if no one else does.
    pub fn sole_user(&self, id: ValueId) -> Option<usize> {
        let [at] = *self.users(id) else { return None };
        let is_operand = self.graph.nodes[at].inputs.contains(&Some(id));
        (is_operand && !self.is_output(id)).then_some(at)
    }

    /// A constant that nobody can replace.
    pub fn constant(&self, id: ValueId) -> Option<&'g Tensor> {
        match &self.graph.value(id).constant {
            Some(Value::Tensor(tensor)) if !self.is_input(id) => Some(tensor),
            _ => None,
        }
    }

    /// Whether something is computed or given, and nothing else.
    pub fn is_computed(&self, id: ValueId) -> bool {
        self.graph.value(id).constant.is_none()
    }

    pub fn is_f32(&self, id: ValueId) -> bool {
        let fact = self.facts[id.index()].ty.as_ref().or(self.graph.value(id).ty.as_ref());
        matches!(fact, Some(Type::Tensor(ElementType::F32, _)))
    }

    pub fn dims(&self, id: ValueId) -> Option<&[Dim]> {
        match self.facts[id.index()].ty.as_ref()? {
            Type::Tensor(_, dims) => dims.as_deref(),
            _ => None,
        }
    }
}

/// Whether a node is one of these operators of ONNX' own.
pub fn is_one_of(node: &Node, operators: &[&str]) -> bool {
    node.domain.is_empty() && operators.contains(&node.operator.as_str())
}

pub fn operand(node: &Node, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}

/// The first result of a node, if it has no other.
pub fn only_result(node: &Node) -> Option<ValueId> {
    let more = node.outputs.iter().skip(1).any(Option::is_some);
    node.outputs.first().copied().flatten().filter(|_| !more)
}
