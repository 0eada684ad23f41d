//! Reductions, argmax and argmin, losses.

use super::{Fact, Known, Rule, dims};
use crate::operators;
use crate::{Dim, ElementType, Result};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ArgMax", arg),
    ("ArgMin", arg),
    ("NegativeLogLikelihoodLoss", loss),
    ("ReduceL1", reduce),
    ("ReduceL2", reduce),
    ("ReduceLogSum", reduce),
    ("ReduceLogSumExp", reduce),
    ("ReduceMax", reduce),
    ("ReduceMean", reduce),
    ("ReduceMin", reduce),
    ("ReduceProd", reduce),
    ("ReduceSum", reduce),
    ("ReduceSumSquare", reduce),
    ("SoftmaxCrossEntropyLoss", cross_entropy),
    ("TopK", top_k),
];

fn reduce(known: &Known<'_>) -> Result<Vec<Fact>> {
    let keep = known.attributes().flag("keepdims", true)?;
    let shape = match (known.shape(0), known.numbers("axes", 1)?) {
        (None, _) => None,
        // An operand of which nothing is known may be an empty list.
        (Some(shape), Some(None)) => {
            if keep {
                dims::open(shape.len())
            } else {
                None
            }
        }
        (Some(shape), axes) => {
            let axes = axes.flatten().unwrap_or_default();
            let numbers: Option<Vec<i64>> = axes.iter().map(dims::signed).collect();
            match numbers {
                Some(axes) => Some(reduced(known, shape, &axes, keep)?),
                None if keep => dims::open(shape.len()),
                None => dims::open(shape.len().saturating_sub(axes.len())),
            }
        }
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn reduced(known: &Known<'_>, shape: Vec<Dim>, axes: &[i64], keep: bool) -> Result<Vec<Dim>> {
    let mut drop = vec![false; shape.len()];
    if axes.is_empty() {
        drop.fill(!known.attributes().flag("noop_with_empty_axes", false)?);
    } else if !shape.is_empty() {
        operators::distinct_axes(axes, shape.len())?.into_iter().for_each(|at| drop[at] = true);
    }
    let of = |(length, drop): (Dim, bool)| match (drop, keep) {
        (false, _) => Some(length),
        (true, true) => Some(Dim::Known(1)),
        (true, false) => None,
    };
    Ok(shape.into_iter().zip(drop).filter_map(of).collect())
}

fn arg(known: &Known<'_>) -> Result<Vec<Fact>> {
    let mut shape = known.shape(0);
    if let Some(shape) = &mut shape
        && !shape.is_empty()
    {
        let at = known.axis(0, shape.len())?;
        if known.attributes().flag("keepdims", true)? {
            shape[at] = Dim::Known(1);
        } else {
            shape.remove(at);
        }
    }
    Ok(vec![Fact::tensor(Some(ElementType::I64), shape)])
}

fn top_k(known: &Known<'_>) -> Result<Vec<Fact>> {
    let mut shape = known.shape(0);
    if let Some(shape) = &mut shape {
        let at = known.axis(-1, shape.len())?;
        let count = match known.attributes().int("k")? {
            Some(count) => dims::from_signed(count),
            None => known.entry(1),
        };
        if let Some(length) = shape.get_mut(at) {
            *length = dims::length(&count)?;
        }
    }
    let indices = Fact::tensor(Some(ElementType::I64), shape.clone());
    Ok(vec![Fact::tensor(known.element(0), shape), indices])
}

/// One number, or one for each target.
fn loss(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match known.attributes().string_or("reduction", "mean")? {
        "none" => known.shape(1),
        _ => Some(Vec::new()),
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn cross_entropy(known: &Known<'_>) -> Result<Vec<Fact>> {
    let mut facts = loss(known)?;
    facts.push(known.same(0));
    Ok(facts)
}
