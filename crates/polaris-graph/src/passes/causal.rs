//! Causal masks, as exporters compute them.

use polaris_onnx::{Attribute, ElementType, Node, ValueId};

use super::matching::{View, operand, pair};

/// What a bool says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    Seen,
    Hidden,
}

impl Sight {
    fn other(self) -> Self {
        match self {
            Self::Seen => Self::Hidden,
            Self::Hidden => Self::Seen,
        }
    }
}

/// The triangle behind numbers that are added to scores: 0 where a key is seen, minus infinity elsewhere.
pub fn of_numbers(view: &View<'_>, id: ValueId) -> Option<ValueId> {
    let node = view.made_by(id, "Where")?;
    let &[Some(choice), Some(a), Some(b)] = node.inputs.as_slice() else { return None };
    match (view.number(a)?, view.number(b)?) {
        (f64::NEG_INFINITY, 0.0) => of_truths(view, choice, Sight::Hidden),
        (0.0, f64::NEG_INFINITY) => of_truths(view, choice, Sight::Seen),
        _ => None,
    }
}

/// The triangle behind bools. What it returns has the shape of the mask.
pub fn of_truths(view: &View<'_>, id: ValueId, sight: Sight) -> Option<ValueId> {
    let (_, node) = view.maker(id).filter(|(_, node)| node.domain.is_empty())?;
    match node.operator.as_str() {
        "Not" => of_truths(view, operand(node, 0)?, sight.other()),
        "Cast" => {
            let to = node.attributes.int("to").ok().flatten()?;
            let holds = to == i64::from(ElementType::Bool.code());
            triangle(view, operand(node, 0)?, sight).filter(|_| holds)
        }
        "Equal" => {
            let [a, b] = pair(node)?;
            let own = if view.number(a) == Some(0.0) { b } else { a };
            let zero = if own == a { b } else { a };
            view.number(zero).filter(|&number| number == 0.0)?;
            triangle(view, own, sight.other())
        }
        "Trilu" => triangle(view, id, sight),
        _ => None,
    }
}

/// A matrix of the same number other than zero, of which only a triangle is kept: what is not zero says
/// what is seen, or what is hidden.
fn triangle(view: &View<'_>, id: ValueId, sight: Sight) -> Option<ValueId> {
    let node = view.made_by(id, "Trilu")?;
    let diagonal = match operand(node, 1) {
        Some(number) => view.number(number)?,
        None => 0.0,
    };
    let upper = node.attributes.flag("upper", true).ok()?;
    let right = match sight {
        Sight::Seen => !upper && diagonal == 0.0,
        Sight::Hidden => upper && diagonal == 1.0,
    };
    (right && is_full(view, operand(node, 0)?)).then_some(id)
}

/// Whether no element of a value is zero, as follows from its node.
fn is_full(view: &View<'_>, id: ValueId) -> bool {
    if let Some(tensor) = view.constant(id) {
        return tensor.to_f64().is_ok_and(|list| list.iter().all(|&value| value != 0.0));
    }
    let Some((_, node)) = view.maker(id).filter(|(_, node)| node.domain.is_empty()) else {
        return false;
    };
    match node.operator.as_str() {
        "ConstantOfShape" => filling(node).is_some_and(|value| value != 0.0),
        "Expand" => operand(node, 0).is_some_and(|own| view.number(own).is_some_and(|x| x != 0.0)),
        _ => false,
    }
}

/// What a node fills a shape with.
fn filling(node: &Node) -> Option<f64> {
    match node.attributes.get("value") {
        Some(Attribute::Tensor(tensor)) => tensor.to_f64().ok()?.first().copied(),
        _ => Some(0.0),
    }
}
