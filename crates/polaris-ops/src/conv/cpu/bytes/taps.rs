//! The left operand of the matmul (im2col): for each position of the result the taps that it sees. Where taps are the
//! channels of one element, that is the image itself; elsewhere they are gathered, for as many positions at a time as
//! stay in the L2 cache. Each is used by every output channel, so copies cost little.

use std::ops::Range;

use super::Job;
use crate::cpu::map::SendPointer;
use crate::cpu::simd::multiversion;

/// NHWC images in memory.
#[derive(Clone, Copy)]
pub struct Image {
    pub start: SendPointer,
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
        let [images, _, row, column] = self.image.strides;
        // Images of one element follow one another as elements of a row do.
        let pixels = rows.input * columns.input;
        let pixel = if pixels == 1 { images } else { column };
        let joined = (rows.input == 1 || row == columns.input * pixel)
            && (geometry.images == 1 || images == pixels * pixel);
        let start = self.image.start.get().addr();
        let aligned = [start, pixel, geometry.inputs].iter().all(|number| number.is_multiple_of(4));
        let fits =
            group == 4 && geometry.has_plain_taps() && self.image.flip == 0 && joined && aligned;
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

multiversion! {
    /// Writes the taps of some positions of a group, `pitch` apart. What lies beyond the last tap of a
    /// row keeps its value; weights are zero there. The caller vouches that the image is registered, and
    /// that there is room.
    pub fn gather<T: Tap>(
        job: &Job<'_>,
        group: usize,
        positions: Range<usize>,
        to: SendPointer,
        pitch: usize,
    ) {
        let to = to.get().cast::<T>();
        for (index, position) in positions.enumerate() {
            // SAFETY: by the caller's word, there is room for so many rows.
            unsafe { row(job, group, job.place(position), to.add(index * pitch)) };
        }
    }
}

/// The taps of one position.
///
/// # Safety
/// As for `gather`.
#[inline(always)]
unsafe fn row<T: Tap>(
    job: &Job<'_>,
    group: usize,
    [image, row, column]: [usize; 3],
    mut to: *mut T,
) {
    let geometry = job.geometry;
    let [rows, columns] = &geometry.lengths;
    let channels = geometry.inputs;
    let (flip, zero) = (job.image.flip, job.packed.zero);
    let first = column * columns.stride;
    let one_stretch = columns.dilation == 1 && job.image.strides[3] == channels;
    for tap in 0..rows.kernel {
        let from = (row * rows.stride + tap * rows.dilation).checked_sub(rows.padding);
        let Some(from) = from.filter(|&row| row < rows.input) else {
            // SAFETY: as above, here and below.
            unsafe { fill(&mut to, columns.kernel * channels, zero) };
            continue;
        };
        let line = job.image.at(image, from, 0).wrapping_add(group * channels);
        let column_at = |column: usize| line.wrapping_add(column * job.image.strides[3]);
        if one_stretch {
            let before = columns.padding.saturating_sub(first).min(columns.kernel);
            let start = (first + before).saturating_sub(columns.padding);
            let inside = columns.input.saturating_sub(start).min(columns.kernel - before);
            // SAFETY: columns inside the image are read.
            unsafe {
                fill(&mut to, before * channels, zero);
                copy(&mut to, column_at(start), inside * channels, flip);
                fill(&mut to, (columns.kernel - before - inside) * channels, zero);
            }
            continue;
        }
        for tap in 0..columns.kernel {
            let from = (first + tap * columns.dilation).checked_sub(columns.padding);
            // SAFETY: as above.
            unsafe {
                match from.filter(|&column| column < columns.input) {
                    Some(from) => copy(&mut to, column_at(from), channels, flip),
                    None => fill(&mut to, channels, zero),
                }
            }
        }
    }
}

/// # Safety
/// There must be room for `count` taps.
#[inline(always)]
unsafe fn fill<T: Tap>(to: &mut *mut T, count: usize, zero: u8) {
    for at in 0..count {
        // SAFETY: by the caller's word.
        unsafe { to.add(at).write(T::of(zero)) };
    }
    *to = to.wrapping_add(count);
}

/// # Safety
/// There must be room for `count` taps, and as many bytes to read.
#[inline(always)]
unsafe fn copy<T: Tap>(to: &mut *mut T, from: *const u8, count: usize, flip: u8) {
    // SAFETY: by the caller's word; images and strips are different memory.
    unsafe {
        if size_of::<T>() == 1 && flip == 0 {
            std::ptr::copy_nonoverlapping(from, to.cast::<u8>(), count);
        } else {
            for at in 0..count {
                to.add(at).write(T::of(*from.add(at) ^ flip));
            }
        }
    }
    *to = to.wrapping_add(count);
}
