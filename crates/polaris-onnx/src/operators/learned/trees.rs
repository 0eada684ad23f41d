//! TreeEnsemble, and the two operators that it replaces.

use std::collections::{BTreeMap, HashMap};

use super::forest::{Aggregate, Branch, Forest, Next, Question, Vote};
use super::linear::rows;
use super::scores::{Classes, Transform, best};
use crate::limits::checked_elements;
use crate::operators::shape::length;
use crate::operators::{Call, one};
use crate::room::filled;
use crate::{Attributes, ElementType, Error, Result, Tensor, Value};

fn missing(name: &str) -> Error {
    Error::operands(format!("the attribute `{name}` is missing or too short"))
}

fn integers<'a>(attributes: &'a Attributes, name: &str, count: usize) -> Result<&'a [i64]> {
    attributes.ints(name)?.and_then(|list| list.get(..count)).ok_or_else(|| missing(name))
}

/// Numbers from a list, or from the tensor that stands for it where they are of another type.
fn floats(attributes: &Attributes, name: &str) -> Result<Option<Vec<f64>>> {
    if let Some(tensor) = attributes.tensor(&format!("{name}_as_tensor"))? {
        return tensor.to_f64().map(Some);
    }
    Ok(attributes.floats(name)?.map(|list| list.iter().map(|&x| f64::from(x)).collect()))
}

fn flags(attributes: &Attributes, name: &str, count: usize) -> Result<Vec<bool>> {
    match attributes.ints(name)? {
        None | Some([]) => Ok(vec![false; count]),
        Some(_) => Ok(integers(attributes, name, count)?.iter().map(|&flag| flag != 0).collect()),
    }
}

/// The results of all samples.
fn evaluate(
    data: &Tensor,
    forest: &Forest,
    aggregate: Aggregate,
    targets: usize,
) -> Result<(usize, Vec<f64>)> {
    let (samples, features) = rows(data)?;
    let mut results = filled(0.0, checked_elements(ElementType::F64, &[samples, targets])?)?;
    let values = data.to_f64()?;
    for (sample, results) in results.chunks_exact_mut(targets.max(1)).enumerate() {
        let row = &values[sample * features..(sample + 1) * features];
        forest.evaluate(row, aggregate, results)?;
    }
    Ok((samples, results))
}

pub fn tree_ensemble(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let targets = attributes.int("n_targets")?.ok_or_else(|| missing("n_targets"))?;
    let aggregate = match attributes.int_or("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => return Err(Error::unsupported(format!("the aggregate function {other}"))),
    };
    let transform = Transform::numbered(attributes.int_or("post_transform", 0)?)?;
    let targets = length(targets)?;
    let (samples, mut results) = evaluate(data, &plain_forest(attributes)?, aggregate, targets)?;
    results.chunks_exact_mut(targets.max(1)).for_each(|row| transform.apply(row));
    Ok(one(Tensor::from_f64(data.element(), &[samples, targets], &results)?))
}

/// Trees whose nodes name each other by their places.
fn plain_forest(attributes: &Attributes) -> Result<Forest> {
    let tensor = |name: &str| attributes.tensor(name)?.ok_or_else(|| missing(name));
    let modes = tensor("nodes_modes")?.to_i64()?;
    let count = modes.len();
    let splits = tensor("nodes_splits")?.to_f64()?;
    let splits = splits.get(..count).ok_or_else(|| missing("nodes_splits"))?;
    let features = integers(attributes, "nodes_featureids", count)?;
    let if_missing = flags(attributes, "nodes_missing_value_tracks_true", count)?;
    let next = |side: &str| -> Result<Vec<Next>> {
        let ids = integers(attributes, &format!("nodes_{side}nodeids"), count)?;
        let leafs = integers(attributes, &format!("nodes_{side}leafs"), count)?;
        let pairs = ids.iter().zip(leafs);
        pairs
            .map(|(&id, &leaf)| Ok(if leaf != 0 { Next::Leaf } else { Next::Node }(length(id)?)))
            .collect()
    };
    let (if_true, if_false) = (next("true")?, next("false")?);
    let members = attributes.tensor("membership_values")?.map(Tensor::to_f64).transpose()?;
    let members = members.unwrap_or_default();
    // Sets come one after another, each with a NaN behind it, in the order of the nodes.
    let mut sets = members.split(|value| value.is_nan());
    let mut branches = Vec::with_capacity(count);
    for node in 0..count {
        let question = match modes[node] {
            6 => {
                let set = sets.next().ok_or_else(|| missing("membership_values"))?;
                Question::Among(set.to_vec())
            }
            mode => comparison(mode, splits[node])?,
        };
        let feature = length(features[node])?;
        let (if_true, if_false) = (if_true[node], if_false[node]);
        branches.push(Branch {
            feature,
            question,
            if_true,
            if_false,
            if_missing: if_missing[node],
        });
    }
    let weights = tensor("leaf_weights")?.to_f64()?;
    let targets = integers(attributes, "leaf_targetids", weights.len())?;
    let votes = weights.iter().zip(targets);
    let leaves = votes.map(|(&weight, &target)| Ok(vec![Vote { target: length(target)?, weight }]));
    let roots = attributes.ints("tree_roots")?.ok_or_else(|| missing("tree_roots"))?;
    Ok(Forest {
        branches,
        roots: roots.iter().map(|&root| length(root).map(Next::Node)).collect::<Result<_>>()?,
        leaves: leaves.collect::<Result<_>>()?,
    })
}

/// The comparison of a mode by its number.
fn comparison(mode: i64, split: f64) -> Result<Question> {
    Ok(match mode {
        0 => Question::AtMost(split),
        1 => Question::Below(split),
        2 => Question::AtLeast(split),
        3 => Question::Above(split),
        4 => Question::Equals(split),
        5 => Question::Differs(split),
        other => return Err(Error::operands(format!("there is no mode {other} of a node"))),
    })
}

/// Trees whose nodes have numbers of their own, and whose leaves are nodes with votes elsewhere: in the
/// attributes that begin with `votes`.
fn named_forest(attributes: &Attributes, votes: &str) -> Result<Forest> {
    let modes = attributes.strings("nodes_modes")?.ok_or_else(|| missing("nodes_modes"))?;
    let count = modes.len();
    let list = |name: &str| integers(attributes, name, count);
    let (trees, ids) = (list("nodes_treeids")?, list("nodes_nodeids")?);
    let (features, if_true) = (list("nodes_featureids")?, list("nodes_truenodeids")?);
    let if_false = list("nodes_falsenodeids")?;
    let splits = floats(attributes, "nodes_values")?.unwrap_or_default();
    let splits = splits.get(..count).ok_or_else(|| missing("nodes_values"))?;
    let if_missing = flags(attributes, "nodes_missing_value_tracks_true", count)?;
    // Places among branches or leaves, counted in the order of the nodes.
    let (mut branch_count, mut leaf_count) = (0, 0);
    let mut places = HashMap::with_capacity(count);
    let mut roots = BTreeMap::new();
    for node in 0..count {
        let counter = if modes[node] == "LEAF" { &mut leaf_count } else { &mut branch_count };
        let place = *counter;
        *counter += 1;
        let next = if modes[node] == "LEAF" { Next::Leaf(place) } else { Next::Node(place) };
        places.insert((trees[node], ids[node]), next);
        roots.entry(trees[node]).or_insert(next);
    }
    let find = |tree: i64, id: i64| {
        let next = places.get(&(tree, id)).copied();
        next.ok_or_else(|| Error::operands(format!("there is no node {id} in the tree {tree}")))
    };
    const MODES: [&str; 6] =
        ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];
    let mut branches = Vec::with_capacity(branch_count);
    for node in (0..count).filter(|&node| modes[node] != "LEAF") {
        let mode = MODES.iter().position(|&name| name == modes[node]);
        let mode = mode.ok_or_else(|| Error::unsupported(format!("the mode `{}`", modes[node])))?;
        branches.push(Branch {
            feature: length(features[node])?,
            question: comparison(mode as i64, splits[node])?,
            if_true: find(trees[node], if_true[node])?,
            if_false: find(trees[node], if_false[node])?,
            if_missing: if_missing[node],
        });
    }
    let weights = floats(attributes, &format!("{votes}_weights"))?.unwrap_or_default();
    let list = |name: &str| integers(attributes, &format!("{votes}_{name}"), weights.len());
    let (trees, ids, targets) = (list("treeids")?, list("nodeids")?, list("ids")?);
    let mut leaves = vec![Vec::new(); leaf_count];
    for (index, &weight) in weights.iter().enumerate() {
        // Votes of nodes that are not leaves are never asked for.
        if let Next::Leaf(leaf) = find(trees[index], ids[index])? {
            leaves[leaf].push(Vote { target: length(targets[index])?, weight });
        }
    }
    Ok(Forest { branches, roots: roots.into_values().collect(), leaves })
}

/// Adds what every sample begins with.
fn add_base(attributes: &Attributes, results: &mut [f64], count: usize) -> Result<()> {
    let base = floats(attributes, "base_values")?.unwrap_or_default();
    if !base.is_empty() && base.len() != 1 && base.len() != count {
        let found = base.len();
        return Err(Error::operands(format!("{found} base values for {count} scores")));
    }
    for row in results.chunks_exact_mut(count.max(1)).filter(|_| !base.is_empty()) {
        row.iter_mut().zip(base.iter().cycle()).for_each(|(score, base)| *score += base);
    }
    Ok(())
}

pub fn tree_ensemble_regressor(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let targets = attributes.int("n_targets")?.ok_or_else(|| missing("n_targets"))?;
    let targets = length(targets)?;
    let aggregate = match attributes.string_or("aggregate_function", "SUM")? {
        "AVERAGE" => Aggregate::Average,
        "SUM" => Aggregate::Sum,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        other => return Err(Error::unsupported(format!("the aggregate function `{other}`"))),
    };
    let transform = Transform::named(attributes.string_or("post_transform", "NONE")?)?;
    let forest = named_forest(attributes, "target")?;
    let (samples, mut results) = evaluate(data, &forest, aggregate, targets)?;
    add_base(attributes, &mut results, targets)?;
    results.chunks_exact_mut(targets.max(1)).for_each(|row| transform.apply(row));
    Ok(one(Tensor::from_f64(ElementType::F32, &[samples, targets], &results)?))
}

pub fn tree_ensemble_classifier(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let strings = attributes.strings("classlabels_strings")?;
    let classes = Classes::new(attributes.ints("classlabels_int64s")?, strings)?;
    let count = classes.count();
    let transform = Transform::named(attributes.string_or("post_transform", "NONE")?)?;
    let forest = named_forest(attributes, "class")?;
    let (samples, mut results) = evaluate(data, &forest, Aggregate::Sum, count)?;
    add_base(attributes, &mut results, count)?;
    // Votes for one class only, of at most two: the other one gets what is left.
    let voted = attributes.ints("class_ids")?.unwrap_or(&[]);
    let single = voted.first().filter(|&&first| count <= 2 && voted.iter().all(|&id| id == first));
    let columns = if single.is_some() { 2 } else { count };
    if let Some(&class) = single {
        let class = length(class)?;
        let whole = matches!(transform, Transform::None | Transform::Probit);
        let both = |row: &[f64]| {
            let score = row.get(class).copied().unwrap_or(0.0);
            [if whole { 1.0 - score } else { -score }, score]
        };
        results = results.chunks_exact(count).flat_map(both).collect();
    }
    let mut places = Vec::with_capacity(samples);
    for row in results.chunks_exact_mut(columns) {
        transform.apply(row);
        // Where only one class has a name, the other is none.
        places.push(Some(best(row)).and_then(|place| match count {
            1 => place.checked_sub(1),
            _ => Some(place),
        }));
    }
    let mut outputs = one(classes.labels(&places)?);
    let scores = Tensor::from_f64(ElementType::F32, &[samples, columns], &results)?;
    outputs.push(Value::Tensor(scores));
    Ok(outputs)
}
