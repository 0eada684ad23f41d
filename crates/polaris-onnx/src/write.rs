//! From a model in memory to the messages of a file: places become names.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;

use crate::builder::ir_version;
use crate::messages::{self, AttributeKind};
use crate::operators::signatures::means_the_same;
use crate::{
    Attribute, ElementType, Error, Graph, Model, Node, Result, Tensor, Type, Value, ValueId,
};

/// The messages of a model.
pub fn model(model: &Model) -> Result<messages::Model> {
    model.graph.validate()?;
    let versions = versions(model)?;
    // Only newer operators need a newer format: the third means something else by constants among inputs.
    let newer = versions.get("").filter(|version| model.opsets.get("") != Some(version));
    let (producer_name, producer_version) = producer(&model.producer);
    let set = |(domain, version): (String, i64)| messages::OperatorSet { domain, version };
    let entry = |(key, value): &(String, String)| messages::Entry {
        key: key.clone(),
        value: value.clone(),
    };
    Ok(messages::Model {
        ir_version: model.ir_version.max(newer.map_or(0, |&version| ir_version(version))),
        producer_name: producer_name.to_owned(),
        producer_version: producer_version.to_owned(),
        graph: Some(graph(&model.graph, &Names::of(&model.graph, None))?),
        opset_import: versions.into_iter().map(set).collect(),
        metadata_props: model.metadata.iter().map(entry).collect(),
        functions: Vec::new(),
    })
}

/// The name and the version of what made a model: a version begins with a digit.
fn producer(text: &str) -> (&str, &str) {
    match text.rsplit_once(' ') {
        Some((name, version)) if version.starts_with(|first: char| first.is_ascii_digit()) => {
            (name, version)
        }
        _ => (text, ""),
    }
}

/// The version of each domain's operators. A file has one for all nodes, whereas nodes in memory have their own:
/// it must mean the same for each.
fn versions(model: &Model) -> Result<BTreeMap<String, i64>> {
    let mut nodes: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    collect(&model.graph, &mut nodes);
    let mut versions: BTreeMap<String, i64> =
        model.opsets.iter().map(|(domain, &version)| (domain.clone(), version)).collect();
    for (domain, nodes) in nodes {
        let newest = nodes.iter().copied().max_by_key(|node| node.version);
        let Some(newest) = newest else { continue };
        let declared = versions.get(domain).copied();
        let different = |version: i64| nodes.iter().find(|node| !means_the_same(node, version));
        let fits = |version: &i64| different(*version).is_none();
        let version = declared.filter(fits).or(Some(newest.version).filter(fits));
        let version = version.ok_or_else(|| {
            let other = different(newest.version).unwrap_or(&newest);
            Error::unsupported(format!(
                "one file with `{}` ({}) of version {} and `{}` ({}) of version {}, which mean other things in \
                 one another's versions",
                other.path, other.operator, other.version, newest.path, newest.operator, newest.version
            ))
        })?;
        versions.insert(domain.to_owned(), version);
    }
    Ok(versions)
}

fn collect<'m>(graph: &'m Graph, nodes: &mut BTreeMap<&'m str, Vec<&'m Node>>) {
    for node in &graph.nodes {
        nodes.entry(&node.domain).or_default().push(node);
        node.attributes.graphs().for_each(|inner| collect(inner, nodes));
    }
}

/// The names of a graph's values in a file.
struct Names {
    /// By a value's place.
    names: Vec<String>,
    /// Those of the graphs around it too: a name inside must not hide one outside.
    taken: HashSet<String>,
}

impl Names {
    fn of(graph: &Graph, outer: Option<&Self>) -> Self {
        let mut taken = outer.map_or_else(HashSet::new, |outer| outer.taken.clone());
        let mut names = vec![String::new(); graph.values.len()];
        if let Some(outer) = outer {
            for capture in &graph.captures {
                names[capture.inner.index()] = outer.name(capture.outer);
            }
        }
        // Values without a name get what those with one leave.
        for has_name in [true, false] {
            for (index, slot) in graph.values.iter().enumerate() {
                if slot.name.is_empty() == has_name || !names[index].is_empty() {
                    continue;
                }
                let wanted = if has_name { slot.name.as_str() } else { "value" };
                let (mut name, mut number) = (wanted.to_owned(), index);
                while !taken.insert(name.clone()) {
                    name = format!("{wanted}#{number}");
                    number += 1;
                }
                names[index] = name;
            }
        }
        Self { names, taken }
    }

    fn name(&self, id: ValueId) -> String {
        self.names[id.index()].clone()
    }

    fn list(&self, ids: &[Option<ValueId>]) -> Vec<String> {
        ids.iter().map(|id| id.map_or_else(String::new, |id| self.name(id))).collect()
    }
}

fn graph(graph: &Graph, names: &Names) -> Result<messages::Graph> {
    let end = |&id: &ValueId| -> Result<messages::ValueInfo> {
        let name = names.name(id);
        let message = |ty: &Type| {
            ty.message().ok_or_else(|| Error::unsupported(format!("writing `{name}`, a {ty}")))
        };
        let ty = graph.value(id).ty.as_ref().map(message).transpose()?;
        Ok(messages::ValueInfo { name, ty })
    };
    let mut initializer = Vec::new();
    let mut value_info = Vec::new();
    let captured = graph.captures.iter().map(|capture| &capture.inner);
    let apart: HashSet<&ValueId> =
        graph.inputs.iter().chain(&graph.outputs).chain(captured).collect();
    for (index, slot) in graph.values.iter().enumerate() {
        let id = ValueId(index as u32);
        match &slot.constant {
            Some(Value::Tensor(value)) => initializer.push(tensor(value, names.name(id))?),
            Some(other) => {
                let (name, kind) = (names.name(id), other.kind());
                return Err(Error::unsupported(format!("writing the constant `{name}`, {kind}")));
            }
            None if apart.contains(&id) => {}
            None => {
                let ty = slot.ty.as_ref().and_then(Type::message);
                let info = |ty| messages::ValueInfo { name: names.name(id), ty: Some(ty) };
                value_info.extend(ty.map(info));
            }
        }
    }
    Ok(messages::Graph {
        node: graph.nodes.iter().map(|one| node(one, names)).collect::<Result<_>>()?,
        name: graph.name.clone(),
        initializer,
        input: graph.inputs.iter().map(end).collect::<Result<_>>()?,
        output: graph.outputs.iter().map(end).collect::<Result<_>>()?,
        value_info,
        sparse_initializer: Vec::new(),
    })
}

fn node(node: &Node, names: &Names) -> Result<messages::Node> {
    let write = |(name, value): (&str, &Attribute)| {
        // A file that was read may have had a sparse tensor here, which is a dense one by now.
        let dense = matches!(value, Attribute::Tensor(_)) && name == "sparse_value";
        attribute(if dense { "value" } else { name }, value, names)
    };
    let attributes = node.attributes.iter().map(write).collect::<Result<_>>();
    Ok(messages::Node {
        input: names.list(&node.inputs),
        output: names.list(&node.outputs),
        name: node.path.clone(),
        op_type: node.operator.clone(),
        attribute: attributes.map_err(|error| error.at(node))?,
        domain: node.domain.clone(),
        overload: String::new(),
    })
}

fn attribute(name: &str, value: &Attribute, names: &Names) -> Result<messages::Attribute> {
    let mut message = messages::Attribute { name: name.to_owned(), ..Default::default() };
    let unnamed = |value: &Tensor| tensor(value, String::new());
    message.kind = match value {
        Attribute::Float(value) => {
            message.f = *value;
            AttributeKind::Float
        }
        Attribute::Int(value) => {
            message.i = *value;
            AttributeKind::Int
        }
        Attribute::String(bytes) => {
            message.s = Bytes::copy_from_slice(bytes);
            AttributeKind::String
        }
        Attribute::Tensor(value) => {
            message.t = Some(unnamed(value)?);
            AttributeKind::Tensor
        }
        Attribute::Graph(inner) => {
            message.g = Some(Box::new(graph(inner, &Names::of(inner, Some(names)))?));
            AttributeKind::Graph
        }
        Attribute::Floats(values) => {
            message.floats.clone_from(values);
            AttributeKind::Floats
        }
        Attribute::Ints(values) => {
            message.ints.clone_from(values);
            AttributeKind::Ints
        }
        Attribute::Strings(list) => {
            message.strings = list.iter().map(|bytes| Bytes::copy_from_slice(bytes)).collect();
            AttributeKind::Strings
        }
        Attribute::Tensors(list) => {
            message.tensors = list.iter().map(unnamed).collect::<Result<_>>()?;
            AttributeKind::Tensors
        }
        Attribute::Type(ty) => {
            let missing = || Error::unsupported(format!("writing the attribute `{name}`, a {ty}"));
            message.tp = Some(ty.message().ok_or_else(missing)?);
            AttributeKind::Type
        }
    } as i32;
    Ok(message)
}

/// A tensor by its bytes, which are shared; strings are copied.
fn tensor(tensor: &Tensor, name: String) -> Result<messages::Tensor> {
    let mut message = messages::Tensor {
        dims: tensor.shape().iter().map(|&length| length as i64).collect(),
        data_type: tensor.element().code(),
        name,
        ..Default::default()
    };
    if tensor.element() == ElementType::String {
        let copied = |text: &String| Bytes::copy_from_slice(text.as_bytes());
        message.string_data = tensor.as_strings()?.iter().map(copied).collect();
    } else {
        message.raw_data = pack(tensor.element(), tensor.bytes()?);
    }
    Ok(message)
}

/// Elements of 2 and 4 bits side by side, the first in the lowest bits of a byte.
fn pack(element: ElementType, bytes: &Bytes) -> Bytes {
    let bits = match element.bits_in_files() {
        Some(bits @ (2 | 4)) => bits,
        _ => return bytes.clone(),
    };
    let mask = (1u8 << bits) - 1;
    let together = |chunk: &[u8]| {
        let shifted = chunk.iter().enumerate().map(|(at, byte)| (byte & mask) << (at * bits));
        shifted.fold(0, |all, one| all | one)
    };
    bytes.chunks(8 / bits).map(together).collect::<Vec<u8>>().into()
}
