//! Batch normalisation, and constant factors and summands of channels, after a convolution or a matmul: folded into
//! its weight and bias.

use polaris_onnx::{ElementType, Graph, Node, Tensor, ValueId};

use super::Place;
use super::edits::Edits;
use super::matching::{View, either, is, only_result, operand};

/// What follows: each channel times a factor, plus a summand.
struct Line {
    factor: Vec<f64>,
    summand: Vec<f64>,
}

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes() {
        fold(&view, &mut edits, at, node);
    }
    edits.apply(graph)
}

/// Folds a node into what makes its operand.
fn fold(view: &View<'_>, edits: &mut Edits, at: usize, node: &Node) -> Option<()> {
    let result = only_result(node)?;
    let (x, parameter) = followed(view, node)?;
    let (before, linear) = view.maker(x).filter(|_| view.is_private(x))?;
    // What was changed in this round is folded in the next one.
    if edits.has(before) || only_result(linear).is_none() {
        return None;
    }
    let weight = Weight::of(view, linear)?;
    let line = match parameter {
        Some(constant) => per_channel(view, node, constant, &weight)?,
        None => statistics(view, node, weight.channels)?,
    };
    let (weight_tensor, bias_tensor) = weight.with(view, linear, &line)?;
    let name = view.graph.value(weight.id).name.clone();
    let mut made = linear.clone();
    made.inputs.resize(3, None);
    if line.factor.iter().any(|&factor| factor != 1.0) {
        made.inputs[1] = Some(edits.constant(&name, weight_tensor));
    }
    made.inputs[2] = Some(edits.constant(&linear.path, bias_tensor));
    if is(&made, "Gemm") {
        made.attributes.set("beta", polaris_onnx::Attribute::Float(1.0));
    }
    made.outputs = vec![Some(result)];
    edits.replace(at, vec![made]);
    Some(())
}

/// The value that a node scales or shifts, and by which constant; none for batch normalisation.
fn followed(view: &View<'_>, node: &Node) -> Option<(ValueId, Option<ValueId>)> {
    if is(node, "BatchNormalization") {
        return Some((operand(node, 0)?, None));
    }
    if (is(node, "Mul") || is(node, "Add")) && node.version >= 7 {
        let constant = |[own, other]: [ValueId; 2]| {
            view.constant(other).filter(|_| view.constant(own).is_none())?;
            Some((own, Some(other)))
        };
        return either(node).find_map(constant);
    }
    None
}

/// The line of a batch normalisation by the statistics that are given.
fn statistics(view: &View<'_>, node: &Node, channels: usize) -> Option<Line> {
    let attributes = &node.attributes;
    let training = attributes.flag("training_mode", false).ok()?;
    if training || node.version < 9 && attributes.int("spatial").ok()? == Some(0) {
        return None;
    }
    let epsilon = f64::from(attributes.float_or("epsilon", 1e-5).ok()?);
    let numbers = |index: usize| -> Option<Vec<f64>> {
        let tensor = view.constant(operand(node, index)?)?;
        tensor.to_f64().ok().filter(|list| list.len() == channels)
    };
    let [scale, bias, mean, variance] = [numbers(1)?, numbers(2)?, numbers(3)?, numbers(4)?];
    let factor: Vec<f64> = scale
        .iter()
        .zip(&variance)
        .map(|(scale, variance)| scale / (variance + epsilon).sqrt())
        .collect();
    let shifted = bias.iter().zip(&mean).zip(&factor);
    let summand = shifted.map(|((bias, mean), factor)| bias - mean * factor).collect();
    Some(Line { factor, summand })
}

/// The line of a constant that has a number for each channel, or one for all.
fn per_channel(view: &View<'_>, node: &Node, constant: ValueId, weight: &Weight) -> Option<Line> {
    let tensor = view.constant(constant)?;
    // The axis of channels, counted from the end as axes are where shapes meet.
    let from_end = weight.rank - 1;
    let lengths = tensor.shape().iter().rev().enumerate();
    let fits = tensor.rank() <= weight.rank
        && tensor.element() == weight.element
        && lengths.clone().all(|(at, &length)| length == 1 || at + 1 == from_end);
    let numbers = tensor.to_f64().ok().filter(|_| fits)?;
    let numbers = match numbers.as_slice() {
        [only] => vec![*only; weight.channels],
        list if list.len() == weight.channels => numbers,
        _ => return None,
    };
    Some(if is(node, "Mul") {
        Line { factor: numbers, summand: vec![0.0; weight.channels] }
    } else {
        Line { factor: vec![1.0; weight.channels], summand: numbers }
    })
}

/// The constant weight of a linear operator.
struct Weight {
    id: ValueId,
    element: ElementType,
    /// Of the result.
    rank: usize,
    channels: usize,
    /// The channel of the result that an element of the weight counts for: which axis, and how often the channels
    /// begin again along the first axis.
    axis: usize,
    groups: usize,
}

impl Weight {
    fn of(view: &View<'_>, node: &Node) -> Option<Self> {
        let id = operand(node, 1)?;
        let tensor = view.constant(id)?;
        let groups = usize::try_from(node.attributes.int_or("group", 1).ok()?).ok()?;
        let (axis, groups) = match node.operator.as_str() {
            _ if !node.domain.is_empty() => return None,
            "Conv" => (0, 1),
            "ConvTranspose" => (1, groups),
            "Gemm" if node.attributes.flag("transB", false).ok()? => (0, 1),
            "Gemm" => (1, 1),
            _ => return None,
        };
        // Half precisions would be rounded once more.
        let element = tensor.element();
        let fits = matches!(element, ElementType::F32 | ElementType::F64) && tensor.rank() >= 2;
        let channels = tensor.shape().get(axis)?.checked_mul(groups)?;
        let even = groups > 0 && tensor.shape()[0].is_multiple_of(groups);
        (fits && even).then_some(Self { id, element, rank: tensor.rank(), channels, axis, groups })
    }

    /// The weight and the bias with a line folded in.
    fn with(&self, view: &View<'_>, node: &Node, line: &Line) -> Option<(Tensor, Tensor)> {
        let tensor = view.constant(self.id)?;
        let shape = tensor.shape();
        let inner: usize = shape[self.axis + 1..].iter().product();
        let per_group = shape[self.axis];
        let first = shape[0] / self.groups;
        let channel = |at: usize| match self.axis {
            0 => at / inner,
            _ => at / inner % per_group + at / (inner * per_group) / first * per_group,
        };
        let mut weight = tensor.to_f64().ok()?;
        for (at, value) in weight.iter_mut().enumerate() {
            *value *= line.factor[channel(at)];
        }
        let bias = self.bias(view, node)?;
        let lines = bias.iter().zip(&line.factor).zip(&line.summand);
        let bias: Vec<f64> =
            lines.map(|((bias, factor), summand)| bias * factor + summand).collect();
        let all_finite = weight.iter().chain(&bias).all(|value| value.is_finite());
        let weight = Tensor::from_f64(self.element, shape, &weight).ok()?;
        let bias = Tensor::from_f64(self.element, &[self.channels], &bias).ok()?;
        all_finite.then_some((weight, bias))
    }

    /// The bias, with a number for each channel.
    fn bias(&self, view: &View<'_>, node: &Node) -> Option<Vec<f64>> {
        let Some(id) = operand(node, 2) else { return Some(vec![0.0; self.channels]) };
        let tensor = view.constant(id)?;
        // That of a matmul may have rows, and a factor.
        let one_row = tensor.shape().last().is_none_or(|&last| last == tensor.elements());
        let beta = match is(node, "Gemm") {
            true => f64::from(node.attributes.float_or("beta", 1.0).ok()?),
            false => 1.0,
        };
        let numbers = tensor.to_f64().ok().filter(|_| one_row)?;
        match numbers.as_slice() {
            [only] => Some(vec![only * beta; self.channels]),
            list if list.len() == self.channels => Some(list.iter().map(|x| x * beta).collect()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dead;
    use super::super::testing::{check_pass, check_unchanged, floats};
    use super::*;
    use polaris_onnx::{Attribute, ElementType::F32, GraphBuilder};

    fn both(graph: &mut Graph, place: Place) -> usize {
        let mut found = 0;
        for _ in 0..4 {
            found += run(graph, place);
            dead::run(graph, place);
        }
        found
    }

    fn normalised(draft: &mut GraphBuilder, x: ValueId, channels: usize) -> ValueId {
        let positive: Vec<f32> = (0..channels).map(|at| 0.5 + at as f32).collect();
        let variance = draft.constant(Tensor::new(&[channels], positive).unwrap());
        let numbers = draft.constant(floats(&[channels]));
        draft.node("BatchNormalization", [x, numbers, numbers, numbers, variance])
    }

    #[test]
    fn every_operator_takes_a_normalisation() {
        type Case = (&'static str, Vec<usize>, Vec<usize>, Option<Vec<usize>>, &'static str, i64);
        let cases: Vec<Case> = vec![
            ("Conv", vec![2, 4, 5, 5], vec![6, 4, 3, 3], None, "group", 1),
            ("Conv", vec![2, 4, 5, 5], vec![6, 2, 3, 3], Some(vec![6]), "group", 2),
            ("ConvTranspose", vec![2, 4, 5, 5], vec![4, 6, 3, 3], Some(vec![6]), "group", 1),
            ("ConvTranspose", vec![2, 4, 5, 5], vec![4, 3, 3, 3], None, "group", 2),
            ("Gemm", vec![3, 4], vec![4, 6], Some(vec![6]), "transB", 0),
            ("Gemm", vec![3, 4], vec![6, 4], Some(vec![1, 6]), "transB", 1),
        ];
        for (operator, image, weight, bias, name, value) in cases {
            let mut draft = GraphBuilder::new("test");
            let x = draft.input("x", F32, &image);
            let mut inputs = vec![x, draft.constant(floats(&weight))];
            if let Some(shape) = bias {
                inputs.push(draft.constant(floats(&shape)));
            }
            let mut attributes = vec![(name, Attribute::from(value))];
            if operator == "Gemm" {
                attributes.push(("beta", 0.3.into()));
            }
            let made = draft.node_with(operator, &inputs, attributes);
            let made = normalised(&mut draft, made, 6);
            draft.output_as(made, "y");
            let graph = check_pass(draft, both, &[("x", floats(&image))], 1e-6);
            assert_eq!(graph.nodes.len(), 1, "{graph}");
        }
    }

    #[test]
    fn factors_and_summands_of_channels_are_folded() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["n", "4", "5", "5"]);
        let weight = draft.constant(floats(&[6, 4, 3, 3]));
        let made = draft.node("Conv", [x, weight]);
        let (factor, summand) = (draft.constant(floats(&[6, 1, 1])), draft.number(0.3));
        let made = draft.node("Mul", [factor, made]);
        let made = draft.node("Add", [made, summand]);
        let made = normalised(&mut draft, made, 6);
        draft.output(made);
        let graph = check_pass(draft, both, &[("x", floats(&[2, 4, 5, 5]))], 1e-6);
        assert_eq!(graph.nodes.len(), 1, "{graph}");
    }

    #[test]
    fn what_others_need_and_what_is_no_channel_stays() {
        for (shape, shown) in
            [(vec![6, 1, 1], true), (vec![3, 1], false), (vec![1, 1, 6, 1, 1], false)]
        {
            let mut draft = GraphBuilder::new("test");
            let x = draft.input("x", F32, ["n", "4", "5", "5"]);
            let weight = draft.constant(floats(&[6, 4, 3, 3]));
            let made = draft.node("Conv", [x, weight]);
            if shown {
                draft.output(made);
            }
            let factor = draft.constant(floats(&shape));
            let made = draft.node("Mul", [factor, made]);
            draft.output(made);
            check_unchanged(draft, run);
        }
    }
}
