//! The weight gradient of groups with few output channels and dense rows: rows of x and of the gradient are
//! multiplied in place, and the accumulators of all taps stay in registers.

use std::ops::Range;

use polaris_runtime::cpu::CpuDevice;

use super::super::axis::Axis;
use super::super::geometry::Geometry;
use super::direct_weight::Totals;
use super::in_place::{has_dense_rows, inside};
use super::window::CHUNK;
use super::{Number, Operands};
use crate::cpu::simd::multiversion;

/// The most taps whose accumulators are kept in registers: those of a kernel of 3x3.
const HELD: usize = 9;

/// Computes the gradient if that can be done in place, and says whether.
pub(super) fn run<C: Number>(geometry: &Geometry, cpu: &CpuDevice, operands: &Operands) -> bool {
    let axes = geometry.lengths.each_ref().map(Axis::forward);
    let Some(inside) = inside(&axes[1]) else { return false };
    if !has_dense_rows::<C>(&operands.x) || !has_dense_rows::<C>(&operands.y) {
        return false;
    }
    let Geometry { inputs, outputs, images, .. } = *geometry;
    let lines = images * axes[0].count;
    let totals = Totals::<C>::new(geometry, lines, axes[1].count);
    let beyond = vec![C::default(); axes[1].source];
    totals.compute(cpu, operands, |group, part, totals| {
        for (pair, totals) in totals.chunks_exact_mut(axes[0].taps * axes[1].taps).enumerate() {
            let channels = [group * inputs + pair % inputs, group * outputs + pair / inputs];
            let channel = Channel {
                axes: &axes,
                operands,
                channels,
                inside: &inside,
                lines: part.clone(),
                beyond: &beyond,
            };
            add_products(cpu.simd(), &channel, totals);
        }
    });
    true
}

/// What a channel of x and one of the gradient have to be multiplied for.
struct Channel<'a, C> {
    axes: &'a [Axis; 2],
    operands: &'a Operands,
    /// Of x, and of the gradient.
    channels: [usize; 2],
    inside: &'a Range<usize>,
    /// Rows of the gradient, counted over all images.
    lines: Range<usize>,
    /// What taps see beyond the first and the last row: zeros.
    beyond: &'a [C],
}

impl<C: Number> Channel<'_, C> {
    /// A row of the gradient, with its image and its place there.
    fn gradient(&self, line: usize) -> (&[C], usize, usize) {
        let (image, row) = (line / self.axes[0].count, line % self.axes[0].count);
        let start = self.operands.y.at([image, self.channels[1], row, 0]).cast::<C>();
        // SAFETY: the gradient is registered as read, and this is one of its dense rows.
        let gradient = unsafe { std::slice::from_raw_parts(start, self.axes[1].count) };
        (gradient, image, row)
    }

    /// The row of x that a row of the gradient met under a tap.
    fn seen(&self, image: usize, row: usize, tap: usize) -> &[C] {
        let Some(row) = self.axes[0].place(row, tap) else { return self.beyond };
        let start = self.operands.x.at([image, self.channels[0], row, 0]).cast::<C>();
        // SAFETY: x is registered as read, and this is one of its dense rows.
        unsafe { std::slice::from_raw_parts(start, self.axes[1].source) }
    }
}

multiversion! {
    /// Adds the products of some rows to the total of each tap.
    fn add_products<C: Number>(channel: &Channel<'_, C>, totals: &mut [C]) {
        let mut tap = 0;
        while tap < totals.len() {
            let rest = &mut totals[tap..];
            tap += match rest.len() {
                HELD.. => taps::<C, HELD, VECTOR_BYTES>(channel, tap, rest),
                5.. => taps::<C, 5, VECTOR_BYTES>(channel, tap, rest),
                3.. => taps::<C, 3, VECTOR_BYTES>(channel, tap, rest),
                _ => taps::<C, 1, VECTOR_BYTES>(channel, tap, rest),
            };
        }
    }
}

/// Adds the products of `N` taps from `first` on, and returns how many that were.
#[inline(always)]
fn taps<C: Number, const N: usize, const VECTOR_BYTES: usize>(
    channel: &Channel<'_, C>,
    first: usize,
    totals: &mut [C],
) -> usize {
    let (columns, inside) = (&channel.axes[1], channel.inside);
    let places: [(usize, usize); N] =
        std::array::from_fn(|n| ((first + n) / columns.taps, (first + n) % columns.taps));
    let last = inside.end - CHUNK;
    let offsets: [isize; N] = std::array::from_fn(|n| columns.offset(places[n].1));
    let mut sums = [[C::default(); CHUNK]; N];
    for line in channel.lines.clone() {
        let (gradient, image, row) = channel.gradient(line);
        let seen: [&[C]; N] = std::array::from_fn(|n| channel.seen(image, row, places[n].0));
        let mut at = inside.start;
        while at < inside.end {
            // The last chunk is cut off, by zeros for what the one before it has added.
            let again = at.saturating_sub(last);
            let chunk = load(gradient, (at - again) as isize);
            let chunk: [C; CHUNK] =
                std::array::from_fn(|i| if i < again { C::default() } else { chunk[i] });
            for n in 0..N {
                let row = load(seen[n], (at - again) as isize + offsets[n]);
                for i in 0..CHUNK {
                    sums[n][i] = chunk[i].multiply_add::<VECTOR_BYTES>(row[i], sums[n][i]);
                }
            }
            at += CHUNK;
        }
        for position in (0..inside.start).chain(inside.end..gradient.len()) {
            for n in 0..N {
                if let Some(column) = columns.place(position, places[n].1) {
                    totals[n] =
                        gradient[position].multiply_add::<VECTOR_BYTES>(seen[n][column], totals[n]);
                }
            }
        }
    }
    for (total, sums) in totals.iter_mut().zip(&sums) {
        *total = sums.iter().fold(*total, |total, &sum| total + sum);
    }
    N
}

/// A chunk of a row.
#[inline(always)]
fn load<C: Number>(row: &[C], at: isize) -> [C; CHUNK] {
    let chunk = &row[at as usize..][..CHUNK];
    // SAFETY: the slice has a whole chunk.
    unsafe { chunk.as_ptr().cast::<[C; CHUNK]>().read_unaligned() }
}
