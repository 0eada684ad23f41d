//! The order of elements by definition.

use std::cmp::Ordering;

use polaris_core::Shape;

use super::ArgSort;

pub fn argsort(op: &ArgSort, values: &[f64], shape: &Shape, output: &Shape) -> Vec<f64> {
    let (length, kept) = (shape[op.axis], output[op.axis]);
    let inner: usize = shape[op.axis + 1..].iter().product();
    let mut results = vec![0.0; output.elements()];
    for lane in 0..output.elements() / kept.max(1) {
        let (outer, behind) = (lane / inner, lane % inner);
        let value = |index: usize| values[(outer * length + index) * inner + behind];
        let mut order: Vec<usize> = (0..length).collect();
        order.sort_by(|&a, &b| {
            let ascending = compare(value(a), value(b));
            if op.descending { ascending.reverse() } else { ascending }
        });
        for (place, &index) in order[..kept].iter().enumerate() {
            results[(outer * kept + place) * inner + behind] = index as f64;
        }
    }
    results
}

/// NaN is the largest, and all NaN are equal.
fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
