//! Queries of passes: the producer of a value, its consumers, and what is known of it.

use std::cell::OnceCell;
use std::collections::HashMap;

use polaris_onnx::infer::{Fact, infer_graph};
use polaris_onnx::{Dim, ElementType, Graph, Node, Tensor, Type, Value, ValueId};

use super::Place;

/// A graph with an index of its values. It does not follow changes.
pub struct View<'g> {
    pub graph: &'g Graph,
    place: Place,
    /// The node that makes each value.
    makers: Vec<Option<usize>>,
    /// The nodes that need each value, once for each time they do.
    users: Vec<Vec<usize>>,
    is_input: Vec<bool>,
    is_output: Vec<bool>,
    facts: OnceCell<Vec<Fact>>,
}

impl<'g> View<'g> {
    pub fn new(graph: &'g Graph, place: Place) -> Self {
        let values = graph.values.len();
        let mut view = Self {
            graph,
            place,
            makers: vec![None; values],
            users: vec![Vec::new(); values],
            is_input: vec![false; values],
            is_output: vec![false; values],
            facts: OnceCell::new(),
        };
        for (at, node) in graph.nodes.iter().enumerate() {
            node.outputs.iter().flatten().for_each(|id| view.makers[id.index()] = Some(at));
            node.needs().for_each(|id| view.users[id.index()].push(at));
        }
        graph.inputs.iter().for_each(|id| view.is_input[id.index()] = true);
        graph.outputs.iter().for_each(|id| view.is_output[id.index()] = true);
        view
    }

    /// The nodes with their places.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, &'g Node)> + use<'g> {
        self.graph.nodes.iter().enumerate()
    }

    /// The node that makes a value, with its place.
    pub fn maker(&self, id: ValueId) -> Option<(usize, &'g Node)> {
        let at = self.makers[id.index()]?;
        Some((at, &self.graph.nodes[at]))
    }

    /// The node that makes a value as its first result, if it is this operator of ONNX' own.
    pub fn made_by(&self, id: ValueId, operator: &str) -> Option<&'g Node> {
        let (_, node) = self.maker(id)?;
        (is(node, operator) && node.outputs.first() == Some(&Some(id))).then_some(node)
    }

    /// Whether a value is given from outside, so that it may differ from run to run.
    pub fn is_input(&self, id: ValueId) -> bool {
        self.is_input[id.index()]
    }

    /// Whether a value is a result of the graph.
    pub fn is_output(&self, id: ValueId) -> bool {
        self.is_output[id.index()]
    }

    /// How often nodes need a value.
    pub fn uses(&self, id: ValueId) -> usize {
        self.users[id.index()].len()
    }

    /// The nodes that need a value, once for each time they do.
    pub fn users(&self, id: ValueId) -> impl Iterator<Item = &'g Node> + use<'_, 'g> {
        self.users[id.index()].iter().map(|&at| &self.graph.nodes[at])
    }

    /// Whether a value is needed so often by nodes and is not a result of the graph.
    pub fn is_used(&self, id: ValueId, times: usize) -> bool {
        self.uses(id) == times && !self.is_output(id)
    }

    /// Whether nobody but one node, once, needs a value.
    pub fn is_private(&self, id: ValueId) -> bool {
        self.is_used(id, 1)
    }

    /// The only node that needs a value, as an operand, if there is one.
    pub fn sole_user(&self, id: ValueId) -> Option<(usize, &'g Node)> {
        let at = *self.users[id.index()].first().filter(|_| self.is_private(id))?;
        let node = &self.graph.nodes[at];
        node.inputs.contains(&Some(id)).then_some((at, node))
    }

    /// A constant tensor that nobody can replace.
    pub fn constant(&self, id: ValueId) -> Option<&'g Tensor> {
        match &self.graph.value(id).constant {
            Some(Value::Tensor(tensor)) if !self.is_input(id) => Some(tensor),
            _ => None,
        }
    }

    /// The only element of a constant.
    pub fn number(&self, id: ValueId) -> Option<f64> {
        let tensor = self.constant(id).filter(|tensor| tensor.elements() == 1)?;
        tensor.to_f64().ok()?.first().copied()
    }

    /// The only element of a constant that does not give its partner more axes.
    pub fn factor(&self, id: ValueId, partner: ValueId) -> Option<f64> {
        let rank = self.constant(id)?.rank();
        let fits = rank == 0 || self.rank(partner).is_some_and(|other| rank <= other);
        self.number(id).filter(|_| fits)
    }

    /// The elements of a constant of integers.
    pub fn integers(&self, id: ValueId) -> Option<Vec<i64>> {
        self.constant(id)?.to_i64().ok()
    }

    /// What is known of all values. Nothing, if the graph contradicts itself.
    pub fn facts(&self) -> &[Fact] {
        self.facts.get_or_init(|| {
            let mut given = HashMap::new();
            for &id in &self.graph.inputs {
                // Types of inputs are checked before a model runs, those of subgraphs are not.
                let slot = self.graph.value(id);
                let ty = slot.ty.clone().filter(|_| self.place == Place::Model);
                given.insert(id, Fact { ty, ..Fact::default() });
            }
            infer_graph(self.graph, &given)
                .unwrap_or_else(|_| vec![Fact::default(); self.graph.values.len()])
        })
    }

    /// The type of a value's elements, if it is a tensor.
    pub fn element(&self, id: ValueId) -> Option<ElementType> {
        match self.facts()[id.index()].ty.as_ref()? {
            Type::Tensor(element, _) => Some(*element),
            _ => None,
        }
    }

    /// The lengths of a value's axes, if it is a tensor of a known number of them.
    pub fn shape(&self, id: ValueId) -> Option<&[Dim]> {
        match self.facts()[id.index()].ty.as_ref()? {
            Type::Tensor(_, shape) => shape.as_deref(),
            _ => None,
        }
    }

    /// The number of a value's axes.
    pub fn rank(&self, id: ValueId) -> Option<usize> {
        self.shape(id).map(<[Dim]>::len)
    }

    /// Whether a value holds floating-point numbers of a usual width.
    pub fn is_float(&self, id: ValueId) -> bool {
        use ElementType::{BF16, F16, F32, F64};
        matches!(self.element(id), Some(F16 | BF16 | F32 | F64))
    }
}

/// Whether a node is this operator of ONNX' own.
pub fn is(node: &Node, operator: &str) -> bool {
    node.domain.is_empty() && node.operator == operator
}

/// An operand of a node, if it is there.
pub fn operand(node: &Node, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}

/// Both operands of a node that has two. Before version 7 an attribute may say which of their axes belong
/// together; such nodes have none here.
pub fn pair(node: &Node) -> Option<[ValueId; 2]> {
    let early = node.version < 7 && node.attributes.get("axis").is_some();
    match node.inputs.as_slice() {
        [Some(a), Some(b)] if !early => Some([*a, *b]),
        _ => None,
    }
}

/// Both operands of a node that has two, in either order.
pub fn either(node: &Node) -> impl Iterator<Item = [ValueId; 2]> + use<> {
    let orders = pair(node).map(|[a, b]| [[a, b], [b, a]]);
    orders.into_iter().flatten()
}

/// The first result of a node, if no other is used.
pub fn only_result(node: &Node) -> Option<ValueId> {
    let more = node.outputs.iter().skip(1).any(Option::is_some);
    node.outputs.first().copied().flatten().filter(|_| !more)
}

/// Whether two lengths are the same in every run. What is written as a negative number is not a length.
pub fn same_length(a: &Dim, b: &Dim) -> bool {
    let known = match a {
        Dim::Known(_) => true,
        Dim::Named(name) => name.parse::<i64>().is_err(),
        Dim::Unknown => false,
    };
    known && a == b
}

/// Whether two shapes are the same in every run.
pub fn same_shape(a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_length(a, b))
}

/// Whether numbers are the same but for the rounding of constants in files.
pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs()
}

/// The axes of a reduction, which are an attribute or, in later versions, an operand.
pub fn reduced_axes(view: &View<'_>, node: &Node) -> Option<Vec<i64>> {
    match node.attributes.ints("axes").ok()? {
        Some(axes) => Some(axes.to_vec()),
        None => view.integers(operand(node, 1)?),
    }
}
