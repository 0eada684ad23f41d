//! Reductions over any axes, such as ReduceSum.

use crate::operators::distinct_axes;
use crate::operators::shape::{grid, numbers};
use crate::operators::{Call, one, walk};
use crate::room::filled;
use crate::{ElementType, Error, Result, Tensor, Value};

/// Which elements go where.
struct Plan {
    /// The shape of the result.
    shape: Vec<usize>,
    /// For each axis of the operand, what an index adds to the place in the result.
    tables: Vec<Vec<usize>>,
    /// How many elements go to one place.
    count: usize,
}

impl Plan {
    fn new(call: &Call<'_>) -> Result<Self> {
        let data = call.tensor(0)?;
        let attributes = call.attributes();
        let axes = numbers(call, "axes", 1)?.unwrap_or_default();
        let mut is_reduced = vec![false; data.rank()];
        if axes.is_empty() {
            is_reduced.fill(!attributes.flag("noop_with_empty_axes", false)?);
        } else if data.rank() == 0 {
            // A scalar has no axis to name, yet files name its first or last.
            let named = axes.iter().all(|&axis| axis == 0 || axis == -1);
            named.then_some(()).ok_or_else(|| Error::operands("a scalar has no axes"))?;
        } else {
            distinct_axes(&axes, data.rank())?.into_iter().for_each(|at| is_reduced[at] = true);
        }
        let of = |at: usize, length: usize| if is_reduced[at] { 1 } else { length };
        let lengths = data.shape().iter().enumerate();
        let kept: Vec<usize> = lengths.clone().map(|(at, &length)| of(at, length)).collect();
        let strides = walk::strides(&kept);
        let tables = lengths
            .clone()
            .map(|(at, &length)| grid::whole(length, if is_reduced[at] { 0 } else { strides[at] }))
            .collect::<Result<Vec<Vec<usize>>>>()?;
        let count = lengths.clone().filter(|&(at, _)| is_reduced[at]).map(|(_, &n)| n).product();
        let shape = if attributes.flag("keepdims", true)? {
            kept
        } else {
            lengths.filter(|&(at, _)| !is_reduced[at]).map(|(_, &length)| length).collect()
        };
        Ok(Self { shape, tables, count })
    }

    /// Folds every element into its place, each of which begins with `start`.
    fn fold<T: Copy>(&self, values: &[T], start: T, fold: impl Fn(T, T) -> T) -> Result<Vec<T>> {
        let elements = crate::limits::checked_elements(ElementType::C128, &self.shape)?;
        let mut results = filled(start, elements)?;
        for (&value, place) in values.iter().zip(grid::places(&self.tables)?) {
            results[place] = fold(results[place], value);
        }
        Ok(results)
    }
}

/// A reduction that integers have exactly.
fn exact(
    call: &Call<'_>,
    start: (i128, f64),
    integers: fn(i128, i128) -> i128,
    floats: fn(f64, f64) -> f64,
) -> Result<Vec<Value>> {
    let (data, plan) = (call.tensor(0)?, Plan::new(call)?);
    if data.element().is_float() {
        let results = plan.fold(&data.to_f64()?, start.1, floats)?;
        return Ok(one(Tensor::from_f64(data.element(), &plan.shape, &results)?));
    }
    let results = plan.fold(&data.to_integers()?, start.0, integers)?;
    Ok(one(Tensor::from_integers(data.element(), &plan.shape, &results)?))
}

pub fn sum(call: &Call<'_>) -> Result<Vec<Value>> {
    exact(call, (0, 0.0), i128::wrapping_add, |sum, x| sum + x)
}

pub fn prod(call: &Call<'_>) -> Result<Vec<Value>> {
    exact(call, (1, 1.0), i128::wrapping_mul, |product, x| product * x)
}

pub fn l1(call: &Call<'_>) -> Result<Vec<Value>> {
    exact(call, (0, 0.0), |sum, x| sum.wrapping_add(x.abs()), |sum, x| sum + x.abs())
}

pub fn sum_square(call: &Call<'_>) -> Result<Vec<Value>> {
    let square = |sum: i128, x: i128| sum.wrapping_add(x.wrapping_mul(x));
    exact(call, (0, 0.0), square, |sum, x| sum + x * x)
}

pub fn max(call: &Call<'_>) -> Result<Vec<Value>> {
    let least = range(call.tensor(0)?.element()).0;
    let larger = |a: f64, b: f64| if a > b || a.is_nan() { a } else { b };
    exact(call, (least, f64::NEG_INFINITY), i128::max, larger)
}

pub fn min(call: &Call<'_>) -> Result<Vec<Value>> {
    let most = range(call.tensor(0)?.element()).1;
    let smaller = |a: f64, b: f64| if a < b || a.is_nan() { a } else { b };
    exact(call, (most, f64::INFINITY), i128::min, smaller)
}

/// The smallest and the largest number of an integer type: what the extremes of nothing are.
fn range(element: ElementType) -> (i128, i128) {
    if element == ElementType::Bool {
        return (0, 1);
    }
    let bits = element.bits_in_files().unwrap_or(64).min(64);
    match element.is_signed_integer() {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    }
}

/// A reduction that is computed in floating point for every type.
fn rounded(
    call: &Call<'_>,
    finish: impl Fn(&Plan, &[f64]) -> Result<Vec<f64>>,
) -> Result<Vec<Value>> {
    let (data, plan) = (call.tensor(0)?, Plan::new(call)?);
    let results = finish(&plan, &data.to_f64()?)?;
    Ok(one(Tensor::from_f64(data.element(), &plan.shape, &results)?))
}

fn map(values: Vec<f64>, of: impl Fn(f64) -> f64) -> Vec<f64> {
    values.into_iter().map(of).collect()
}

pub fn mean(call: &Call<'_>) -> Result<Vec<Value>> {
    rounded(call, |plan, values| {
        let sums = plan.fold(values, 0.0, |sum, x| sum + x)?;
        Ok(map(sums, |sum| sum / plan.count as f64))
    })
}

pub fn l2(call: &Call<'_>) -> Result<Vec<Value>> {
    rounded(call, |plan, values| Ok(map(plan.fold(values, 0.0, |sum, x| sum + x * x)?, f64::sqrt)))
}

pub fn log_sum(call: &Call<'_>) -> Result<Vec<Value>> {
    rounded(call, |plan, values| Ok(map(plan.fold(values, 0.0, |sum, x| sum + x)?, f64::ln)))
}

pub fn log_sum_exp(call: &Call<'_>) -> Result<Vec<Value>> {
    rounded(call, |plan, values| {
        let largest = plan.fold(values, f64::NEG_INFINITY, f64::max)?;
        // Exponents are taken relative to the largest one, unless that one is infinite.
        let base = map(largest, |x| if x.is_finite() { x } else { 0.0 });
        let mut sums = vec![0.0; base.len()];
        for (value, place) in values.iter().zip(grid::places(&plan.tables)?) {
            sums[place] += (value - base[place]).exp();
        }
        Ok(base.into_iter().zip(sums).map(|(base, sum)| base + sum.ln()).collect())
    })
}
