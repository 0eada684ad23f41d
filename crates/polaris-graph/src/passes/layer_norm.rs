//! Fuses layer and RMS normalisation, which exporters of early opsets decompose into reductions and divisions.

use polaris_onnx::{Attribute, Dim, Graph, Node, Tensor, ValueId};

use super::Place;
use super::edits::{Edits, instead, with};
use super::matching::{View, either, operand, pair, reduced_axes, same_shape};
use super::products::Product;

/// A normalisation that was found.
struct Found {
    x: ValueId,
    /// Whether the mean is subtracted.
    centred: bool,
    epsilon: f64,
    /// The first of the axes, all of them up to the last.
    axis: i64,
    /// The lengths of those axes.
    lengths: Vec<Dim>,
}

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes() {
        if let Some(found) = find(&view, node) {
            replace(&view, &mut edits, at, node, &found);
        }
    }
    edits.apply(graph)
}

/// A normalisation whose division is this node, or its multiplication by a reciprocal.
fn find(view: &View<'_>, node: &Node) -> Option<Found> {
    let result = node.outputs.first().copied().flatten()?;
    let (x, root) = divided(view, node)?;
    let sum = operand(view.made_by(root, "Sqrt")?, 0)?;
    let (mean, epsilon) = either(view.made_by(sum, "Add")?)
        .find_map(|[mean, number]| Some((mean, view.factor(number, mean)?)))?;
    let (square, axes) = mean_of(view, mean)?;
    let is_square = Product::of_value(view, square).is(1.0, &[x, x]);
    let private = [root, sum, mean, square].into_iter().all(|id| view.is_private(id));
    if !is_square || !private || !view.is_float(x) || epsilon < 0.0 {
        return None;
    }
    let shape = view.shape(result)?;
    let first = first_axis(&axes, shape.len())?;
    let (x, centred) = match deviation(view, x, &axes) {
        Some(own) if view.is_used(x, uses_in_pattern(view, x, square)) => (own, true),
        _ => (x, false),
    };
    let axis = first as i64 - shape.len() as i64;
    Some(Found { x, centred, epsilon, axis, lengths: shape[first..].to_vec() })
}

/// What is divided by what: `a / b`, `a * (1 / b)` or `a * reciprocal(b)`.
fn divided(view: &View<'_>, node: &Node) -> Option<(ValueId, ValueId)> {
    let [a, b] = pair(node)?;
    match node.operator.as_str() {
        "Div" if node.domain.is_empty() => Some((a, b)),
        "Mul" if node.domain.is_empty() => either(node).find_map(|[a, inverse]| {
            let below = match view.made_by(inverse, "Reciprocal") {
                Some(node) => operand(node, 0)?,
                None => {
                    let [one, below] = pair(view.made_by(inverse, "Div")?)?;
                    view.factor(one, below).filter(|&one| one == 1.0)?;
                    below
                }
            };
            view.is_private(inverse).then_some((a, below))
        }),
        _ => None,
    }
}

/// What a mean is of, and along which axes; they must stay in the shape.
fn mean_of(view: &View<'_>, id: ValueId) -> Option<(ValueId, Vec<i64>)> {
    let node = view.made_by(id, "ReduceMean")?;
    let kept = node.attributes.flag("keepdims", true).ok()?;
    let axes = reduced_axes(view, node).filter(|axes| kept && !axes.is_empty())?;
    Some((operand(node, 0)?, axes))
}

/// What the mean along these axes was subtracted from.
fn deviation(view: &View<'_>, id: ValueId, axes: &[i64]) -> Option<ValueId> {
    let [x, mean] = pair(view.made_by(id, "Sub")?)?;
    let (of, own) = mean_of(view, mean)?;
    (of == x && own == axes && view.is_private(mean)).then_some(x)
}

/// How often the deviation is needed inside a normalisation: above, and once or twice for the square.
fn uses_in_pattern(view: &View<'_>, x: ValueId, square: ValueId) -> usize {
    let of_square = view
        .maker(square)
        .map_or(0, |(_, node)| node.inputs.iter().flatten().filter(|&&input| input == x).count());
    1 + of_square
}

/// The first of axes that are the last ones of a shape.
fn first_axis(axes: &[i64], rank: usize) -> Option<usize> {
    let rank = rank as i64;
    let mut sorted: Vec<i64> =
        axes.iter().map(|&axis| if axis < 0 { axis + rank } else { axis }).collect();
    sorted.sort_unstable();
    let first = *sorted.first().filter(|&&first| first >= 0)?;
    sorted.iter().copied().eq(first..rank).then(|| usize::try_from(first).ok()).flatten()
}

/// Puts the operator where the chain ends: at the division, or at the weight or the bias that follow.
fn replace(
    view: &View<'_>,
    edits: &mut Edits,
    at: usize,
    node: &Node,
    found: &Found,
) -> Option<()> {
    let mut end = (at, node);
    let (mut weight, mut bias) = (None, None);
    if let Some((next, parameter)) = followed_by(view, end.1, "Mul", found) {
        (end, weight) = (next, Some(parameter));
    }
    if let Some((next, parameter)) =
        followed_by(view, end.1, "Add", found).filter(|_| found.centred)
    {
        (end, bias) = (next, Some(parameter));
    }
    let result = end.1.outputs.first().copied().flatten()?;
    let weight = match weight {
        Some(weight) => weight,
        None => edits.constant(&node.path, ones(view, found)?),
    };
    let mut inputs = vec![Some(found.x), Some(weight)];
    inputs.extend(bias.map(Some));
    let (operator, version) =
        if found.centred { ("LayerNormalization", 17) } else { ("RMSNormalization", 23) };
    let made = instead(end.1, operator, version, &inputs, result);
    let made = with(made, "axis", Attribute::Int(found.axis));
    let made = with(made, "epsilon", Attribute::Float(found.epsilon as f32));
    edits.replace(end.0, vec![made]);
    Some(())
}

/// The only user of a node's result, if it combines it with a parameter of the shape of what is normalised.
fn followed_by<'g>(
    view: &View<'g>,
    node: &Node,
    operator: &str,
    found: &Found,
) -> Option<((usize, &'g Node), ValueId)> {
    let result = node.outputs.first().copied().flatten()?;
    let (at, next) =
        view.sole_user(result).filter(|(_, next)| super::matching::is(next, operator))?;
    let parameter = either(next).find_map(|[own, other]| (own == result).then_some(other))?;
    let fits = view.shape(parameter).is_some_and(|shape| same_shape(shape, &found.lengths))
        && view.element(parameter) == view.element(found.x);
    fits.then_some(((at, next), parameter))
}

/// A weight that changes nothing.
fn ones(view: &View<'_>, found: &Found) -> Option<Tensor> {
    let lengths: Vec<usize> = found.lengths.iter().map(Dim::known).collect::<Option<_>>()?;
    let count = lengths.iter().try_fold(1usize, |count, &length| count.checked_mul(length))?;
    if count > 1 << 20 {
        return None;
    }
    Tensor::from_f64(view.element(found.x)?, &lengths, &vec![1.0; count]).ok()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{and_dead, check_pass, check_unchanged, count, floats};
    use super::*;
    use polaris_onnx::{ElementType::F32, GraphBuilder};

    struct Form {
        centred: bool,
        power: bool,
        reciprocal: bool,
        weight: bool,
        bias: bool,
    }

    fn written_out(draft: &mut GraphBuilder, x: ValueId, form: &Form) -> ValueId {
        let axes = [("axes", [-1])];
        let mut d = x;
        if form.centred {
            let mean = draft.node_with("ReduceMean", [x], axes);
            d = draft.node("Sub", [x, mean]);
        }
        let two = draft.number(2.0);
        let square =
            if form.power { draft.node("Pow", [d, two]) } else { draft.node("Mul", [d, d]) };
        let variance = draft.node_with("ReduceMean", [square], axes);
        let epsilon = draft.number(1e-3);
        let sum = draft.node("Add", [variance, epsilon]);
        let root = draft.node("Sqrt", [sum]);
        let mut made = if form.reciprocal {
            let inverse = draft.node("Reciprocal", [root]);
            draft.node("Mul", [d, inverse])
        } else {
            draft.node("Div", [d, root])
        };
        if form.weight {
            let weight = draft.constant(floats(&[6]));
            made = draft.node("Mul", [weight, made]);
        }
        if form.bias {
            let bias = draft.constant(floats(&[6]));
            made = draft.node("Add", [made, bias]);
        }
        made
    }

    #[test]
    fn every_form_is_found() {
        for bits in 0..32 {
            let bit = |at: u32| bits >> at & 1 == 1;
            let form = Form {
                centred: bit(0),
                power: bit(1),
                reciprocal: bit(2),
                weight: bit(3),
                bias: bit(4),
            };
            let mut draft = GraphBuilder::new("test");
            let x = draft.input("x", F32, ["n", "3", "6"]);
            let made = written_out(&mut draft, x, &form);
            draft.output_as(made, "y");
            let graph = check_pass(draft, and_dead(run), &[("x", floats(&[2, 3, 6]))], 1e-5);
            let operator = if form.centred { "LayerNormalization" } else { "RMSNormalization" };
            assert_eq!(count(&graph, operator), 1, "{graph}");
            let extra = usize::from(form.bias && !form.centred);
            assert_eq!(graph.nodes.len(), 1 + extra, "{graph}");
        }
    }

    #[test]
    fn other_axes_and_values_that_others_need_stay() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["3", "6"]);
        let square = draft.node("Mul", [x, x]);
        let mean = draft.node_with("ReduceMean", [square], [("axes", [0])]);
        let epsilon = draft.number(1e-5);
        let sum = draft.node("Add", [mean, epsilon]);
        let root = draft.node("Sqrt", [sum]);
        let made = draft.node("Div", [x, root]);
        draft.output(made);
        check_unchanged(draft, run);

        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["3", "6"]);
        let form =
            Form { centred: true, power: true, reciprocal: false, weight: false, bias: false };
        let made = written_out(&mut draft, x, &form);
        draft.output(made);
        draft.output(ValueId(made.0 - 1));
        check_unchanged(draft, run);
    }
}
