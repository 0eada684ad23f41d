//! Optional, OptionalGetElement, OptionalHasElement.

use std::sync::Arc;

use crate::operators::{Call, one};
use crate::{Error, Result, Tensor, Value};

pub fn optional(call: &Call<'_>) -> Result<Vec<Value>> {
    let inner = match call.value(0) {
        // The format has no optionals of optionals; nested ever deeper they could not even be dropped.
        Some(Value::Optional(_)) => return Err(Error::operands("an optional of an optional")),
        Some(value) => Some(Arc::new(value.clone())),
        None => None,
    };
    Ok(vec![Value::Optional(inner)])
}

pub fn optional_get_element(call: &Call<'_>) -> Result<Vec<Value>> {
    match call.value(0) {
        Some(Value::Optional(Some(value))) => Ok(vec![Value::clone(value)]),
        Some(Value::Optional(None)) | None => Err(Error::operands("the optional is empty")),
        Some(value) => Ok(vec![value.clone()]),
    }
}

pub fn optional_has_element(call: &Call<'_>) -> Result<Vec<Value>> {
    let is_there = !matches!(call.value(0), None | Some(Value::Optional(None)));
    Ok(one(Tensor::bools(&[], &[is_there])?))
}
