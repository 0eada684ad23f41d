//! Rows of A as bytes: sixteens of one scale, in tiles of several tokens.

use polaris_blocks::{CHUNK, Plain};

use super::vectors::{GROUP, Part, Rounded, Vectors};
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Vnni};
use super::{Instructions, chunk_start};

/// Where the tiles of some rows lie, in one piece of memory.
///
/// A tile holds `tokens` rows. Of four elements along k the bytes of all tokens follow one another, then those of the
/// next four; after them the scales and then the scaled sums of every sixteen elements in the same order. Tiles of one
/// row for weights with groups of 32 have the eight scales of a chunk and then its eight sums where scales are. Rows are
/// stored in whole chunks ([`chunk_start`]), and tiles filled up with rows of zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tiles {
    /// Rows of a tile.
    pub tokens: usize,
    /// Tiles.
    pub count: usize,
    /// Elements of a row, filled up.
    k: usize,
    /// Elements that a weight has one minimum for: 16, or 32 whose sum counts for the first sixteen.
    group: usize,
}

/// One tile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile {
    pub bytes: *const u32,
    pub scales: *const f32,
    pub sums: *const f32,
}

impl Tiles {
    /// Tiles of at most so many rows, all of an even number of them or of one.
    pub fn new(rows: usize, k: usize, most: usize, group: usize) -> Self {
        let tokens = rows.div_ceil(rows.div_ceil(most).max(1)).max(1);
        let tokens = if most == 1 { 1 } else { tokens.next_multiple_of(2) };
        Self { tokens, count: rows.div_ceil(tokens), k: k.next_multiple_of(CHUNK), group }
    }

    /// Bytes of all tiles.
    pub fn bytes(&self) -> usize {
        self.count * self.tile_bytes()
    }

    fn tile_bytes(&self) -> usize {
        self.tokens * (self.k + 2 * self.k / 16 * size_of::<f32>())
    }

    /// The tile of a number.
    pub fn tile(&self, memory: *const u8, number: usize) -> Tile {
        let bytes = memory.wrapping_add(number * self.tile_bytes());
        let scales = bytes.wrapping_add(self.tokens * self.k).cast::<f32>();
        let sums = scales.wrapping_add(self.tokens * self.k / 16);
        Tile { bytes: bytes.cast(), scales, sums }
    }

    /// Rounds the rows of a tile; those that are not there become zero.
    ///
    /// # Safety
    /// The rows must be readable, and the memory be as large as [`Self::bytes`] says and this tile this thread's alone.
    pub unsafe fn write(
        &self,
        instructions: Instructions,
        rows: Rows,
        number: usize,
        memory: *mut u8,
    ) {
        let first = number * self.tokens;
        let rows = Rows {
            start: rows.start.wrapping_add(first * rows.stride),
            count: rows.count.saturating_sub(first).min(self.tokens),
            ..rows
        };
        let round = match instructions {
            #[cfg(target_arch = "x86_64")]
            Instructions::Vnni => vnni,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 | Instructions::Avx2 => avx2,
            Instructions::Plain => plain,
        };
        // SAFETY: by the caller's word; these instructions were found on this processor.
        unsafe { round(*self, rows, self.tile(memory, number)) };
    }
}

impl Tile {
    /// A chunk of the only row of a tile.
    pub(super) fn part(&self, chunk: usize) -> Part {
        Part {
            bytes: self.bytes.cast::<i8>().wrapping_add(chunk * CHUNK),
            scales: self.scales.wrapping_add(chunk * (CHUNK / 16)),
            sums: self.sums.wrapping_add(chunk * (CHUNK / 16)),
        }
    }
}

/// Rows of numbers: where the first begins, elements from one to the next, how many there are, and their length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    pub start: *const f32,
    pub stride: usize,
    pub count: usize,
    pub length: usize,
}

/// All tokens of a group are written before the next group: what they write lies side by side.
///
/// # Safety
/// As for [`Tiles::write`].
#[inline(always)]
unsafe fn round<V: Vectors>(simd: V, tiles: Tiles, rows: Rows, tile: Tile) {
    for first in (0..tiles.k).step_by(GROUP) {
        for token in 0..tiles.tokens {
            let mut x = [0.0f32; GROUP];
            let from = chunk_start(first / CHUNK, rows.length) + first % CHUNK;
            let is_new = from >= first / CHUNK * CHUNK;
            if token < rows.count && is_new && from < rows.length {
                let count = GROUP.min(rows.length - from);
                // SAFETY: by the caller's word, here and below.
                unsafe {
                    let from = rows.start.add(token * rows.stride + from);
                    if count == GROUP {
                        x = from.cast::<[f32; GROUP]>().read_unaligned();
                    } else {
                        std::ptr::copy_nonoverlapping(from, x.as_mut_ptr(), count);
                    }
                }
            }
            let Rounded { bytes, scale, sums: [a, b] } = simd.round(&x);
            // SAFETY: see above; here and below.
            let set =
                |to: *const f32, at: usize, value: f32| unsafe { *to.cast_mut().add(at) = value };
            if tiles.tokens == 1 && tiles.group == 32 {
                let at = first / CHUNK * (CHUNK / 16) + first % CHUNK / 32;
                set(tile.scales, at, scale);
                set(tile.scales, at + CHUNK / 32, scale * (a + b) as f32);
            } else {
                let sums = if tiles.group == 16 { [a, b] } else { [a + b, 0] };
                for (half, &sum) in sums.iter().enumerate() {
                    let at = (first / 16 + half) * tiles.tokens + token;
                    set(tile.scales, at, scale);
                    set(tile.sums, at, scale * sum as f32);
                }
            }
            for (i, &four) in bytes.as_chunks::<4>().0.iter().enumerate() {
                let at = (first / 4 + i) * tiles.tokens + token;
                // SAFETY: see above.
                unsafe { tile.bytes.cast_mut().add(at).cast::<[i8; 4]>().write(four) };
            }
        }
    }
}

/// The same compiled for some instructions.
macro_rules! compiled {
    ($name:ident, $simd:expr $(, $features:literal)?) => {
        /// # Safety
        /// As for `round`; the processor must have the instructions.
        $(#[target_feature(enable = $features)])?
        unsafe fn $name(tiles: Tiles, rows: Rows, tile: Tile) {
            // SAFETY: by the caller's word.
            unsafe { round($simd, tiles, rows, tile) }
        }
    };
}

compiled!(plain, Plain);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, Avx2::new(), "avx2,fma,f16c,bmi2");
#[cfg(target_arch = "x86_64")]
compiled!(vnni, Vnni::new(), "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c,bmi2");
