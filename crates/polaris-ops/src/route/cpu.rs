//! Routing on the CPU, tokens over all threads.

use std::cmp::Ordering;

use polaris_core::Layout;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::{Gating, Groups, LEAST_SUM, Route, RouteIds};
use crate::cpu::map::SendPointer;
use crate::cpu::math::Real;
use crate::{Array, Error, Result};

/// Fewer logits than this are not worth a second thread.
const GRAIN: usize = 4 * 1024;

/// An array of four-byte elements with a row for each token.
#[derive(Clone, Copy)]
struct Matrix {
    start: SendPointer,
    offset: usize,
    strides: [usize; 2],
}

impl Matrix {
    fn new(start: *const u8, layout: &Layout) -> Self {
        let strides = layout.strides();
        Self {
            start: SendPointer(start.cast_mut()),
            offset: layout.offset(),
            strides: [strides[0], strides.get(1).copied().unwrap_or(0)],
        }
    }

    fn at<T>(&self, row: usize, column: usize) -> *mut T {
        let element = self.offset + row * self.strides[0] + column * self.strides[1];
        self.start.get().cast::<T>().wrapping_add(element)
    }

    /// # Safety
    /// The row must lie inside the array, which must be registered as read.
    unsafe fn row<T: Copy>(&self, row: usize, length: usize) -> Vec<T> {
        // SAFETY: by the caller's word.
        (0..length).map(|column| unsafe { *self.at::<T>(row, column) }).collect()
    }
}

pub fn ids(op: &RouteIds, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
    let [tokens, experts] = [0, 1].map(|axis| inputs[0].shape()[axis]);
    let buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new("route_ids", &buffers, output.buffer())?;
    let matrix = |index: usize| Matrix::new(operands.input(index), inputs[index].layout());
    let logits = matrix(0);
    let to = Matrix::new(operands.output(), output.layout());
    let bias: Option<Vec<f32>> = op.bias.then(|| {
        let vector = matrix(1);
        // SAFETY: the bias has an element for each expert, and is registered as read.
        (0..experts).map(|expert| unsafe { *vector.at::<f32>(expert, 0) }).collect()
    });
    cpu.pool().for_chunks(tokens, (GRAIN / experts.max(1)).max(1), |chunk| {
        for token in chunk {
            // SAFETY: the logits have such a row, and are registered as read.
            let mut scores = unsafe { logits.row::<f32>(token, experts) };
            if op.route.needs_scores(op.bias) {
                gate(op.route.gating, &mut scores);
            }
            for (at, score) in scores.iter_mut().enumerate() {
                *score += bias.as_ref().map_or(0.0, |bias| bias[at]);
                *score = if Real::is_nan(*score) { f32::NEG_INFINITY } else { *score };
            }
            for (place, expert) in choose(&op.route, &scores).into_iter().enumerate() {
                // SAFETY: the output has such an element, which this thread alone writes.
                unsafe { *to.at::<i32>(token, place) = expert as i32 };
            }
        }
    });
    Ok(())
}

/// Turns logits into scores.
fn gate(gating: Gating, logits: &mut [f32]) {
    match gating {
        Gating::Softmax => softmax(logits),
        Gating::Sigmoid => logits.iter_mut().for_each(|x| *x = 1.0 / (1.0 + Real::exp(-*x))),
        Gating::SoftmaxOfChosen => {}
    }
}

fn softmax(logits: &mut [f32]) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter_mut().for_each(|x| *x = Real::exp(*x - largest));
    let sum: f32 = logits.iter().sum();
    logits.iter_mut().for_each(|x| *x /= sum);
}

/// The larger value first, of equal ones the lower index.
fn order(values: &[f32]) -> impl Fn(&usize, &usize) -> Ordering + '_ {
    |&a, &b| values[b].partial_cmp(&values[a]).unwrap_or(Ordering::Equal).then(a.cmp(&b))
}

/// The first `count` of some indices in order.
fn first_in_order(mut indices: Vec<usize>, count: usize, values: &[f32]) -> Vec<usize> {
    if count < indices.len() && count > 0 {
        indices.select_nth_unstable_by(count - 1, order(values));
    }
    indices.truncate(count);
    indices.sort_unstable_by(order(values));
    indices
}

fn choose(route: &Route, scores: &[f32]) -> Vec<usize> {
    let Some(Groups { count, used, best }) = route.groups else {
        return first_in_order((0..scores.len()).collect(), route.used, scores);
    };
    let each = scores.len() / count;
    let experts = |group: usize| group * each..(group + 1) * each;
    let of_group = |group: usize| {
        let best = first_in_order(experts(group).collect(), best, scores);
        let sum: f32 = best.into_iter().map(|expert| scores[expert]).sum();
        // Infinities of both signs.
        if Real::is_nan(sum) { f32::NEG_INFINITY } else { sum }
    };
    let groups: Vec<f32> = (0..count).map(of_group).collect();
    let chosen = first_in_order((0..count).collect(), used, &groups);
    first_in_order(chosen.into_iter().flat_map(experts).collect(), route.used, scores)
}

pub fn weights(route: &Route, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
    let op = "route_weights";
    let [tokens, experts] = [0, 1].map(|axis| inputs[0].shape()[axis]);
    let used = route.used;
    let buffers = [inputs[0].buffer(), inputs[1].buffer()];
    let operands = HostOperands::new(op, &buffers, output.buffer())?;
    let [logits, ids] =
        [0, 1].map(|index| Matrix::new(operands.input(index), inputs[index].layout()));
    let to = Matrix::new(operands.output(), output.layout());
    for position in 0..tokens * used {
        // SAFETY: the ids have such an element, and are registered as read.
        let id = unsafe { *ids.at::<i32>(position / used, position % used) };
        if usize::try_from(id).map_or(true, |id| id >= experts) {
            let (index, length) = (i64::from(id), experts);
            return Err(Error::IndexOutOfRange { op, index, position, axis: 1, length });
        }
    }
    cpu.pool().for_chunks(tokens, (GRAIN / experts.max(1)).max(1), |chunk| {
        for token in chunk {
            // SAFETY: the arrays have such rows, and are registered as read.
            let (mut row, ids) =
                unsafe { (logits.row::<f32>(token, experts), ids.row::<i32>(token, used)) };
            gate(route.gating, &mut row);
            let mut weights: Vec<f32> = ids.iter().map(|&id| row[id as usize]).collect();
            if route.gating == Gating::SoftmaxOfChosen {
                softmax(&mut weights);
            }
            let sum: f32 = weights.iter().sum();
            let least = LEAST_SUM as f32;
            let divisor = match route.normalise {
                true if sum < least => least,
                true => sum,
                false => 1.0,
            };
            for (place, weight) in weights.iter().enumerate() {
                // SAFETY: the output has such an element, which this thread alone writes.
                unsafe { *to.at::<f32>(token, place) = weight / divisor * route.scale as f32 };
            }
        }
    });
    Ok(())
}
