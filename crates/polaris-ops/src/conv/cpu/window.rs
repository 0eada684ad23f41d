//! What a block of positions sees of one channel: rows of the source, padded with zeros and in the
//! compute type, their columns sorted by remainder of the step. Neighbouring positions then find
//! neighbouring elements under every tap, whatever the padding, stride, dilation and type.

use super::super::axis::Axis;
use super::pieces::Piece;
use super::{Image, Number};
use crate::cpu::simd::multiversion;

/// Elements that are copied at a time. Copies may go beyond their end by less than this.
pub(super) const CHUNK: usize = 16;

/// The rows of one block, for every channel alike.
pub(super) struct Window {
    axes: [Axis; 2],
    /// Remainders of columns that any tap has.
    remainders: Vec<usize>,
    /// Where the first position finds its element in a row, by column tap.
    pub column_taps: Vec<usize>,
    /// Elements of one remainder that any position sees, with room to copy in chunks, and of a row.
    seen: usize,
    pitch: usize,
    row_elements: usize,
    /// The rows: of which image, where in it, and the first position. The first is zeros.
    rows: Vec<Option<(usize, usize, usize)>>,
    /// Where the rows of each piece begin, by row tap.
    pub starts: Vec<usize>,
}

impl Window {
    /// For pieces of at most this many positions.
    pub fn new(axes: [Axis; 2], width: usize) -> Self {
        let columns = &axes[1];
        let low = columns.lowest();
        let distance = |tap: usize| (columns.offset(tap) - low) as usize;
        let mut remainders: Vec<usize> =
            (0..columns.taps).map(|tap| distance(tap) % columns.step).collect();
        remainders.sort_unstable();
        remainders.dedup();
        let furthest = (0..columns.taps).map(|tap| distance(tap) / columns.step).max().unwrap_or(0);
        let seen = width + furthest;
        let pitch = (seen + CHUNK).next_multiple_of(CHUNK);
        let place = |tap: usize| {
            let remainder = distance(tap) % columns.step;
            remainders.partition_point(|&other| other < remainder) * pitch
                + distance(tap) / columns.step
        };
        Self {
            axes,
            column_taps: (0..columns.taps).map(place).collect(),
            seen,
            pitch,
            row_elements: pitch * remainders.len(),
            remainders,
            rows: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Elements that blocks of so many pieces need.
    pub fn elements(&self, pieces: usize) -> usize {
        (1 + pieces * self.axes[0].taps) * self.row_elements + CHUNK
    }

    /// Taps of a channel.
    pub fn taps(&self) -> usize {
        self.axes[0].taps * self.axes[1].taps
    }

    /// Finds the rows that pieces need, each once, and clears the one that stands for all beyond
    /// the border.
    pub fn place<C: Number>(&mut self, pieces: &[Piece], memory: &mut [C]) {
        memory[..self.row_elements].fill(C::default());
        self.rows.clear();
        self.rows.push(None);
        self.starts.clear();
        let rows = &self.axes[0];
        for piece in pieces {
            for tap in 0..rows.taps {
                let row = rows.place(piece.row, tap).map(|row| (piece.image, row, piece.column));
                let slot = match row {
                    None => 0,
                    // Neighbouring pieces share rows: what is not among the last is not there.
                    Some(_) => {
                        match self.rows.iter().rev().take(4 * rows.taps).position(|&r| r == row) {
                            Some(back) => self.rows.len() - 1 - back,
                            None => {
                                self.rows.push(row);
                                self.rows.len() - 1
                            }
                        }
                    }
                };
                self.starts.push(slot * self.row_elements);
            }
        }
    }

    /// Fills the rows from one channel.
    ///
    /// # Safety
    /// The image must be registered as read, and have the channel.
    pub unsafe fn fill<C: Number>(&self, source: &Image, channel: usize, memory: &mut [C]) {
        let columns = &self.axes[1];
        let targets = memory.chunks_exact_mut(self.row_elements.max(1));
        for (row, target) in self.rows.iter().zip(targets) {
            let &Some((image, row, column)) = row else { continue };
            let begin = (column * columns.step) as isize + columns.lowest();
            for (&remainder, target) in
                self.remainders.iter().zip(target.chunks_exact_mut(self.pitch))
            {
                // Elements are `first + i * step`; those from `before` up to `end` exist.
                let (first, step) = (begin + remainder as isize, columns.step as isize);
                let until = |limit: isize| {
                    ((limit - first + step - 1).max(0) / step).min(self.seen as isize) as usize
                };
                let (before, end) = (until(0), until(columns.source as isize));
                target[..before].fill(C::default());
                target[end..self.seen].fill(C::default());
                if before < end {
                    let from = (first + before as isize * step) as usize;
                    let row = source.row([image, channel, row, from], columns.step);
                    let inside = &mut target[before..end];
                    // SAFETY: by the caller's word; the elements exist.
                    unsafe {
                        if row.is_direct::<C>() {
                            let from = row.start.cast::<C>().cast_const();
                            inside.copy_from_slice(std::slice::from_raw_parts(from, end - before));
                        } else {
                            row.load(0, end - before, inside);
                        }
                    }
                }
            }
        }
    }
}

/// Some taps of one channel for the pieces of a block.
pub(super) struct Copies<'a, C> {
    pub window: &'a Window,
    pub pieces: &'a [Piece],
    /// The filled rows.
    pub rows: &'a [C],
    /// Which of the channel's taps.
    pub taps: std::ops::Range<usize>,
    /// From one tap to the next in the target.
    pub stride: usize,
}

multiversion! {
    /// Writes, for each tap, the elements that all positions of a block see under it. The stride must
    /// leave room for a chunk behind the last piece, and the target for one behind the last tap.
    pub(super) fn copy_taps<C: Number>(copies: &Copies<'_, C>, target: &mut [C]) {
        let Copies { window, pieces, .. } = copies;
        for (piece, starts) in pieces.iter().zip(window.starts.chunks_exact(window.axes[0].taps)) {
            match piece.width.div_ceil(CHUNK) {
                1 => copy_piece::<C, 1>(copies, piece, starts, target),
                2 => copy_piece::<C, 2>(copies, piece, starts, target),
                3 => copy_piece::<C, 3>(copies, piece, starts, target),
                4 => copy_piece::<C, 4>(copies, piece, starts, target),
                _ => copy_piece::<C, 0>(copies, piece, starts, target),
            }
        }
    }
}

/// Copies one piece for each tap, in so many chunks, or any number if that is zero. What is copied
/// beyond the piece is overwritten by the next one, or not looked at.
#[inline(always)]
fn copy_piece<C: Number, const CHUNKS: usize>(
    copies: &Copies<'_, C>,
    piece: &Piece,
    starts: &[usize],
    target: &mut [C],
) {
    let columns = &copies.window.column_taps[..];
    let chunks = if CHUNKS == 0 { piece.width.div_ceil(CHUNK) } else { CHUNKS };
    let (mut row_tap, mut column_tap) =
        (copies.taps.start / columns.len(), copies.taps.start % columns.len());
    let mut at = piece.at;
    for _ in copies.taps.clone() {
        let from = &copies.rows[starts[row_tap] + columns[column_tap]..][..chunks * CHUNK];
        let to = &mut target[at..][..chunks * CHUNK];
        for chunk in 0..chunks {
            // SAFETY: both slices have so many chunks.
            unsafe {
                let from = from.as_ptr().add(chunk * CHUNK).cast::<[C; CHUNK]>();
                let to = to.as_mut_ptr().add(chunk * CHUNK).cast::<[C; CHUNK]>();
                to.write_unaligned(from.read_unaligned());
            }
        }
        at += copies.stride;
        column_tap += 1;
        if column_tap == columns.len() {
            (row_tap, column_tap) = (row_tap + 1, 0);
        }
    }
}
