//! Elementwise functions with a direct counterpart on devices.

use polaris_onnx::Node;
use polaris_ops::copy::Copy;
use polaris_ops::elementwise::Elementwise;
use polaris_ops::{Binary, Function, Ternary, Unary};

use super::{Lowering, array, repeat_to, result};
use crate::Result;
use crate::build::Builder;
use crate::plan::Action;

pub const LOWERINGS: &[(&str, Lowering)] = &[
    ("Abs", |b, n| function(b, n, Unary::Abs)),
    ("Add", |b, n| function(b, n, Binary::Add)),
    ("And", |b, n| function(b, n, Binary::And)),
    ("Cast", cast),
    ("CastLike", cast),
    ("Ceil", |b, n| function(b, n, Unary::Ceil)),
    ("Cos", |b, n| function(b, n, Unary::Cos)),
    ("Div", |b, n| function(b, n, Binary::Div)),
    ("Equal", |b, n| function(b, n, Binary::Equal)),
    ("Erf", |b, n| function(b, n, Unary::Erf)),
    ("Exp", |b, n| function(b, n, Unary::Exp)),
    ("Floor", |b, n| function(b, n, Unary::Floor)),
    ("Greater", |b, n| function(b, n, Binary::Greater)),
    ("GreaterOrEqual", |b, n| function(b, n, Binary::GreaterEqual)),
    ("Less", |b, n| function(b, n, Binary::Less)),
    ("LessOrEqual", |b, n| function(b, n, Binary::LessEqual)),
    ("Log", |b, n| function(b, n, Unary::Log)),
    ("Max", |b, n| chain(b, n, Binary::Maximum)),
    ("Min", |b, n| chain(b, n, Binary::Minimum)),
    ("Mul", |b, n| function(b, n, Binary::Mul)),
    ("Neg", |b, n| function(b, n, Unary::Neg)),
    ("Not", |b, n| function(b, n, Unary::Not)),
    ("Or", |b, n| function(b, n, Binary::Or)),
    ("Pow", |b, n| function(b, n, Binary::Pow)),
    ("Reciprocal", |b, n| function(b, n, Unary::Reciprocal)),
    ("Relu", |b, n| function(b, n, Unary::Relu)),
    ("Round", |b, n| function(b, n, Unary::Round)),
    ("Sigmoid", |b, n| function(b, n, Unary::Sigmoid)),
    ("Sign", |b, n| function(b, n, Unary::Sign)),
    ("Sin", |b, n| function(b, n, Unary::Sin)),
    ("Sqrt", |b, n| function(b, n, Unary::Sqrt)),
    ("Sub", |b, n| function(b, n, Binary::Sub)),
    ("Sum", |b, n| chain(b, n, Binary::Add)),
    ("Tanh", |b, n| function(b, n, Unary::Tanh)),
    ("Where", |b, n| function(b, n, Ternary::Where)),
    ("Xor", |b, n| function(b, n, Binary::Xor)),
];

/// A function with as many operands as the node has.
fn function(b: &mut Builder<'_>, node: &Node, function: impl Into<Function>) -> Result<bool> {
    let function = function.into();
    let count = function.arity();
    let Some((made, out_dtype, shape)) = result(b, node) else { return Ok(false) };
    let arrays: Option<Vec<_>> = (0..count).map(|index| array(b, node, index)).collect();
    let Some(arrays) = arrays else { return Ok(false) };
    let dtype = arrays[count - 1].1;
    // Before version 7 an attribute said which axes of the operands belong together.
    let early = node.version < 7 && node.attributes.get("axis").is_some();
    let fits = node.inputs.len() == count
        && !early
        && function.is_defined_for(dtype)
        && function.output_dtype(dtype) == out_dtype
        && repeat_to(arrays.iter().map(|(_, _, shape)| shape), &shape)
        && arrays
            .iter()
            .enumerate()
            .all(|(at, (_, found, _))| *found == function.input_dtype(at, dtype));
    if !fits {
        return Ok(false);
    }
    let mut operands = Vec::with_capacity(count);
    for (id, ..) in &arrays {
        operands.push(b.operand(*id)?);
    }
    let action = Action::new(Elementwise { function });
    let operand = b.compute_elements(action, &operands, out_dtype, shape)?;
    b.set(Some(made), operand);
    Ok(true)
}

/// A function of two operands, from the first to the last of many.
fn chain(b: &mut Builder<'_>, node: &Node, function: Binary) -> Result<bool> {
    let Some((made, dtype, shape)) = result(b, node) else { return Ok(false) };
    let arrays: Option<Vec<_>> =
        (0..node.inputs.len()).map(|index| array(b, node, index)).collect();
    let Some(arrays) = arrays.filter(|list| !list.is_empty()) else { return Ok(false) };
    let defined = Function::from(function).is_defined_for(dtype)
        && repeat_to(arrays.iter().map(|(_, _, shape)| shape), &shape);
    if !defined || arrays.iter().any(|(_, found, _)| *found != dtype) {
        return Ok(false);
    }
    let mut total = b.operand(arrays[0].0)?;
    for (id, ..) in &arrays[1..] {
        let next = b.operand(*id)?;
        let action = Action::new(Elementwise { function: function.into() });
        total = b.compute_elements(action, &[total, next], dtype, shape)?;
    }
    b.set(Some(made), total);
    Ok(true)
}

/// Between types that devices have. From floating point to integers the ways of devices and of ONNX
/// agree where the number fits the type.
fn cast(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let Some((made, dtype, shape)) = result(b, node) else { return Ok(false) };
    let Some((id, from, _)) = array(b, node, 0) else { return Ok(false) };
    // What is too large wraps in ONNX' reference and saturates on devices.
    if from.is_float() && dtype.is_integer() && dtype.size() < 4 {
        return Ok(false);
    }
    let mut operand = b.operand(id)?;
    if from != dtype {
        operand = b.compute_elements(Action::new(Copy), &[operand], dtype, shape)?;
    }
    b.set(Some(made), operand);
    Ok(true)
}
