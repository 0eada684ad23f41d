//! The left operand of the matmul (im2col): for each position of the result the taps that it sees. Where taps are the
//! channels of one element, that is the image itself; elsewhere they are gathered, for as many positions at a time as
//! stay in the L2 cache. Each is used by every output channel, so copies cost little.

use std::ops::Range;

use super::{Job, step};
use crate::cpu::map::SendPointer;
use crate::cpu::simd::multiversion;

/// NHWC images in memory.
#[derive(Clone, Copy)]
pub struct Image {
    pub start: SendPointer,
    /// Behind the last element.
    pub end: SendPointer,
    /// Of images, channels, rows and columns.
    pub strides: [usize; 4],
    /// What makes its bytes unsigned.
    pub flip: u8,
}

impl Image {
    fn at(&self, image: usize, row: usize, column: usize) -> *const u8 {
        let [images, _, rows, columns] = self.strides;
        let element = image * images + row * rows + column * columns;
        self.start.get().cast_const().wrapping_add(element)
    }
}

impl Job<'_> {
    /// The distance between positions if quads of channels can be used in place.
    pub fn in_place(&self, group: usize) -> Option<usize> {
        let geometry = self.geometry;
        let [rows, columns] = &geometry.lengths;
        let [_, inputs, _] = self.packed.packing.groups();
        let pixel = step(geometry.images, [rows.input, columns.input], self.image.strides)?;
        let start = self.image.start.get().addr();
        let aligned = [start, pixel, inputs].iter().all(|number| number.is_multiple_of(4));
        let fits = group == 4 && geometry.has_plain_taps() && self.image.flip == 0 && aligned;
        fits.then_some(pixel)
    }
}

/// What a byte becomes in the left factor.
pub trait Tap: Copy {
    fn of(byte: u8) -> Self;
}

/// Four of them are an element of quads.
impl Tap for u8 {
    #[inline(always)]
    fn of(byte: u8) -> Self {
        byte
    }
}

/// Two of them are an element of pairs.
impl Tap for u16 {
    #[inline(always)]
    fn of(byte: u8) -> Self {
        Self::from(byte)
    }
}

/// Taps that are copied at a time, of stretches that are so long or longer. The last copy of a stretch may reach beyond it:
/// what it writes there is written over, or lies behind a row's last tap.
const PIECES: [usize; 3] = [16, 32, 64];

/// How many taps are copied at a time in stretches of a length.
fn piece(length: usize) -> usize {
    PIECES.into_iter().find(|&piece| length <= piece).unwrap_or(PIECES[PIECES.len() - 1])
}

/// Room for a row of so many taps, and for what copies write behind it. Each tap of a kernel has so many channels.
pub fn pitch(taps: usize, kernel: usize, channels: usize) -> usize {
    let beyond = |length: usize| length.next_multiple_of(piece(length)) - length;
    taps + beyond(channels).max(beyond(kernel * channels))
}

multiversion! {
    /// Writes the taps of some positions, of so many channels from the first on, `pitch` apart. What lies beyond the last
    /// tap of a row may be anything; weights are zero there. The caller vouches that the image is registered, and
    /// that there is room.
    pub fn gather<T: Tap>(
        job: &Job<'_>,
        channels: Range<usize>,
        positions: Range<usize>,
        to: SendPointer,
        pitch: usize,
    ) {
        let columns = &job.geometry.lengths[1];
        let is_dense = columns.dilation == 1 && job.image.strides[3] == channels.len();
        let width = if is_dense { columns.kernel } else { 1 };
        let mut to = to.get().cast::<T>();
        let mut position = positions.start;
        while position < positions.end {
            let [image, row, column] = job.place(position);
            let count = (columns.output - column).min(positions.end - position);
            let line = Line { image, row, columns: column..column + count, width, to, pitch };
            // SAFETY: by the caller's word, there is room for so many rows.
            unsafe {
                match piece(width * channels.len()) {
                    16 => line.gather::<16>(job, &channels),
                    32 => line.gather::<32>(job, &channels),
                    _ => line.gather::<64>(job, &channels),
                }
            }
            to = to.wrapping_add(count * pitch);
            position += count;
        }
    }
}

/// Positions in a row of the result.
struct Line<T> {
    image: usize,
    row: usize,
    columns: Range<usize>,
    /// Taps of a row of the kernel that follow one another in memory.
    width: usize,
    /// Where the taps of the first position go, and how far it is to the next.
    to: *mut T,
    pitch: usize,
}

impl<T: Tap> Line<T> {
    /// Writes the taps of all positions, stretch by stretch of the kernel.
    ///
    /// # Safety
    /// As for `gather`.
    #[inline(always)]
    unsafe fn gather<const PIECE: usize>(&self, job: &Job<'_>, channels: &Range<usize>) {
        let [rows, columns] = &job.geometry.lengths;
        let (count, length, zero) =
            (self.columns.len(), self.width * channels.len(), job.packed.zero);
        let mut to = self.to;
        for down in 0..rows.kernel {
            let row = (self.row * rows.stride + down * rows.dilation).checked_sub(rows.padding);
            let row = row.filter(|&row| row < rows.input);
            for across in (0..columns.kernel).step_by(self.width) {
                // SAFETY: by the caller's word, here and below.
                unsafe {
                    match row {
                        None => (0..count).for_each(|at| {
                            fill::<T, PIECE>(to.wrapping_add(at * self.pitch), length, zero);
                        }),
                        Some(row) => {
                            let start = job.image.at(self.image, row, 0);
                            let start = start.wrapping_add(channels.start);
                            self.stretch::<PIECE>(job, channels.len(), across, start, to);
                        }
                    }
                }
                to = to.wrapping_add(length);
            }
        }
    }

    /// Writes some taps of a row of the kernel, of all positions. `start` is the first column of the row that they see.
    ///
    /// # Safety
    /// As for `gather`.
    #[inline(always)]
    unsafe fn stretch<const PIECE: usize>(
        &self,
        job: &Job<'_>,
        channels: usize,
        across: usize,
        start: *const u8,
        to: *mut T,
    ) {
        let (columns, pixel) = (&job.geometry.lengths[1], job.image.strides[3]);
        let (zero, flip) = (job.packed.zero, job.image.flip);
        let (shift, length) = (across * columns.dilation, self.width * channels);
        // Positions that see all these taps.
        let first = columns.padding.saturating_sub(shift).div_ceil(columns.stride);
        let end = match (columns.input + columns.padding).checked_sub(shift + self.width) {
            Some(last) => last / columns.stride + 1,
            None => 0,
        };
        let first = first.clamp(self.columns.start, self.columns.end);
        let whole = first..end.clamp(first, self.columns.end);
        let to = |column: usize| to.wrapping_add((column - self.columns.start) * self.pitch);
        for column in (self.columns.start..whole.start).chain(whole.end..self.columns.end) {
            let at = column * columns.stride + shift;
            let before = columns.padding.saturating_sub(at).min(self.width);
            let at = (at + before).saturating_sub(columns.padding);
            let inside = columns.input.saturating_sub(at).min(self.width - before);
            let to = to(column);
            // SAFETY: columns inside the image are read, and all taps of the stretch written.
            unsafe {
                fill::<T, PIECE>(to, length, zero);
                let to = to.wrapping_add(before * channels);
                copy(to, start.wrapping_add(at * pixel), inside * channels, flip);
            }
        }
        if whole.is_empty() {
            return;
        }
        let at = whole.start * columns.stride + shift - columns.padding;
        let (from, step) = (start.wrapping_add(at * pixel), columns.stride * pixel);
        // Copies must not reach beyond the end of the image.
        let room = job.image.end.get().addr() - from.addr();
        let in_pieces = match room.checked_sub(length.next_multiple_of(PIECE)) {
            Some(room) => {
                room.checked_div(step).map_or(whole.len(), |more| whole.len().min(more + 1))
            }
            None => 0,
        };
        let to = to(whole.start);
        // SAFETY: as above.
        unsafe {
            for index in 0..in_pieces {
                let (to, from) = (to.add(index * self.pitch), from.add(index * step));
                for at in (0..length).step_by(PIECE) {
                    let bytes = from.add(at).cast::<[u8; PIECE]>().read_unaligned();
                    let taps = bytes.map(|byte| T::of(byte ^ flip));
                    to.add(at).cast::<[T; PIECE]>().write_unaligned(taps);
                }
            }
            for index in in_pieces..whole.len() {
                copy(to.add(index * self.pitch), from.add(index * step), length, flip);
            }
        }
    }
}

/// # Safety
/// There must be room for `count` taps in whole pieces.
#[inline(always)]
unsafe fn fill<T: Tap, const PIECE: usize>(to: *mut T, count: usize, zero: u8) {
    for at in (0..count).step_by(PIECE) {
        // SAFETY: by the caller's word.
        unsafe { to.add(at).cast::<[T; PIECE]>().write_unaligned([T::of(zero); PIECE]) };
    }
}

/// # Safety
/// There must be room for `count` taps, and as many bytes to read.
#[inline(always)]
unsafe fn copy<T: Tap>(to: *mut T, from: *const u8, count: usize, flip: u8) {
    for at in 0..count {
        // SAFETY: by the caller's word; images and strips are different memory.
        unsafe { to.add(at).write(T::of(*from.add(at) ^ flip)) };
    }
}
