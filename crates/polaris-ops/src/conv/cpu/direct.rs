//! Groups with few channels of the result, depthwise convolutions among them: rows of the source times a weight,
//! added to rows of accumulators.

use polaris_runtime::cpu::{CpuDevice, SimdLevel};

use super::super::geometry::{Form, Gather};
use super::gather::store;
use super::in_place;
use super::pieces::{Blocks, Piece};
use super::window::{CHUNK, Window};
use super::{Image, Number, Operands};
use crate::Result;
use crate::cpu::simd::multiversion;

/// Positions of a block: their accumulators and what they see stay in the L1 cache.
pub(super) const POSITIONS: usize = 2048;
/// Fewer multiplications than this are not worth a second thread.
pub(super) const GRAIN: usize = 1 << 17;
/// Chunks of accumulators that are kept in registers.
const HELD: usize = 4;

pub fn run<C: Number>(
    form: Form,
    gathers: &[Gather],
    cpu: &CpuDevice,
    operands: &Operands,
) -> Result<()> {
    let (source, result) = match form {
        Form::InputGradient => (operands.y, operands.x),
        _ => (operands.x, operands.y),
    };
    let level = cpu.simd();
    let work = |gather| Work { gather, level, operands, source, result };
    let works: Vec<Work<'_>> = gathers.iter().map(work).collect();
    let Some(Gather { images, groups, .. }) = gathers.first().copied() else { return Ok(()) };
    let pool = cpu.pool();
    // Sums of several remainders write every few elements of the same lines. Where there are images
    // enough, one thread makes all of them for a plane, which stays near.
    if works.len() > 1 && images * groups >= 2 * pool.threads() {
        pool.for_chunks(images * groups, 1, |chunk| {
            let blocks = |work: &Work<'_>| {
                let blocks = Blocks::new(1, &work.gather.axes, POSITIONS, CHUNK);
                (blocks, Memory::<C>::new(work.gather, &blocks))
            };
            let mut all: Vec<_> = works.iter().map(blocks).collect();
            for plane in chunk {
                for (work, (blocks, memory)) in works.iter().zip(&mut all) {
                    for block in 0..blocks.count() {
                        blocks.list(block, &mut memory.pieces);
                        let image = plane / groups;
                        memory.pieces.iter_mut().for_each(|piece| piece.image = image);
                        // SAFETY: the operands are registered by the caller, and planes disjoint.
                        unsafe { work.block(plane % groups, memory) };
                    }
                }
            }
        });
        return Ok(());
    }
    for work in &works {
        let gather = work.gather;
        if in_place::run::<C>(gather, cpu, operands, &source, &result) {
            continue;
        }
        let blocks = Blocks::new(images, &gather.axes, POSITIONS, CHUNK);
        let products = gather.rows * gather.depth() * blocks.most_positions();
        let grain = (GRAIN / products.max(1)).max(1);
        pool.for_chunks(groups * blocks.count(), grain, |chunk| {
            let mut memory = Memory::<C>::new(gather, &blocks);
            for task in chunk {
                blocks.list(task % blocks.count(), &mut memory.pieces);
                // SAFETY: as above; tasks have disjoint channels and positions.
                unsafe { work.block(task / blocks.count(), &mut memory) };
            }
        });
    }
    Ok(())
}

/// One sum, and what it is made of.
struct Work<'a> {
    gather: &'a Gather,
    level: SimdLevel,
    operands: &'a Operands,
    source: Image,
    result: Image,
}

/// What a thread needs.
struct Memory<C> {
    pieces: Vec<Piece>,
    window: Window,
    rows: Vec<C>,
    weights: Vec<C>,
    sums: Vec<C>,
}

impl<C: Number> Memory<C> {
    fn new(gather: &Gather, blocks: &Blocks) -> Self {
        let window = Window::new(gather.axes, blocks.width);
        Self {
            pieces: Vec::with_capacity(blocks.pieces),
            rows: vec![C::default(); window.elements(blocks.pieces)],
            weights: vec![C::default(); window.taps()],
            sums: vec![C::default(); gather.rows * blocks.most_positions()],
            window,
        }
    }
}

impl Work<'_> {
    /// Computes the pieces of a block that the memory lists.
    ///
    /// # Safety
    /// The operands must be registered, and these positions be this thread's alone.
    unsafe fn block<C: Number>(&self, group: usize, memory: &mut Memory<C>) {
        let (gather, operands) = (self.gather, self.operands);
        let Memory { pieces, window, rows, weights, sums } = memory;
        let positions = pieces.last().map_or(0, |last| last.at + last.width);
        let positions = positions.next_multiple_of(CHUNK).max(1);
        window.place(pieces, rows);
        for (row, sums) in sums.chunks_exact_mut(positions).take(gather.rows).enumerate() {
            // SAFETY: by the caller's word; there is a bias for each channel.
            let bias = operands.bias.map(|bias| unsafe { bias.of(group * gather.rows + row) });
            sums.fill(bias.unwrap_or_default());
        }
        for channel in 0..gather.channels {
            // SAFETY: by the caller's word; there is room for the pieces of a block.
            unsafe { window.fill(&self.source, group * gather.channels + channel, rows) };
            for (row, sums) in sums.chunks_exact_mut(positions).take(gather.rows).enumerate() {
                // SAFETY: by the caller's word.
                unsafe { load_weights(gather, &operands.weight, [group, row, channel], weights) };
                add_rows(self.level, window, pieces, rows, weights, sums);
            }
        }
        for (row, sums) in sums.chunks_exact(positions).take(gather.rows).enumerate() {
            // SAFETY: by the caller's word.
            unsafe { store(gather, &self.result, pieces, group * gather.rows + row, sums) };
        }
    }
}

/// Loads the taps between a row of the result and a channel of the source.
///
/// # Safety
/// The weight must be registered as read.
pub(super) unsafe fn load_weights<C: Number>(
    gather: &Gather,
    weight: &Image,
    [group, row, channel]: [usize; 3],
    target: &mut [C],
) {
    let (strides, [rows, columns]) = (&gather.weight, &gather.axes);
    let first = group * strides.group + row * strides.row + channel * strides.channel;
    for (tap, target) in target.iter_mut().enumerate() {
        let row_tap = rows.first_tap + tap / columns.taps * rows.tap_step;
        let column_tap = columns.first_tap + tap % columns.taps * columns.tap_step;
        let at = first + row_tap * strides.taps[0] + column_tap * strides.taps[1];
        // SAFETY: by the caller's word; the tap lies inside the weight.
        *target = unsafe {
            C::load_one(weight.start.get().wrapping_add(at * weight.dtype.size()), weight.dtype)
        };
    }
}

multiversion! {
    /// Adds what the pieces see under each tap, times its weight. Pieces begin on chunks; what is
    /// added beyond their end means nothing.
    fn add_rows<C: Number>(
        window: &Window,
        pieces: &[Piece],
        rows: &[C],
        weights: &[C],
        sums: &mut [C],
    ) {
        let columns = &window.column_taps[..];
        if columns.is_empty() || weights.is_empty() {
            return;
        }
        let row_taps = weights.len() / columns.len();
        for (piece, starts) in pieces.iter().zip(window.starts.chunks_exact(row_taps)) {
            let end = piece.width.next_multiple_of(CHUNK);
            let sums = &mut sums[piece.at..][..end];
            let mut at = 0;
            while end - at >= HELD * CHUNK {
                chunks::<C, HELD, VECTOR_BYTES>(starts, columns, rows, weights, at, sums);
                at += HELD * CHUNK;
            }
            if end - at >= 2 * CHUNK {
                chunks::<C, 2, VECTOR_BYTES>(starts, columns, rows, weights, at, sums);
                at += 2 * CHUNK;
            }
            if end > at {
                chunks::<C, 1, VECTOR_BYTES>(starts, columns, rows, weights, at, sums);
            }
        }
    }
}

/// Adds to `N` chunks of accumulators from `at` on, which stay in registers.
#[inline(always)]
fn chunks<C: Number, const N: usize, const VECTOR_BYTES: usize>(
    starts: &[usize],
    columns: &[usize],
    rows: &[C],
    weights: &[C],
    at: usize,
    sums: &mut [C],
) {
    let sums = &mut sums[at..][..N * CHUNK];
    let mut held = [[C::default(); CHUNK]; N];
    for (held, sums) in held.iter_mut().zip(sums.chunks_exact(CHUNK)) {
        held.copy_from_slice(sums);
    }
    for (&start, weights) in starts.iter().zip(weights.chunks_exact(columns.len())) {
        for (&column, &weight) in columns.iter().zip(weights) {
            let row = &rows[start + column + at..][..N * CHUNK];
            for (n, held) in held.iter_mut().enumerate() {
                for (i, held) in held.iter_mut().enumerate() {
                    *held = weight.multiply_add::<VECTOR_BYTES>(row[n * CHUNK + i], *held);
                }
            }
        }
    }
    for (held, sums) in held.iter().zip(sums.chunks_exact_mut(CHUNK)) {
        sums.copy_from_slice(held);
    }
}
