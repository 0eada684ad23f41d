//! A node with the known facts of its operands.

use super::{Fact, dims};
use crate::{Attributes, Dim, ElementType, Node, Result, Type, ValueId, operators};

/// Elements that are looked at one by one, at most.
pub const MOST_ELEMENTS: usize = 4096;

/// A node with what is known of its operands.
pub struct Known<'a> {
    pub node: &'a Node,
    /// `None` where an operand is left out.
    pub inputs: &'a [Option<Fact>],
    /// What is known of values of the node's graph, for graphs inside it.
    pub outer: &'a dyn Fn(ValueId) -> Option<Fact>,
    /// How many graphs are around it.
    pub depth: usize,
}

impl Known<'_> {
    pub fn attributes(&self) -> &Attributes {
        &self.node.attributes
    }

    pub fn version(&self) -> i64 {
        self.node.version
    }

    /// What is known of an operand, if it is there.
    pub fn fact(&self, index: usize) -> Option<&Fact> {
        self.inputs.get(index).and_then(Option::as_ref)
    }

    /// Whether an operand is there. An empty vector stands for none in some files.
    pub fn has(&self, index: usize) -> bool {
        let empty = || self.shape(index).is_some_and(|shape| shape == [Dim::Known(0)]);
        self.fact(index).is_some() && !empty()
    }

    pub fn ty(&self, index: usize) -> Option<&Type> {
        self.fact(index)?.ty.as_ref()
    }

    pub fn element(&self, index: usize) -> Option<ElementType> {
        let fact = self.fact(index)?;
        match (&fact.value, &fact.ty) {
            (Some(value), _) => Some(value.element()),
            (None, Some(Type::Tensor(element, _))) => Some(*element),
            _ => None,
        }
    }

    pub fn shape(&self, index: usize) -> Option<Vec<Dim>> {
        let fact = self.fact(index)?;
        match (&fact.value, &fact.ty) {
            (Some(value), _) => Some(value.shape().iter().map(|&n| Dim::Known(n)).collect()),
            (None, Some(Type::Tensor(_, Some(shape)))) => {
                Some(shape.iter().map(dims::as_length).collect())
            }
            _ => None,
        }
    }

    /// Integers of an operand, as far as they are known: a vector's, or a scalar's one.
    pub fn entries(&self, index: usize) -> Option<Vec<Dim>> {
        let fact = self.fact(index)?;
        if let Some(value) = &fact.value {
            if value.rank() > 1 || value.elements() > MOST_ELEMENTS {
                return None;
            }
            return Some(value.to_i64().ok()?.into_iter().map(dims::from_signed).collect());
        }
        if let Some(list) = &fact.dims {
            return Some(list.clone());
        }
        match self.shape(index)?.as_slice() {
            [] => Some(vec![Dim::Unknown]),
            [Dim::Known(length)] if *length <= MOST_ELEMENTS => Some(vec![Dim::Unknown; *length]),
            _ => None,
        }
    }

    /// Integers of an operand, if all are known.
    pub fn ints(&self, index: usize) -> Option<Vec<i64>> {
        self.entries(index)?.iter().map(dims::signed).collect()
    }

    /// A scalar or the only element of a vector, as far as it is known.
    pub fn entry(&self, index: usize) -> Dim {
        match self.entries(index).as_deref() {
            Some([entry]) => entry.clone(),
            _ => Dim::Unknown,
        }
    }

    /// Numbers of an operand, if all are known.
    pub fn floats(&self, index: usize) -> Option<Vec<f64>> {
        match &self.fact(index)?.value {
            Some(value) if value.elements() <= MOST_ELEMENTS => value.to_f64().ok(),
            _ => Some(self.ints(index)?.into_iter().map(|value| value as f64).collect()),
        }
    }

    /// Integers that old versions have as an attribute and new ones as an operand: `None` if there are
    /// none, and else what is known of them.
    pub fn numbers(&self, name: &str, operand: usize) -> Result<Option<Option<Vec<Dim>>>> {
        Ok(match self.attributes().ints(name)? {
            Some(values) => Some(Some(values.iter().copied().map(dims::from_signed).collect())),
            None => self.fact(operand).map(|_| self.entries(operand)),
        })
    }

    /// The axis of an attribute, in a shape that has axes.
    pub fn axis(&self, default: i64, rank: usize) -> Result<usize> {
        operators::axis(self.attributes().int_or("axis", default)?, rank)
    }

    /// The type that an attribute names, if it does and there is one.
    pub fn element_named(&self, name: &str) -> Result<Option<ElementType>> {
        let code = self.attributes().int(name)?.and_then(|code| i32::try_from(code).ok());
        Ok(code.and_then(|code| ElementType::from_code(code).ok()))
    }

    /// The type of an operand, for a result of the same.
    pub fn same(&self, index: usize) -> Fact {
        match self.fact(index) {
            Some(fact) if fact.value.is_none() => Fact { ty: fact.ty.clone(), ..Fact::default() },
            _ => Fact::tensor(self.element(index), self.shape(index)),
        }
    }
}
