//! Small graphs for the tests of passes: made node by node, and interpreted before and after a pass.

use polaris_onnx::{
    Attribute, Dim, ElementType, Graph, Node, Tensor, Type, Value, ValueId, interpret,
};

use super::Place;

/// A graph in the making. Nodes are of version 17 unless they say otherwise.
#[derive(Default)]
pub struct Draft {
    graph: Graph,
}

/// Numbers between -1 and 1 that look random.
pub fn floats(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |index: usize| ((index * 7919 + count * 31) % 1009) as f32 / 504.5 - 1.0;
    Tensor::new(shape, (0..count).map(value).collect::<Vec<f32>>()).unwrap()
}

impl Draft {
    pub fn new() -> Self {
        Self::default()
    }

    /// An input of `f32`; lengths are numbers or names.
    pub fn input(&mut self, name: &str, dims: &[&str]) -> ValueId {
        self.typed_input(name, ElementType::F32, dims)
    }

    pub fn typed_input(&mut self, name: &str, element: ElementType, dims: &[&str]) -> ValueId {
        let dim = |text: &&str| match text.parse() {
            Ok(length) => Dim::Known(length),
            Err(_) => Dim::Named((*text).to_owned()),
        };
        let ty = Type::Tensor(element, Some(dims.iter().map(dim).collect()));
        let id = self.graph.add_value(name.to_owned(), Some(ty), None);
        self.graph.inputs.push(id);
        id
    }

    /// An input that a constant stands for unless it is given.
    pub fn input_with_default(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let value = Value::from(tensor);
        let id = self.graph.add_value(name.to_owned(), Some(value.ty()), Some(value));
        self.graph.inputs.push(id);
        id
    }

    pub fn constant(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("c{}", self.graph.values.len());
        self.graph.add_value(name, None, Some(tensor.into()))
    }

    pub fn number(&mut self, value: f32) -> ValueId {
        self.constant(Tensor::scalar(value))
    }

    pub fn integers(&mut self, values: &[i64], scalar: bool) -> ValueId {
        let shape: &[usize] = if scalar { &[] } else { &[values.len()] };
        self.constant(Tensor::new(shape, values.to_vec()).unwrap())
    }

    pub fn node(&mut self, operator: &str, inputs: &[ValueId]) -> ValueId {
        self.node_with(operator, inputs, &[])
    }

    /// A node with parameters that are lists of integers.
    pub fn node_with(
        &mut self,
        operator: &str,
        inputs: &[ValueId],
        attributes: &[(&str, Vec<i64>)],
    ) -> ValueId {
        let attributes: Vec<(&str, Attribute)> = (attributes.iter())
            .map(|(name, list)| (*name, Attribute::Ints(list.clone())))
            .collect();
        self.any_node(operator, 17, inputs, &attributes)
    }

    pub fn any_node(
        &mut self,
        operator: &str,
        version: i64,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let at = self.graph.nodes.len();
        let output = self.graph.add_value(format!("v{at}"), None, None);
        let mut node = Node {
            path: format!("{operator}_{at}"),
            domain: String::new(),
            operator: operator.to_owned(),
            version,
            attributes: Default::default(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
        };
        for (name, attribute) in attributes {
            node.attributes.set(name, attribute.clone());
        }
        self.graph.nodes.push(node);
        output
    }

    pub fn cast(&mut self, x: ValueId, to: ElementType) -> ValueId {
        self.any_node("Cast", 17, &[x], &[("to", Attribute::Int(i64::from(to.code())))])
    }

    pub fn output(&mut self, id: ValueId) {
        self.graph.outputs.push(id);
    }

    pub fn output_as(&mut self, id: ValueId, name: &str) {
        self.graph.values[id.index()].name = name.to_owned();
        self.output(id);
    }

    pub fn graph(self) -> Graph {
        self.graph
    }

    /// Runs a pass, and compares what the graph computes before and after it, by the largest result.
    pub fn check(
        self,
        pass: impl Fn(&mut Graph, Place) -> usize,
        inputs: &[(&str, Tensor)],
        tolerance: f64,
    ) -> Graph {
        let before = self.graph;
        let mut after = before.clone();
        let count = pass(&mut after, Place::Model);
        let names = |graph: &Graph| -> Vec<String> {
            graph.outputs.iter().map(|&id| graph.value(id).name.clone()).collect()
        };
        assert_eq!(names(&before), names(&after));
        let (expected, found) = (evaluate(&before, inputs), evaluate(&after, inputs));
        for (expected, found) in expected.iter().zip(&found) {
            assert_same(expected, found, tolerance);
        }
        assert!(count > 0 || before.nodes.len() == after.nodes.len());
        after
    }

    /// The same for a pass that shall find nothing.
    pub fn check_unchanged(self, pass: impl Fn(&mut Graph, Place) -> usize) {
        let mut graph = self.graph;
        let before = graph.to_string();
        assert_eq!(pass(&mut graph, Place::Model), 0, "{graph}");
        assert_eq!(before, graph.to_string());
    }
}

fn evaluate(graph: &Graph, inputs: &[(&str, Tensor)]) -> Vec<Tensor> {
    let given: Vec<Option<Value>> = (graph.inputs.iter())
        .map(|&id| {
            let named = inputs.iter().find(|(name, _)| *name == graph.value(id).name);
            named.map(|(_, tensor)| tensor.clone().into())
        })
        .collect();
    let values = interpret(graph, &given, &[]).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    values.iter().map(|value| value.tensor().unwrap().clone()).collect()
}

fn assert_same(expected: &Tensor, found: &Tensor, tolerance: f64) {
    assert_eq!((expected.element(), expected.shape()), (found.element(), found.shape()));
    let (expected, found) = (expected.to_f64().unwrap(), found.to_f64().unwrap());
    let most = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    for (at, (a, b)) in expected.iter().zip(&found).enumerate() {
        let same = (a - b).abs() <= tolerance * most.max(1e-30) || a.is_nan() && b.is_nan();
        assert!(same, "element {at}: {a} before, {b} after");
    }
}

/// How often an operator occurs.
pub fn count(graph: &Graph, operator: &str) -> usize {
    graph.nodes.iter().filter(|node| node.operator == operator).count()
}
