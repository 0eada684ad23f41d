//! What callers may write where a builder takes operands, lengths and attributes.

use std::sync::Arc;

use crate::{Attribute, Dim, ElementType, Graph, Tensor, Type, ValueId};

/// An operand of a node: a value, or `None` where an optional one is left out.
pub trait Operand {
    /// The value.
    fn operand(self) -> Option<ValueId>;
}

impl Operand for ValueId {
    fn operand(self) -> Option<ValueId> {
        Some(self)
    }
}

impl Operand for &ValueId {
    fn operand(self) -> Option<ValueId> {
        Some(*self)
    }
}

impl Operand for Option<ValueId> {
    fn operand(self) -> Option<ValueId> {
        self
    }
}

impl Operand for &Option<ValueId> {
    fn operand(self) -> Option<ValueId> {
        *self
    }
}

impl From<usize> for Dim {
    fn from(length: usize) -> Self {
        Self::Known(length)
    }
}

impl From<&usize> for Dim {
    fn from(length: &usize) -> Self {
        Self::Known(*length)
    }
}

/// A number, the name of a length, or `?` for one of which nothing is known.
impl From<&str> for Dim {
    fn from(text: &str) -> Self {
        match text.parse() {
            Ok(length) => Self::Known(length),
            Err(_) if text.is_empty() || text == "?" => Self::Unknown,
            Err(_) => Self::Named(text.to_owned()),
        }
    }
}

impl From<&&str> for Dim {
    fn from(text: &&str) -> Self {
        Self::from(*text)
    }
}

impl Type {
    /// A tensor; lengths are numbers, or texts as [`Dim`] reads them: `["batch", "3"]`.
    pub fn tensor(element: ElementType, shape: impl IntoIterator<Item: Into<Dim>>) -> Self {
        Self::Tensor(element, Some(shape.into_iter().map(Into::into).collect()))
    }
}

// One integer type and one for each kind of list, so that the types of literals can be inferred.
macro_rules! attribute_from {
    ($($from:ty => |$value:ident| $attribute:expr),* $(,)?) => {
        $(impl From<$from> for Attribute {
            fn from($value: $from) -> Self {
                $attribute
            }
        })*
    };
}

attribute_from! {
    i64 => |value| Self::Int(value),
    bool => |value| Self::Int(i64::from(value)),
    f32 => |value| Self::Float(value),
    // The format has no wider floats.
    f64 => |value| Self::Float(value as f32),
    &str => |value| Self::String(value.as_bytes().to_vec()),
    Tensor => |value| Self::Tensor(value),
    Graph => |value| Self::Graph(Arc::new(value)),
    Type => |value| Self::Type(value),
    // As `Cast` and its kin name types.
    ElementType => |value| Self::Int(i64::from(value.code())),
    Vec<i64> => |values| Self::Ints(values),
    &[i64] => |values| Self::Ints(values.to_vec()),
    &[usize] => |values| Self::Ints(values.iter().map(|&value| value as i64).collect()),
    Vec<f32> => |values| Self::Floats(values),
    &[f32] => |values| Self::Floats(values.to_vec()),
    &[&str] => |values| Self::Strings(values.iter().map(|text| text.as_bytes().to_vec()).collect()),
}

impl<const N: usize> From<[i64; N]> for Attribute {
    fn from(values: [i64; N]) -> Self {
        Self::Ints(values.to_vec())
    }
}

impl<const N: usize> From<&[i64; N]> for Attribute {
    fn from(values: &[i64; N]) -> Self {
        Self::Ints(values.to_vec())
    }
}

impl<const N: usize> From<[f32; N]> for Attribute {
    fn from(values: [f32; N]) -> Self {
        Self::Floats(values.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_numbers_names_or_unknown() {
        let ty = Type::tensor(ElementType::F32, ["batch", "3", "?"]);
        assert_eq!(ty.to_string(), "f32[batch, 3, ?]");
        assert_eq!(Type::tensor(ElementType::I64, [2, 3]).to_string(), "i64[2, 3]");
        let shape: &[usize] = &[4];
        assert_eq!(Type::tensor(ElementType::U8, shape).to_string(), "u8[4]");
    }

    #[test]
    fn literals_become_attributes() {
        assert!(matches!(1.into(), Attribute::Int(1)));
        assert!(matches!(true.into(), Attribute::Int(1)));
        assert!(matches!(0.5.into(), Attribute::Float(0.5)));
        assert!(matches!("edge".into(), Attribute::String(text) if text == b"edge"));
        assert!(matches!([0, 2, 1].into(), Attribute::Ints(list) if list == [0, 2, 1]));
        assert!(matches!((&[0, 2, 1]).into(), Attribute::Ints(list) if list == [0, 2, 1]));
        assert!(matches!([0.5, 1.0].into(), Attribute::Floats(list) if list == [0.5, 1.0]));
        assert!(matches!(ElementType::I64.into(), Attribute::Int(7)));
    }
}
