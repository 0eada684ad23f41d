//! From the messages of a file to a graph: names become ids, functions are inlined.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::functions::Functions;
use crate::graph::{Capture, ValueSlot};
use crate::messages::{self, AttributeKind};
use crate::read::{read_sparse, read_tensor};
use crate::{
    Attribute, Attributes, Error, ExternalData, Graph, Node, Result, Type, Value, ValueId,
};

/// Versions of operators by domain. ONNX' own domain has two names.
pub fn opsets(list: &[messages::OperatorSet]) -> Result<HashMap<String, i64>> {
    let mut versions = HashMap::new();
    for set in list {
        let domain = plain_domain(&set.domain);
        if versions.insert(domain.to_owned(), set.version).is_some_and(|old| old != set.version) {
            return Err(Error::format(format!("two versions of the operators of `{domain}`")));
        }
    }
    Ok(versions)
}

fn plain_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The graph of a model.
pub fn graph_of_model(
    model: &messages::Model,
    opsets: &HashMap<String, i64>,
    external: &dyn ExternalData,
) -> Result<Graph> {
    let message = model
        .graph
        .as_ref()
        .ok_or_else(|| Error::format("it has no graph; the file may be truncated"))?;
    let mut importer = Importer {
        functions: Functions::new(&model.functions)?,
        external,
        opsets: opsets.clone(),
        bindings: HashMap::new(),
        prefix: String::new(),
        scopes: Vec::new(),
    };
    importer.graph(message)
}

/// A graph that is being made.
#[derive(Default)]
struct Scope {
    graph: Graph,
    names: HashMap<String, ValueId>,
    /// The graph's own names, and those of functions that were written out.
    taken: HashSet<String>,
    /// Inside a function names of graphs outside mean nothing.
    sealed: bool,
}

impl Scope {
    /// A name that no value has. Two nodes of one name may call a function, whose values would then
    /// have the same names.
    fn unique(&mut self, name: String) -> String {
        let mut free = name.clone();
        let mut number = self.graph.values.len();
        while !self.taken.insert(free.clone()) {
            free = format!("{name}#{number}");
            number += 1;
        }
        free
    }
}

struct Importer<'m> {
    functions: Functions<'m>,
    external: &'m dyn ExternalData,
    /// Of the model, or of the function that is written out.
    opsets: HashMap<String, i64>,
    /// Parameters of the function that is written out.
    bindings: HashMap<String, messages::Attribute>,
    /// The functions that are being written out.
    prefix: String,
    /// Graphs inside graphs, the innermost last.
    scopes: Vec<Scope>,
}

impl Importer<'_> {
    fn graph(&mut self, message: &messages::Graph) -> Result<Graph> {
        self.scopes.push(Scope::default());
        let result = self.fill(message);
        let scope = self.scopes.pop().expect("a scope should be there that was pushed");
        result.map(|()| scope.graph)
    }

    fn fill(&mut self, message: &messages::Graph) -> Result<()> {
        self.scope().graph.name = message.name.clone();
        let given = message.input.iter().map(|info| &info.name);
        let constants = message.initializer.iter().map(|tensor| &tensor.name);
        let made = message.node.iter().flat_map(|node| &node.output);
        let sparse = message.sparse_initializer.iter().flat_map(|sparse| &sparse.values);
        let constants = constants.chain(sparse.map(|values| &values.name));
        let own = given.chain(constants).chain(made).cloned().collect();
        self.scope().taken = own;
        let declared: HashMap<&str, &messages::ValueInfo> = message
            .value_info
            .iter()
            .chain(&message.output)
            .map(|info| (info.name.as_str(), info))
            .collect();
        for info in &message.input {
            let ty = info.ty.as_ref().map(Type::read).transpose()?.flatten();
            let id = self.define(&info.name, ty, None)?;
            self.scope().graph.inputs.push(id);
        }
        for tensor in &message.initializer {
            let value = Value::Tensor(read_tensor(tensor, self.external)?);
            self.constant(&tensor.name, value)?;
        }
        for sparse in &message.sparse_initializer {
            let name = sparse.values.as_ref().map_or("", |values| values.name.as_str());
            let value = Value::Tensor(read_sparse(sparse, self.external)?);
            self.constant(name, value)?;
        }
        for index in order(&message.node)? {
            self.node(&message.node[index], index, &declared)?;
        }
        for info in &message.output {
            let id = self.resolve(&info.name).ok_or_else(|| {
                Error::format(format!("no node writes the output `{}`", info.name))
            })?;
            let ty = info.ty.as_ref().map(Type::read).transpose()?.flatten();
            let slot = &mut self.scope().graph.values[id.index()];
            slot.ty = slot.ty.take().or(ty);
            self.scope().graph.outputs.push(id);
        }
        Ok(())
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("a graph should be in the making")
    }

    fn define(&mut self, name: &str, ty: Option<Type>, constant: Option<Value>) -> Result<ValueId> {
        let full = match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => {
                let full = format!("{prefix}{name}");
                self.scope().unique(full)
            }
        };
        let scope = self.scope();
        let id = scope.graph.add_value(full, ty, constant);
        match scope.names.insert(name.to_owned(), id) {
            None => Ok(id),
            Some(_) => Err(Error::format(format!("two values have the name `{name}`"))),
        }
    }

    /// A constant may stand for an input of its name.
    fn constant(&mut self, name: &str, value: Value) -> Result<()> {
        let known = self.scope().names.get(name).copied();
        match known {
            Some(id) => {
                let slot: &mut ValueSlot = &mut self.scope().graph.values[id.index()];
                if slot.constant.replace(value).is_some() {
                    return Err(Error::format(format!("two constants have the name `{name}`")));
                }
            }
            None => {
                let ty = value.ty();
                self.define(name, Some(ty), Some(value))?;
            }
        }
        Ok(())
    }

    /// The place of a name in the innermost graph; values of graphs outside are captured on the way.
    fn resolve(&mut self, name: &str) -> Option<ValueId> {
        let innermost = self.scopes.len() - 1;
        self.resolve_at(innermost, name)
    }

    fn resolve_at(&mut self, depth: usize, name: &str) -> Option<ValueId> {
        if let Some(&id) = self.scopes[depth].names.get(name) {
            return Some(id);
        }
        if depth == 0 || self.scopes[depth].sealed {
            return None;
        }
        let outer = self.resolve_at(depth - 1, name)?;
        let ty = self.scopes[depth - 1].graph.value(outer).ty.clone();
        let scope = &mut self.scopes[depth];
        let full = scope.unique(name.to_owned());
        let inner = scope.graph.add_value(full, ty, None);
        scope.names.insert(name.to_owned(), inner);
        scope.graph.captures.push(Capture { outer, inner });
        Some(inner)
    }

    fn node(
        &mut self,
        message: &messages::Node,
        index: usize,
        declared: &HashMap<&str, &messages::ValueInfo>,
    ) -> Result<()> {
        let path = match message.name.as_str() {
            "" => format!("{}{}_{index}", self.prefix, message.op_type),
            name => format!("{}{name}", self.prefix),
        };
        let mut inputs = Vec::with_capacity(message.input.len());
        for name in &message.input {
            inputs.push(match name.as_str() {
                "" => None,
                name => Some(self.resolve(name).ok_or_else(|| {
                    Error::format(format!("node `{path}` needs `{name}`, which nothing writes"))
                })?),
            });
        }
        let domain = plain_domain(&message.domain);
        let attributes = self.attributes(message)?;
        let mut outputs = Vec::with_capacity(message.output.len());
        for name in &message.output {
            outputs.push(match name.as_str() {
                "" => None,
                name => {
                    let info = declared.get(name).and_then(|info| info.ty.as_ref());
                    let ty = info.map(Type::read).transpose()?.flatten();
                    Some(self.define(name, ty, None)?)
                }
            });
        }
        if let Some(function) = self.functions.find(domain, &message.op_type, &message.overload) {
            return self.write_out(message, function, path, &inputs, &outputs);
        }
        let version = self.opsets.get(domain).copied().unwrap_or(1);
        let (domain, operator) = (domain.to_owned(), message.op_type.clone());
        let node = Node { path, domain, operator, version, attributes, inputs, outputs };
        self.scope().graph.nodes.push(node);
        Ok(())
    }

    /// Puts a function's nodes where the node is that calls it.
    fn write_out(
        &mut self,
        call: &messages::Node,
        function: &messages::Function,
        path: String,
        inputs: &[Option<ValueId>],
        outputs: &[Option<ValueId>],
    ) -> Result<()> {
        self.functions.enter(function)?;
        let mut bindings = HashMap::new();
        for default in &function.attribute_proto {
            bindings.insert(default.name.clone(), default.clone());
        }
        for given in &call.attribute {
            let bound = self.bound(given).cloned();
            if let Some(bound) = bound {
                bindings.insert(given.name.clone(), bound);
            }
        }
        let mut names = HashMap::new();
        for (name, id) in function.input.iter().zip(inputs) {
            if let Some(id) = id {
                names.insert(name.clone(), *id);
            }
        }
        let outer_names = std::mem::replace(&mut self.scope().names, names);
        let outer_sealed = std::mem::replace(&mut self.scope().sealed, true);
        let outer_opsets = std::mem::replace(&mut self.opsets, opsets(&function.opset_import)?);
        let outer_bindings = std::mem::replace(&mut self.bindings, bindings);
        let outer_prefix = std::mem::replace(&mut self.prefix, format!("{path}/"));
        for index in order(&function.node)? {
            self.node(&function.node[index], index, &HashMap::new())?;
        }
        for (name, id) in function.output.iter().zip(outputs) {
            let Some(id) = *id else { continue };
            let made = self.scope().names.get(name).copied().ok_or_else(|| {
                Error::format(format!("the function `{}` does not write `{name}`", function.name))
            })?;
            let node = Node {
                path: format!("{path}/{name}"),
                domain: String::new(),
                operator: "Identity".to_owned(),
                // Of the graph around the function, as if the file had this node there.
                version: outer_opsets.get("").copied().unwrap_or(16),
                attributes: Attributes::default(),
                inputs: vec![Some(made)],
                outputs: vec![Some(id)],
            };
            self.scope().graph.nodes.push(node);
        }
        self.scope().names = outer_names;
        self.scope().sealed = outer_sealed;
        self.opsets = outer_opsets;
        self.bindings = outer_bindings;
        self.prefix = outer_prefix;
        self.functions.leave();
        Ok(())
    }

    /// An attribute, or the function's parameter that it stands for.
    fn bound<'a>(&'a self, attribute: &'a messages::Attribute) -> Option<&'a messages::Attribute> {
        match attribute.ref_attr_name.as_str() {
            "" => Some(attribute),
            name => self.bindings.get(name),
        }
    }

    fn attributes(&mut self, message: &messages::Node) -> Result<Attributes> {
        let mut attributes = Attributes::default();
        for attribute in &message.attribute {
            let Some(bound) = self.bound(attribute).cloned() else { continue };
            if let Some(value) = self.attribute(&bound)? {
                attributes.push(&attribute.name, value)?;
            }
        }
        Ok(attributes)
    }

    fn attribute(&mut self, message: &messages::Attribute) -> Result<Option<Attribute>> {
        let missing = || Error::format(format!("the attribute `{}` is empty", message.name));
        let kind = AttributeKind::try_from(message.kind).map_err(|_| {
            Error::format(format!("the attribute `{}` is of unknown kind", message.name))
        })?;
        let bytes = |list: &[bytes::Bytes]| list.iter().map(|bytes| bytes.to_vec()).collect();
        Ok(Some(match kind {
            AttributeKind::Float => Attribute::Float(message.f),
            AttributeKind::Int => Attribute::Int(message.i),
            AttributeKind::String => Attribute::String(message.s.to_vec()),
            AttributeKind::Tensor => {
                let tensor = message.t.as_ref().ok_or_else(missing)?;
                Attribute::Tensor(read_tensor(tensor, self.external)?)
            }
            AttributeKind::SparseTensor => {
                let sparse = message.sparse_tensor.as_ref().ok_or_else(missing)?;
                Attribute::Tensor(read_sparse(sparse, self.external)?)
            }
            AttributeKind::Graph => {
                let graph = message.g.as_ref().ok_or_else(missing)?;
                Attribute::Graph(Arc::new(self.graph(graph)?))
            }
            AttributeKind::Floats => Attribute::Floats(message.floats.clone()),
            AttributeKind::Ints => Attribute::Ints(message.ints.clone()),
            AttributeKind::Strings => Attribute::Strings(bytes(&message.strings)),
            AttributeKind::Tensors => {
                let read = |tensor| read_tensor(tensor, self.external);
                Attribute::Tensors(message.tensors.iter().map(read).collect::<Result<_>>()?)
            }
            AttributeKind::Type => {
                let ty = message.tp.as_ref().map(Type::read).transpose()?.flatten();
                Attribute::Type(ty.ok_or_else(missing)?)
            }
            AttributeKind::Undefined => return Ok(undefined(message)),
            AttributeKind::Graphs | AttributeKind::SparseTensors | AttributeKind::Types => {
                let what = format!("the attribute `{}` with several graphs or types", message.name);
                return Err(Error::unsupported(what));
            }
        }))
    }
}

/// What an attribute of an early file holds, which does not say so itself.
fn undefined(message: &messages::Attribute) -> Option<Attribute> {
    if !message.ints.is_empty() {
        Some(Attribute::Ints(message.ints.clone()))
    } else if !message.floats.is_empty() {
        Some(Attribute::Floats(message.floats.clone()))
    } else if !message.s.is_empty() {
        Some(Attribute::String(message.s.to_vec()))
    } else if message.f != 0.0 {
        Some(Attribute::Float(message.f))
    } else {
        Some(Attribute::Int(message.i))
    }
}

/// An order in which each node comes after those whose results it needs: the file's own where it is one.
fn order(nodes: &[messages::Node]) -> Result<Vec<usize>> {
    let mut maker = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if maker.insert(name.as_str(), index).is_some() {
                return Err(Error::format(format!("two nodes write `{name}`")));
            }
        }
    }
    let mut waiting = vec![0usize; nodes.len()];
    let mut followers = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let mut needed = HashSet::new();
        needed_names(node, &mut needed);
        let makers: HashSet<usize> =
            needed.into_iter().filter_map(|name| maker.get(name).copied()).collect();
        for other in makers {
            followers[other].push(index);
            waiting[index] += 1;
        }
    }
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&node| waiting[node] == 0).collect();
    let mut sorted = Vec::with_capacity(nodes.len());
    while let Some(node) = ready.pop_first() {
        sorted.push(node);
        for &follower in &followers[node] {
            waiting[follower] -= 1;
            if waiting[follower] == 0 {
                ready.insert(follower);
            }
        }
    }
    if sorted.len() < nodes.len() {
        let stuck = (0..nodes.len()).find(|&node| waiting[node] > 0).unwrap_or(0);
        let (name, operator) = (&nodes[stuck].name, &nodes[stuck].op_type);
        return Err(Error::format(format!("node `{name}` ({operator}) needs its own result")));
    }
    Ok(sorted)
}

/// The names that a node needs: its operands, and what its graphs refer to and do not make.
fn needed_names<'m>(node: &'m messages::Node, names: &mut HashSet<&'m str>) {
    names.extend(node.input.iter().map(String::as_str).filter(|name| !name.is_empty()));
    for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_deref()) {
        let mut inner = HashSet::new();
        for node in &graph.node {
            needed_names(node, &mut inner);
        }
        inner.extend(graph.output.iter().map(|output| output.name.as_str()));
        for node in &graph.node {
            for name in &node.output {
                inner.remove(name.as_str());
            }
        }
        for name in graph.input.iter().map(|input| input.name.as_str()) {
            inner.remove(name);
        }
        for name in graph.initializer.iter().map(|tensor| tensor.name.as_str()) {
            inner.remove(name);
        }
        names.extend(inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoExternalData;

    fn node(name: &str, domain: &str, operator: &str, [from, to]: [&str; 2]) -> messages::Node {
        messages::Node {
            name: name.to_owned(),
            domain: domain.to_owned(),
            op_type: operator.to_owned(),
            input: vec![from.to_owned()],
            output: vec![to.to_owned()],
            ..Default::default()
        }
    }

    /// Nodes may have the same name, and call the same function.
    #[test]
    fn values_of_functions_have_names_of_their_own() {
        let value =
            |name: &str| messages::ValueInfo { name: name.to_owned(), ..Default::default() };
        let function = messages::Function {
            name: "F".to_owned(),
            domain: "own".to_owned(),
            input: vec!["a".to_owned()],
            output: vec!["c".to_owned()],
            node: vec![node("", "", "Neg", ["a", "b"]), node("", "", "Neg", ["b", "c"])],
            ..Default::default()
        };
        let graph = messages::Graph {
            node: vec![node("f", "own", "F", ["x", "y"]), node("f", "own", "F", ["y", "f/b"])],
            input: vec![value("x")],
            output: vec![value("f/b")],
            ..Default::default()
        };
        let model =
            messages::Model { graph: Some(graph), functions: vec![function], ..Default::default() };
        let graph = graph_of_model(&model, &HashMap::new(), &NoExternalData).unwrap();
        graph.validate().unwrap();
        assert_eq!(graph.value(graph.outputs[0]).name, "f/b");
        let x = crate::Tensor::scalar(3f32).into();
        let y = crate::interpret(&graph, &[Some(x)], &[]).unwrap();
        assert_eq!(y[0].tensor().unwrap().to_f64().unwrap(), [3.0]);
    }
}
