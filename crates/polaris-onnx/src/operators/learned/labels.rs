//! Labels mapped to others: LabelEncoder, CategoryMapper, OneHotEncoder.

use std::collections::HashMap;

use crate::limits::checked_elements;
use crate::operators::shape::grid::with_last;
use crate::operators::{Call, one, walk};
use crate::room::filled;
use crate::{Attributes, ElementType, Error, Result, Tensor, Value};

/// A label that can be looked up.
#[derive(PartialEq, Eq, Hash)]
enum Label {
    Text(String),
    Integer(i128),
    /// The bits of a number; one for all that are not numbers, and one for both zeros.
    Float(u64),
}

fn labels(tensor: &Tensor) -> Result<Vec<Label>> {
    Ok(match tensor.element() {
        ElementType::String => tensor.as_strings()?.iter().cloned().map(Label::Text).collect(),
        element if element.is_float() => {
            let bits = |x: f64| if x.is_nan() { f64::NAN.to_bits() } else { (x + 0.0).to_bits() };
            tensor.to_f64()?.into_iter().map(|x| Label::Float(bits(x))).collect()
        }
        _ => tensor.to_integers()?.into_iter().map(Label::Integer).collect(),
    })
}

/// A list among the attributes in one of its forms: `keys_strings`, `keys_tensor`, ...
fn list(attributes: &Attributes, name: &str) -> Result<Option<Tensor>> {
    if let Some(tensor) = attributes.tensor(&format!("{name}_tensor"))? {
        return tensor.reshaped(&[tensor.elements()]).map(Some);
    }
    if let Some(values) = attributes.strings(&format!("{name}_strings"))? {
        let values: Vec<String> = values.into_iter().map(str::to_owned).collect();
        return Tensor::strings(&[values.len()], values).map(Some);
    }
    if let Some(values) = attributes.ints(&format!("{name}_int64s"))? {
        return Tensor::new(&[values.len()], values.to_vec()).map(Some);
    }
    match attributes.floats(&format!("{name}_floats"))? {
        Some(values) => Tensor::new(&[values.len()], values.to_vec()).map(Some),
        None => Ok(None),
    }
}

/// What stands for labels that are not known, in the type of those that are.
fn default(attributes: &Attributes, element: ElementType) -> Result<Tensor> {
    if let Some(tensor) = attributes.tensor("default_tensor")? {
        return Ok(tensor.clone());
    }
    match element {
        ElementType::String => {
            let text = attributes.string_or("default_string", "_Unused")?;
            Tensor::strings(&[], vec![text.to_owned()])
        }
        element if element.is_float() => {
            let value = f64::from(attributes.float_or("default_float", -0.0)?);
            Tensor::from_f64(element, &[], &[value])
        }
        _ => {
            let value = i128::from(attributes.int_or("default_int64", -1)?);
            Tensor::from_integers(element, &[], &[value])
        }
    }
}

/// Looks up each element; of equal keys the last one counts.
fn mapped(data: &Tensor, keys: &Tensor, values: &Tensor, default: &Tensor) -> Result<Vec<Value>> {
    if keys.elements() != values.elements() {
        let (keys, values) = (keys.elements(), values.elements());
        return Err(Error::operands(format!("{keys} keys for {values} values")));
    }
    let places: HashMap<Label, usize> = labels(keys)?.into_iter().zip(0..).collect();
    let (extended, last) = with_last(values, default)?;
    let sought = labels(data)?;
    let found = sought.iter().map(|label| places.get(label).copied().unwrap_or(last));
    Ok(one(walk::pick(&extended, data.shape(), found)?))
}

pub fn label_encoder(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    if let Some(classes) = list(attributes, "classes")? {
        return numbered(data, attributes, &classes, None);
    }
    let missing = |what: &str| Error::operands(format!("the {what} are missing"));
    let keys = list(attributes, "keys")?.ok_or_else(|| missing("keys"))?;
    let values = list(attributes, "values")?.ok_or_else(|| missing("values"))?;
    mapped(data, &keys, &values, &default(attributes, values.element())?)
}

pub fn category_mapper(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let names = list(attributes, "cats")?;
    let names = match names.filter(|names| names.element() == ElementType::String) {
        Some(names) => names,
        None => return Err(Error::operands("the attribute `cats_strings` is missing")),
    };
    let numbers = attributes.ints("cats_int64s")?;
    numbered(data, attributes, &names, numbers)
}

/// Names to numbers or back, whichever way the operand asks for. Names count up if no numbers are given.
fn numbered(
    data: &Tensor,
    attributes: &Attributes,
    names: &Tensor,
    numbers: Option<&[i64]>,
) -> Result<Vec<Value>> {
    let counted = || (0..names.elements() as i64).collect::<Vec<i64>>();
    let numbers = numbers.map_or_else(counted, <[i64]>::to_vec);
    let numbers = Tensor::new(&[numbers.len()], numbers)?;
    let (keys, values) = match data.element() {
        ElementType::String => (names, &numbers),
        _ => (&numbers, names),
    };
    mapped(data, keys, values, &default(attributes, values.element())?)
}

pub fn one_hot_encoder(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let categories = list(attributes, "cats")?;
    let categories = categories.ok_or_else(|| Error::operands("the categories are missing"))?;
    let count = categories.elements();
    let places: HashMap<Label, usize> = labels(&categories)?.into_iter().zip(0..).collect();
    // Numbers of any type are compared with categories that are integers.
    let sought = match data.element() {
        element if element.is_float() => {
            let cut = |x: f64| Label::Integer(i128::from(x as i64));
            data.to_f64()?.into_iter().map(cut).collect()
        }
        _ => labels(data)?,
    };
    let mut shape = data.shape().to_vec();
    shape.push(count);
    let mut values = filled(0f32, checked_elements(ElementType::F32, &shape)?)?;
    for (index, label) in sought.iter().enumerate() {
        match places.get(label) {
            Some(place) => values[index * count + place] = 1.0,
            None if attributes.flag("zeros", true)? => {}
            None => return Err(Error::operands("an element is of no known category")),
        }
    }
    Ok(one(Tensor::new(&shape, values)?))
}
