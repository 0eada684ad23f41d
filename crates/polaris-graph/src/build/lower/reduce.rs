//! Reductions along axes, cumulative sums, and sorting.

use polaris_core::{DType, Shape};
use polaris_onnx::Node;
use polaris_ops::copy::Copy;
use polaris_ops::elementwise::Elementwise;
use polaris_ops::indexing::{Lookup, LookupRule};
use polaris_ops::reduce::Reduce;
use polaris_ops::scan::CumSum;
use polaris_ops::sort::ArgSort;
use polaris_ops::{Reduction, Unary};

use super::pooling::spatial_in_memory_order;
use super::{Lowering, array, axis, constant_ints, input, output, result};
use crate::Result;
use crate::build::Builder;
use crate::plan::{Action, Operand};

pub const LOWERINGS: &[(&str, Lowering)] = &[
    ("ArgMax", arg_max),
    ("CumSum", cum_sum),
    ("ReduceL1", |b, n| reduce(b, n, Reduction::Sum, Some(Unary::Abs), None)),
    ("ReduceL2", |b, n| reduce(b, n, Reduction::Sum, Some(Unary::Square), Some(Unary::Sqrt))),
    ("ReduceLogSum", |b, n| reduce(b, n, Reduction::Sum, None, Some(Unary::Log))),
    ("ReduceMax", |b, n| reduce(b, n, Reduction::Max, None, None)),
    ("ReduceMean", |b, n| reduce(b, n, Reduction::Mean, None, None)),
    ("ReduceMin", |b, n| reduce(b, n, Reduction::Min, None, None)),
    ("ReduceSum", |b, n| reduce(b, n, Reduction::Sum, None, None)),
    ("ReduceSumSquare", |b, n| reduce(b, n, Reduction::Sum, Some(Unary::Square), None)),
    ("TopK", top_k),
];

/// The reduced axes: an attribute, later an operand, which must be constant. `None` if it is not.
fn axes(b: &Builder<'_>, node: &Node, rank: usize) -> Result<Option<Vec<usize>>> {
    let listed = match node.attributes.ints("axes")? {
        Some(list) => list.to_vec(),
        None => match input(node, 1) {
            Some(_) => match constant_ints(b, node, 1) {
                Some(list) => list,
                None => return Ok(None),
            },
            None => Vec::new(),
        },
    };
    if listed.is_empty() {
        let none = node.attributes.flag("noop_with_empty_axes", false)?;
        return Ok(Some(if none { Vec::new() } else { (0..rank).collect() }));
    }
    Ok(listed.into_iter().map(|at| axis(at, rank)).collect())
}

fn unary(b: &mut Builder<'_>, function: Unary, operand: Operand) -> Operand {
    let action = Action::new(Elementwise { function: function.into() });
    b.compute(action, &[operand], operand.dtype, *operand.layout.shape())
}

/// A function of each element, a reduction, and a function of each result.
fn reduce(
    b: &mut Builder<'_>,
    node: &Node,
    reduction: Reduction,
    before: Option<Unary>,
    after: Option<Unary>,
) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, _, made_shape))) =
        (array(b, node, 0), result(b, node))
    else {
        return Ok(false);
    };
    let Some(axes) = axes(b, node, shape.rank())? else { return Ok(false) };
    let integers = dtype == DType::I32 || dtype == DType::I64;
    let plain_integers = integers && reduction != Reduction::Mean && after.is_none();
    // Half precisions would be rounded before they are added up.
    let narrow = dtype.size() == 2 && before.is_some();
    if !(dtype.is_float() || plain_integers) || narrow || shape.elements() == 0 {
        return Ok(false);
    }
    let mut operand = b.operand(id)?;
    if let Some(function) = before {
        operand = unary(b, function, operand);
    }
    if !axes.is_empty() {
        let (turned, turned_axes) = spatial_in_memory_order(operand, axes.clone())?;
        let mask = turned.layout.shape().axis_mask("reduce", &turned_axes)?;
        let reduced = shape.reduce("reduce", &axes, false)?;
        let action = Action::new(Reduce { reduction, axes: mask });
        operand = b.compute(action, &[turned], reduction.output_dtype(dtype), reduced);
        if operand.dtype != dtype {
            operand = b.compute(Action::new(Copy), &[operand], dtype, reduced);
        }
    }
    if let Some(function) = after {
        operand = unary(b, function, operand);
    }
    let operand = b.reshaped(operand, made_shape)?;
    b.set(Some(made), operand);
    Ok(true)
}

fn arg_max(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, _, made_shape))) =
        (array(b, node, 0), result(b, node))
    else {
        return Ok(false);
    };
    let Some(along) = axis(node.attributes.int_or("axis", 0)?, shape.rank()) else {
        return Ok(false);
    };
    let last = node.attributes.flag("select_last_index", false)?;
    if dtype == DType::Bool || last || shape.elements() == 0 {
        return Ok(false);
    }
    let operand = b.operand(id)?;
    let mask = shape.axis_mask("argmax", &[along])?;
    let reduced = shape.reduce("argmax", &[along], false)?;
    let action = Action::new(Reduce { reduction: Reduction::ArgMax, axes: mask });
    let operand = b.compute(action, &[operand], DType::I64, reduced);
    let operand = b.reshaped(operand, made_shape)?;
    b.set(Some(made), operand);
    Ok(true)
}

fn cum_sum(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, ..))) = (array(b, node, 0), result(b, node)) else {
        return Ok(false);
    };
    let along = constant_ints(b, node, 1).and_then(|list| axis(*list.first()?, shape.rank()));
    let exclusive = node.attributes.flag("exclusive", false)?;
    let Some(along) = along.filter(|_| dtype.is_float() && !exclusive) else { return Ok(false) };
    let reverse = node.attributes.flag("reverse", false)?;
    let operand = b.operand(id)?;
    let action = Action::new(CumSum { axis: along, reverse });
    let operand = b.compute(action, &[operand], dtype, shape);
    b.set(Some(made), operand);
    Ok(true)
}

/// The order of the elements, and then the elements.
fn top_k(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let Some((id, dtype, shape)) = array(b, node, 0) else { return Ok(false) };
    let made: Option<Vec<(polaris_onnx::ValueId, Shape)>> = (0..2)
        .map(|index| output(node, index).and_then(|id| Some((id, b.result_type(id)?.1))))
        .collect();
    let along = axis(node.attributes.int_or("axis", -1)?, shape.rank());
    let (Some(made), Some(along)) = (made, along) else { return Ok(false) };
    let smallest = node.version >= 11 && !node.attributes.flag("largest", true)?;
    let operand = b.operand(id)?;
    let order = ArgSort { axis: along, descending: !smallest };
    let indices = b.compute(Action::new(order), &[operand], DType::I64, made[1].1);
    let look_up = Lookup { rule: LookupRule::Gather, axis: along };
    let values = b.compute(Action::new(look_up), &[indices, operand], dtype, made[0].1);
    b.set(Some(made[0].0), values);
    b.set(Some(made[1].0), indices);
    Ok(true)
}
