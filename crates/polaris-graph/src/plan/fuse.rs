//! Epilogue fusion: matmuls and convolutions absorb a bias, a residual and an activation, if nothing else reads the
//! intermediate result.

use polaris_core::{DType, Layout};
use polaris_onnx::ValueId;
use polaris_ops::conv::FusedConvolution;
use polaris_ops::elementwise::Elementwise;
use polaris_ops::fused::Node;
use polaris_ops::matmul::{Activation, Bias, MatMul};
use polaris_ops::{Binary, Convolution, Expression, Function, Ternary, Unary};

use super::memory::{Life, lives};
use super::{Action, Instruction, Operand, PlanInput, PlanOutput, Side, Slot, Step};

/// Merges instructions as long as there are some to merge; returns how many are gone.
pub fn fuse(
    instructions: &mut Vec<Instruction>,
    slots: &[Slot],
    inputs: &[PlanInput],
    outputs: &[(ValueId, PlanOutput)],
) -> usize {
    let before = instructions.len();
    let lives = lives(instructions, slots, inputs, outputs);
    let mut merged: Vec<Option<Instruction>> = instructions.drain(..).map(Some).collect();
    let touches = touches(&merged, slots.len());
    for first in 0..merged.len() {
        let mut at = first;
        while let Some(next) = follower(&merged, slots, &lives, &touches, at) {
            let Some(both) = merge(&merged[at], &merged[next]) else { break };
            // All that the first one reads is still there when the second one's turn comes.
            merged[at] = None;
            merged[next] = Some(both);
            at = next;
        }
    }
    instructions.extend(merged.into_iter().flatten());
    before - instructions.len()
}

/// How many operands of all instructions lie in each slot.
fn touches(instructions: &[Option<Instruction>], slots: usize) -> Vec<usize> {
    let mut touches = vec![0; slots];
    for instruction in instructions.iter().flatten() {
        instruction.step.for_operands(|operand| touches[operand.slot.0] += 1);
    }
    touches
}

/// The only instruction that reads what this one writes, if there is just one.
fn follower(
    instructions: &[Option<Instruction>],
    slots: &[Slot],
    lives: &[Option<Life>],
    touches: &[usize],
    at: usize,
) -> Option<usize> {
    let Step::Device { action, output, .. } = &instructions[at].as_ref()?.step else { return None };
    if !takes_more(action) {
        return None;
    }
    let slot = output.slot.0;
    let whole = output.layout.elements() * output.dtype.size() == slots[slot].bytes;
    let life = lives[slot].filter(|life| whole && life.last < instructions.len())?;
    (touches[slot] == 2 && life.last > at).then_some(life.last)
}

/// Whether something can be added to what an action does.
fn takes_more(action: &Action) -> bool {
    action.downcast::<MatMul>().is_some()
        || action.downcast::<Convolution>().is_some()
        || action.downcast::<FusedConvolution>().is_some()
}

/// What an instruction on single elements does with one operand of the result's shape.
enum Following {
    Activation(Activation),
    /// Another operand is added.
    Add(usize),
}

fn following(action: &Action, inputs: &[Operand], place: usize) -> Option<Following> {
    if let Some(expression) = action.downcast::<Expression>() {
        return of_expression(expression).map(Following::Activation);
    }
    match action.downcast::<Elementwise>()?.function {
        Function::Binary(Binary::Add) if inputs.len() == 2 => Some(Following::Add(1 - place)),
        Function::Unary(function) => activation(function).map(Following::Activation),
        _ => None,
    }
}

fn activation(function: Unary) -> Option<Activation> {
    Activation::ALL.into_iter().find(|activation| activation.function() == Some(function))
}

/// An expression that is one function of its only operand.
fn of_expression(expression: &Expression) -> Option<Activation> {
    let number = |at: usize| match expression.nodes()[at] {
        Node::Constant(bits) => Some(f64::from_bits(bits)),
        Node::Scalar(index) => expression.scalars().get(index).copied(),
        _ => None,
    };
    let is_input = |at: usize| expression.nodes()[at] == Node::Input(0);
    let functions = expression.nodes().iter().filter(|node| matches!(node, Node::Apply(..)));
    if expression.inputs() != 1 || functions.count() != 1 {
        return None;
    }
    match expression.nodes().last()? {
        Node::Apply(Function::Unary(function), [x, ..]) if is_input(*x) => activation(*function),
        Node::Apply(Function::Ternary(Ternary::Clamp), [x, low, high]) if is_input(*x) => {
            Some(Activation::Clamp { low: number(*low)?, high: number(*high)? })
        }
        _ => None,
    }
}

/// Both instructions as one, if the first can take up what the second does.
fn merge(first: &Option<Instruction>, second: &Option<Instruction>) -> Option<Instruction> {
    let (first, second) = (first.as_ref()?, second.as_ref()?);
    let Step::Device { action, inputs, output } = &first.step else { return None };
    let action = &followed(action, inputs, first.side, output)?;
    let Step::Device { action: then, inputs: others, output: target } = &second.step else {
        return None;
    };
    let place = others.iter().position(|operand| operand.slot == output.slot)?;
    // A view of the first rows lies where the whole does, and so does an empty one.
    let same_memory = others[place].layout == target.layout
        && target.layout.offset() == 0
        && target.layout.elements() == output.layout.elements();
    if !same_memory || target.dtype != output.dtype || first.side != second.side {
        return None;
    }
    let mut inputs = inputs.clone();
    let action = match following(then, others, place)? {
        Following::Activation(activation) => with_activation(action, activation)?,
        Following::Add(other) => {
            let addend = added(
                output,
                target,
                &others[other],
                channel_axis(action, output.layout.shape().rank()),
            )?;
            with_addend(action, &mut inputs, addend)?
        }
    };
    let output = Operand { slot: target.slot, ..*output };
    let step = Step::Device { action, inputs, output };
    Some(Instruction { step, side: first.side, node: second.node })
}

/// The action in the form that takes more.
fn followed(action: &Action, inputs: &[Operand], side: Side, output: &Operand) -> Option<Action> {
    match action.downcast::<Convolution>() {
        // The CPU has packed weights for that.
        Some(problem) => (side == Side::Gpu && output.dtype != DType::F64)
            .then(|| Action::new(FusedConvolution::plain(*problem, inputs.len() == 3))),
        None => Some(action.clone()),
    }
}

/// The axis of the result along which a bias has its values, counted from the end.
fn channel_axis(action: &Action, rank: usize) -> usize {
    match action.downcast::<FusedConvolution>() {
        Some(_) => rank - 1,
        None => 1,
    }
}

/// Something that is added to a result.
#[derive(Clone, Copy)]
enum Addend {
    Bias(Operand),
    Whole(Operand),
}

/// An operand of the second instruction as the first one would take it. Both write the same memory, so
/// an axis is known by its length and stride, whatever the shapes are.
fn added(output: &Operand, target: &Operand, other: &Operand, from_end: usize) -> Option<Addend> {
    if other.dtype != output.dtype || other.slot == output.slot {
        return None;
    }
    let layout = other.layout.broadcast_to("add", target.layout.shape()).ok()?;
    if layout.strides() == target.layout.strides() && layout.shape().elements() > 1 {
        let (shape, strides) = (output.layout.shape(), output.layout.strides());
        let layout = Layout::new(*shape, strides, other.layout.offset()).ok()?;
        return Some(Addend::Whole(Operand { layout, ..*other }));
    }
    let rank = output.layout.shape().rank();
    let axis = rank.checked_sub(from_end)?;
    let channels = (output.layout.shape()[axis], output.layout.strides()[axis]);
    let mut moving = (0..layout.shape().rank())
        .filter(|&axis| layout.shape()[axis] != 1 && layout.strides()[axis] != 0);
    let (along, None) = (moving.next()?, moving.next()) else { return None };
    if channels != (target.layout.shape()[along], target.layout.strides()[along]) {
        return None;
    }
    let vector = polaris_core::Shape::new(&[channels.0]).ok()?;
    let layout = Layout::new(vector, &[layout.strides()[along]], layout.offset()).ok()?;
    Some(Addend::Bias(Operand { layout, ..*other }))
}

fn with_activation(action: &Action, activation: Activation) -> Option<Action> {
    if let Some(op) = action.downcast::<FusedConvolution>() {
        let free = op.activation == Activation::Identity;
        return free.then(|| Action::new(FusedConvolution { activation, ..*op }));
    }
    let mut op = *action.downcast::<MatMul>()?;
    let epilogue = &op.epilogue;
    let free =
        epilogue.activation == Activation::Identity && !epilogue.residual && epilogue.scale == 1.0;
    op.epilogue.activation = activation;
    free.then(|| Action::new(op))
}

/// Operands stand in the order C, bias, residual, after the factors.
fn with_addend(action: &Action, inputs: &mut Vec<Operand>, addend: Addend) -> Option<Action> {
    match action.downcast::<FusedConvolution>() {
        Some(op) => convolution_with(*op, inputs, addend).map(Action::new),
        None => product_with(*action.downcast::<MatMul>()?, inputs, addend).map(Action::new),
    }
}

fn product_with(mut op: MatMul, inputs: &mut Vec<Operand>, addend: Addend) -> Option<MatMul> {
    let epilogue = op.epilogue;
    let plain = epilogue.activation == Activation::Identity && epilogue.scale == 1.0;
    if epilogue.residual || epilogue.row_scales || epilogue.column_scales {
        return None;
    }
    match addend {
        // A bias has the type of the accumulators, which half precision has not.
        Addend::Bias(bias)
            if plain
                && epilogue.bias.is_none()
                && matches!(bias.dtype, DType::F32 | DType::F64) =>
        {
            op.epilogue.bias = Some(Bias::PerColumn);
            inputs.push(bias);
        }
        Addend::Whole(whole) if plain && op.beta == 0.0 => {
            op.beta = 1.0;
            inputs.insert(2, whole);
        }
        Addend::Whole(whole) => {
            op.epilogue.residual = true;
            inputs.push(whole);
        }
        Addend::Bias(_) => return None,
    }
    Some(op)
}

fn convolution_with(
    mut op: FusedConvolution,
    inputs: &mut Vec<Operand>,
    addend: Addend,
) -> Option<FusedConvolution> {
    match addend {
        _ if !op.is_plain() => return None,
        Addend::Bias(_) if op.bias => return None,
        Addend::Bias(bias) => {
            op.bias = true;
            inputs.push(bias);
        }
        Addend::Whole(whole) => {
            op.residual = true;
            inputs.push(whole);
        }
    }
    Some(op)
}
