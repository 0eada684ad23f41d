//! LSTM: one matmul for the inputs of all steps, then a matmul and two passes for each step.

use polaris_core::Shape;
use polaris_onnx::{Node, Tensor};
use polaris_ops::copy::Copy;
use polaris_ops::fused::Builder as Formula;
use polaris_ops::matmul::Bias;
use polaris_ops::{MatMul, Unary};

use super::{Lowering, array, input, output};
use crate::Result;
use crate::build::Builder;
use crate::plan::{Action, Operand};

pub const LOWERINGS: &[(&str, Lowering)] = &[("LSTM", lstm)];

/// Longer sequences would make plans that are longer than they are useful.
const MOST_STEPS: usize = 4096;

/// The plain form: usual activations, no peepholes, all sequences of full length.
fn lstm(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((x, dtype, shape)), Some((w, w_type, weight)), Some((r, r_type, _))) =
        (array(b, node, 0), array(b, node, 1), array(b, node, 2))
    else {
        return Ok(false);
    };
    let attributes = &node.attributes;
    let plain = ["activations", "activation_alpha", "activation_beta", "clip"]
        .iter()
        .all(|name| attributes.get(name).is_none())
        && !attributes.flag("input_forget", false)?
        && !attributes.flag("layout", false)?
        && input(node, 4).is_none()
        && input(node, 7).is_none();
    let float = dtype.is_float() && dtype.size() >= 4 && w_type == dtype && r_type == dtype;
    let optional = [3, 5, 6];
    let typed = optional.iter().all(|&at| {
        input(node, at).is_none_or(|id| b.array_type(id).is_some_and(|(found, _)| found == dtype))
    });
    let (&[steps, batch, features], &[directions, gates, width]) = (shape.dims(), weight.dims())
    else {
        return Ok(false);
    };
    let fits = plain
        && float
        && typed
        && width == features
        && gates % 4 == 0
        && (1..=MOST_STEPS).contains(&steps);
    if !fits || shape.elements() == 0 || !(1..=2).contains(&directions) {
        return Ok(false);
    }
    let hidden = gates / 4;
    if attributes.int("hidden_size")?.is_some_and(|said| usize::try_from(said) != Ok(hidden)) {
        return Ok(false);
    }
    let backward_only = attributes.string_or("direction", "forward")? == "reverse";
    let sequence = b.new_array(dtype, Shape::new(&[steps, directions, batch, hidden])?);
    let last_shape = Shape::new(&[directions, batch, hidden])?;
    let (last_h, last_c) = (b.new_array(dtype, last_shape), b.new_array(dtype, last_shape));
    let rows = b.operand(x)?;
    let rows = b.reshaped(rows, Shape::new(&[steps * batch, features])?)?;
    for direction in 0..directions {
        let of = |b: &mut Builder<'_>, id| -> Result<Operand> {
            let operand = b.operand(id)?;
            part(operand, 0, direction)
        };
        let turned = |operand: Operand| -> Result<Operand> {
            Ok(Operand { layout: operand.layout.permute(&[1, 0])?, ..operand })
        };
        let (w, r) = (of(b, w)?, of(b, r)?);
        let (w, r) = (turned(w)?, turned(r)?);
        let gate_shape = Shape::new(&[steps * batch, gates])?;
        let inputs = match input(node, 3) {
            None => b.compute(Action::new(MatMul::default()), &[rows, w], dtype, gate_shape),
            Some(id) => {
                // Both biases are only ever added together.
                let bias = of(b, id)?;
                let sum = Formula::new(2);
                let [first, second] = sum.inputs();
                let sum = sum.finish(first + second)?;
                let halves = [
                    Operand { layout: bias.layout.slice(0, 0..gates, 1)?, ..bias },
                    Operand { layout: bias.layout.slice(0, gates..2 * gates, 1)?, ..bias },
                ];
                let bias = b.compute(Action::new(sum), &halves, dtype, Shape::new(&[gates])?);
                let mut problem = MatMul::default();
                problem.epilogue.bias = Some(Bias::PerColumn);
                b.compute(Action::new(problem), &[rows, w, bias], dtype, gate_shape)
            }
        };
        let inputs = b.reshaped(inputs, Shape::new(&[steps, batch, gates])?)?;
        let state_shape = Shape::new(&[batch, hidden])?;
        let initial = |b: &mut Builder<'_>, index: usize| -> Result<Operand> {
            match input(node, index) {
                Some(id) => of(b, id),
                None => {
                    let element = crate::plan::element_of(dtype);
                    b.new_constant(&Tensor::zeros(element, &state_shape)?)
                }
            }
        };
        let (mut h, mut c) = (initial(b, 5)?, initial(b, 6)?);
        for step in 0..steps {
            let reverse = backward_only || direction == 1;
            let at = if reverse { steps - 1 - step } else { step };
            let mut problem = MatMul::default();
            problem.epilogue.residual = true;
            let residual = part(inputs, 0, at)?;
            let gate_shape = Shape::new(&[batch, gates])?;
            let sums = b.compute(Action::new(problem), &[h, r, residual], dtype, gate_shape);
            // Input, output, forget and cell gates lie side by side.
            let gate = |index: usize| -> Result<Operand> {
                let layout = sums.layout.slice(1, index * hidden..(index + 1) * hidden, 1)?;
                Ok(Operand { layout, ..sums })
            };
            c = b.compute(
                Action::new(next_cell()?),
                &[gate(0)?, gate(2)?, gate(3)?, c],
                dtype,
                state_shape,
            );
            let target = part(part(sequence, 0, at)?, 0, direction)?;
            b.emit(Action::new(next_hidden()?), &[gate(1)?, c], target);
            h = target;
        }
        b.emit(Action::new(Copy), &[h], part(last_h, 0, direction)?);
        b.emit(Action::new(Copy), &[c], part(last_c, 0, direction)?);
    }
    b.set(output(node, 0), sequence);
    b.set(output(node, 1), last_h);
    b.set(output(node, 2), last_c);
    Ok(true)
}

/// The elements at one index of an axis, without that axis.
fn part(operand: Operand, axis: usize, index: usize) -> Result<Operand> {
    let sliced = operand.layout.slice(axis, index..index + 1, 1)?;
    let mut dims = sliced.shape().to_vec();
    let mut strides = sliced.strides().to_vec();
    dims.remove(axis);
    strides.remove(axis);
    let layout = polaris_core::Layout::new(Shape::new(&dims)?, &strides, sliced.offset())?;
    Ok(Operand { layout, ..operand })
}

/// `sigmoid(forget) * c + sigmoid(input) * tanh(cell)`.
fn next_cell() -> Result<polaris_ops::Expression> {
    let build = Formula::new(4);
    let [input, forget, cell, c] = build.inputs();
    let kept = forget.unary(Unary::Sigmoid) * c;
    Ok(build.finish(kept + input.unary(Unary::Sigmoid) * cell.unary(Unary::Tanh))?)
}

/// `sigmoid(output) * tanh(c)`.
fn next_hidden() -> Result<polaris_ops::Expression> {
    let build = Formula::new(2);
    let [output, c] = build.inputs();
    Ok(build.finish(output.unary(Unary::Sigmoid) * c.unary(Unary::Tanh))?)
}
