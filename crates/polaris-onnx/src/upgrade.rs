//! A model written for later versions of ONNX' operators.

use std::collections::HashMap;
use std::sync::Arc;

use crate::builder::ir_version;
use crate::infer::infer_graph;
use crate::operators::signatures::means_the_same;
use crate::{
    Attribute, ElementType, Error, Graph, Model, Node, Result, Tensor, Type, Value, ValueId,
};

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
    let element = |id: ValueId| match facts.get(id.index()).and_then(|fact| fact.ty.as_ref()) {
        Some(Type::Tensor(element, _)) => Some(*element),
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
        let own = node.version;
        // Most of what changed came with version 13.
        for step in [version.min(MIDDLE), version] {
            if node.version >= step {
                continue;
            }
            let stays = !is_gone(node, step) && means_the_same(node, step);
            let fits = stays
                || match step > MIDDLE {
                    true => rewrite_late(graph, node),
                    false => rewrite(graph, node, rank, element),
                };
            if !fits {
                return Err(Error::unsupported(format!(
                    "{} of version {own} in a model of version {version}, which has nothing that is known to mean the same",
                    node.operator
                ))
                .at(node));
            }
            node.version = step;
        }
    }
    graph.nodes = nodes;
    Ok(())
}

/// Whether a version has no such operator any more. Signatures tell what came, and not what went.
fn is_gone(node: &Node, version: i64) -> bool {
    match node.operator.as_str() {
        "Upsample" => version >= 10,
        "Scatter" => version >= 11,
        _ => false,
    }
}

/// Nodes are written for this version first, if they are for an earlier one.
const MIDDLE: i64 = 13;

/// Writes a node of version 13 or later as versions from 18 on want it. `false` if it cannot say there what it says.
fn rewrite_late(graph: &mut Graph, node: &mut Node) -> bool {
    let text = |value: &str| Attribute::String(value.as_bytes().to_vec());
    match node.operator.as_str() {
        // Later versions have more attributes, with defaults that mean what was there before, or accept more.
        "AveragePool" | "Cast" | "CastLike" | "GRU" | "LSTM" | "LpPool" | "OptionalHasElement"
        | "Pad" | "RNN" | "Reshape" | "ScatterElements" | "ScatterND" | "Shape" => true,
        "BatchNormalization" => node.outputs.iter().skip(1).all(Option::is_none),
        "Resize" => {
            without_empty_operands(graph, node);
            true
        }
        "Split" => {
            if node.inputs.get(1).copied().flatten().is_none() {
                node.inputs.truncate(1);
                node.attributes.set("num_outputs", Attribute::Int(node.outputs.len() as i64));
            }
            true
        }
        "RoiAlign" => {
            if node.version < 16 {
                node.attributes.set("coordinate_transformation_mode", text("output_half_pixel"));
            }
            true
        }
        "GridSample" => {
            let mode = match node.attributes.string_or("mode", "bilinear") {
                Ok("bilinear") => "linear",
                Ok("bicubic") => "cubic",
                Ok("nearest") => "nearest",
                _ => return false,
            };
            node.attributes.set("mode", text(mode));
            true
        }
        name if name.starts_with("Reduce") => lists(graph, node, &[("axes", false)]),
        _ => false,
    }
}

/// Before, an operand that is not meant was a list without elements.
fn without_empty_operands(graph: &Graph, node: &mut Node) {
    for input in node.inputs.iter_mut().skip(1) {
        let constant = input.and_then(|id| graph.value(id).constant.as_ref());
        if matches!(constant, Some(Value::Tensor(tensor)) if tensor.elements() == 0) {
            *input = None;
        }
    }
}

/// Writes a node of an earlier version as version 13 wants it. `false` if it cannot say there what it says.
fn rewrite(
    graph: &mut Graph,
    node: &mut Node,
    rank: impl Fn(ValueId) -> Option<i64>,
    element: impl Fn(ValueId) -> Option<ElementType>,
) -> bool {
    let first = node.inputs.first().copied().flatten();
    match node.operator.as_str() {
        // Later versions have more attributes, with defaults that mean what was there before, or accept more.
        "ArgMax" | "ArgMin" | "AveragePool" | "DepthToSpace" | "Erf" | "GatherND" | "MaxPool" => {
            true
        }
        "Gemm" => node.version >= 7,
        "TopK" => node.version >= 10,
        "BatchNormalization" => {
            let spatial = node.attributes.int_or("spatial", 1);
            node.attributes.remove("spatial");
            node.version >= 7
                && node.outputs.iter().skip(1).all(Option::is_none)
                && spatial.is_ok_and(|spatial| spatial == 1)
        }
        "Scatter" => {
            node.operator = "ScatterElements".to_owned();
            true
        }
        "Upsample" | "Resize" if (7..11).contains(&node.version) => resize(graph, node),
        "Resize" => {
            without_empty_operands(graph, node);
            // This mode went with version 13.
            node.attributes
                .string_or("coordinate_transformation_mode", "half_pixel")
                .is_ok_and(|mode| mode != "tf_half_pixel_for_nn")
        }
        "Squeeze" | "ReduceSum" => lists(graph, node, &[("axes", false)]),
        "Unsqueeze" => lists(graph, node, &[("axes", true)]),
        "Split" if node.version >= 2 => lists(graph, node, &[("split", false)]),
        "Slice" => lists(graph, node, &[("starts", true), ("ends", true), ("axes", false)]),
        "Pad" if node.version >= 2 => {
            let value = node.attributes.float("value").ok().flatten();
            let element = first.and_then(element);
            lists(graph, node, &[("pads", true)])
                && numbers(graph, node, element, &[("value", value)])
        }
        "Clip" if node.version >= 6 => {
            let bound = |name: &str| node.attributes.float(name).ok().flatten();
            let bounds = [("min", bound("min")), ("max", bound("max"))];
            numbers(graph, node, first.and_then(element), &bounds)
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

/// The same for numbers, of the type that the first operand has. `false` if that is not known.
fn numbers(
    graph: &mut Graph,
    node: &mut Node,
    element: Option<ElementType>,
    names: &[(&str, Option<f32>)],
) -> bool {
    for (name, number) in names {
        let made = match (number, element) {
            (None, _) => None,
            (Some(number), Some(element)) => {
                let Ok(made) = Tensor::from_f64(element, &[], &[f64::from(*number)]) else {
                    return false;
                };
                Some(made)
            }
            (Some(_), None) => return false,
        };
        operand(graph, node, name, made);
    }
    true
}

/// Upsample, and Resize before version 11: scales of all axes, from the first element on.
fn resize(graph: &mut Graph, node: &mut Node) -> bool {
    let mode = match node.attributes.string_or("mode", "nearest") {
        Ok("nearest") => "nearest",
        Ok("linear" | "bilinear") => "linear",
        _ => return false,
    };
    if node.inputs.len() < 2 {
        let Ok(Some(scales)) =
            node.attributes.floats("scales").map(|list| list.map(<[f32]>::to_vec))
        else {
            return false;
        };
        let made = Tensor::new(&[scales.len()], scales).ok();
        operand(graph, node, "scales", made);
    }
    // No region of interest.
    node.inputs.insert(1, None);
    node.operator = "Resize".to_owned();
    for (name, value) in [
        ("mode", mode),
        ("coordinate_transformation_mode", "asymmetric"),
        ("nearest_mode", "floor"),
    ] {
        node.attributes.set(name, Attribute::String(value.as_bytes().to_vec()));
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
    fn what_changed_after_version_13_is_written_anew() {
        for version in [11, 13, 17] {
            let mut g = GraphBuilder::new("early").opset(version);
            let x = g.input("x", F32, [2, 3, 6]);
            let list = |g: &mut GraphBuilder, values: Vec<i64>| {
                g.constant(Tensor::new(&[values.len()], values).unwrap())
            };
            let split = g.call("Split", [x]).attribute("axis", 2);
            let [a, b] = match version {
                11 => split.attribute("split", [4, 2]).outputs(),
                _ => {
                    let sizes = list(&mut g, vec![4, 2]);
                    g.call("Split", [x, sizes]).attribute("axis", 2).outputs()
                }
            };
            let [c, d, e] = g.call("Split", [x]).attribute("axis", 1).outputs();
            let a = g.call("ReduceMean", [a]).attribute("axes", [-1]).output();
            let d = g.call("ReduceMax", [d]).attribute("keepdims", 0).output();
            let pads = list(&mut g, vec![0, 1, 0, 0, 0, 2]);
            let c = g.node("Pad", [c, pads]);
            let shape = list(&mut g, vec![0, -1, 1]);
            let e = g.node("Reshape", [e, shape]);
            let e = g.call("Cast", [e]).attribute("to", 7).output();
            let e = g.call("Cast", [e]).attribute("to", 1).output();
            let images = list(&mut g, vec![1, 1, 4, 8]);
            let images = g.node("Reshape", [c, images]);
            let empty = g.constant(Tensor::new::<f32>(&[0], Vec::new()).unwrap());
            let sizes = list(&mut g, vec![1, 1, 7, 9]);
            let larger = g.call("Resize", [images, empty, empty, sizes]);
            let larger = larger.attribute("mode", "linear").output();
            let shape = g.node("Shape", [larger]);
            for y in [a, b, d, e, larger, shape] {
                g.output(y);
            }
            let before = g.build().unwrap();
            let mut after = before.clone();
            after.raise_opset(21).unwrap();
            let bytes = after.to_bytes().unwrap().into();
            let written = Model::from_bytes(bytes, &crate::NoExternalData).unwrap();
            written.graph.validate().unwrap();
            assert!(written.graph.nodes.iter().all(|node| node.version == 21));
            let has = |node: &&Node| node.attributes.get("num_outputs").is_some();
            assert_eq!(written.graph.nodes.iter().filter(has).count(), 1);
            assert_eq!(run(&before, &[2, 3, 6]), run(&written, &[2, 3, 6]), "{version}");
        }
        let mut g = GraphBuilder::new("late").opset(18);
        let x = g.input("x", F32, [1, 4, 3]);
        let ones = g.constant(Tensor::new(&[2], vec![1.0f32; 2]).unwrap());
        let y = g.call("GroupNormalization", [x, ones, ones]).attribute("num_groups", 2).output();
        g.output(y);
        assert!(g.build().unwrap().raise_opset(21).is_err());
    }

    #[test]
    fn what_is_gone_becomes_what_came_instead() {
        for version in [7, 9] {
            for mode in ["nearest", "linear"] {
                let mut g = GraphBuilder::new("early").opset(version);
                let x = g.input("x", F32, [1, 2, 3, 4]);
                let y = if version == 7 {
                    let scales = Attribute::Floats(vec![1.0, 1.0, 2.0, 2.5]);
                    g.call("Upsample", [x]).attribute("scales", scales)
                } else {
                    let scales = Tensor::new(&[4], vec![1.0f32, 1.0, 2.0, 2.5]).unwrap();
                    let scales = g.constant(scales);
                    g.call("Upsample", [x, scales])
                };
                let y = y.attribute("mode", mode).output();
                g.output(y);
                let before = g.build().unwrap();
                let mut after = before.clone();
                after.raise_opset(13).unwrap();
                let bytes = after.to_bytes().unwrap().into();
                let written = Model::from_bytes(bytes, &crate::NoExternalData).unwrap();
                assert_eq!(written.graph.nodes[0].operator, "Resize");
                assert_eq!(run(&before, &[1, 2, 3, 4]), run(&written, &[1, 2, 3, 4]));
            }
        }
        let mut g = GraphBuilder::new("early").opset(9);
        let x = g.input("x", F32, [2, 3]);
        let at = g.constant(Tensor::new(&[1, 3], vec![1i64, 0, 1]).unwrap());
        let by = g.constant(Tensor::new(&[1, 3], vec![7.0f32, 8.0, 9.0]).unwrap());
        let y = g.call("Scatter", [x, at, by]).attribute("axis", 0).output();
        g.output(y);
        let before = g.build().unwrap();
        let mut after = before.clone();
        after.raise_opset(13).unwrap();
        assert_eq!(after.graph.nodes[0].operator, "ScatterElements");
        assert_eq!(run(&before, &[2, 3]), run(&after, &[2, 3]));
    }

    #[test]
    fn bounds_have_the_type_of_what_they_bound() {
        let mut g = GraphBuilder::new("early").opset(9);
        let x = g.input("x", ElementType::F64, [2]);
        let y = g.call("Clip", [x]).attribute("max", 0.5).output();
        let y = g.call("Pad", [y]).attribute("pads", [1, 0]).attribute("value", 0.25).output();
        g.output(y);
        let mut model = g.build().unwrap();
        model.raise_opset(13).unwrap();
        for id in model.graph.nodes.iter().filter_map(|node| node.inputs.get(2).copied().flatten())
        {
            let Some(Value::Tensor(bound)) = &model.graph.value(id).constant else { panic!() };
            assert_eq!(bound.element(), ElementType::F64);
        }
        let x = Tensor::new(&[2], vec![0.125f64, 3.0]).unwrap();
        let found = interpret(&model.graph, &[Some(Value::Tensor(x))], &[]).unwrap();
        assert_eq!(found[0].tensor().unwrap().to_f64().unwrap(), [0.25, 0.125, 0.5]);
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
