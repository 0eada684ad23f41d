//! The gradient of the weight of groups with few channels of the output: for each tap, the products of rows of x with
//! rows of the gradient, accumulated in lanes.

use std::ops::Range;

use polaris_runtime::cpu::CpuDevice;

use super::super::axis::Axis;
use super::super::geometry::Geometry;
use super::direct::{GRAIN, POSITIONS};
use super::in_place_weight;
use super::pieces::{Blocks, Piece};
use super::window::{CHUNK, Window};
use super::{Number, Operands};
use crate::Result;
use crate::cpu::map::SendPointer;
use crate::cpu::simd::multiversion;

/// Tasks that the sum is cut into, whatever the number of threads.
const TASKS: usize = 64;
/// The most taps whose accumulators are kept in registers.
const HELD: usize = 8;

pub fn run<C: Number>(geometry: &Geometry, cpu: &CpuDevice, operands: &Operands) -> Result<()> {
    if in_place_weight::run::<C>(geometry, cpu, operands) {
        return Ok(());
    }
    let Geometry { inputs, outputs, .. } = *geometry;
    let axes = geometry.lengths.each_ref().map(Axis::forward);
    let taps = axes[0].taps * axes[1].taps;
    let blocks = Blocks::new(geometry.images, &axes, POSITIONS, CHUNK);
    let totals = Totals::<C>::new(geometry, blocks.count(), blocks.most_positions());
    totals.compute(cpu, operands, |group, part, totals| {
        let mut window = Window::new(axes, blocks.width);
        let mut memory = Memory::<C> {
            pieces: Vec::with_capacity(blocks.pieces),
            window: vec![C::default(); window.elements(blocks.pieces)],
            gradient: vec![C::default(); blocks.most_positions()],
        };
        for block in part {
            blocks.list(block, &mut memory.pieces);
            window.place(&memory.pieces, &mut memory.window);
            for input in 0..inputs {
                let channel = group * inputs + input;
                // SAFETY: the operands are registered by the caller; there is room for a block.
                unsafe { window.fill(&operands.x, channel, &mut memory.window) };
                for output in 0..outputs {
                    // SAFETY: as above.
                    unsafe { memory.load_gradient(operands, group * outputs + output) };
                    let totals = &mut totals[(output * inputs + input) * taps..][..taps];
                    add_products(cpu.simd(), &window, &memory, totals);
                }
            }
        }
    });
    Ok(())
}

/// A sum for each tap, made in parts that threads share, and put together in one order.
pub(super) struct Totals<'a, C> {
    geometry: &'a Geometry,
    /// What all positions are cut into, and the parts of that.
    pieces: usize,
    parts: usize,
    /// Multiplications of a part.
    work: usize,
    partial: Vec<C>,
}

impl<'a, C: Number> Totals<'a, C> {
    /// For positions in so many pieces of so many.
    pub fn new(geometry: &'a Geometry, pieces: usize, positions: usize) -> Self {
        let parts = TASKS.div_ceil(geometry.groups).clamp(1, pieces.max(1));
        let of_group = Self::of_group(geometry);
        let work = of_group * positions * pieces.div_ceil(parts);
        let partial = vec![C::default(); parts * geometry.groups * of_group];
        Self { geometry, pieces, parts, work, partial }
    }

    /// Taps of all channels that meet in a group.
    fn of_group(geometry: &Geometry) -> usize {
        let [rows, columns] = &geometry.lengths;
        geometry.outputs * geometry.inputs * rows.kernel * columns.kernel
    }

    /// Adds, for each group, some pieces to accumulators that begin as zeros, and writes the totals.
    pub fn compute(
        mut self,
        cpu: &CpuDevice,
        operands: &Operands,
        add: impl Fn(usize, Range<usize>, &mut [C]) + Sync,
    ) {
        let Self { geometry, pieces, parts, work, .. } = self;
        let (groups, of_group) = (geometry.groups, Self::of_group(geometry));
        let slots = SendPointer(self.partial.as_mut_ptr().cast());
        cpu.pool().for_chunks(parts * groups, (GRAIN / work.max(1)).max(1), |chunk| {
            for task in chunk {
                let (part, group) = (task / groups, task % groups);
                // SAFETY: each task has its own stretch of `partial`, which outlives the call.
                let totals = unsafe {
                    let start = slots.get().cast::<C>().add(task * of_group);
                    std::slice::from_raw_parts_mut(start, of_group)
                };
                add(group, part * pieces / parts..(part + 1) * pieces / parts, totals);
            }
        });
        let (weight, inputs) = (&operands.weight, geometry.inputs);
        let [rows, columns] = geometry.lengths.each_ref().map(|lengths| lengths.kernel);
        for index in 0..groups * of_group {
            let parts = self.partial.iter().skip(index).step_by(groups * of_group);
            let total = parts.fold(C::default(), |total, &part| total + part);
            let (channel, tap) = (index / (rows * columns), index % (rows * columns));
            let at = weight.at([channel / inputs, channel % inputs, tap / columns, tap % columns]);
            // SAFETY: the weight is registered as written, by this operation alone.
            unsafe { total.store_one(at, weight.dtype) };
        }
    }
}

/// What a thread needs.
struct Memory<C> {
    pieces: Vec<Piece>,
    window: Vec<C>,
    gradient: Vec<C>,
}

impl<C: Number> Memory<C> {
    /// Loads the gradient of one channel for the pieces of a block.
    ///
    /// # Safety
    /// The operands must be registered.
    unsafe fn load_gradient(&mut self, operands: &Operands, channel: usize) {
        for piece in &self.pieces {
            let row = operands.y.row([piece.image, channel, piece.row, piece.column], 1);
            let target = &mut self.gradient[piece.at..][..piece.width];
            // SAFETY: by the caller's word; the piece lies inside the gradient.
            unsafe {
                if row.is_direct::<C>() {
                    let from = row.start.cast::<C>().cast_const();
                    target.copy_from_slice(std::slice::from_raw_parts(from, piece.width));
                } else {
                    row.load(0, piece.width, target);
                }
            }
        }
    }
}

multiversion! {
    /// Adds the accumulators of one block to the totals of each tap.
    fn add_products<C: Number>(window: &Window, memory: &Memory<C>, totals: &mut [C]) {
        let mut tap = 0;
        while tap < totals.len() {
            let rest = &mut totals[tap..];
            tap += match rest.len() {
                HELD.. => taps::<C, HELD, VECTOR_BYTES>(window, memory, tap, rest),
                4.. => taps::<C, 4, VECTOR_BYTES>(window, memory, tap, rest),
                2.. => taps::<C, 2, VECTOR_BYTES>(window, memory, tap, rest),
                _ => taps::<C, 1, VECTOR_BYTES>(window, memory, tap, rest),
            };
        }
    }
}

/// Adds the accumulators of `N` taps from `first` on, and returns how many that were.
#[inline(always)]
fn taps<C: Number, const N: usize, const VECTOR_BYTES: usize>(
    window: &Window,
    memory: &Memory<C>,
    first: usize,
    totals: &mut [C],
) -> usize {
    let columns = &window.column_taps[..];
    let row_taps = window.taps() / columns.len();
    let mut sums = [[C::default(); CHUNK]; N];
    for (piece, starts) in memory.pieces.iter().zip(window.starts.chunks_exact(row_taps)) {
        let gradient = &memory.gradient[piece.at..][..piece.width];
        let mut rows = [&memory.window[..]; N];
        for (n, row) in rows.iter_mut().enumerate() {
            let tap = first + n;
            let start = starts[tap / columns.len()] + columns[tap % columns.len()];
            *row = &memory.window[start..][..piece.width];
        }
        let whole = piece.width / CHUNK * CHUNK;
        for at in (0..whole).step_by(CHUNK) {
            // SAFETY: all slices have the piece's width, of which this is a whole chunk.
            let chunk =
                |from: &[C]| unsafe { from.as_ptr().add(at).cast::<[C; CHUNK]>().read_unaligned() };
            let gradient = chunk(gradient);
            for (sums, row) in sums.iter_mut().zip(&rows) {
                let row = chunk(row);
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = gradient[i].multiply_add::<VECTOR_BYTES>(row[i], *sum);
                }
            }
        }
        for (sums, row) in sums.iter_mut().zip(&rows) {
            let rest = gradient[whole..].iter().zip(&row[whole..]);
            for (sum, (&gradient, &x)) in sums.iter_mut().zip(rest) {
                *sum = gradient.multiply_add::<VECTOR_BYTES>(x, *sum);
            }
        }
    }
    for (total, sums) in totals.iter_mut().zip(&sums) {
        *total = sums.iter().fold(*total, |total, &sum| total + sum);
    }
    N
}
