//! Running sums and products.

use super::along::Lines;
use crate::operators::{Call, one};
use crate::{Error, Result, Tensor, Value};

pub fn cum_sum(call: &Call<'_>) -> Result<Vec<Value>> {
    cumulate(call, (0, 0.0), i128::wrapping_add, |sum, x| sum + x)
}

pub fn cum_prod(call: &Call<'_>) -> Result<Vec<Value>> {
    cumulate(call, (1, 1.0), i128::wrapping_mul, |product, x| product * x)
}

fn cumulate(
    call: &Call<'_>,
    start: (i128, f64),
    integers: fn(i128, i128) -> i128,
    floats: fn(f64, f64) -> f64,
) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let axis = match call.tensor(1)?.to_i64()?.as_slice() {
        [axis] => *axis,
        other => return Err(Error::operands(format!("{} axes were given, not one", other.len()))),
    };
    let lines = Lines::along(data.shape(), axis)?;
    let exclusive = call.attributes().flag("exclusive", false)?;
    let reverse = call.attributes().flag("reverse", false)?;
    let (element, shape) = (data.element(), data.shape());
    Ok(one(if element.is_float() {
        let mut values = data.to_f64()?;
        run(&mut values, lines, start.1, floats, (exclusive, reverse));
        Tensor::from_f64(element, shape, &values)?
    } else {
        let mut values = data.to_integers()?;
        run(&mut values, lines, start.0, integers, (exclusive, reverse));
        Tensor::from_integers(element, shape, &values)?
    }))
}

fn run<T: Copy>(
    values: &mut [T],
    lines: Lines,
    start: T,
    fold: fn(T, T) -> T,
    (exclusive, reverse): (bool, bool),
) {
    for first in lines.starts() {
        let mut so_far = start;
        let mut step = |place: usize| {
            let with = fold(so_far, values[place]);
            values[place] = if exclusive { so_far } else { with };
            so_far = with;
        };
        if reverse {
            lines.places(first).rev().for_each(&mut step);
        } else {
            lines.places(first).for_each(&mut step);
        }
    }
}
