//! Groups with few output channels and dense rows that are wide enough for vectors: sources are read in place, and
//! accumulators stay in registers until they are written. Only the few positions whose taps reach beyond the
//! border are computed one by one.

use std::ops::Range;

use polaris_runtime::cpu::CpuDevice;

use super::super::axis::Axis;
use super::super::geometry::Gather;
use super::direct::{GRAIN, load_weights};
use super::window::CHUNK;
use super::{Image, Number, Operands};
use crate::cpu::simd::multiversion;

/// Chunks of accumulators that are kept in registers.
const HELD: usize = 4;
/// Tasks for each thread, so that the last one to finish is not late by much.
const TASKS: usize = 4;

/// The positions of a row whose taps all lie inside it, if neighbours see neighbours and there are
/// enough of them for vectors.
pub(super) fn inside(columns: &Axis) -> Option<Range<usize>> {
    if columns.step != 1 || columns.spacing != 1 || columns.taps == 0 {
        return None;
    }
    let lowest = columns.lowest();
    let highest = columns.offset(0).max(columns.offset(columns.taps - 1));
    let start = usize::try_from(-lowest).unwrap_or(0);
    let end = columns.count.min(usize::try_from(columns.source as isize - highest).unwrap_or(0));
    (start + CHUNK <= end).then_some(start..end)
}

/// Whether an image is made of dense rows of the compute type.
pub(super) fn has_dense_rows<C: Number>(image: &Image) -> bool {
    image.dtype == C::NATIVE && image.strides[3] == 1
}

/// Computes the sum for all positions if that can be done in place, and says whether.
pub(super) fn run<C: Number>(
    gather: &Gather,
    cpu: &CpuDevice,
    operands: &Operands,
    source: &Image,
    result: &Image,
) -> bool {
    let Some(inside) = inside(&gather.axes[1]) else { return false };
    if gather.depth() == 0 || !has_dense_rows::<C>(source) || !has_dense_rows::<C>(result) {
        return false;
    }
    let pool = cpu.pool();
    let (lines, planes) = (gather.axes[0].count, gather.images * gather.groups * gather.rows);
    let parts = (TASKS * pool.threads()).div_ceil(planes.max(1)).clamp(1, lines.max(1));
    let products = gather.depth() * gather.axes[1].count * lines.div_ceil(parts);
    let grain = (GRAIN / products.max(1)).max(1);
    pool.for_chunks(planes * parts, grain, |chunk| {
        let taps = gather.axes[0].taps * gather.axes[1].taps;
        let mut weights = vec![C::default(); gather.channels * taps];
        for task in chunk {
            let (plane, part) = (task / parts, task % parts);
            let (image, channel) =
                (plane / (gather.groups * gather.rows), plane % (gather.groups * gather.rows));
            let (group, row) = (channel / gather.rows, channel % gather.rows);
            for (of, weights) in weights.chunks_exact_mut(taps).enumerate() {
                // SAFETY: the weight is registered as read by the caller.
                unsafe { load_weights(gather, &operands.weight, [group, row, of], weights) };
            }
            // SAFETY: the bias is registered as read, and has a number for each channel.
            let bias = operands.bias.map_or(C::default(), |bias| unsafe { bias.of(channel) });
            let plane = Plane { gather, image, group, weights: &weights, bias, inside: &inside };
            let mut seen = Vec::with_capacity(gather.channels * gather.axes[0].taps);
            for line in part * lines / parts..(part + 1) * lines / parts {
                plane.see(line, source, &mut seen);
                let line = gather.axes[0].start + line * gather.axes[0].spacing;
                let target = result.at([image, channel, line, gather.axes[1].start]).cast::<C>();
                // SAFETY: the result is registered as written and its rows are dense; each row is
                // one task's alone.
                let target =
                    unsafe { std::slice::from_raw_parts_mut(target, gather.axes[1].count) };
                add_up(cpu.simd(), &plane, &seen, target);
            }
        }
    });
    true
}

/// One channel of one image of the result.
struct Plane<'a, C> {
    gather: &'a Gather,
    image: usize,
    group: usize,
    /// By channel of the source, row tap and column tap.
    weights: &'a [C],
    bias: C,
    inside: &'a Range<usize>,
}

/// A row of the source, and the weights of its column taps.
type Seen<'a, C> = (&'a [C], &'a [C]);

impl<'a, C: Number> Plane<'a, C> {
    /// Lists the rows of the source that a row of the result sees.
    fn see(&self, line: usize, source: &Image, seen: &mut Vec<Seen<'a, C>>) {
        let [rows, columns] = &self.gather.axes;
        seen.clear();
        for (index, weights) in self.weights.chunks_exact(columns.taps).enumerate() {
            let channel = self.group * self.gather.channels + index / rows.taps;
            if let Some(row) = rows.place(line, index % rows.taps) {
                let start = source.at([self.image, channel, row, 0]).cast::<C>().cast_const();
                // SAFETY: the source is registered as read, and this is one of its dense rows.
                let row = unsafe { std::slice::from_raw_parts(start, columns.source) };
                seen.push((row, weights));
            }
        }
    }
}

multiversion! {
    /// Computes one row of the result.
    fn add_up<C: Number>(plane: &Plane<'_, C>, seen: &[Seen<'_, C>], target: &mut [C]) {
        let (columns, inside) = (&plane.gather.axes[1], plane.inside);
        let mut at = inside.start;
        while inside.end - at >= HELD * CHUNK {
            chunks::<C, HELD, VECTOR_BYTES>(plane, seen, at, target);
            at += HELD * CHUNK;
        }
        while inside.end - at >= CHUNK {
            chunks::<C, 1, VECTOR_BYTES>(plane, seen, at, target);
            at += CHUNK;
        }
        if at < inside.end {
            // Some once more, which is cheaper than one by one.
            chunks::<C, 1, VECTOR_BYTES>(plane, seen, inside.end - CHUNK, target);
        }
        for position in (0..inside.start).chain(inside.end..target.len()) {
            let mut sum = plane.bias;
            for &(row, weights) in seen {
                for (tap, &weight) in weights.iter().enumerate() {
                    if let Some(column) = columns.place(position, tap) {
                        sum = weight.multiply_add::<VECTOR_BYTES>(row[column], sum);
                    }
                }
            }
            target[position] = sum;
        }
    }
}

/// Computes `N` chunks of a row, all of whose taps lie inside.
#[inline(always)]
fn chunks<C: Number, const N: usize, const VECTOR_BYTES: usize>(
    plane: &Plane<'_, C>,
    seen: &[Seen<'_, C>],
    at: usize,
    target: &mut [C],
) {
    let columns = &plane.gather.axes[1];
    let mut held = [[plane.bias; CHUNK]; N];
    for &(row, weights) in seen {
        let mut column = at as isize + columns.first;
        for &weight in weights {
            let row = &row[column as usize..][..N * CHUNK];
            for (n, held) in held.iter_mut().enumerate() {
                for (i, held) in held.iter_mut().enumerate() {
                    *held = weight.multiply_add::<VECTOR_BYTES>(row[n * CHUNK + i], *held);
                }
            }
            column += columns.advance;
        }
    }
    for (held, target) in held.iter().zip(target[at..][..N * CHUNK].chunks_exact_mut(CHUNK)) {
        target.copy_from_slice(held);
    }
}
