//! Batch normalisation and its gradient on the CPU, element by element: what a channel's elements are
//! multiplied by is found once.

use polaris_core::DType;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::{Buffer, HostOperands};

use super::Channels;
use super::cpu_loops::{self as loops, Coefficients};
use super::operations::Arrays;
use crate::cpu::blocks::{Row, end_streaming};
use crate::cpu::map::streaming_threshold;
use crate::norm::cpu::{GRAIN, Place, load_row};
use crate::norm::cpu_rows::Number;
use crate::{Array, Result};

/// Fewer channels side by side are better taken one by one.
const LEAST_SIDE_BY_SIDE: usize = 8;

impl<const N: usize> Channels<N> {
    /// Whether neighbouring elements are of different channels.
    pub(super) fn are_side_by_side(&self) -> bool {
        let (_, strides) = self.rest.inner();
        self.strides[0] == 1 && strides[0] != 1 && self.count >= LEAST_SIDE_BY_SIDE
    }
}

pub fn run(
    op: &'static str,
    arrays: &Arrays<'_>,
    cpu: &CpuDevice,
    inputs: &[&Array],
) -> Result<()> {
    match arrays.x.dtype() {
        DType::F64 => elements::<f64>(op, arrays, cpu, inputs),
        _ => elements::<f32>(op, arrays, cpu, inputs),
    }
}

/// The numbers of all channels, in `f64`.
///
/// # Safety
/// The memory must be that of the array, and nobody may write it meanwhile.
pub unsafe fn numbers(array: &Array, start: *const u8) -> Vec<f64> {
    let layout = array.layout();
    let place = Place::new(start.cast_mut(), array, layout.strides()[0]);
    let mut numbers = vec![0.0; layout.elements()];
    let count = numbers.len();
    if count == 0 {
        return numbers;
    }
    // SAFETY: the layout was checked against the buffer; the rest by the caller's word.
    unsafe {
        let row: Row = place.row(layout.offset());
        if row.is_direct::<f64>() {
            numbers.copy_from_slice(row.load(0, count, &mut []));
        } else {
            row.load(0, count, &mut numbers);
        }
    }
    numbers
}

/// What becomes of each channel; `start` gives the memory of an input.
fn coefficients<C: Number>(
    arrays: &Arrays<'_>,
    size: usize,
    start: impl Fn(&Array) -> *const u8,
) -> Vec<Coefficients<C>> {
    // SAFETY: the buffers are registered as read while the operation lasts.
    let numbers = |array: &Array| unsafe { numbers(array, start(array)) };
    let [mean, variance] =
        arrays.statistics.expect("the statistics should be checked to be there").map(numbers);
    let [weight, bias] = [arrays.weight, arrays.bias].map(|array| array.map(numbers));
    let sums = arrays.sums.map(|sums| sums.map(numbers));
    let one = |channel: usize| {
        let normal = 1.0 / (variance[channel] + arrays.epsilon).sqrt();
        let slope = normal * weight.as_ref().map_or(1.0, |weight| weight[channel]);
        let [centre, factor, shift] = match (&sums, arrays.g) {
            (_, None) => [mean[channel], slope, bias.as_ref().map_or(0.0, |bias| bias[channel])],
            // Of the gradient itself, which takes the place of x.
            (None, Some(_)) => [0.0, slope, 0.0],
            (Some([of_weight, of_bias]), Some(_)) => {
                let part = -slope / size as f64;
                [mean[channel], part * of_weight[channel] * normal, part * of_bias[channel]]
            }
        };
        let [centre, factor, shift, slope] = [centre, factor, shift, slope].map(C::of);
        Coefficients { centre, factor, shift, slope }
    };
    (0..mean.len()).map(one).collect()
}

fn elements<C: Number>(
    op: &'static str,
    arrays: &Arrays<'_>,
    cpu: &CpuDevice,
    inputs: &[&Array],
) -> Result<()> {
    let output = arrays.output;
    // Where statistics were given, the gradient does not depend on x.
    let (x, g) = match (arrays.g, arrays.sums) {
        (Some(g), None) => (g, None),
        (g, _) => (arrays.x, g),
    };
    let with_g = g.is_some();
    let g = g.unwrap_or(x);
    let channels = Channels::new(x.shape(), [x.layout(), g.layout(), output.layout()])?;
    let buffers: Vec<&Buffer> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new(op, &buffers, output.buffer())?;
    let start = |array: &Array| {
        let index = inputs.iter().position(|input| std::ptr::eq(*input, array));
        operands.input(index.expect("the arrays should be among the inputs"))
    };
    let by = coefficients::<C>(arrays, channels.elements(), start);

    // A row is of one channel, or has an element of each.
    let side_by_side = channels.are_side_by_side();
    let (along, steps) = channels.rest.inner();
    let (length, steps) =
        if side_by_side { (channels.count, channels.strides) } else { (along, steps) };
    let rows = x.elements() / length;
    // Along a single element, nobody takes a step.
    let steps = if length > 1 { steps } else { [1; 3] };
    let sources = [
        Place::new(start(x).cast_mut(), x, steps[0]),
        Place::new(start(g).cast_mut(), g, steps[1]),
    ];
    let target = Place::new(operands.output(), output, steps[2]);
    // What the result may overwrite is copied first: slices must not overlap.
    let aliased = [x, g].map(|array| array.overlaps(output));
    let copied = [0, 1].map(|i| aliased[i] || !sources[i].is_direct::<C>());
    let to_output = target.is_direct::<C>();
    let bytes = output.elements() * output.dtype().size();
    let streamed = to_output
        && !side_by_side
        && !aliased.contains(&true)
        && bytes as u64 >= streaming_threshold(cpu);
    let level = cpu.simd();
    cpu.pool().for_chunks(rows, (GRAIN / length).max(1), |chunk| {
        let room = |needed: bool| vec![C::default(); if needed { length } else { 0 }];
        let mut scratch = copied.map(room);
        let mut result = room(!to_output);
        for row in chunk {
            let (at, channel) = if side_by_side {
                (channels.rest.point(row), 0)
            } else {
                let (run, channel) = (row / channels.count, row % channels.count);
                let at = channels.rest.row(run);
                (std::array::from_fn(|i| at[i] + channel * channels.strides[i]), channel)
            };
            let [x_at, g_at, to]: [usize; 3] = at;
            let [x_scratch, g_scratch] = &mut scratch;
            // SAFETY: the layouts were checked against their buffers, which are registered as read
            // and written by this operation; each row is written by one thread, from inputs that do
            // not share its memory or were copied.
            unsafe {
                let x = load_row(sources[0].row(x_at), length, copied[0], x_scratch);
                let g = match with_g {
                    true => load_row(sources[1].row(g_at), length, copied[1], g_scratch),
                    false => &[],
                };
                let into = target.row(to);
                let result = if to_output {
                    std::slice::from_raw_parts_mut(into.start.cast::<C>(), length)
                } else {
                    &mut result[..]
                };
                if side_by_side {
                    loops::write_channels::<C>(level, x, g, &by, result);
                } else {
                    loops::write_row::<C>(level, x, g, by[channel], result, streamed);
                }
                if !to_output {
                    into.store(0, result);
                }
            }
        }
        if streamed {
            end_streaming();
        }
    });
    Ok(())
}
