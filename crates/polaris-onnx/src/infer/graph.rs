//! Inference over all values of a graph.

use std::collections::HashMap;

use super::known::MOST_ELEMENTS;
use super::{Fact, Family, Known, control, dims};
use super::{elementwise, generate, indexing, infer, join, reduce, reshape, shape, slice};
use crate::operators;
use crate::operators::Scope;
use crate::{ElementType, Graph, Node, Result, Tensor, Type, Value, ValueId, interpret_node};

/// What is known of all values of a graph (index = [`ValueId`]), given facts about some (inputs with
/// concrete shapes, say) that replace what the file declares.
///
/// What the file declares of other values than inputs is not used: it may hold for other inputs only.
///
/// # Errors
/// If operands of a node cannot go together.
pub fn infer_graph(graph: &Graph, given: &HashMap<ValueId, Fact>) -> Result<Vec<Fact>> {
    facts(graph, given, 0)
}

/// The same for a graph inside others.
pub fn facts(graph: &Graph, given: &HashMap<ValueId, Fact>, depth: usize) -> Result<Vec<Fact>> {
    let constant = |slot: &crate::ValueSlot| slot.constant.as_ref().map(of_value);
    let mut facts: Vec<Fact> =
        graph.values.iter().map(|slot| constant(slot).unwrap_or_default()).collect();
    for &id in &graph.inputs {
        if let Some(slot) = graph.values.get(id.index()).filter(|slot| slot.constant.is_none()) {
            facts[id.index()].ty = slot.ty.clone();
        }
    }
    for (id, fact) in given {
        if let Some(known) = facts.get_mut(id.index()) {
            *known = fact.clone();
        }
    }
    for node in &graph.nodes {
        let fact = |id: ValueId| facts.get(id.index()).cloned();
        let inputs: Vec<Option<Fact>> =
            node.inputs.iter().map(|id| id.map(|id| fact(id).unwrap_or_default())).collect();
        let mut made = infer(&Known { node, inputs: &inputs, outer: &fact, depth })?;
        made.iter_mut().for_each(settle);
        if let Some(values) = folded(node, &inputs, &made) {
            made = values;
        }
        for (output, fact) in node.outputs.iter().zip(made) {
            if let Some(known) = output.and_then(|id| facts.get_mut(id.index())) {
                *known = fact;
            }
        }
    }
    Ok(facts)
}

fn of_value(value: &Value) -> Fact {
    match value {
        Value::Tensor(tensor) => Fact::constant(tensor.clone()),
        other => type_of(other).map_or_else(Fact::default, Fact::of),
    }
}

/// The type of a value; what holds for all in a sequence, if there are some.
fn type_of(value: &Value) -> Option<Type> {
    match value {
        Value::Tensor(_) => Some(value.ty()),
        Value::Sequence(values) => {
            let types = values.iter().map(type_of);
            let common = types.reduce(|a, b| control::common_type(&a?, &b?)).flatten();
            common.map(|ty| Type::Sequence(Box::new(ty)))
        }
        Value::Optional(value) => {
            let ty = value.as_ref().and_then(|value| type_of(value));
            ty.map(|ty| Type::Optional(Box::new(ty)))
        }
    }
}

/// Makes a constant of elements that are all known.
fn settle(fact: &mut Fact) {
    let (Some(entries), Some((element, shape))) =
        (&fact.dims, fact.ty.as_ref().and_then(Type::known_tensor))
    else {
        return;
    };
    let holds = matches!(element, ElementType::I64 | ElementType::I32 | ElementType::Bool);
    let numbers: Option<Vec<i128>> =
        entries.iter().map(|entry| dims::signed(entry).map(i128::from)).collect();
    if let Some(numbers) = numbers.filter(|_| holds && shape.len() <= 1 && fact.value.is_none()) {
        fact.value = Tensor::from_integers(element, &shape, &numbers).ok();
    }
}

/// Operators that are cheap to compute, and on whose results shapes may depend.
const FOLDED: &[Family] = &[
    elementwise::RULES,
    generate::RULES,
    indexing::RULES,
    join::RULES,
    reduce::RULES,
    reshape::RULES,
    shape::RULES,
    slice::RULES,
];

/// Operators whose results are no larger than a few times their operands, though nobody knows how large.
const BOUNDED: &[&str] = &["Compress", "NonZero", "Unique"];

/// Elements of operands that are computed with, at most.
const MOST_OPERANDS: usize = 1 << 16;

/// Values for graphs inside a node, of which there are none in what is folded.
struct Nothing;

impl Scope for Nothing {
    fn value(&self, _: ValueId) -> Option<Value> {
        None
    }
}

/// The results of a node whose operands are all constant, if it is cheap to compute them.
fn folded(node: &Node, inputs: &[Option<Fact>], made: &[Fact]) -> Option<Vec<Fact>> {
    let name = node.operator.as_str();
    let listed = FOLDED.iter().any(|family| family.iter().any(|(other, _)| *other == name));
    if !node.domain.is_empty() || !listed || operators::RANDOM.contains(&name) || name == "Dropout"
    {
        return None;
    }
    if made.iter().all(|fact| fact.value.is_some()) {
        return None;
    }
    let mut elements = 0usize;
    let mut values = Vec::with_capacity(inputs.len());
    for input in inputs {
        values.push(match input {
            Some(fact) => {
                let value = fact.value.as_ref()?;
                elements = elements.checked_add(value.elements())?;
                Some(Value::Tensor(value.clone()))
            }
            None => None,
        });
    }
    let small = |fact: &Fact| {
        let shape = fact.ty.as_ref().and_then(Type::known_tensor).map(|(_, shape)| shape);
        let count = shape.and_then(|shape| {
            shape.iter().try_fold(1usize, |product, &length| product.checked_mul(length))
        });
        count.is_some_and(|count| count <= MOST_ELEMENTS)
    };
    let bounded = BOUNDED.contains(&name) && elements <= MOST_ELEMENTS;
    if elements > MOST_OPERANDS || !(bounded || made.iter().all(small)) {
        return None;
    }
    let results = interpret_node(node, &values, &Nothing).ok()?;
    let facts: Vec<Fact> = results.iter().map(of_value).take(node.outputs.len()).collect();
    (facts.len() == made.len()).then_some(facts)
}
