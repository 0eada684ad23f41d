//! Graphs made in code, node by node, and checked when they are finished.

mod check;
mod convert;
mod names;
mod node;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

pub use convert::Operand;
pub use node::NodeBuilder;

use crate::{Attribute, Capture, Dim, ElementType, Graph, Model, Plain, Result};
use crate::{Error, Tensor, Type, Value, ValueId};

/// Makes a graph in code, node by node.
///
/// Values are [`ValueId`]s of this builder. Mistakes are told when the graph is finished, with the node where
/// they are: [`build`](Self::build) gives a [`Model`], [`finish`](Self::finish) its graph alone.
///
/// `y = Relu(x W + b)` for any number of rows:
///
/// ```
/// use polaris_onnx::{ElementType, GraphBuilder, Tensor, interpret};
///
/// # fn main() -> polaris_onnx::Result<()> {
/// let mut graph = GraphBuilder::new("layer");
/// let x = graph.input("x", ElementType::F32, ["rows", "2"]);
/// let w = graph.constant(Tensor::new(&[2, 3], vec![1f32, 0.0, -1.0, 0.0, 1.0, -1.0])?);
/// let b = graph.constant(Tensor::new(&[3], vec![0.5f32, 0.5, 0.5])?);
/// let product = graph.node("MatMul", [x, w]);
/// let sum = graph.node("Add", [product, b]);
/// let y = graph.node("Relu", [sum]);
/// graph.output_as(y, "y");
/// let model = graph.build()?;
///
/// let x = Tensor::new(&[1, 2], vec![1f32, 2.0])?;
/// let y = interpret(&model.graph, &[Some(x.into())], &[])?;
/// assert_eq!(y[0].tensor()?.to_f64()?, [1.5, 2.5, 0.0]);
/// let ty = model.graph.value(model.graph.outputs[0]).ty.as_ref();
/// assert_eq!(ty.map(ToString::to_string).as_deref(), Some("f32[rows, 3]"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct GraphBuilder {
    graph: Graph,
    /// The versions of operators by domain.
    opsets: HashMap<String, i64>,
    names: HashMap<String, ValueId>,
    /// Values whose names the caller did not choose.
    generated: HashSet<ValueId>,
    /// The first mistake that the graph itself cannot show.
    mistake: Option<Error>,
}

impl GraphBuilder {
    /// The version of operators where the caller names none. It has all that common networks need, and engines
    /// since 2022 read it.
    pub const OPSET: i64 = 17;

    /// A graph of this name without anything in it.
    pub fn new(name: &str) -> Self {
        Self {
            graph: Graph { name: name.to_owned(), ..Graph::default() },
            opsets: [(String::new(), Self::OPSET)].into(),
            names: HashMap::new(),
            generated: HashSet::new(),
            mistake: None,
        }
    }

    /// Sets the version of ONNX' own operators for all nodes; call it before the first.
    pub fn opset(self, version: i64) -> Self {
        self.opset_of("", version)
    }

    /// Sets the version of a domain's operators; 1 if nobody does.
    pub fn opset_of(mut self, domain: &str, version: i64) -> Self {
        self.opsets.insert(domain.to_owned(), version);
        self
    }

    /// An input tensor. Lengths are numbers or names: `[2, 3]`, `["batch", "3"]`.
    pub fn input(
        &mut self,
        name: &str,
        element: ElementType,
        shape: impl IntoIterator<Item: Into<Dim>>,
    ) -> ValueId {
        self.input_of(name, Type::tensor(element, shape))
    }

    /// An input of any type.
    pub fn input_of(&mut self, name: &str, ty: Type) -> ValueId {
        let id = self.named(name, Some(ty), None);
        self.graph.inputs.push(id);
        id
    }

    /// An input whose type is not declared, as in the body of a loop.
    pub fn untyped_input(&mut self, name: &str) -> ValueId {
        let id = self.named(name, None, None);
        self.graph.inputs.push(id);
        id
    }

    /// An input that a constant stands for unless it is given.
    pub fn input_with_default(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let id = self.named_constant(name, tensor);
        self.graph.inputs.push(id);
        id
    }

    /// A constant.
    pub fn constant(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("constant_{}", self.graph.values.len());
        let value = Value::Tensor(tensor);
        self.generated(name, Some(value.ty()), Some(value))
    }

    /// A constant under a name.
    pub fn named_constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let value = Value::Tensor(tensor);
        self.named(name, Some(value.ty()), Some(value))
    }

    /// A constant `f32`, as a tensor without axes.
    pub fn number(&mut self, value: f32) -> ValueId {
        self.scalar(value)
    }

    /// A constant of any type, as a tensor without axes.
    pub fn scalar<T: Plain>(&mut self, value: T) -> ValueId {
        self.constant(Tensor::scalar(value))
    }

    /// A constant list of integers: a shape, axes, or indices.
    pub fn integers(&mut self, values: &[i64]) -> ValueId {
        let tensor = Tensor::new(&[values.len()], values.to_vec());
        self.constant(tensor.expect("a list should fit a shape of its length"))
    }

    /// A value of the graph around this one, under a name of this one; see [`inner`](Self::inner).
    pub fn capture(&mut self, name: &str, outer: ValueId) -> ValueId {
        let inner = self.named(name, None, None);
        self.graph.captures.push(Capture { outer, inner });
        inner
    }

    /// A builder for a graph inside a node of this one, such as a branch or the body of a loop. Its finished
    /// graph is an attribute; [`capture`](Self::capture) gives it values from outside.
    pub fn inner(&self, name: &str) -> Self {
        Self { opsets: self.opsets.clone(), ..Self::new(name) }
    }

    /// The result of an operator.
    pub fn node(&mut self, operator: &str, inputs: impl IntoIterator<Item: Operand>) -> ValueId {
        self.call(operator, inputs).output()
    }

    /// The result of an operator with attributes: `[("axis", 1)]`, `[("perm", &[0, 2, 1])]`.
    pub fn node_with<'a, V: Into<Attribute>>(
        &mut self,
        operator: &str,
        inputs: impl IntoIterator<Item: Operand>,
        attributes: impl IntoIterator<Item = (&'a str, V)>,
    ) -> ValueId {
        self.call(operator, inputs).attributes(attributes).output()
    }

    /// An operator with whatever else it needs: attributes of several kinds, several results, another domain or
    /// version, a name.
    ///
    /// ```
    /// # use polaris_onnx::{ElementType, GraphBuilder};
    /// # let mut graph = GraphBuilder::new("pooled");
    /// # let x = graph.input("x", ElementType::F32, [1, 3, 8, 8]);
    /// let [y, places] =
    ///     graph.call("MaxPool", [x]).attribute("kernel_shape", [2, 2]).attribute("ceil_mode", 1).outputs();
    /// let sizes = graph.integers(&[1, 3, 16, 16]);
    /// let larger = graph.call("Resize", [Some(y), None, None, Some(sizes)]).attribute("mode", "linear").output();
    /// # graph.output(places);
    /// # graph.output(larger);
    /// # graph.build().unwrap();
    /// ```
    pub fn call(
        &mut self,
        operator: &str,
        inputs: impl IntoIterator<Item: Operand>,
    ) -> NodeBuilder<'_> {
        NodeBuilder::new(self, operator, inputs)
    }

    /// Declares the type of a value where it says more than can be inferred, such as names of lengths.
    pub fn declare(&mut self, id: ValueId, ty: Type) {
        match self.graph.values.get_mut(id.index()) {
            Some(slot) => slot.ty = Some(ty),
            None => self.fail(foreign(id)),
        }
    }

    /// Makes a value an output under the name that it has.
    pub fn output(&mut self, id: ValueId) {
        self.graph.outputs.push(id);
    }

    /// Makes a value an output under this name. One that has another name already (an input, say, or another
    /// output) keeps it, and is passed on by `Identity`.
    pub fn output_as(&mut self, id: ValueId, name: &str) {
        let has_name = self.graph.values.get(id.index()).is_some_and(|slot| slot.name == name);
        if has_name {
            return self.output(id);
        }
        let renamed = if self.generated.contains(&id) { id } else { self.node("Identity", [id]) };
        self.rename(renamed, name);
        self.output(renamed);
    }

    /// The graph as it is so far.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The finished graph, checked, with the types that can be inferred.
    ///
    /// # Errors
    /// If a value is made twice or not at all, a name is used twice, an operator does not exist or takes another
    /// number of operands, or operands cannot go together; with the node where it is.
    pub fn finish(self) -> Result<Graph> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let mut graph = self.graph;
        graph.validate()?;
        check::operators(&graph)?;
        check::infer_types(&mut graph)?;
        Ok(graph)
    }

    /// The finished model.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn build(self) -> Result<Model> {
        let opsets = self.opsets.clone();
        Ok(Model {
            ir_version: opsets.get("").map_or(8, |&version| ir_version(version)),
            graph: self.finish()?,
            opsets,
            producer: concat!("polaris ", env!("CARGO_PKG_VERSION")).to_owned(),
            metadata: Vec::new(),
        })
    }

    /// The version of a domain's operators.
    fn version(&mut self, domain: &str) -> i64 {
        *self.opsets.entry(domain.to_owned()).or_insert(1)
    }

    fn fail(&mut self, mistake: Error) {
        self.mistake.get_or_insert(mistake);
    }
}

fn foreign(id: ValueId) -> Error {
    Error::format(format!("the value {} is none of this graph; use those of its own builder", id.0))
}

/// The version of the file format that came with a version of ONNX' operators.
pub(crate) fn ir_version(opset: i64) -> i64 {
    match opset {
        // Earlier versions of the format list every constant as an input.
        ..=9 => 4,
        10 => 5,
        11 => 6,
        12..=14 => 7,
        15..=18 => 8,
        19..=20 => 9,
        21..=22 => 10,
        23 => 11,
        24 => 12,
        25..=27 => 13,
        28.. => 14,
    }
}
