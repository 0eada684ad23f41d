//! Tensors made from little: constants, ranges, random numbers.

mod constant;
mod draw;
mod random;
mod range;

use super::{Call, Operator};
use crate::{ElementType, Error, Result};

pub(super) use random::Random;

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("Bernoulli", draw::bernoulli),
    ("Constant", constant::constant),
    ("ConstantOfShape", constant::constant_of_shape),
    ("EyeLike", range::eye_like),
    ("Multinomial", draw::multinomial),
    ("RandomNormal", draw::random_normal),
    ("RandomNormalLike", draw::random_normal_like),
    ("RandomUniform", draw::random_uniform),
    ("RandomUniformLike", draw::random_uniform_like),
    ("Range", range::range),
];

/// The type that the attribute `dtype` names, if it is there.
fn dtype(call: &Call<'_>) -> Result<Option<ElementType>> {
    let code = call.attributes().int("dtype")?;
    code.map(|code| ElementType::from_code(i32::try_from(code).unwrap_or(0))).transpose()
}

/// Lengths of axes, which are not negative.
fn lengths(list: &[i64]) -> Result<Vec<usize>> {
    let length = |&length: &i64| {
        usize::try_from(length)
            .map_err(|_| Error::operands(format!("{length} is not a valid length")))
    };
    list.iter().map(length).collect()
}
