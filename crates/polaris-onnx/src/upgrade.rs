//! A model written for later versions of ONNX' operators.

use std::collections::HashMap;
use std::sync::Arc;

use crate::builder::ir_version;
use crate::infer::infer_graph;
use crate::operators::signatures::means_the_same;
use crate::{Attribute, Error, Graph, Model, Node, Result, Tensor, Type, Value, ValueId};

impl Model {
    /// Writes all nodes of ONNX' own operators for a version, where they are for an earlier one. What later versions changed
    /// is written as they want it: lists of axes as operands instead of attributes, and the like.
    ///
    /// # Errors
    /// If a node means something else in that version, with the node. The model may be changed in part then.
    pub fn raise_opset(&mut self, version: i64) -> Result<()> {
        raise(&mut self.graph, version)?;
        if self.opsets.get("").is_none_or(|&own| own < version) {
            self.opsets.insert(String::new(), version);
        }
        self.ir_version = self.ir_version.max(ir_version(version));
        Ok(())
    }
}

fn raise(graph: &mut Graph, version: i64) -> Result<()> {
    // Ranks of values, for what depends on them; inputs of graphs inside others say what they know.
    let facts = infer_graph(graph, &HashMap::new()).unwrap_or_default();
    let rank = |id: ValueId| match facts.get(id.index()).and_then(|fact| fact.ty.as_ref()) {
        Some(Type::Tensor(_, Some(dims))) => Some(dims.len() as i64),
        _ => None,
    };
    let mut nodes = std::mem::take(&mut graph.nodes);
    for node in &mut nodes {
        for inner in node.attributes.graphs_mut() {
            raise(Arc::make_mut(inner), version)?;
        }
        if !node.domain.is_empty() || node.version >= version {
            continue;
        }
        if !means_the_same(node, version) && !rewrite(graph, node, rank) {
            return Err(Error::unsupported(format!(
                "{} of version {} in a model of version {version}, where it means something else",
                node.operator, node.version
            ))
            .at(node));
        }
        node.version = version;
    }
    graph.nodes = nodes;
    Ok(())
}

/// Writes a node as versions from 13 on want it. `false` if it cannot say there what it says.
fn rewrite(graph: &mut Graph, node: &mut Node, rank: impl Fn(ValueId) -> Option<i64>) -> bool {
    let first = node.inputs.first().copied().flatten();
    match node.operator.as_str() {
        // Later versions have more attributes, with defaults that mean what was there before, or accept more.
        "ArgMax" | "ArgMin" | "AveragePool" | "DepthToSpace" | "Erf" | "GatherND" | "MaxPool" => {
            true
        }
        "Gemm" => node.version >= 7,
        "TopK" => node.version >= 10,
        "BatchNormalization" => {
            node.version >= 7
                && node.outputs.iter().skip(1).all(Option::is_none)
                && node.attributes.int_or("spatial", 1).is_ok_and(|spatial| spatial == 1)
        }
        "Squeeze" | "ReduceSum" => lists(graph, node, &[("axes", false)]),
        "Unsqueeze" => lists(graph, node, &[("axes", true)]),
        "Split" if node.version >= 2 => lists(graph, node, &[("split", false)]),
        "Slice" => lists(graph, node, &[("starts", true), ("ends", true), ("axes", false)]),
        "Pad" if node.version >= 2 => {
            let value = node.attributes.float_or("value", 0.0);
            lists(graph, node, &[("pads", true)]) && numbers(graph, node, &[("value", value.ok())])
        }
        "Clip" if node.version >= 6 => {
            let bound = |name: &str| node.attributes.float(name).ok().flatten();
            let bounds = [("min", bound("min")), ("max", bound("max"))];
            numbers(graph, node, &bounds)
        }
        "Softmax" | "LogSoftmax" | "Hardmax" => {
            // Before, all axes from this one on were one.
            let axis = node.attributes.int_or("axis", 1).unwrap_or(1);
            let last = axis == -1 || first.and_then(rank).is_some_and(|rank| rank == axis + 1);
            node.attributes.set("axis", Attribute::Int(-1));
            last
        }
        _ => false,
    }
}

/// Turns attributes with lists of integers into operands, in their order after the first. `false` if one is missing that must
/// be there.
fn lists(graph: &mut Graph, node: &mut Node, names: &[(&str, bool)]) -> bool {
    node.inputs.truncate(1);
    for (name, needed) in names {
        let Ok(list) = node.attributes.ints(name).map(|list| list.map(<[i64]>::to_vec)) else {
            return false;
        };
        let made = list.and_then(|list| Tensor::new(&[list.len()], list).ok());
        if made.is_none() && *needed {
            return false;
        }
        operand(graph, node, name, made);
    }
    true
}

/// The same for numbers.
fn numbers(graph: &mut Graph, node: &mut Node, names: &[(&str, Option<f32>)]) -> bool {
    for (name, number) in names {
        operand(graph, node, name, number.map(Tensor::scalar));
    }
    true
}

fn operand(graph: &mut Graph, node: &mut Node, name: &str, tensor: Option<Tensor>) {
    let made = tensor.map(|tensor| {
        let value = Value::Tensor(tensor);
        // It gets a name when a file is written.
        graph.add_value(String::new(), Some(value.ty()), Some(value))
    });
    node.inputs.push(made);
    node.attributes.remove(name);
}

#[cfg(test)]
mod tests {
    use crate::ElementType::F32;
    use crate::{GraphBuilder, Tensor, Value, interpret};

    use super::*;

    fn run(model: &Model, shape: &[usize]) -> Vec<f64> {
        let count = shape.iter().product::<usize>();
        let values = (0..count).map(|at| (at * 37 % 101) as f32 / 25.0 - 2.0).collect();
        let x = Tensor::new::<f32>(shape, values).unwrap();
        let results = interpret(&model.graph, &[Some(Value::Tensor(x))], &[]).unwrap();
        results.iter().flat_map(|value| value.tensor().unwrap().to_f64().unwrap()).collect()
    }

    #[test]
    fn what_later_versions_changed_is_written_anew() {
        let mut g = GraphBuilder::new("early").opset(9);
        let x = g.input("x", F32, [2, 3, 6]);
        let y = g.call("Unsqueeze", [x]).attribute("axes", [3]).output();
        let y = g.call("Squeeze", [y]).attribute("axes", [3]).output();
        let y = g.call("Slice", [y]).attribute("starts", [1]).attribute("ends", [5]);
        let y = y.attribute("axes", [2]).output();
        let pads = g.call("Pad", [y]).attribute("pads", [0, 0, 1, 0, 0, 2]).attribute("value", 0.5);
        let y = pads.output();
        let y = g.call("Clip", [y]).attribute("min", -1.0).output();
        let [a, b] = g.call("Split", [y]).attribute("axis", 1).attribute("split", [1, 2]).outputs();
        let a = g.call("ReduceSum", [a]).attribute("axes", [2]).attribute("keepdims", 0).output();
        let a = g.node("Softmax", [a]);
        for y in [a, b] {
            g.output(y);
        }
        let before = g.build().unwrap();
        let mut after = before.clone();
        after.raise_opset(13).unwrap();
        assert_eq!(after.opsets[""], 13);
        let written = Model::from_bytes(after.to_bytes().unwrap().into(), &crate::NoExternalData);
        let written = written.unwrap();
        assert!(written.graph.nodes.iter().all(|node| node.version == 13));
        assert_eq!(run(&before, &[2, 3, 6]), run(&written, &[2, 3, 6]));
    }

    #[test]
    fn what_has_no_counterpart_is_named() {
        let mut g = GraphBuilder::new("early").opset(11);
        let x = g.input("x", F32, [2, 3, 6]);
        let y = g.call("Softmax", [x]).named("all").attribute("axis", 1).output();
        g.output(y);
        let error = g.build().unwrap().raise_opset(13).unwrap_err().to_string();
        assert!(error.contains("`all`") && error.contains("version 11"), "{error}");
    }

    #[test]
    fn later_versions_stay() {
        let mut g = GraphBuilder::new("late").opset(17);
        let x = g.input("x", F32, [2]);
        let y = g.node("Relu", [x]);
        g.output(y);
        let mut model = g.build().unwrap();
        model.raise_opset(13).unwrap();
        assert_eq!((model.opsets[""], model.graph.nodes[0].version), (17, 17));
    }
}
