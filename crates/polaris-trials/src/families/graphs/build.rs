//! A graph that grows node by node. The interpreter computes each node as it is added, so shapes and
//! elements are always known, and only what can be computed is in the graph.

use std::panic::{AssertUnwindSafe, catch_unwind};

use polaris_onnx::messages::{Attribute, Graph, Model, Node, Tensor as Constant};
use polaris_onnx::{ElementType, NoExternalData, Tensor, Value};
use prost::Message;

use crate::models;
use crate::random::Random;

/// Larger tensors take time and show nothing more.
const MOST_ELEMENTS: usize = 20_000;
/// Larger numbers leave small ones no digits.
const LARGEST: f64 = 1e4;

/// A value of the graph.
#[derive(Clone)]
pub struct Made {
    pub name: String,
    pub tensor: Tensor,
    /// Every way of computing it gives the same bits: only such values may be rounded, compared or sorted.
    pub exact: bool,
}

impl Made {
    pub fn rank(&self) -> usize {
        self.tensor.rank()
    }

    pub fn shape(&self) -> Vec<i64> {
        self.tensor.shape().iter().map(|&length| length as i64).collect()
    }

    pub fn element(&self) -> ElementType {
        self.tensor.element()
    }

    pub fn is_float(&self) -> bool {
        self.element().is_float()
    }

    /// Whether all elements hold for this.
    pub fn all(&self, test: impl Fn(f64) -> bool) -> bool {
        self.tensor.to_f64().is_ok_and(|values| values.into_iter().all(test))
    }
}

pub struct Builder {
    pub random: Random,
    /// What the interpreter panicked with.
    pub panic: Option<String>,
    nodes: Vec<Node>,
    constants: Vec<(String, Tensor)>,
    inputs: Vec<(String, Tensor)>,
    values: Vec<Made>,
    opset: i64,
    names: usize,
}

impl Builder {
    /// With one to three inputs.
    pub fn new(mut random: Random) -> Self {
        let opset = 18 + random.below(4) as i64;
        let mut builder = Self {
            random,
            panic: None,
            nodes: Vec::new(),
            constants: Vec::new(),
            inputs: Vec::new(),
            values: Vec::new(),
            opset,
            names: 0,
        };
        for _ in 0..builder.random.between(1, 3) {
            let shape = builder.any_shape();
            let element = builder.any_element();
            let tensor = builder.tensor(element, &shape);
            let name = builder.name("x");
            builder.inputs.push((name.clone(), tensor.clone()));
            builder.values.push(Made { name, tensor, exact: true });
        }
        builder
    }

    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub fn opset(&self) -> i64 {
        self.opset
    }

    pub fn inputs(&self) -> Vec<(String, Tensor)> {
        self.inputs.clone()
    }

    /// What results may differ by, as a part of the largest: rounding grows along a graph.
    pub fn tolerance(&self) -> f64 {
        let has = |element| self.values.iter().any(|value| value.element() == element);
        match (has(ElementType::F16), has(ElementType::F32)) {
            (true, _) => 3e-2,
            (false, true) => 3e-4,
            _ => 1e-8,
        }
    }

    fn any_shape(&mut self) -> Vec<usize> {
        let rank = *self.random.pick(&[0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5]);
        (0..rank)
            .map(|_| match self.random.below(14) {
                0 => 0,
                1 => 1,
                2 => self.random.between(9, 33),
                _ => self.random.between(1, 8),
            })
            .collect()
    }

    fn any_element(&mut self) -> ElementType {
        use ElementType::{Bool, F16, F32, F64, I8, I32, I64, U8};
        *self.random.pick(&[F32, F32, F32, F32, F32, F32, F32, F64, F16, I32, I64, U8, I8, Bool])
    }

    /// Random elements: floats between -2 and 2, small integers, bools.
    pub fn tensor(&mut self, element: ElementType, shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        let values: Vec<f64> = (0..count)
            .map(|_| match element {
                ElementType::Bool => self.random.below(2) as f64,
                ElementType::U8 => self.random.below(12) as f64,
                _ if element.is_integer() => self.random.below(19) as f64 - 9.0,
                _ => 2.0 * self.random.unit(),
            })
            .collect();
        Tensor::from_f64(element, shape, &values).expect("small numbers should fit every type")
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// A value that holds for this, if there is one; later ones are likelier, so that graphs become deep.
    pub fn find(&mut self, test: impl Fn(&Made) -> bool) -> Option<Made> {
        let fitting: Vec<&Made> = self.values.iter().filter(|value| test(value)).collect();
        let count = fitting.len();
        if count == 0 {
            return None;
        }
        let at = self.random.below(count).max(self.random.below(count));
        Some(fitting[at].clone())
    }

    /// A constant of random elements.
    pub fn constant(&mut self, element: ElementType, shape: &[usize]) -> Made {
        let tensor = self.tensor(element, shape);
        self.keep(tensor)
    }

    /// A constant.
    pub fn keep(&mut self, tensor: Tensor) -> Made {
        let name = self.name("c");
        self.constants.push((name.clone(), tensor.clone()));
        Made { name, tensor, exact: true }
    }

    /// A constant list of integers.
    pub fn longs(&mut self, values: &[i64]) -> Made {
        let tensor = Tensor::new(&[values.len()], values.to_vec());
        self.keep(tensor.expect("a list should be a tensor"))
    }

    /// Adds a node if it can be computed, gives finite numbers, and nothing too large. Operands that are
    /// `None` are left out.
    pub fn add(
        &mut self,
        operator: &str,
        operands: &[Option<&Made>],
        results: usize,
        attributes: Vec<Attribute>,
        exact: bool,
    ) -> bool {
        self.add_with_outer(operator, operands, results, &[], attributes, exact)
    }

    /// The same for a node with graphs inside that refer to values outside.
    pub fn add_with_outer(
        &mut self,
        operator: &str,
        operands: &[Option<&Made>],
        results: usize,
        outer: &[&Made],
        attributes: Vec<Attribute>,
        exact: bool,
    ) -> bool {
        let outputs: Vec<String> = (0..results).map(|_| self.name("v")).collect();
        let node = Node {
            op_type: operator.to_owned(),
            name: outputs.join("_"),
            input: operands
                .iter()
                .map(|made| made.map_or(String::new(), |made| made.name.clone()))
                .collect(),
            output: outputs.clone(),
            attribute: attributes,
            ..Node::default()
        };
        let operands: Vec<Made> =
            operands.iter().flatten().chain(outer).map(|&made| made.clone()).collect();
        let Some(tensors) = self.evaluate(&node, &operands) else { return false };
        let exact = exact && operands.iter().all(|operand| operand.exact);
        // Integers and bools of inexact floats may jump.
        let jumps = tensors.iter().any(|tensor| !tensor.element().is_float()) && !exact;
        let looks_at_shape_only = matches!(operator, "Shape" | "Size");
        if jumps && !looks_at_shape_only || !tensors.iter().all(is_moderate) {
            return false;
        }
        self.nodes.push(node);
        for (name, tensor) in outputs.into_iter().zip(tensors) {
            self.values.push(Made { name, tensor, exact: exact || looks_at_shape_only });
        }
        true
    }

    fn evaluate(&mut self, node: &Node, operands: &[Made]) -> Option<Vec<Tensor>> {
        let mut given: Vec<&Made> = Vec::new();
        for operand in operands {
            if !given.iter().any(|other| other.name == operand.name) {
                given.push(operand);
            }
        }
        let inputs = given
            .iter()
            .map(|made| models::value(&made.name, made.element().code(), &made.shape()));
        let outputs = node.output.iter().map(|name| models::untyped(name)).collect();
        let graph = models::graph(vec![node.clone()], vec![], inputs.collect(), outputs);
        let bytes = models::model(self.opset, graph).encode_to_vec();
        let values: Vec<Option<Value>> =
            given.iter().map(|made| Some(Value::Tensor(made.tensor.clone()))).collect();
        let work = || {
            let model = polaris_onnx::Model::from_bytes(bytes.into(), &NoExternalData)?;
            polaris_onnx::interpret(&model.graph, &values, &[])
        };
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => {
                let values = result.ok()?;
                values.iter().map(|value| value.tensor().ok().cloned()).collect()
            }
            Err(_) => {
                self.panic.get_or_insert_with(|| node.op_type.clone());
                None
            }
        }
    }

    /// The model, and the values that it gives with what the interpreter makes of them: those that nobody
    /// reads, and one in between.
    pub fn finish(mut self) -> (Model, Vec<(String, Tensor)>) {
        let used = |name: &str| reads(&self.nodes, name);
        let made: Vec<&Made> = self
            .values
            .iter()
            .filter(|value| !self.inputs.iter().any(|(name, _)| *name == value.name))
            .collect();
        let between = self.random.below(made.len().max(1));
        let wanted: Vec<&Made> = made
            .iter()
            .enumerate()
            .filter(|(index, value)| *index == between || !used(&value.name))
            .map(|(_, value)| *value)
            .collect();
        let declared =
            |made: &&Made| models::value(&made.name, made.element().code(), &made.shape());
        let outputs: Vec<_> = wanted.iter().map(declared).collect();
        let results = wanted.iter().map(|made| (made.name.clone(), made.tensor.clone())).collect();
        let inputs = self.inputs.iter().map(|(name, tensor)| {
            let shape: Vec<i64> = tensor.shape().iter().map(|&length| length as i64).collect();
            models::value(name, tensor.element().code(), &shape)
        });
        let is_used = |(name, _): &&(String, Tensor)| used(name);
        let constants =
            self.constants.iter().filter(is_used).map(|(name, tensor)| constant(name, tensor));
        let graph: Graph =
            models::graph(self.nodes.clone(), constants.collect(), inputs.collect(), outputs);
        let mut model = models::model(self.opset, graph);
        model.opset_import.truncate(1);
        (model, results)
    }
}

/// Whether a node reads a value, or a node of a graph inside one.
fn reads(nodes: &[Node], name: &str) -> bool {
    nodes.iter().any(|node| {
        let inside = node.attribute.iter().filter_map(|attribute| attribute.g.as_ref());
        node.input.iter().any(|input| input == name)
            || inside.into_iter().any(|graph| reads(&graph.node, name))
    })
}

fn constant(name: &str, tensor: &Tensor) -> Constant {
    Constant {
        name: name.to_owned(),
        data_type: tensor.element().code(),
        dims: tensor.shape().iter().map(|&length| length as i64).collect(),
        raw_data: tensor.bytes().expect("numbers should have bytes").clone(),
        ..Constant::default()
    }
}

fn is_moderate(tensor: &Tensor) -> bool {
    tensor.elements() <= MOST_ELEMENTS
        && tensor.rank() <= 8
        && tensor.to_f64().is_ok_and(|values| values.iter().all(|x| x.abs() <= LARGEST))
}
