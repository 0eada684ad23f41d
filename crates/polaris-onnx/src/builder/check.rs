//! What a finished graph is checked for beyond its structure: operators, and types that agree.

use std::collections::HashMap;

use crate::infer::{Fact, infer_graph};
use crate::operators::signatures;
use crate::{Dim, Error, Graph, Result, Type, ValueId};

/// Checks what [`Graph::validate`] does not: that inputs and outputs have names, and that each operator exists
/// and takes and gives as many values as its node says.
pub(super) fn operators(graph: &Graph) -> Result<()> {
    for (ids, what) in [(&graph.inputs, "input"), (&graph.outputs, "output")] {
        if let Some(at) = ids.iter().position(|&id| graph.value(id).name.is_empty()) {
            return Err(Error::format(format!("the {what} at place {at} has no name; name each")));
        }
    }
    graph.nodes.iter().try_for_each(|node| signatures::check(node).map_err(|error| error.at(node)))
}

/// Gives each value the type that follows from its operands, where the caller declared none.
pub(super) fn infer_types(graph: &mut Graph) -> Result<()> {
    // A constant that stands for an input may be replaced: its elements say nothing about other values.
    let replaceable: HashMap<ValueId, Fact> = (graph.inputs.iter())
        .filter_map(|&id| Some((id, Fact::of(graph.value(id).ty.clone()?))))
        .collect();
    let facts = infer_graph(graph, &replaceable)?;
    for (index, fact) in facts.into_iter().enumerate() {
        let Some(inferred) = fact.ty else { continue };
        match &graph.values[index].ty {
            None => graph.values[index].ty = Some(inferred),
            Some(declared) if agree(declared, &inferred) => {}
            Some(declared) => {
                let why = format!(
                    "`{}` is declared as {declared}, but is {inferred}; declare that, or change what \
                     it is made from",
                    graph.values[index].name
                );
                let id = ValueId(index as u32);
                let maker = graph.nodes.iter().find(|node| node.outputs.contains(&Some(id)));
                let error = Error::operands(why);
                return Err(maker.map_or(error.clone(), |node| error.at(node)));
            }
        }
    }
    Ok(())
}

/// Whether a value can be of both types. Names say nothing: they may stand for any number.
fn agree(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Tensor(a, shape), Type::Tensor(b, other)) => {
            let same = |(a, b): (&Dim, &Dim)| match (a.known(), b.known()) {
                (Some(a), Some(b)) => a == b,
                _ => true,
            };
            let (Some(shape), Some(other)) = (shape, other) else { return a == b };
            a == b && shape.len() == other.len() && shape.iter().zip(other).all(same)
        }
        (Type::Sequence(a), Type::Sequence(b)) | (Type::Optional(a), Type::Optional(b)) => {
            agree(a, b)
        }
        (Type::Other(a), Type::Other(b)) => a == b,
        _ => false,
    }
}
