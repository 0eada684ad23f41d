//! Look-ups, scatters and padding.

use polaris_core::{DType, MAX_RANK};
use polaris_onnx::{Node, Tensor, ValueId};
use polaris_ops::elementwise::Elementwise;
use polaris_ops::indexing::{Lookup, LookupRule, Scatter, ScatterRule};
use polaris_ops::pad::Remap;
use polaris_ops::{Binary, PadMode, Ternary};

use super::{Lowering, array, axis, constant_ints, constant_number, input, result};
use crate::Result;
use crate::build::Builder;
use crate::plan::{Action, Operand};

pub const LOWERINGS: &[(&str, Lowering)] = &[
    ("Gather", |b, n| look_up(b, n, LookupRule::Take)),
    ("GatherElements", |b, n| look_up(b, n, LookupRule::Gather)),
    ("Pad", pad),
    ("ScatterElements", scatter_elements),
];

/// Indices as devices take them: counted from the front. Negative ones of constants are turned when the
/// plan is made, others at run time.
fn indices(b: &mut Builder<'_>, id: ValueId, length: usize) -> Result<Option<Operand>> {
    let Some((dtype, shape)) = b.array_type(id) else { return Ok(None) };
    if !matches!(dtype, DType::I32 | DType::I64) {
        return Ok(None);
    }
    if let Some(tensor) = b.constant(id) {
        let turned: Vec<i64> = (tensor.to_i64()?.into_iter())
            .map(|index| if index < 0 { index.saturating_add(length as i64) } else { index })
            .collect();
        let tensor = Tensor::new(&shape, turned)?;
        return b.new_constant(&tensor).map(Some);
    }
    let operand = b.operand(id)?;
    let number = |value: i64| match dtype {
        DType::I32 => Tensor::scalar(i32::try_from(value).unwrap_or(i32::MAX)),
        _ => Tensor::scalar(value),
    };
    let (zero, length) = (b.new_constant(&number(0))?, b.new_constant(&number(length as i64))?);
    let apply = |function| Action::new(Elementwise { function });
    let negative = b.compute(apply(Binary::Less.into()), &[operand, zero], DType::Bool, shape);
    let turned = b.compute(apply(Binary::Add.into()), &[operand, length], dtype, shape);
    let chosen = apply(Ternary::Where.into());
    Ok(Some(b.compute(chosen, &[negative, turned, operand], dtype, shape)))
}

fn look_up(b: &mut Builder<'_>, node: &Node, rule: LookupRule) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, _, made_shape))) =
        (array(b, node, 0), result(b, node))
    else {
        return Ok(false);
    };
    let Some(along) = axis(node.attributes.int_or("axis", 0)?, shape.rank()) else {
        return Ok(false);
    };
    let Some(index) = input(node, 1) else { return Ok(false) };
    // Devices do not look at indices that no element is taken by, and wrong ones are an error.
    if made_shape.elements() == 0 {
        return Ok(false);
    }
    // One constant index is a view.
    if let (LookupRule::Take, Some(at)) = (rule, single_index(b, index, shape[along])) {
        let operand = b.operand(id)?;
        let layout = operand.layout.slice(along, at..at + 1, 1)?;
        let operand = b.reshaped(Operand { layout, ..operand }, made_shape)?;
        b.set(Some(made), operand);
        return Ok(true);
    }
    let Some(index) = indices(b, index, shape[along])? else { return Ok(false) };
    let operand = b.operand(id)?;
    let action = Action::new(Lookup { rule, axis: along });
    let operand = b.compute(action, &[index, operand], dtype, made_shape);
    b.set(Some(made), operand);
    Ok(true)
}

/// The place that the only index of a constant means.
fn single_index(b: &Builder<'_>, id: ValueId, length: usize) -> Option<usize> {
    match b.constant(id)?.to_i64().ok()?.as_slice() {
        &[index] => {
            let index = if index < 0 { index.checked_add(length as i64)? } else { index };
            usize::try_from(index).ok().filter(|&index| index < length)
        }
        _ => None,
    }
}

fn scatter_elements(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((base, dtype, shape)), Some((source, other, _)), Some((made, ..))) =
        (array(b, node, 0), array(b, node, 2), result(b, node))
    else {
        return Ok(false);
    };
    let rule = match node.attributes.string_or("reduction", "none")? {
        "none" => ScatterRule::Assign,
        "add" if dtype.is_float() => ScatterRule::Add,
        _ => return Ok(false),
    };
    let Some(along) = axis(node.attributes.int_or("axis", 0)?, shape.rank()) else {
        return Ok(false);
    };
    let Some(index) = input(node, 1).filter(|_| dtype == other) else { return Ok(false) };
    let Some(index) = indices(b, index, shape[along])? else { return Ok(false) };
    let operands = [index, b.operand(base)?, b.operand(source)?];
    let action = Action::new(Scatter { rule, axis: along });
    let operand = b.compute(action, &operands, dtype, shape);
    b.set(Some(made), operand);
    Ok(true)
}

/// By constant widths that add elements.
fn pad(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, _, made_shape))) =
        (array(b, node, 0), result(b, node))
    else {
        return Ok(false);
    };
    let rank = shape.rank();
    let early = node.version < 11;
    let given = match early {
        true => node.attributes.ints("pads")?.map(<[i64]>::to_vec),
        false => constant_ints(b, node, 1),
    };
    let axes: Option<Vec<usize>> = match input(node, 3) {
        None => Some((0..rank).collect()),
        Some(_) => constant_ints(b, node, 3)
            .and_then(|list| list.into_iter().map(|at| axis(at, rank)).collect()),
    };
    let (Some(given), Some(axes)) = (given, axes) else { return Ok(false) };
    let widths: Option<Vec<usize>> =
        given.iter().map(|&width| usize::try_from(width).ok()).collect();
    let Some(widths) = widths.filter(|widths| widths.len() == 2 * axes.len()) else {
        return Ok(false);
    };
    let mut all = [(0, 0); MAX_RANK];
    for (at, &along) in axes.iter().enumerate() {
        all[along] = (widths[at], widths[axes.len() + at]);
    }
    let value = match early {
        true => Some(f64::from(node.attributes.float_or("value", 0.0)?)),
        false if input(node, 2).is_some() => constant_number(b, node, 2),
        false => Some(0.0),
    };
    let reach =
        |most: fn(usize) -> usize| (0..rank).all(|at| all[at].0.max(all[at].1) <= most(shape[at]));
    let mode = match node.attributes.string_or("mode", "constant")? {
        "constant" => value.map(PadMode::Constant),
        "reflect" => Some(PadMode::Reflect).filter(|_| reach(|length| length.saturating_sub(1))),
        "edge" => Some(PadMode::Replicate).filter(|_| shape.elements() > 0),
        "wrap" => Some(PadMode::Circular).filter(|_| reach(|length| length)),
        _ => None,
    };
    let Some(mode) = mode else { return Ok(false) };
    let operand = b.operand(id)?;
    let action = Action::new(Remap::Pad { widths: all, mode });
    let operand = b.compute(action, &[operand], dtype, made_shape);
    b.set(Some(made), operand);
    Ok(true)
}
