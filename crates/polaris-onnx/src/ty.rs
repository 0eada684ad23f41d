//! Types of values.

use std::fmt;

use crate::messages::{self, DimensionValue, TypeValue};
use crate::{ElementType, Error, Result};

/// A length that may be open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A number.
    Known(usize),
    /// Lengths of the same name are the same.
    Named(String),
    /// Nothing is known.
    Unknown,
}

impl Dim {
    /// The number, if it is one.
    pub fn known(&self) -> Option<usize> {
        match self {
            Self::Known(length) => Some(*length),
            _ => None,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(length) => write!(f, "{length}"),
            Self::Named(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// A tensor; its shape may be unknown.
    Tensor(ElementType, Option<Vec<Dim>>),
    /// Values of one type, one after another.
    Sequence(Box<Type>),
    /// A value or none.
    Optional(Box<Type>),
    /// Something else, as text.
    Other(&'static str),
}

impl Type {
    /// The element type and the shape as numbers, if it is a tensor and they are all known.
    pub fn known_tensor(&self) -> Option<(ElementType, Vec<usize>)> {
        match self {
            Self::Tensor(element, Some(dims)) => {
                Some((*element, dims.iter().map(Dim::known).collect::<Option<Vec<usize>>>()?))
            }
            _ => None,
        }
    }

    /// The type that a message describes; `None` if it describes none.
    ///
    /// # Errors
    /// If it is malformed.
    pub(crate) fn read(message: &messages::Type) -> Result<Option<Self>> {
        let inner = |of: &messages::ElementOf| -> Result<Self> {
            let element = of.elem_type.as_deref().map(Self::read).transpose()?.flatten();
            element.ok_or_else(|| Error::format("a sequence or an optional of no type"))
        };
        Ok(Some(match &message.value {
            None => return Ok(None),
            // Files may leave the element's type open.
            Some(TypeValue::Tensor(tensor)) if tensor.elem_type == 0 => return Ok(None),
            Some(TypeValue::Tensor(tensor)) => Self::Tensor(
                ElementType::from_code(tensor.elem_type)?,
                tensor.shape.as_ref().map(read_shape).transpose()?,
            ),
            Some(TypeValue::Sequence(of)) => Self::Sequence(Box::new(inner(of)?)),
            Some(TypeValue::Optional(of)) => Self::Optional(Box::new(inner(of)?)),
            Some(TypeValue::Map(_)) => Self::Other("map"),
            Some(TypeValue::SparseTensor(_)) => Self::Other("sparse tensor"),
        }))
    }
}

impl Type {
    /// The message that describes it; `None` for what is known in words only.
    pub(crate) fn message(&self) -> Option<messages::Type> {
        let inner = |of: &Self| {
            Some(Box::new(messages::ElementOf { elem_type: Some(Box::new(of.message()?)) }))
        };
        let value = match self {
            Self::Tensor(element, dims) => TypeValue::Tensor(messages::TensorType {
                elem_type: element.code(),
                shape: dims
                    .as_ref()
                    .map(|dims| messages::Shape { dim: dims.iter().map(write_dim).collect() }),
            }),
            Self::Sequence(of) => TypeValue::Sequence(inner(of)?),
            Self::Optional(of) => TypeValue::Optional(inner(of)?),
            Self::Other(_) => return None,
        };
        Some(messages::Type { value: Some(value) })
    }
}

fn write_dim(dim: &Dim) -> messages::Dimension {
    let value = match dim {
        Dim::Known(length) => i64::try_from(*length).ok().map(DimensionValue::Value),
        Dim::Named(name) => Some(DimensionValue::Name(name.clone())),
        Dim::Unknown => None,
    };
    messages::Dimension { value }
}

fn read_shape(shape: &messages::Shape) -> Result<Vec<Dim>> {
    let read = |dim: &messages::Dimension| match &dim.value {
        Some(DimensionValue::Value(length)) => usize::try_from(*length)
            .map(Dim::Known)
            .map_err(|_| Error::format(format!("a shape with the length {length}"))),
        Some(DimensionValue::Name(name)) if !name.is_empty() => Ok(Dim::Named(name.clone())),
        _ => Ok(Dim::Unknown),
    };
    shape.dim.iter().map(read).collect()
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(element, None) => write!(f, "{element}[...]"),
            Self::Tensor(element, Some(dims)) => {
                let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
                write!(f, "{element}[{}]", dims.join(", "))
            }
            Self::Sequence(of) => write!(f, "sequence of {of}"),
            Self::Optional(of) => write!(f, "optional {of}"),
            Self::Other(name) => f.write_str(name),
        }
    }
}
