//! Operators with subgraphs: what holds for every branch.

use std::collections::HashMap;

use super::{Fact, Known, Rule, dims, graph};
use crate::{Dim, ElementType, Graph, Result, Type, operators};

pub(super) const RULES: &[(&str, Rule)] =
    &[("If", if_), ("Loop", loop_), ("Scan", scan), ("SequenceMap", sequence_map)];

/// Graphs inside graphs that are looked into, at most: each loop looks several times.
const DEEPEST: usize = 4;

/// What is the same in two types.
pub fn common_type(a: &Type, b: &Type) -> Option<Type> {
    match (a, b) {
        (Type::Tensor(x, a), Type::Tensor(y, b)) if x == y => {
            let both = a.as_ref().zip(b.as_ref()).filter(|(a, b)| a.len() == b.len());
            let shape = both.map(|(a, b)| a.iter().zip(b).map(|(a, b)| dims::common(a, b)));
            Some(Type::Tensor(*x, shape.map(Iterator::collect)))
        }
        (Type::Sequence(a), Type::Sequence(b)) => {
            common_type(a, b).map(|ty| Type::Sequence(Box::new(ty)))
        }
        (Type::Optional(a), Type::Optional(b)) => {
            common_type(a, b).map(|ty| Type::Optional(Box::new(ty)))
        }
        _ => None,
    }
}

/// What is the same in two facts.
fn common(a: Fact, b: &Fact) -> Fact {
    let both = a.dims.zip(b.dims.as_ref()).filter(|(a, b)| a.len() == b.len());
    let entries = both.map(|(a, b)| a.iter().zip(b).map(|(a, b)| dims::common(a, b)).collect());
    let ty = a.ty.zip(b.ty.as_ref()).and_then(|(a, b)| common_type(&a, b));
    Fact { ty, value: None, dims: entries }
}

/// What is known of the outputs of a graph inside the node; `None` if it is too deep to look into.
fn outputs(known: &Known<'_>, inner: &Graph, inputs: &[Fact]) -> Result<Option<Vec<Fact>>> {
    if known.depth >= DEEPEST {
        return Ok(None);
    }
    let mut given = HashMap::new();
    for (index, &id) in inner.inputs.iter().enumerate() {
        given.insert(id, inputs.get(index).cloned().unwrap_or_default());
    }
    for capture in &inner.captures {
        given.insert(capture.inner, (known.outer)(capture.outer).unwrap_or_default());
    }
    let facts = graph::facts(inner, &given, known.depth + 1)?;
    let of = |id: &crate::ValueId| facts.get(id.index()).cloned().unwrap_or_default();
    Ok(Some(inner.outputs.iter().map(of).collect()))
}

fn if_(known: &Known<'_>) -> Result<Vec<Fact>> {
    let branch = |name: &str| -> Result<Option<Vec<Fact>>> {
        outputs(known, known.attributes().graph(name)?, &[])
    };
    if let Some(condition) = dims::signed(&known.entry(0)) {
        let name = if condition != 0 { "then_branch" } else { "else_branch" };
        return Ok(branch(name)?.unwrap_or_default());
    }
    // A branch that cannot work gives nothing: what there is comes from the other.
    Ok(match (branch("then_branch"), branch("else_branch")) {
        (Ok(Some(a)), Ok(Some(b))) => a.into_iter().zip(&b).map(|(a, b)| common(a, b)).collect(),
        (Ok(facts), Err(_)) | (Err(_), Ok(facts)) => facts.unwrap_or_default(),
        (Ok(_), Ok(_)) => Vec::new(),
        (Err(error), Err(_)) => return Err(error),
    })
}

/// The types of values that a body takes and gives back, such that they hold after every step, and what
/// is known of the other outputs then. `None` if nothing is.
fn steady(
    mut carried: Vec<Option<Type>>,
    run: impl Fn(&[Fact]) -> Option<(Vec<Fact>, Vec<Fact>)>,
) -> Option<(Vec<Fact>, Vec<Fact>)> {
    let fact = |ty: &Option<Type>| Fact { ty: ty.clone(), ..Fact::default() };
    for attempt in 0..3 {
        let facts: Vec<Fact> = carried.iter().map(fact).collect();
        let (made, others) = run(&facts)?;
        let mut changed = false;
        for (ty, made) in carried.iter_mut().zip(&made) {
            let common = ty.as_ref().zip(made.ty.as_ref()).and_then(|(a, b)| common_type(a, b));
            if common != *ty {
                changed = true;
                *ty = if attempt == 0 { common } else { None };
            }
        }
        if !changed && made.len() == carried.len() {
            return Some((facts, others));
        }
    }
    None
}

/// Values of a body's output from all steps, along a new axis. Without a step the declared type says
/// what comes out, so that only what agrees with it is known.
fn stacked(body: &Graph, output: usize, fact: &Fact, at: i64, steps: &Dim) -> Option<Fact> {
    let Some(Type::Tensor(element, shape)) = &fact.ty else { return None };
    let mut shape = shape.clone();
    if steps.known().is_none_or(|steps| steps == 0) {
        let slot = body.outputs.get(output).and_then(|id| body.values.get(id.index()));
        match slot.and_then(|slot| slot.ty.as_ref()) {
            Some(Type::Tensor(declared, lengths)) if declared == element => {
                let lengths = lengths.as_ref();
                shape = shape
                    .zip(lengths)
                    .filter(|(a, b)| a.len() == b.len())
                    .map(|(a, b)| a.iter().zip(b).map(|(a, b)| dims::common(a, b)).collect());
            }
            Some(_) => return None,
            None => {}
        }
    }
    if let Some(shape) = &mut shape {
        let at = operators::axis(at, shape.len() + 1).ok()?;
        shape.insert(at, steps.clone());
    }
    Some(Fact::tensor(Some(*element), shape))
}

fn loop_(known: &Known<'_>) -> Result<Vec<Fact>> {
    let body = known.attributes().graph("body")?;
    let carried: Vec<usize> = (2..known.inputs.len()).collect();
    if carried.iter().any(|&index| known.fact(index).is_none()) {
        return Ok(Vec::new());
    }
    let count = carried.len();
    let run = |facts: &[Fact]| {
        let mut inputs = vec![
            Fact::tensor(Some(ElementType::I64), Some(Vec::new())),
            Fact::tensor(Some(ElementType::Bool), Some(Vec::new())),
        ];
        inputs.extend_from_slice(facts);
        let made = outputs(known, body, &inputs).ok().flatten()?;
        Some((made.get(1..1 + count)?.to_vec(), made[1 + count..].to_vec()))
    };
    let types = carried.iter().map(|&index| known.same(index).ty).collect();
    let Some((mut facts, others)) = steady(types, run) else { return Ok(Vec::new()) };
    // How many steps there will be, only the conditions say.
    for (index, other) in others.iter().enumerate() {
        let made = stacked(body, 1 + count + index, other, 0, &Dim::Unknown);
        facts.push(made.unwrap_or_default());
    }
    Ok(facts)
}

fn scan(known: &Known<'_>) -> Result<Vec<Fact>> {
    let attributes = known.attributes();
    let body = attributes.graph("body")?;
    let scanned = attributes.int("num_scan_inputs")?.and_then(|count| usize::try_from(count).ok());
    let count = scanned.and_then(|scanned| known.inputs.len().checked_sub(scanned));
    let Some(count) = count.filter(|_| known.version() >= 9) else { return Ok(Vec::new()) };
    if known.inputs.iter().any(Option::is_none) {
        return Ok(Vec::new());
    }
    let axis_of = |name: &str, index: usize| -> Result<i64> {
        let axes = attributes.ints(name)?;
        Ok(axes.and_then(|axes| axes.get(index).copied()).unwrap_or(0))
    };
    let (mut steps, mut elements) = (Dim::Unknown, Vec::new());
    for index in count..known.inputs.len() {
        let mut shape = known.shape(index);
        if let Some(lengths) = &mut shape {
            let at = operators::axis(axis_of("scan_input_axes", index - count)?, lengths.len())?;
            if at < lengths.len() {
                steps = dims::same(&steps, &lengths.remove(at))?;
            } else {
                shape = None;
            }
        }
        elements.push(Fact::tensor(known.element(index), shape));
    }
    let run = |facts: &[Fact]| {
        let inputs: Vec<Fact> = facts.iter().chain(&elements).cloned().collect();
        let made = outputs(known, body, &inputs).ok().flatten()?;
        Some((made.get(..count)?.to_vec(), made[count..].to_vec()))
    };
    let types = (0..count).map(|index| known.same(index).ty).collect();
    let Some((mut facts, others)) = steady(types, run) else { return Ok(Vec::new()) };
    for (index, other) in others.iter().enumerate() {
        let at = axis_of("scan_output_axes", index)?;
        facts.push(stacked(body, count + index, other, at, &steps).unwrap_or_default());
    }
    Ok(facts)
}

/// Sequences of what the body makes of each value; other operands that are not sequences stay as they are.
fn sequence_map(known: &Known<'_>) -> Result<Vec<Fact>> {
    let of_step = |index: usize| match known.ty(index) {
        Some(Type::Sequence(of)) => Fact::of((**of).clone()),
        _ => known.same(index),
    };
    let inputs: Vec<Fact> = (0..known.inputs.len()).map(of_step).collect();
    let made = outputs(known, known.attributes().graph("body")?, &inputs);
    let all = |fact: Fact| fact.ty.map(|ty| Fact::of(Type::Sequence(Box::new(ty))));
    let facts = made.ok().flatten().unwrap_or_default();
    Ok(facts.into_iter().map(|fact| all(fact).unwrap_or_default()).collect())
}
