//! Values: tensors, sequences and optionals.

use std::sync::Arc;

use crate::{Dim, ElementType, Error, Result, Tensor, Type};

/// A tensor, a sequence, or an optional. Cloning shares the elements.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// Values one after another.
    Sequence(Arc<Vec<Value>>),
    /// A value or none.
    Optional(Option<Arc<Value>>),
}

impl Value {
    /// A sequence of values.
    pub fn sequence(values: Vec<Self>) -> Self {
        Self::Sequence(Arc::new(values))
    }

    /// The tensor.
    ///
    /// # Errors
    /// If it is something else.
    pub fn tensor(&self) -> Result<&Tensor> {
        match self {
            Self::Tensor(tensor) => Ok(tensor),
            Self::Optional(Some(value)) => value.tensor(),
            other => Err(Error::operands(format!("a tensor was expected, not {}", other.kind()))),
        }
    }

    /// The values of a sequence.
    ///
    /// # Errors
    /// If it is something else.
    pub fn values(&self) -> Result<&[Self]> {
        match self {
            Self::Sequence(values) => Ok(values),
            Self::Optional(Some(value)) => value.values(),
            other => Err(Error::operands(format!("a sequence was expected, not {}", other.kind()))),
        }
    }

    /// A description.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tensor(_) => "a tensor",
            Self::Sequence(_) => "a sequence",
            Self::Optional(Some(_)) => "an optional with a value",
            Self::Optional(None) => "an empty optional",
        }
    }

    /// Its type, as far as a value says it: an empty sequence does not know of what.
    pub fn ty(&self) -> Type {
        match self {
            Self::Tensor(tensor) => {
                let dims = tensor.shape().iter().map(|&length| Dim::Known(length)).collect();
                Type::Tensor(tensor.element(), Some(dims))
            }
            Self::Sequence(values) => {
                let mut types = values.iter().map(Self::ty);
                let first = types.next().unwrap_or(Type::Tensor(ElementType::F32, None));
                Type::Sequence(Box::new(types.fold(first, common)))
            }
            Self::Optional(value) => Type::Optional(Box::new(
                value.as_ref().map_or(Type::Tensor(ElementType::F32, None), |value| value.ty()),
            )),
        }
    }
}

/// What two types have in common: tensors of different shapes are tensors of some shape.
fn common(a: Type, b: Type) -> Type {
    match (&a, &b) {
        (Type::Tensor(element, dims), Type::Tensor(_, others)) if dims != others => {
            Type::Tensor(*element, None)
        }
        _ => a,
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}
