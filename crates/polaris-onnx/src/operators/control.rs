//! Operators with subgraphs: If, Loop, Scan, SequenceMap.

use std::sync::Arc;

use crate::limits::{check_cancelled, largest_tensor};

use super::{Call, Operator, axis};
use crate::{Error, Graph, Result, Tensor, Value};

pub(super) const OPERATORS: &[(&str, Operator)] =
    &[("If", if_), ("Loop", loop_), ("Scan", scan), ("SequenceMap", sequence_map)];

/// Runs a graph inside a node, with what it captures.
pub(super) fn run(call: &Call<'_>, graph: &Arc<Graph>, inputs: Vec<Value>) -> Result<Vec<Value>> {
    check_cancelled()?;
    let captured = graph
        .captures
        .iter()
        .map(|capture| {
            let missing = || format!("`{}` was not computed", graph.value(capture.inner).name);
            call.scope.value(capture.outer).ok_or_else(|| Error::operands(missing()))
        })
        .collect::<Result<Vec<Value>>>()?;
    if inputs.len() > graph.inputs.len() {
        let (given, wanted) = (inputs.len(), graph.inputs.len());
        let why = format!("the inner graph takes {wanted} inputs, {given} are given");
        return Err(Error::operands(why));
    }
    let inputs: Vec<Option<Value>> = inputs.into_iter().map(Some).collect();
    call.scope.evaluate(graph, &inputs, &captured)
}

fn single_bool(tensor: &Tensor) -> Result<bool> {
    match tensor.to_bools()?.as_slice() {
        [value] => Ok(*value),
        other => Err(Error::operands(format!("expected a single bool, found {}", other.len()))),
    }
}

fn if_(call: &Call<'_>) -> Result<Vec<Value>> {
    let branch = if single_bool(call.tensor(0)?)? { "then_branch" } else { "else_branch" };
    run(call, call.attributes().graph(branch)?, Vec::new())
}

fn loop_(call: &Call<'_>) -> Result<Vec<Value>> {
    let body = call.attributes().graph("body")?;
    let most = match call.optional(0)? {
        Some(count) => count.to_i64()?.first().copied().unwrap_or(0),
        None => i64::MAX,
    };
    let mut go_on = call.optional(1)?.map_or(Ok(true), single_bool)?;
    let carried_count = call.inputs.len().saturating_sub(2);
    let mut carried: Vec<Value> = call.inputs.iter().skip(2).flatten().cloned().collect();
    let mut collected: Vec<Vec<Value>> =
        vec![Vec::new(); body.outputs.len().saturating_sub(1 + carried_count)];
    let (mut step, mut bytes) = (0, 0u64);
    while step < most && go_on {
        let mut inputs = vec![Value::Tensor(Tensor::scalar(step)), bool_scalar(go_on)?];
        inputs.append(&mut carried);
        inputs.truncate(body.inputs.len());
        let mut results = run(call, body, inputs)?.into_iter();
        let condition = results.next().ok_or_else(|| Error::operands("the body has no result"))?;
        go_on = single_bool(condition.tensor()?)?;
        carried = results.by_ref().take(carried_count).collect();
        for (list, value) in collected.iter_mut().zip(results) {
            bytes = bytes.saturating_add(size_of(&value));
            list.push(value);
        }
        if bytes > largest_tensor() {
            return Err(Error::operands(format!("its steps made more than {bytes} bytes")));
        }
        step += 1;
    }
    let mut outputs = carried;
    for (index, list) in collected.into_iter().enumerate() {
        let made = body.outputs.get(1 + carried_count + index);
        outputs.push(stack(body, made.copied(), list, 0, false)?);
    }
    Ok(outputs)
}

/// About how much memory a value takes.
fn size_of(value: &Value) -> u64 {
    match value {
        Value::Tensor(tensor) => 64 + (tensor.elements() * tensor.element().size()) as u64,
        Value::Sequence(values) => values.iter().map(size_of).sum(),
        Value::Optional(value) => value.as_deref().map_or(0, size_of),
    }
}

fn bool_scalar(value: bool) -> Result<Value> {
    Ok(Value::Tensor(Tensor::bools(&[], &[value])?))
}

/// One tensor of several of the same shape, along a new axis.
fn stack(
    graph: &Graph,
    output: Option<crate::ValueId>,
    list: Vec<Value>,
    at: i64,
    reverse: bool,
) -> Result<Value> {
    let Some(first) = list.first() else {
        // Without a step only the declared type says what would have been made.
        let ty = output.and_then(|id| graph.value(id).ty.as_ref());
        return match ty {
            Some(crate::Type::Tensor(element, dims)) => {
                let mut shape = vec![0];
                shape.extend(dims.iter().flatten().map(|dim| dim.known().unwrap_or(0)));
                Ok(Value::Tensor(Tensor::zeros(*element, &shape)?))
            }
            _ => Err(Error::unsupported("the results of a loop without a step and without a type")),
        };
    };
    let first = first.tensor()?;
    let (element, shape) = (first.element(), first.shape().to_vec());
    let at = axis(at, shape.len() + 1)?;
    let mut stacked_shape = shape.clone();
    stacked_shape.insert(at, list.len());
    let mut parts = Vec::with_capacity(list.len());
    for value in &list {
        let tensor = value.tensor()?;
        if tensor.shape() != shape || tensor.element() != element {
            let found = tensor.shape();
            return Err(Error::operands(format!("steps made {shape:?} and then {found:?}")));
        }
        parts.push(tensor);
    }
    if reverse {
        parts.reverse();
    }
    let outer: usize = shape[..at].iter().product();
    if element == crate::ElementType::String {
        let inner: usize = shape[at..].iter().product();
        let mut strings = Vec::new();
        for row in 0..outer {
            for part in &parts {
                strings.extend_from_slice(&part.as_strings()?[row * inner..(row + 1) * inner]);
            }
        }
        return Ok(Value::Tensor(Tensor::strings(&stacked_shape, strings)?));
    }
    let inner = shape[at..].iter().product::<usize>() * element.size();
    let mut bytes = Vec::with_capacity(outer * inner * parts.len());
    for row in 0..outer {
        for part in &parts {
            bytes.extend_from_slice(&part.bytes()?[row * inner..(row + 1) * inner]);
        }
    }
    Ok(Value::Tensor(Tensor::from_bytes(element, &stacked_shape, bytes.into())?))
}

/// The elements at one index of an axis, without that axis.
fn select(tensor: &Tensor, at: usize, index: usize) -> Result<Tensor> {
    let shape = tensor.shape();
    let mut rest = shape.to_vec();
    let length = rest.remove(at);
    let outer: usize = shape[..at].iter().product();
    let inner: usize = shape[at + 1..].iter().product();
    let rows = (0..outer).map(|row| (row * length + index) * inner);
    if tensor.element() == crate::ElementType::String {
        let strings = tensor.as_strings()?;
        let picked = rows.flat_map(|start| strings[start..start + inner].iter().cloned()).collect();
        return Tensor::strings(&rest, picked);
    }
    let (bytes, size) = (tensor.bytes()?, tensor.element().size());
    let mut picked = Vec::with_capacity(outer * inner * size);
    for start in rows {
        picked.extend_from_slice(&bytes[start * size..(start + inner) * size]);
    }
    Tensor::from_bytes(tensor.element(), &rest, picked.into())
}

fn scan(call: &Call<'_>) -> Result<Vec<Value>> {
    if call.version() < 9 {
        return scan_batched(call);
    }
    scan_over(call, &call.inputs.iter().flatten().cloned().collect::<Vec<Value>>())
}

/// Scan of version 8 has a first operand of lengths and a batch as the first axis of all others.
fn scan_batched(call: &Call<'_>) -> Result<Vec<Value>> {
    if call.value(0).is_some() {
        return Err(Error::unsupported("Scan of version 8 with sequence lengths"));
    }
    let operands = call.inputs.iter().skip(1).flatten();
    let tensors = operands.map(Value::tensor).collect::<Result<Vec<&Tensor>>>()?;
    let batch = tensors.first().and_then(|tensor| tensor.shape().first()).copied().unwrap_or(0);
    let mut collected: Vec<Vec<Value>> = Vec::new();
    for index in 0..batch {
        let inputs = tensors
            .iter()
            .map(|tensor| {
                if tensor.shape().first() != Some(&batch) {
                    return Err(Error::operands("the operands of Scan have different batches"));
                }
                Ok(Value::Tensor(select(tensor, 0, index)?))
            })
            .collect::<Result<Vec<Value>>>()?;
        for (output, value) in scan_over(call, &inputs)?.into_iter().enumerate() {
            if collected.len() <= output {
                collected.push(Vec::new());
            }
            collected[output].push(value);
        }
    }
    let body = call.attributes().graph("body")?;
    collected.into_iter().map(|list| stack(body, None, list, 0, false)).collect()
}

fn scan_over(call: &Call<'_>, operands: &[Value]) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let body = attributes.graph("body")?;
    let scanned_count = usize::try_from(attributes.int_or("num_scan_inputs", 1)?)
        .ok()
        .filter(|&count| count >= 1 && count <= operands.len())
        .ok_or_else(|| Error::operands("num_scan_inputs is not a number of operands"))?;
    let state_count = operands.len() - scanned_count;
    let at = |name: &str, index: usize| -> Result<i64> {
        Ok(attributes.ints(name)?.and_then(|list| list.get(index)).copied().unwrap_or(0))
    };
    // Version 8 calls the directions of inputs plainly `directions`.
    let directions = if call.version() < 9 { "directions" } else { "scan_input_directions" };
    let mut scanned = Vec::new();
    let mut steps = None;
    for (index, value) in operands[state_count..].iter().enumerate() {
        let tensor = value.tensor()?;
        let along = axis(at("scan_input_axes", index)?, tensor.rank())?;
        let length = *tensor
            .shape()
            .get(along)
            .ok_or_else(|| Error::operands("a scalar cannot be scanned"))?;
        if *steps.get_or_insert(length) != length {
            return Err(Error::operands("the scanned operands have different lengths"));
        }
        scanned.push((tensor, along, at(directions, index)? == 1));
    }
    let steps = steps.unwrap_or(0);
    let mut state: Vec<Value> = operands[..state_count].to_vec();
    let made = body.outputs.len().saturating_sub(state_count);
    let mut collected: Vec<Vec<Value>> = vec![Vec::new(); made];
    for step in 0..steps {
        let mut inputs = std::mem::take(&mut state);
        for &(tensor, along, backward) in &scanned {
            let index = if backward { steps - 1 - step } else { step };
            inputs.push(Value::Tensor(select(tensor, along, index)?));
        }
        let mut results = run(call, body, inputs)?.into_iter();
        state = results.by_ref().take(state_count).collect();
        for (list, value) in collected.iter_mut().zip(results) {
            list.push(value);
        }
    }
    let mut outputs = state;
    for (index, list) in collected.into_iter().enumerate() {
        let backward = at("scan_output_directions", index)? == 1;
        let made = body.outputs.get(state_count + index).copied();
        outputs.push(stack(body, made, list, at("scan_output_axes", index)?, backward)?);
    }
    Ok(outputs)
}

fn sequence_map(call: &Call<'_>) -> Result<Vec<Value>> {
    let body = call.attributes().graph("body")?;
    let sequence =
        call.value(0).ok_or_else(|| Error::operands("the operand 1 is missing"))?.values()?;
    let mut collected: Vec<Vec<Value>> = vec![Vec::new(); body.outputs.len()];
    for (index, value) in sequence.iter().enumerate() {
        let mut inputs = vec![value.clone()];
        for other in call.inputs.iter().skip(1).flatten() {
            inputs.push(match other {
                Value::Sequence(values) => values
                    .get(index)
                    .cloned()
                    .ok_or_else(|| Error::operands("the sequences have different lengths"))?,
                same => same.clone(),
            });
        }
        for (list, result) in collected.iter_mut().zip(run(call, body, inputs)?) {
            list.push(result);
        }
    }
    Ok(collected.into_iter().map(Value::sequence).collect())
}
