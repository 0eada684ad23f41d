//! Constants, in all the forms that a node can hold them.

use super::lengths;
use crate::limits::checked_elements;
use crate::operators::{Call, one, walk};
use crate::{Attribute, Error, Result, Tensor, Value};

pub(super) fn constant(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    // A sparse tensor has been written out when the model was read.
    for name in ["value", "sparse_value"] {
        if let Some(tensor) = attributes.tensor(name)? {
            return Ok(one(tensor.clone()));
        }
    }
    let text = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec());
        text.map_err(|_| Error::operands("a constant string is not UTF-8"))
    };
    for (name, attribute) in attributes.iter() {
        let tensor = match (name, attribute) {
            ("value_float", &Attribute::Float(value)) => Tensor::scalar(value),
            ("value_floats", Attribute::Floats(values)) => {
                Tensor::new(&[values.len()], values.clone())?
            }
            ("value_int", &Attribute::Int(value)) => Tensor::scalar(value),
            ("value_ints", Attribute::Ints(values)) => {
                Tensor::new(&[values.len()], values.clone())?
            }
            ("value_string", Attribute::String(bytes)) => Tensor::strings(&[], vec![text(bytes)?])?,
            ("value_strings", Attribute::Strings(list)) => {
                let strings = list.iter().map(|bytes| text(bytes)).collect::<Result<Vec<_>>>()?;
                Tensor::strings(&[strings.len()], strings)?
            }
            _ => continue,
        };
        return Ok(one(tensor));
    }
    Err(Error::operands("a constant without a value"))
}

pub(super) fn constant_of_shape(call: &Call<'_>) -> Result<Vec<Value>> {
    let shape = lengths(&call.tensor(0)?.to_i64()?)?;
    let zero = Tensor::scalar(0f32);
    let value = call.attributes().tensor("value")?.unwrap_or(&zero);
    if value.elements() != 1 {
        let found = value.elements();
        return Err(Error::operands(format!("one value was expected, not {found}")));
    }
    let elements = checked_elements(value.element(), &shape)?;
    Ok(one(walk::pick(value, &shape, std::iter::repeat_n(0, elements))?))
}
