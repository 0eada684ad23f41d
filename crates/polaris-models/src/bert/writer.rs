//! A graph of ONNX in memory, written node by node.

use polaris_onnx::{
    Attribute, Attributes, Dim, ElementType, Graph, Node, Tensor, Type, Value, ValueId,
};

/// The version of operators that graphs are written in: the first one with `Attention`.
pub const OPSET: i64 = 23;

/// A graph that is being written.
#[derive(Debug, Default)]
pub struct Writer {
    graph: Graph,
}

impl Writer {
    /// An input of integers, `[batch, tokens]`.
    pub fn tokens(&mut self, name: &str) -> ValueId {
        let dims = vec![Dim::Named("batch".to_owned()), Dim::Named("tokens".to_owned())];
        let ty = Type::Tensor(ElementType::I64, Some(dims));
        let id = self.graph.add_value(name.to_owned(), Some(ty), None);
        self.graph.inputs.push(id);
        id
    }

    /// A constant under a name.
    pub fn constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        self.graph.add_value(name.to_owned(), None, Some(Value::Tensor(tensor)))
    }

    /// One number.
    pub fn number(&mut self, value: f32) -> ValueId {
        let name = self.fresh("number");
        self.constant(&name, Tensor::scalar(value))
    }

    /// Lengths or axes.
    pub fn integers(&mut self, values: &[i64]) -> ValueId {
        let name = self.fresh("integers");
        let tensor = Tensor::new(&[values.len()], values.to_vec());
        self.constant(&name, tensor.expect("as many numbers as the shape has should fit it"))
    }

    /// The result of a node.
    pub fn node(
        &mut self,
        operator: &str,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let path = self.fresh(operator);
        let output = self.graph.add_value(path.clone(), None, None);
        let mut list = Attributes::default();
        attributes.iter().for_each(|(name, value)| list.set(name, value.clone()));
        self.graph.nodes.push(Node {
            path,
            domain: String::new(),
            operator: operator.to_owned(),
            version: OPSET,
            attributes: list,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
        });
        output
    }

    /// The graph, whose result has this name and so many numbers for each token.
    pub fn finish(mut self, last: ValueId, name: &str, width: usize) -> Graph {
        let dims =
            [Dim::Named("batch".to_owned()), Dim::Named("tokens".to_owned()), Dim::Known(width)];
        let slot = &mut self.graph.values[last.index()];
        name.clone_into(&mut slot.name);
        slot.ty = Some(Type::Tensor(ElementType::F32, Some(dims.to_vec())));
        self.graph.outputs.push(last);
        self.graph
    }

    /// A name that nothing has: values are only ever added.
    fn fresh(&self, name: &str) -> String {
        format!("{name}_{}", self.graph.values.len())
    }
}
