//! Softmax and normalisations.

use polaris_core::Shape;
use polaris_onnx::{Node, ValueId};
use polaris_ops::batch_norm::BatchNorm;
use polaris_ops::elementwise::Elementwise;
use polaris_ops::{Norm, NormKind, Softmax, Ternary};

use super::{Lowering, array, axis, input, result, wants_more};
use crate::Result;
use crate::build::Builder;
use crate::plan::{Action, Operand};

pub const LOWERINGS: &[(&str, Lowering)] = &[
    ("BatchNormalization", batch_norm),
    ("GroupNormalization", group_norm),
    ("InstanceNormalization", instance_norm),
    ("LayerNormalization", |b, n| rows(b, n, NormKind::Layer)),
    ("LogSoftmax", |b, n| softmax(b, n, true)),
    ("RMSNormalization", |b, n| rows(b, n, NormKind::Rms)),
    ("Softmax", |b, n| softmax(b, n, false)),
];

/// Before version 13 all axes from the named one on are one.
fn softmax(b: &mut Builder<'_>, node: &Node, log: bool) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, ..))) = (array(b, node, 0), result(b, node)) else {
        return Ok(false);
    };
    if !dtype.is_float() || shape.rank() == 0 {
        return Ok(false);
    }
    let default = if node.version < 13 { 1 } else { -1 };
    let Some(along) = axis(node.attributes.int_or("axis", default)?, shape.rank()) else {
        return Ok(false);
    };
    let mut operand = b.operand(id)?;
    if node.version >= 13 {
        let action = Action::new(Softmax { axis: along, log });
        operand = b.compute(action, &[operand], dtype, shape);
    } else {
        let before: usize = shape[..along].iter().product();
        let flat = Shape::new(&[before, shape[along..].iter().product()])?;
        operand = b.reshaped(operand, flat)?;
        let action = Action::new(Softmax { axis: 1, log });
        operand = b.compute(action, &[operand], dtype, flat);
        operand = b.reshaped(operand, shape)?;
    }
    b.set(Some(made), operand);
    Ok(true)
}

/// Whether a parameter is there and of the data's type, or absent.
fn parameter(
    b: &Builder<'_>,
    node: &Node,
    index: usize,
    dtype: polaris_core::DType,
) -> Option<Option<ValueId>> {
    match input(node, index) {
        None => Some(None),
        Some(id) => b.array_type(id).filter(|(found, _)| *found == dtype).map(|_| Some(id)),
    }
}

/// Layer and RMS normalisation over the last axes.
fn rows(b: &mut Builder<'_>, node: &Node, kind: NormKind) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, made_dtype, _))) =
        (array(b, node, 0), result(b, node))
    else {
        return Ok(false);
    };
    let along = axis(node.attributes.int_or("axis", -1)?, shape.rank());
    let (Some(along), Some(weight), Some(bias)) =
        (along, parameter(b, node, 1, dtype), parameter(b, node, 2, dtype))
    else {
        return Ok(false);
    };
    if !dtype.is_float() || made_dtype != dtype || wants_more(node) {
        return Ok(false);
    }
    let length: usize = shape[along..].iter().product();
    let before: usize = shape[..along].iter().product();
    // Parameters may be repeated along rows; devices want them whole.
    let whole = |id: &ValueId| {
        let lead = |own: &Shape| own.rank().checked_sub(shape.rank() - along);
        b.array_type(*id).and_then(|(_, own)| Some((lead(&own)?, own))).is_some_and(
            |(lead, own)| {
                own[lead..] == shape[along..] && own[..lead].iter().all(|&length| length == 1)
            },
        )
    };
    if [weight, bias].iter().flatten().any(|id| !whole(id)) {
        return Ok(false);
    }
    let flat = Shape::new(&[before, length])?;
    let operand = b.operand(id)?;
    let mut operands = vec![b.reshaped(operand, flat)?];
    for id in [weight, bias].into_iter().flatten() {
        let operand = b.operand(id)?;
        operands.push(b.reshaped(operand, Shape::new(&[length])?)?);
    }
    let epsilon = f64::from(node.attributes.float_or("epsilon", 1e-5)?);
    let (has_weight, has_bias) = (weight.is_some(), bias.is_some());
    let action = Action::new(Norm { kind, epsilon, has_weight, has_bias });
    let operand = b.compute(action, &operands, dtype, flat);
    let operand = b.reshaped(operand, shape)?;
    b.set(Some(made), operand);
    Ok(true)
}

/// With the statistics that are given.
fn batch_norm(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, ..))) = (array(b, node, 0), result(b, node)) else {
        return Ok(false);
    };
    let training = node.attributes.flag("training_mode", false)? || wants_more(node);
    if !dtype.is_float()
        || shape.rank() < 2
        || training
        || node.version < 9 && node.attributes.int("spatial")? == Some(0)
    {
        return Ok(false);
    }
    let parameters: Option<Vec<ValueId>> =
        (1..5).map(|index| parameter(b, node, index, dtype).flatten()).collect();
    let Some(parameters) = parameters else { return Ok(false) };
    // Statistics of half precisions are `f32` on devices.
    if dtype.size() == 2 {
        return Ok(false);
    }
    let operands = [id, parameters[2], parameters[3], parameters[0], parameters[1]];
    let operands =
        operands.into_iter().map(|id| b.operand(id)).collect::<Result<Vec<Operand>>>()?;
    let epsilon = f64::from(node.attributes.float_or("epsilon", 1e-5)?);
    let action = Action::new(BatchNorm { epsilon, has_weight: true, has_bias: true });
    let operand = b.compute(action, &operands, dtype, shape);
    b.set(Some(made), operand);
    Ok(true)
}

fn instance_norm(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let Some((_, _, shape)) = array(b, node, 0) else { return Ok(false) };
    if shape.rank() < 2 {
        return Ok(false);
    }
    in_groups(b, node, shape[1])
}

/// From version 21 on weight and bias have an element for each channel, before that for each group.
fn group_norm(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    match usize::try_from(node.attributes.int_or("num_groups", 0)?) {
        Ok(groups) if node.version >= 21 => in_groups(b, node, groups),
        _ => Ok(false),
    }
}

/// Rows of a sample's group of channels, then weight and bias of each channel.
fn in_groups(b: &mut Builder<'_>, node: &Node, groups: usize) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, ..))) = (array(b, node, 0), result(b, node)) else {
        return Ok(false);
    };
    let (Some(Some(weight)), Some(Some(bias))) =
        (parameter(b, node, 1, dtype), parameter(b, node, 2, dtype))
    else {
        return Ok(false);
    };
    let fits = dtype.is_float() && shape.rank() >= 2 && groups > 0 && shape[1] % groups == 0;
    if !fits || shape.elements() == 0 {
        return Ok(false);
    }
    let rows = shape[0] * groups;
    let flat = Shape::new(&[rows, shape.elements() / rows])?;
    let operand = b.operand(id)?;
    let operand = b.reshaped(operand, flat)?;
    let epsilon = f64::from(node.attributes.float_or("epsilon", 1e-5)?);
    let norm = Norm { kind: NormKind::Layer, epsilon, has_weight: false, has_bias: false };
    let operand = b.compute(Action::new(norm), &[operand], dtype, flat);
    let normalised = b.reshaped(operand, shape)?;
    let mut channel_dims = vec![1; shape.rank()];
    channel_dims[1] = shape[1];
    let channels = Shape::new(&channel_dims)?;
    let mut operands = vec![normalised];
    for id in [weight, bias] {
        let operand = b.operand(id)?;
        operands.push(b.reshaped(operand, channels)?);
    }
    let action = Action::new(Elementwise { function: Ternary::MulAdd.into() });
    let operand = b.compute_elements(action, &operands, dtype, shape)?;
    b.set(Some(made), operand);
    Ok(true)
}
