//! Elements placed by index: ScatterElements, ScatterND, TensorScatter.

use super::gather::{Slices, element_places};
use crate::operators::shape::join::join;
use crate::operators::{Call, axis, one, walk};
use crate::{Error, Result, Tensor, Value};

pub fn scatter_elements(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, indices, updates) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let at = axis(call.attributes().int_or("axis", 0)?, data.rank())?;
    let places = element_places(data.shape(), at, indices)?;
    if updates.shape() != indices.shape() {
        return Err(differing(updates, indices.shape()));
    }
    scatter(call, data, updates, &places)
}

pub fn scatter_nd(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, indices, updates) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let slices = Slices::new(data.shape(), indices, 0)?;
    let mut shape = indices.shape()[..indices.rank() - 1].to_vec();
    shape.extend_from_slice(&data.shape()[slices.named_axes..]);
    if updates.shape() != shape {
        return Err(differing(updates, &shape));
    }
    let inner = slices.inner;
    let places = slices.starts.into_iter().flat_map(|start| start..start + inner);
    scatter(call, data, updates, &places.collect::<Vec<usize>>())
}

fn differing(updates: &Tensor, wanted: &[usize]) -> Error {
    let found = updates.shape();
    Error::operands(format!("the updates have the shape {found:?} instead of {wanted:?}"))
}

/// Puts each update to its place, or combines it with what is there.
fn scatter(
    call: &Call<'_>,
    data: &Tensor,
    updates: &Tensor,
    places: &[usize],
) -> Result<Vec<Value>> {
    if updates.element() != data.element() {
        let (found, wanted) = (updates.element(), data.element());
        return Err(Error::operands(format!("updates of {found} for elements of {wanted}")));
    }
    let (element, shape) = (data.element(), data.shape());
    let reduction = call.attributes().string_or("reduction", "none")?;
    if reduction == "none" {
        return Ok(one(replaced(data, updates, places)?));
    }
    let unknown = || Error::unsupported(format!("scattering with the reduction `{reduction}`"));
    if element.is_float() {
        let combine: fn(f64, f64) -> f64 = match reduction {
            "add" => |a, b| a + b,
            "mul" => |a, b| a * b,
            "max" => |a, b| if a > b || a.is_nan() { a } else { b },
            "min" => |a, b| if a < b || a.is_nan() { a } else { b },
            _ => return Err(unknown()),
        };
        let mut values = data.to_f64()?;
        combined(&mut values, &updates.to_f64()?, places, combine);
        return Ok(one(Tensor::from_f64(element, shape, &values)?));
    }
    let combine: fn(i128, i128) -> i128 = match reduction {
        "add" => i128::wrapping_add,
        "mul" => i128::wrapping_mul,
        "max" => i128::max,
        "min" => i128::min,
        _ => return Err(unknown()),
    };
    let mut values = data.to_integers()?;
    combined(&mut values, &updates.to_integers()?, places, combine);
    Ok(one(Tensor::from_integers(element, shape, &values)?))
}

fn combined<T: Copy>(values: &mut [T], updates: &[T], places: &[usize], combine: fn(T, T) -> T) {
    for (&update, &place) in updates.iter().zip(places) {
        values[place] = combine(values[place], update);
    }
}

/// The tensor with other elements in some places; of several for one place the last stays.
fn replaced(data: &Tensor, updates: &Tensor, places: &[usize]) -> Result<Tensor> {
    let count = data.elements();
    let mut sources: Vec<usize> = (0..count).collect();
    for (update, &place) in places.iter().enumerate() {
        sources[place] = count + update;
    }
    let rows = [&data.reshaped(&[count])?, &updates.reshaped(&[updates.elements()])?];
    walk::pick(&join(&rows, 0)?, data.shape(), sources)
}

pub fn tensor_scatter(call: &Call<'_>) -> Result<Vec<Value>> {
    let (cache, update) = (call.tensor(0)?, call.tensor(1)?);
    let at = axis(call.attributes().int_or("axis", -2)?, cache.rank())?;
    let circular = match call.attributes().string_or("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => return Err(Error::unsupported(format!("TensorScatter with the mode `{other}`"))),
    };
    let shape = cache.shape();
    let fits = update.rank() == shape.len()
        && at > 0
        && (0..shape.len()).all(|axis| axis == at || update.shape()[axis] == shape[axis])
        && update.shape()[at] <= shape[at];
    if !fits {
        let found = update.shape();
        let why = format!("an update of the shape {found:?} does not fit {shape:?} along {at}");
        return Err(Error::operands(why));
    }
    if update.element() != cache.element() {
        return Err(Error::operands("the update has another type than the cache"));
    }
    if update.elements() == 0 {
        return Ok(one(cache.clone()));
    }
    let batch = shape[0];
    let firsts = match call.optional(2)? {
        Some(firsts) => firsts.to_i64()?,
        None => vec![0; batch],
    };
    if firsts.len() != batch {
        let found = firsts.len();
        return Err(Error::operands(format!("{found} indices for a batch of {batch}")));
    }
    let (length, given) = (shape[at], update.shape()[at]);
    let inner: usize = shape[at + 1..].iter().product();
    let rows: usize = shape[1..at].iter().product();
    let mut places = Vec::with_capacity(update.elements());
    for (number, &first) in firsts.iter().enumerate() {
        let first = match usize::try_from(first) {
            _ if circular => first.rem_euclid(length as i64) as usize,
            Ok(first) if first.checked_add(given).is_some_and(|end| end <= length) => first,
            _ => {
                let why = format!("{given} steps from {first} on are not in a length of {length}");
                return Err(Error::operands(why));
            }
        };
        for row in number * rows..(number + 1) * rows {
            for step in 0..given {
                let start = (row * length + (first + step) % length) * inner;
                places.extend(start..start + inner);
            }
        }
    }
    Ok(one(replaced(cache, update, &places)?))
}
