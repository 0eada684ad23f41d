//! Where the largest and the smallest elements are.

use super::along::Lines;
use crate::operators::{Call, one};
use crate::{Error, Result, Tensor, Value};

pub fn arg_max(call: &Call<'_>) -> Result<Vec<Value>> {
    arg(call, false)
}

pub fn arg_min(call: &Call<'_>) -> Result<Vec<Value>> {
    arg(call, true)
}

fn arg(call: &Call<'_>, smallest: bool) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let number = attributes.int_or("axis", 0)?;
    let lines = Lines::along(data.shape(), number)?;
    let last = attributes.flag("select_last_index", false)?;
    let mut shape = data.shape().to_vec();
    if !shape.is_empty() {
        let at = crate::operators::axis(number, shape.len())?;
        if attributes.flag("keepdims", true)? {
            shape[at] = 1;
        } else {
            shape.remove(at);
        }
    }
    let indices = if data.element().is_float() {
        let sign = if smallest { -1.0 } else { 1.0 };
        // NaN counts as the largest, as in NumPy.
        let better = |a: f64, b: f64| sign * a > sign * b || (a.is_nan() && !b.is_nan());
        let equal = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
        best(&data.to_f64()?, lines, |a, b| better(a, b) || (last && equal(a, b)))
    } else {
        let better = |a: i128, b: i128| if smallest { a < b } else { a > b };
        best(&data.to_integers()?, lines, |a, b| better(a, b) || (last && a == b))
    };
    if indices.is_empty() && !shape.contains(&0) {
        return Err(Error::operands("an axis without elements has no largest or smallest one"));
    }
    Ok(one(Tensor::new(&shape, indices)?))
}

/// The index in each line of an element that none after it displaces.
fn best<T: Copy>(values: &[T], lines: Lines, displaces: impl Fn(T, T) -> bool) -> Vec<i64> {
    let of_line = |start: usize| {
        let mut best = (0, values[start]);
        for (index, place) in lines.places(start).enumerate().skip(1) {
            if displaces(values[place], best.1) {
                best = (index, values[place]);
            }
        }
        best.0 as i64
    };
    lines.starts().map(of_line).collect()
}
