//! Operators that only view elements differently, and concatenation.

use polaris_core::{Layout, Shape};
use polaris_onnx::{Node, Tensor};
use polaris_ops::copy::Copy;
use polaris_ops::fill::Fill;

use super::{Lowering, array, axis, constant_ints, output, result};
use crate::Result;
use crate::build::Builder;
use crate::plan::{Action, Operand};

pub const LOWERINGS: &[(&str, Lowering)] = &[
    ("Concat", concat),
    ("ConstantOfShape", constant_of_shape),
    ("DepthToSpace", depth_to_space),
    ("Dropout", dropout),
    ("Expand", expand),
    ("Flatten", reshape),
    ("Identity", reshape),
    ("Reshape", reshape),
    ("Slice", slice),
    ("SpaceToDepth", space_to_depth),
    ("Split", split),
    ("Squeeze", reshape),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Unsqueeze", reshape),
];

/// The same elements in the shape that was inferred.
fn reshape(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((id, ..)), Some((made, _, shape))) = (array(b, node, 0), result(b, node)) else {
        return Ok(false);
    };
    let operand = b.operand(id)?;
    let operand = b.reshaped(operand, shape)?;
    b.set(Some(made), operand);
    Ok(true)
}

fn transpose(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((id, _, shape)), Some((made, ..))) = (array(b, node, 0), result(b, node)) else {
        return Ok(false);
    };
    let rank = shape.rank();
    let axes: Option<Vec<usize>> = match node.attributes.ints("perm")? {
        Some(list) => list.iter().map(|&at| axis(at, rank)).collect(),
        None => Some((0..rank).rev().collect()),
    };
    let Some(axes) = axes else { return Ok(false) };
    let operand = b.operand(id)?;
    let layout = operand.layout.permute(&axes)?;
    b.set(Some(made), Operand { layout, ..operand });
    Ok(true)
}

fn expand(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((id, ..)), Some((made, _, shape))) = (array(b, node, 0), result(b, node)) else {
        return Ok(false);
    };
    let operand = b.operand(id)?;
    let layout = operand.layout.broadcast_to("expand", &shape)?;
    b.set(Some(made), Operand { layout, ..operand });
    Ok(true)
}

/// Forward steps are views; backward ones are left to the host.
fn slice(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((id, _, shape)), Some((made, ..))) = (array(b, node, 0), result(b, node)) else {
        return Ok(false);
    };
    let Some(ranges) = slice_ranges(b, node, &shape)? else { return Ok(false) };
    let operand = b.operand(id)?;
    let mut layout = operand.layout;
    for Part { along, range, step } in ranges {
        layout = layout.slice(along, range, step)?;
    }
    b.set(Some(made), Operand { layout, ..operand });
    Ok(true)
}

/// Every `step`-th index of a range of one axis.
struct Part {
    along: usize,
    range: std::ops::Range<usize>,
    step: usize,
}

/// What is taken of each sliced axis, if all of them go forward and are known.
fn slice_ranges(b: &Builder<'_>, node: &Node, shape: &Shape) -> Result<Option<Vec<Part>>> {
    let own = |name: &str| -> Result<Option<Vec<i64>>> {
        Ok(node.attributes.ints(name)?.map(<[i64]>::to_vec))
    };
    let (starts, ends, axes, steps) = if node.version < 10 {
        (own("starts")?, own("ends")?, own("axes")?, None)
    } else {
        let optional = |index: usize| match super::input(node, index) {
            None => Some(None),
            Some(_) => constant_ints(b, node, index).map(Some),
        };
        let (Some(axes), Some(steps)) = (optional(3), optional(4)) else { return Ok(None) };
        (constant_ints(b, node, 1), constant_ints(b, node, 2), axes, steps)
    };
    let (Some(starts), Some(ends)) = (starts, ends) else { return Ok(None) };
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()].iter().any(|&length| length != starts.len()) {
        return Ok(None);
    }
    let mut ranges = Vec::new();
    for at in 0..starts.len() {
        let Some(along) = axis(axes[at], shape.rank()) else { return Ok(None) };
        let length = shape[along] as i64;
        if steps[at] <= 0 {
            return Ok(None);
        }
        let place = |index: i64| {
            let index = if index < 0 { index.saturating_add(length) } else { index };
            index.clamp(0, length) as usize
        };
        let (start, end) = (place(starts[at]), place(ends[at]));
        let step = usize::try_from(steps[at]).unwrap_or(usize::MAX).min(shape[along].max(1));
        ranges.push(Part { along, range: start..end.max(start), step });
    }
    Ok(Some(ranges))
}

/// Parts of an axis, each a view.
fn split(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let Some((id, _, shape)) = array(b, node, 0) else { return Ok(false) };
    let Some(along) = axis(node.attributes.int_or("axis", 0)?, shape.rank()) else {
        return Ok(false);
    };
    let lengths: Option<Vec<usize>> = (node.outputs.iter())
        .map(|made| made.and_then(|made| b.result_type(made)).map(|(_, shape)| shape[along]))
        .collect();
    let Some(lengths) = lengths.filter(|list| list.iter().sum::<usize>() == shape[along]) else {
        return Ok(false);
    };
    let operand = b.operand(id)?;
    let mut start = 0;
    for (at, length) in lengths.into_iter().enumerate() {
        let layout = operand.layout.slice(along, start..start + length, 1)?;
        b.set(output(node, at), Operand { layout, ..operand });
        start += length;
    }
    Ok(true)
}

/// Copies each operand to its part of the result.
fn concat(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let Some((made, dtype, shape)) = result(b, node) else { return Ok(false) };
    let arrays: Option<Vec<_>> =
        (0..node.inputs.len()).map(|index| array(b, node, index)).collect();
    let Some(arrays) = arrays else { return Ok(false) };
    let along = axis(node.attributes.int_or("axis", 0)?, shape.rank());
    let Some(along) = along.filter(|_| arrays.iter().all(|(_, found, _)| *found == dtype)) else {
        return Ok(false);
    };
    let total: usize =
        arrays.iter().map(|(_, _, shape)| shape.dims().get(along).map_or(0, |&l| l)).sum();
    if total != shape[along] {
        return Ok(false);
    }
    let operands =
        arrays.iter().map(|(id, ..)| b.operand(*id)).collect::<Result<Vec<Operand>>>()?;
    let whole = match operands.first() {
        Some(first) => b.new_array_like(first, dtype, shape),
        None => b.new_array(dtype, shape),
    };
    let mut start = 0;
    for ((_, _, part), operand) in arrays.iter().zip(operands) {
        let layout = whole.layout.slice(along, start..start + part[along], 1)?;
        b.emit(Action::new(Copy), &[operand], Operand { layout, ..whole });
        start += part[along];
    }
    b.set(Some(made), whole);
    Ok(true)
}

/// Repeats whole arrays: each axis becomes two, of which the first is repeated.
fn tile(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, _, tiled))) = (array(b, node, 0), result(b, node))
    else {
        return Ok(false);
    };
    if shape.rank() * 2 > polaris_core::MAX_RANK
        || shape.rank() != tiled.rank()
        || shape.elements() == 0
    {
        return Ok(false);
    }
    let pair = |first: &dyn Fn(usize) -> usize| -> Result<Shape> {
        let dims: Vec<usize> = (0..shape.rank()).flat_map(|at| [first(at), shape[at]]).collect();
        Ok(Shape::new(&dims)?)
    };
    let (once, repeated) = (pair(&|_| 1)?, pair(&|at| tiled[at] / shape[at])?);
    let operand = b.operand(id)?;
    let operand = b.reshaped(operand, once)?;
    let layout = operand.layout.broadcast_to("tile", &repeated)?;
    let copied = b.compute(Action::new(Copy), &[Operand { layout, ..operand }], dtype, repeated);
    let copied = b.reshaped(copied, tiled)?;
    b.set(Some(made), copied);
    Ok(true)
}

/// A shape in between, a permutation, and the final shape.
fn rearrange(b: &mut Builder<'_>, node: &Node, between: &[usize], axes: &[usize]) -> Result<bool> {
    let (Some((id, ..)), Some((made, _, shape))) = (array(b, node, 0), result(b, node)) else {
        return Ok(false);
    };
    let operand = b.operand(id)?;
    let operand = b.reshaped(operand, Shape::new(between)?)?;
    let permuted = Operand { layout: operand.layout.permute(axes)?, ..operand };
    let made_operand = b.reshaped(permuted, shape)?;
    b.set(Some(made), made_operand);
    Ok(true)
}

fn depth_to_space(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let Some((_, _, shape)) = array(b, node, 0) else { return Ok(false) };
    let block = usize::try_from(node.attributes.int_or("blocksize", 0)?).unwrap_or(0);
    let &[n, c, h, w] = shape.dims() else { return Ok(false) };
    if block == 0 || block.checked_mul(block).is_none_or(|square| c % square != 0) {
        return Ok(false);
    }
    let rest = c / (block * block);
    match node.attributes.string_or("mode", "DCR")? {
        "CRD" => rearrange(b, node, &[n, rest, block, block, h, w], &[0, 1, 4, 2, 5, 3]),
        _ => rearrange(b, node, &[n, block, block, rest, h, w], &[0, 3, 4, 1, 5, 2]),
    }
}

fn space_to_depth(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let Some((_, _, shape)) = array(b, node, 0) else { return Ok(false) };
    let block = usize::try_from(node.attributes.int_or("blocksize", 0)?).unwrap_or(0);
    let &[n, c, h, w] = shape.dims() else { return Ok(false) };
    if block == 0 || h % block != 0 || w % block != 0 {
        return Ok(false);
    }
    let between = [n, c, h / block, block, w / block, block];
    rearrange(b, node, &between, &[0, 3, 5, 1, 2, 4])
}

/// Without training nothing is dropped.
fn dropout(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let training = match super::input(node, 2) {
        None => false,
        Some(id) => match b.constant(id).and_then(|tensor| tensor.to_bools().ok()) {
            Some(list) => list.first().copied().unwrap_or(false),
            None => return Ok(false),
        },
    };
    if training {
        return Ok(false);
    }
    if let Some(mask) = output(node, 1) {
        let Some((dtype, shape)) = b.result_type(mask) else { return Ok(false) };
        let ones = b.compute(Action::new(Fill { value: 1.0 }), &[], dtype, shape);
        b.set(Some(mask), ones);
    }
    reshape(b, node)
}

fn constant_of_shape(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let Some((made, dtype, shape)) = result(b, node) else { return Ok(false) };
    let value = node.attributes.tensor("value")?.map(Tensor::to_f64).transpose()?;
    let value = match value.as_deref() {
        None => 0.0,
        Some([value]) => *value,
        Some(_) => return Ok(false),
    };
    // Large integers lose digits on the way through `f64`.
    if value.abs() > 9e15 {
        return Ok(false);
    }
    let one = Shape::new(&[])?;
    let single = b.compute(Action::new(Fill { value }), &[], dtype, one);
    let layout: Layout = single.layout.broadcast_to("constant_of_shape", &shape)?;
    b.set(Some(made), Operand { layout, ..single });
    Ok(true)
}
