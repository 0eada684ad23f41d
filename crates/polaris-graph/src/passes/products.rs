//! Products of several factors, in whatever order and nesting a file writes them.

use polaris_onnx::{Node, ValueId};

use super::matching::{View, is, pair};

/// Products inside products that are followed, at most.
const DEEPEST: usize = 6;

/// A product: a number times some values.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    pub number: f64,
    /// In no particular order.
    pub factors: Vec<ValueId>,
}

impl Product {
    /// Of a node that multiplies, divides by a number, or raises to a small power. Factors that are such
    /// results themselves, and that nobody else needs, are taken apart.
    pub fn of(view: &View<'_>, node: &Node) -> Option<Self> {
        let mut product = Self { number: 1.0, factors: Vec::new() };
        product.take_apart(view, node, DEEPEST).then_some(product)
    }

    /// Of a value, which may be anything.
    pub fn of_value(view: &View<'_>, id: ValueId) -> Self {
        let whole = Self { number: 1.0, factors: vec![id] };
        match view.maker(id) {
            Some((_, node)) if view.is_private(id) => Self::of(view, node).unwrap_or(whole),
            _ => whole,
        }
    }

    /// Whether the product is this number times these values.
    pub fn is(&self, number: f64, factors: &[ValueId]) -> bool {
        let (mut own, mut others) = (self.factors.clone(), factors.to_vec());
        own.sort();
        others.sort();
        super::matching::close(self.number, number) && own == others
    }

    fn take_apart(&mut self, view: &View<'_>, node: &Node, depth: usize) -> bool {
        let Some([a, b]) = pair(node) else { return false };
        if is(node, "Mul") {
            for (own, other) in [(a, b), (b, a)] {
                match view.factor(own, other) {
                    Some(number) => self.number *= number,
                    None => self.push(view, own, depth),
                }
            }
            return true;
        }
        let Some(number) = view.factor(b, a) else { return false };
        if is(node, "Div") && number != 0.0 {
            self.number /= number;
            self.push(view, a, depth);
            return true;
        }
        if is(node, "Pow") && [2.0, 3.0].contains(&number) {
            self.factors.extend(std::iter::repeat_n(a, number as usize));
            return true;
        }
        false
    }

    fn push(&mut self, view: &View<'_>, id: ValueId, depth: usize) {
        let inner = view.maker(id).filter(|_| depth > 0 && view.is_private(id));
        if !inner.is_some_and(|(_, node)| self.take_apart(view, node, depth - 1)) {
            self.factors.push(id);
        }
    }
}

/// The value that a node adds to a number, if it does.
pub fn added_to(view: &View<'_>, id: ValueId, number: f64) -> Option<ValueId> {
    let sum = view.made_by(id, "Add")?;
    let found = |[own, other]: [ValueId; 2]| {
        let value = view.factor(other, own)?;
        super::matching::close(value, number).then_some(own)
    };
    super::matching::either(sum).find_map(found)
}
