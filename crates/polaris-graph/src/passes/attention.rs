//! Fuses attention: `softmax(scale * q kᵀ + mask) v`.

use polaris_onnx::{Attribute, Dim, Graph, Node, Tensor, ValueId};

use super::Place;
use super::causal::{self, Sight};
use super::edits::{Edits, instead, with};
use super::matching::{View, either, is, only_result, operand, pair, same_length};
use super::products::Product;

/// An attention that was found.
struct Found {
    q: ValueId,
    /// Keys before they are turned, and how they are turned: the axes of what is wanted.
    k: ValueId,
    order: Vec<usize>,
    v: ValueId,
    scale: f64,
    mask: Mask,
}

/// Who sees whom.
enum Mask {
    Nothing,
    /// A query sees the keys up to its own place.
    Causal,
    /// Numbers that are added, or bools that say who is seen.
    Table(ValueId),
    /// Truth values that say who is not seen.
    Hidden(ValueId),
}

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes().filter(|(_, node)| is(node, "MatMul")) {
        let found = find(&view, node).zip(only_result(node));
        if let Some(nodes) =
            found.and_then(|(found, result)| written(&mut edits, node, &found, result))
        {
            edits.replace(at, nodes);
        }
    }
    edits.apply(graph)
}

/// An attention whose product with the values is this node.
fn find(view: &View<'_>, node: &Node) -> Option<Found> {
    let [weights, v] = pair(node)?;
    let softmax = view.made_by(weights, "Softmax").filter(|_| view.is_private(weights))?;
    let rank = view.rank(v).filter(|rank| (3..=4).contains(rank))?;
    let default = if softmax.version < 13 { 1 } else { -1 };
    let axis = softmax.attributes.int_or("axis", default).ok()?;
    if axis != -1 && axis != rank as i64 - 1 {
        return None;
    }
    let scores = operand(softmax, 0)?;
    let (product, scale, mask) = masked(view, scores)?;
    let [q, k] = pair(product)?;
    let (q, of_q) = scaled(view, q);
    let (k, of_k) = scaled(view, k);
    let [batch @ .., _, _] = view.shape(q)? else { return None };
    // A product repeats what it is multiplied with, attention does not.
    let repeats = [k, v].into_iter().any(|id| {
        let other =
            view.shape(id).and_then(|shape| shape.len().checked_sub(2).map(|n| &shape[..n]));
        other.is_none_or(|other| !super::matching::same_shape(batch, other))
    });
    if repeats || batch.len() + 2 != rank || !view.is_float(q) {
        return None;
    }
    let scale = scale * of_q * of_k;
    let turned = turned(view, k, rank)?;
    let scale = scale * turned.scale;
    (scale.is_finite() && scale != 0.0).then_some(Found {
        q,
        k: turned.k,
        order: turned.order,
        v,
        scale,
        mask,
    })
}

/// What is inside the softmax: the product of queries and keys, what it is multiplied by, and who sees
/// whom.
fn masked<'g>(view: &View<'g>, scores: ValueId) -> Option<(&'g Node, f64, Mask)> {
    let (_, node) = view.maker(scores).filter(|_| view.is_private(scores))?;
    if let Some(plain) = Plain::of(view, scores) {
        return Some((plain.node, plain.scale, Mask::Nothing));
    }
    if is(node, "Add") {
        return either(node).find_map(|[own, table]| {
            let plain = Plain::of(view, own)?;
            let fits = broadcasts(view, table, plain.product)
                && view.element(table) == view.element(plain.product);
            let mask = match causal::of_numbers(view, table) {
                Some(shape) if is_square_of(view, shape, plain.product) => Mask::Causal,
                _ => Mask::Table(table),
            };
            fits.then_some((plain.node, plain.scale, mask))
        });
    }
    if is(node, "Where") {
        let &[Some(choice), Some(a), Some(b)] = node.inputs.as_slice() else { return None };
        let lowest = |id: ValueId| view.number(id) == Some(f64::NEG_INFINITY);
        let (own, hides) = match (lowest(a), lowest(b)) {
            (true, false) => (b, true),
            (false, true) => (a, false),
            _ => return None,
        };
        let plain = Plain::of(view, own)?;
        let sight = if hides { Sight::Hidden } else { Sight::Seen };
        let mask = match causal::of_truths(view, choice, sight) {
            Some(shape) if is_square_of(view, shape, plain.product) => Mask::Causal,
            _ if hides => Mask::Hidden(choice),
            _ => Mask::Table(choice),
        };
        let fits = broadcasts(view, choice, plain.product);
        return fits.then_some((plain.node, plain.scale, mask));
    }
    None
}

/// A product of queries and keys, times a number. Its shape is what masks are measured by: where a mask is
/// added, lengths that are open take those of the mask.
struct Plain<'g> {
    node: &'g Node,
    product: ValueId,
    scale: f64,
}

impl<'g> Plain<'g> {
    fn of(view: &View<'g>, id: ValueId) -> Option<Self> {
        let (product, scale) = scaled(view, id);
        let node = view.made_by(product, "MatMul").filter(|_| view.is_private(product))?;
        Some(Self { node, product, scale })
    }
}

/// Whether a mask goes to scores without adding to their shape. The last axis must be whole: attention
/// takes keys beyond a mask's end for hidden.
fn broadcasts(view: &View<'_>, mask: ValueId, scores: ValueId) -> bool {
    let (Some(mask), Some(scores)) = (view.shape(mask), view.shape(scores)) else { return false };
    let Some(lead) = scores.len().checked_sub(mask.len()).filter(|_| mask.len() >= 2) else {
        return false;
    };
    let pairs = || mask.iter().zip(&scores[lead..]);
    let fits = pairs().all(|(own, other)| *own == Dim::Known(1) || same_length(own, other));
    fits && pairs().next_back().is_some_and(|(own, other)| same_length(own, other))
}

/// Whether a triangle has a row for each query and a column for each key.
fn is_square_of(view: &View<'_>, triangle: ValueId, scores: ValueId) -> bool {
    let (Some(triangle), Some(scores)) = (view.shape(triangle), view.shape(scores)) else {
        return false;
    };
    let Some(lead) = triangle.len().checked_sub(2) else { return false };
    let last = &scores[scores.len().saturating_sub(2)..];
    triangle[..lead].iter().all(|length| *length == Dim::Known(1))
        && super::matching::same_shape(&triangle[lead..], last)
}

/// A value without the numbers that it is multiplied by.
fn scaled(view: &View<'_>, id: ValueId) -> (ValueId, f64) {
    let product = Product::of_value(view, id);
    match product.factors.as_slice() {
        [only] => (*only, product.number),
        _ => (id, 1.0),
    }
}

struct Turned {
    k: ValueId,
    order: Vec<usize>,
    scale: f64,
}

/// Keys with their places before their elements. A transposition that is there is merged with the one
/// that turns them.
fn turned(view: &View<'_>, k: ValueId, rank: usize) -> Option<Turned> {
    let mut swap: Vec<usize> = (0..rank).collect();
    swap.swap(rank - 2, rank - 1);
    let Some(node) = view.made_by(k, "Transpose") else {
        return Some(Turned { k, order: swap, scale: 1.0 });
    };
    let given = node.attributes.ints("perm").ok().flatten();
    let given: Vec<usize> = match given {
        Some(list) => list.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<_>>()?,
        None => (0..rank).rev().collect(),
    };
    let order: Vec<usize> =
        swap.iter().map(|&axis| given.get(axis).copied()).collect::<Option<_>>()?;
    let (k, scale) = scaled(view, operand(node, 0)?);
    Some(Turned { k, order, scale })
}

/// The nodes in the place of the last product.
fn written(edits: &mut Edits, old: &Node, found: &Found, result: ValueId) -> Option<Vec<Node>> {
    let mut nodes = Vec::new();
    let rank = found.order.len();
    let mut k = found.k;
    if !found.order.iter().copied().eq(0..rank) {
        let made = edits.value(&old.path);
        let order = found.order.iter().map(|&axis| axis as i64).collect();
        let turn = instead(old, "Transpose", 13, &[Some(k)], made);
        nodes.push(with(turn, "perm", Attribute::Ints(order)));
        k = made;
    }
    let mut inputs = vec![Some(found.q), Some(k), Some(found.v)];
    match found.mask {
        Mask::Nothing | Mask::Causal => {}
        Mask::Table(table) => inputs.push(Some(table)),
        Mask::Hidden(table) => {
            let seen = edits.value(&old.path);
            nodes.push(instead(old, "Not", 1, &[Some(table)], seen));
            inputs.push(Some(seen));
        }
    }
    let attend = |inputs: &[Option<ValueId>], output: ValueId| {
        let made = instead(old, "Attention", 23, inputs, output);
        let made = with(made, "scale", Attribute::Float(found.scale as f32));
        match found.mask {
            Mask::Causal => with(made, "is_causal", Attribute::Int(1)),
            _ => made,
        }
    };
    if rank == 4 {
        nodes.push(attend(&inputs, result));
        return Some(nodes);
    }
    // Without an axis for the batch, the first one counts as that of the heads.
    let first = edits.constant(&old.path, Tensor::new(&[1], vec![0i64]).ok()?);
    for input in inputs.iter_mut().take(3) {
        let made = edits.value(&old.path);
        nodes.push(instead(old, "Unsqueeze", 13, &[*input, Some(first)], made));
        *input = Some(made);
    }
    let four = edits.value(&old.path);
    nodes.push(attend(&inputs, four));
    nodes.push(instead(old, "Squeeze", 13, &[Some(four), Some(first)], result));
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{and_dead, check_pass, check_unchanged, count, floats};
    use super::*;
    use polaris_onnx::{
        ElementType::{self, F32},
        GraphBuilder,
    };

    const Q: [&str; 4] = ["b", "2", "q", "5"];
    const K: [&str; 4] = ["b", "2", "k", "5"];
    const V: [&str; 4] = ["b", "2", "k", "3"];

    fn inputs() -> Vec<(&'static str, Tensor)> {
        let [q, k] = [floats(&[3, 2, 4, 5]), floats(&[3, 2, 7, 5])];
        vec![("q", q), ("k", k), ("v", floats(&[3, 2, 7, 3]))]
    }

    fn turned(draft: &mut GraphBuilder, k: ValueId) -> ValueId {
        draft.node_with("Transpose", [k], [("perm", [0, 1, 3, 2])])
    }

    #[test]
    fn scales_before_and_after_are_found() {
        for form in 0..4 {
            let mut draft = GraphBuilder::new("test");
            let (mut q, k, v) =
                (draft.input("q", F32, Q), draft.input("k", F32, K), draft.input("v", F32, V));
            let number = draft.number(0.7);
            let mut k = turned(&mut draft, k);
            if form & 1 == 1 {
                q = draft.node("Mul", [q, number]);
                k = draft.node("Mul", [k, number]);
            }
            let mut scores = draft.node("MatMul", [q, k]);
            if form & 2 == 2 {
                scores = draft.node("Div", [scores, number]);
            }
            let weights = draft.node("Softmax", [scores]);
            let made = draft.node("MatMul", [weights, v]);
            draft.output_as(made, "y");
            let graph = check_pass(draft, and_dead(run), &inputs(), 1e-6);
            assert_eq!(graph.nodes.len(), 1, "{graph}");
            assert_eq!(count(&graph, "Attention"), 1);
        }
    }

    /// Attention with a mask that is combined with the scores by a node.
    fn with_mask(
        mask: impl Fn(&mut GraphBuilder) -> ValueId,
        combine: impl Fn(&mut GraphBuilder, ValueId, ValueId) -> ValueId,
        given: &[(&'static str, Tensor)],
    ) -> Graph {
        let mut draft = GraphBuilder::new("test");
        let (q, k, v) =
            (draft.input("q", F32, Q), draft.input("k", F32, K), draft.input("v", F32, V));
        let mask = mask(&mut draft);
        let k = turned(&mut draft, k);
        let scores = draft.node("MatMul", [q, k]);
        let masked = combine(&mut draft, scores, mask);
        let weights = draft.node("Softmax", [masked]);
        let made = draft.node("MatMul", [weights, v]);
        draft.output(made);
        let mut all = inputs();
        all.extend(given.iter().cloned());
        check_pass(draft, and_dead(run), &all, 1e-6)
    }

    #[test]
    fn masks_are_taken_over_where_their_shape_is_known_to_fit() {
        let add = |draft: &mut GraphBuilder, scores, mask| draft.node("Add", [mask, scores]);
        for (dims, shape, fits) in [
            (vec!["b", "1", "1", "k"], vec![3, 1, 1, 7], true),
            (vec!["q", "k"], vec![4, 7], true),
            (vec!["b", "1", "q", "1"], vec![3, 1, 4, 1], false),
            (vec!["other", "1", "q", "k"], vec![3, 1, 4, 7], false),
            (vec!["k"], vec![7], false),
        ] {
            let mask = |draft: &mut GraphBuilder| draft.input("mask", F32, &dims);
            let graph = with_mask(mask, add, &[("mask", floats(&shape))]);
            assert_eq!(count(&graph, "Attention"), usize::from(fits), "{dims:?}: {graph}");
        }
    }

    #[test]
    fn hidden_keys_are_found() {
        let mask = |draft: &mut GraphBuilder| draft.input("mask", ElementType::Bool, ["q", "k"]);
        let lowest = |draft: &mut GraphBuilder| draft.number(f32::NEG_INFINITY);
        let hide = |draft: &mut GraphBuilder, scores, mask| {
            let lowest = lowest(draft);
            draft.node("Where", [mask, lowest, scores])
        };
        let show = |draft: &mut GraphBuilder, scores, mask| {
            let lowest = lowest(draft);
            draft.node("Where", [mask, scores, lowest])
        };
        let truths: Vec<bool> = (0..28).map(|at| at % 3 == 0).collect();
        let given = [("mask", Tensor::bools(&[4, 7], &truths).unwrap())];
        assert_eq!(count(&with_mask(mask, hide, &given), "Not"), 1);
        assert_eq!(with_mask(mask, show, &given).nodes.len(), 1);
    }

    #[test]
    fn triangles_are_causal() {
        let triangle = |draft: &mut GraphBuilder, upper: i64| {
            let shape = draft.integers(&[4, 7]);
            let one = Tensor::new(&[1], vec![1f32]).unwrap();
            let ones = draft.node_with("ConstantOfShape", [shape], [("value", one)]);
            let diagonal = draft.scalar(upper);
            let upper = [("upper", upper)];
            draft.node_with("Trilu", [ones, diagonal], upper)
        };
        let hidden = |draft: &mut GraphBuilder| {
            let made = triangle(draft, 1);
            draft.node_with("Cast", [made], [("to", ElementType::Bool)])
        };
        let added = |draft: &mut GraphBuilder| {
            let (zero, lowest) = (draft.number(0.0), draft.number(f32::NEG_INFINITY));
            let made = triangle(draft, 0);
            let hidden = draft.node("Equal", [made, zero]);
            draft.node("Where", [hidden, lowest, zero])
        };
        let hide = |draft: &mut GraphBuilder, scores, mask| {
            let lowest = draft.number(f32::NEG_INFINITY);
            draft.node("Where", [mask, lowest, scores])
        };
        // The lengths of queries and keys are names here, so that the mask is not known to fit.
        let graph = with_mask(hidden, hide, &[]);
        assert_eq!(count(&graph, "Attention"), 0, "{graph}");
        let add = |draft: &mut GraphBuilder, scores, mask| draft.node("Add", [scores, mask]);
        for causal in [0, 1] {
            let mut draft = GraphBuilder::new("test");
            let q = draft.input("q", F32, ["b", "2", "4", "5"]);
            let (k, v) = (
                draft.input("k", F32, ["b", "2", "7", "5"]),
                draft.input("v", F32, ["b", "2", "7", "3"]),
            );
            let mask = if causal == 0 { hidden(&mut draft) } else { added(&mut draft) };
            let k = turned(&mut draft, k);
            let scores = draft.node("MatMul", [q, k]);
            let masked = match causal {
                0 => hide(&mut draft, scores, mask),
                _ => add(&mut draft, scores, mask),
            };
            let weights = draft.node("Softmax", [masked]);
            let made = draft.node("MatMul", [weights, v]);
            draft.output(made);
            let graph = check_pass(draft, and_dead(run), &inputs(), 1e-6);
            assert_eq!(graph.nodes.len(), 1, "{graph}");
            assert_eq!(graph.nodes[0].attributes.int("is_causal").unwrap(), Some(1));
        }
    }

    #[test]
    fn three_axes_and_keys_that_lie_otherwise_are_found() {
        let mut draft = GraphBuilder::new("test");
        let q = draft.input("q", F32, ["h", "4", "5"]);
        let (k, v) =
            (draft.input("k", F32, ["h", "5", "7"]), draft.input("v", F32, ["h", "7", "3"]));
        let scores = draft.node("MatMul", [q, k]);
        let weights = draft.node("Softmax", [scores]);
        let made = draft.node("MatMul", [weights, v]);
        draft.output(made);
        let given =
            [("q", floats(&[6, 4, 5])), ("k", floats(&[6, 5, 7])), ("v", floats(&[6, 7, 3]))];
        let graph = check_pass(draft, and_dead(run), &given, 1e-6);
        assert_eq!(count(&graph, "Attention"), 1, "{graph}");
    }

    #[test]
    fn what_a_product_repeats_and_what_others_need_stays() {
        for (heads, axis, shown) in [("1", -1, false), ("2", 2, false), ("2", -1, true)] {
            let mut draft = GraphBuilder::new("test");
            let q = draft.input("q", F32, Q);
            let k = draft.input("k", F32, ["b", heads, "5", "k"]);
            let v = draft.input("v", F32, V);
            let scores = draft.node("MatMul", [q, k]);
            let axis = [("axis", axis)];
            let weights = draft.node_with("Softmax", [scores], axis);
            let made = draft.node("MatMul", [weights, v]);
            draft.output(made);
            if shown {
                draft.output(weights);
            }
            check_unchanged(draft, run);
        }
    }
}
