//! Fuses rotary embeddings: `x * cos + rotate_half(x) * sin`, where `rotate_half` puts the
//! second half of each vector, negated, before the first.

use polaris_onnx::{Attribute, Dim, Graph, Node, Tensor, ValueId};

use super::Place;
use super::edits::{Edits, instead, with};
use super::matching::{View, either, is, only_result, operand, same_length};

/// Values that are followed to see that the halves of a table are the same, at most.
const DEEPEST: usize = 12;

/// A rotation that was found.
struct Found {
    x: ValueId,
    cos: ValueId,
    sin: ValueId,
    half: usize,
}

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes().filter(|(_, node)| is(node, "Add")) {
        let found = find(&view, node).zip(only_result(node));
        if let Some(nodes) =
            found.and_then(|(found, result)| written(&view, &mut edits, node, &found, result))
        {
            edits.replace(at, nodes);
        }
    }
    edits.apply(graph)
}

/// A rotation whose sum is this node.
fn find(view: &View<'_>, node: &Node) -> Option<Found> {
    let products = either(node).filter(|pair| pair.iter().all(|&id| view.is_private(id)));
    for [plain, turned] in products {
        let (Some(plain), Some(turned)) = (view.made_by(plain, "Mul"), view.made_by(turned, "Mul"))
        else {
            continue;
        };
        for [rotated, sin] in either(turned) {
            let Some((x, half)) = rotated_half(view, rotated) else { continue };
            let cos = either(plain).find_map(|[own, other]| (own == x).then_some(other));
            let found = cos.map(|cos| Found { x, cos, sin, half });
            if let Some(found) = found.filter(|found| is_expressible(view, found)) {
                return Some(found);
            }
        }
    }
    None
}

/// What was rotated, and half the length of its vectors.
fn rotated_half(view: &View<'_>, id: ValueId) -> Option<(ValueId, usize)> {
    let node = view.made_by(id, "Concat").filter(|_| view.is_private(id))?;
    let &[Some(negated), Some(first)] = node.inputs.as_slice() else { return None };
    let second = operand(view.made_by(negated, "Neg").filter(|_| view.is_private(negated))?, 0)?;
    let x = part_of(view, first)?;
    let shape = view.shape(x)?;
    let axis = node.attributes.int_or("axis", 0).ok()?;
    let last = axis == -1 || axis == shape.len() as i64 - 1;
    let length = shape.last()?.known().filter(|&length| last && length > 0 && length % 2 == 0)?;
    let half = length / 2;
    let parts = is_part(view, first, x, 0, half) && is_part(view, second, x, half, length);
    parts.then_some((x, half))
}

/// What a value is a part of.
fn part_of(view: &View<'_>, id: ValueId) -> Option<ValueId> {
    let (_, node) = view.maker(id)?;
    (is(node, "Slice") || is(node, "Split")).then(|| operand(node, 0)).flatten()
}

/// Whether a value is these elements of each vector of another.
fn is_part(view: &View<'_>, id: ValueId, x: ValueId, start: usize, end: usize) -> bool {
    let Some((_, node)) = view.maker(id).filter(|_| part_of(view, id) == Some(x)) else {
        return false;
    };
    let Some(shape) = view.shape(x) else { return false };
    let (rank, length) = (shape.len() as i64, end.max(2 * (end - start)) as i64);
    let last = |axis: i64| axis == -1 || axis == rank - 1;
    if is(node, "Split") {
        let halves = view.shape(id).and_then(|own| own.last()).and_then(Dim::known);
        let place = node.outputs.iter().position(|output| *output == Some(id));
        let axis = node.attributes.int_or("axis", 0);
        return axis.is_ok_and(last)
            && node.outputs.len() == 2
            && halves == Some(end - start)
            && place.map(|place| place * (end - start)) == Some(start);
    }
    let one = |index: usize| match view.integers(operand(node, index)?)?.as_slice() {
        [value] => Some(*value),
        _ => None,
    };
    let clipped = |value: i64| if value < 0 { value + length } else { value.min(length) };
    node.version >= 10
        && one(1).map(clipped) == Some(start as i64)
        && one(2).map(clipped) == Some(end as i64)
        && one(3).is_some_and(last)
        && operand(node, 4).is_none_or(|_| one(4) == Some(1))
}

/// Whether the tables are such that the operator can have them: for every head the same, for both halves
/// of a vector the same.
fn is_expressible(view: &View<'_>, found: &Found) -> bool {
    let Some([batch, _, length, size]) = view.shape(found.x) else { return false };
    let fits = |table: ValueId| {
        let Some([own_batch, heads, own_length, own_size]) = view.shape(table) else {
            return false;
        };
        (*own_batch == Dim::Known(1) || same_length(own_batch, batch))
            && *heads == Dim::Known(1)
            && same_length(own_length, length)
            && same_length(own_size, size)
            && view.element(table) == view.element(found.x)
            && has_equal_halves(view, table, found.half, DEEPEST)
    };
    view.is_float(found.x) && fits(found.cos) && fits(found.sin)
}

/// Whether the second half of each vector is the same as the first, as follows from its node.
fn has_equal_halves(view: &View<'_>, id: ValueId, half: usize, depth: usize) -> bool {
    if let Some(tensor) = view.constant(id) {
        let Ok(values) = tensor.to_f64() else { return false };
        return tensor.shape().last() == Some(&(2 * half))
            && values.chunks(2 * half).all(|row| row[..half] == row[half..]);
    }
    let Some((_, node)) = view.maker(id).filter(|(_, node)| depth > 0 && node.domain.is_empty())
    else {
        return false;
    };
    let below =
        |id: Option<ValueId>| id.is_some_and(|id| has_equal_halves(view, id, half, depth - 1));
    let rank = view.rank(id).unwrap_or(0) as i64;
    match node.operator.as_str() {
        "Cos" | "Sin" | "Cast" => below(operand(node, 0)),
        "Mul" => {
            either(node).any(|[own, number]| view.factor(number, own).is_some() && below(Some(own)))
        }
        "Unsqueeze" => {
            let axes = operand(node, 1).and_then(|axes| view.integers(axes));
            axes.is_some_and(|axes| axes.iter().all(|&axis| axis != -1 && axis != rank - 1))
                && below(operand(node, 0))
        }
        // Rows of a table.
        "Gather" => {
            let table = operand(node, 0);
            let rows = table.and_then(|table| view.rank(table)).is_some_and(|rank| rank > 1);
            rows && node.attributes.int_or("axis", 0).is_ok_and(|axis| axis == 0) && below(table)
        }
        "Concat" => {
            let axis = node.attributes.int_or("axis", 0).unwrap_or(0);
            let twice = matches!(node.inputs.as_slice(), [Some(a), Some(b)] if a == b);
            twice && (axis == -1 || axis == rank - 1)
        }
        _ => false,
    }
}

/// The operator with the first halves of the tables, one row for each place of each of the batch.
fn written(
    view: &View<'_>,
    edits: &mut Edits,
    old: &Node,
    found: &Found,
    result: ValueId,
) -> Option<Vec<Node>> {
    let mut nodes = Vec::new();
    let ints = |edits: &mut Edits, values: &[i64]| -> Option<Option<ValueId>> {
        let tensor = Tensor::new(&[values.len()], values.to_vec()).ok()?;
        Some(Some(edits.constant(&old.path, tensor)))
    };
    let batch = &view.shape(found.x)?[0];
    let mut tables = Vec::with_capacity(2);
    for table in [found.cos, found.sin] {
        let (first, flat) = (edits.value(&old.path), edits.value(&old.path));
        let (start, end, last) =
            (ints(edits, &[0])?, ints(edits, &[found.half as i64])?, ints(edits, &[-1])?);
        nodes.push(instead(old, "Slice", 13, &[Some(table), start, end, last], first));
        let heads = ints(edits, &[1])?;
        nodes.push(instead(old, "Squeeze", 13, &[Some(first), heads], flat));
        let mut made = flat;
        if !same_length(&view.shape(table)?[0], batch) {
            // One table for the whole batch; the operator wants one for each.
            let [own, whole, repeated] = [(); 3].map(|()| edits.value(&old.path));
            let shape = instead(old, "Shape", 15, &[Some(found.x)], own);
            nodes.push(with(shape, "end", Attribute::Int(1)));
            let ones = ints(edits, &[1, 1])?;
            let whole_shape = instead(old, "Concat", 13, &[Some(own), ones], whole);
            nodes.push(with(whole_shape, "axis", Attribute::Int(0)));
            nodes.push(instead(old, "Expand", 13, &[Some(flat), Some(whole)], repeated));
            made = repeated;
        }
        tables.push(Some(made));
    }
    let inputs = [Some(found.x), tables[0], tables[1]];
    nodes.push(instead(old, "RotaryEmbedding", 23, &inputs, result));
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{and_dead, check_pass, check_unchanged, count, floats};
    use super::*;
    use polaris_onnx::{ElementType::F32, GraphBuilder};

    /// As models are exported: angles for each place, twice, and their cosines and sines for all heads.
    fn draft(batch: &str, twice: bool, split: bool) -> GraphBuilder {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["b", "2", "s", "6"]);
        let angles = draft.input("angles", F32, [batch, "s", "3"]);
        let other = draft.node("Neg", [angles]);
        let second = if twice { angles } else { other };
        let last = [("axis", -1)];
        let angles = draft.node_with("Concat", [angles, second], last);
        let heads = draft.integers(&[1]);
        let (cos, sin) = (draft.node("Cos", [angles]), draft.node("Sin", [angles]));
        let (cos, sin) =
            (draft.node("Unsqueeze", [cos, heads]), draft.node("Unsqueeze", [sin, heads]));
        let [zero, three, end, axis] = [0, 3, i64::MAX, -1].map(|value| draft.integers(&[value]));
        let first = draft.node("Slice", [x, zero, three, axis]);
        let second = match split {
            true => draft.node("Slice", [x, zero, three, axis]),
            false => draft.node("Slice", [x, three, end, axis]),
        };
        let negated = draft.node("Neg", [second]);
        let rotated = draft.node_with("Concat", [negated, first], last);
        let (a, b) = (draft.node("Mul", [x, cos]), draft.node("Mul", [rotated, sin]));
        let made = draft.node("Add", [a, b]);
        draft.output_as(made, "y");
        draft
    }

    #[test]
    fn rotations_are_found_with_tables_for_all_or_for_each() {
        for (batch, rows) in [("b", 3), ("1", 1)] {
            let given = [("x", floats(&[3, 2, 4, 6])), ("angles", floats(&[rows, 4, 3]))];
            let graph = check_pass(draft(batch, true, false), and_dead(run), &given, 1e-6);
            assert_eq!(count(&graph, "RotaryEmbedding"), 1, "{graph}");
            assert_eq!(count(&graph, "Mul"), 0, "{graph}");
        }
    }

    #[test]
    fn tables_of_different_halves_and_other_parts_stay() {
        check_unchanged(draft("b", false, false), run);
        check_unchanged(draft("b", true, true), run);
        check_unchanged(draft("other", true, false), run);
    }
}
