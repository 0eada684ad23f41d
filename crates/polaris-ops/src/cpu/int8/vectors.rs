//! Chunks of a weight and of rows of A in the vectors of an instruction set.

use polaris_blocks::{Levels, Plain, Simd};

/// Rows of a weight in a panel.
pub(crate) const ROWS: usize = 16;

/// What a row of A is in one chunk: 256 bytes, and for each sixteen of them a scale and the scaled sum; or for weights
/// with groups of 32, where scales are, those of eight groups and then their sums.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub bytes: *const i8,
    pub scales: *const f32,
    pub sums: *const f32,
}

/// Elements of a row of A that share a scale.
pub(super) const GROUP: usize = 32;
/// The largest magnitude of a byte: -128 is left out, so that products of pairs fit 16 bits.
pub(super) const MOST: f32 = 127.0;

/// 32 numbers as bytes, what those are multiplied by, and the sums of both halves.
#[derive(Clone, Copy)]
pub(super) struct Rounded {
    pub bytes: [i8; GROUP],
    pub scale: f32,
    pub sums: [i32; 2],
}

/// What kernels do with the vectors of an instruction set.
///
/// # Safety
/// Pointers must be valid for what is named.
pub(super) unsafe trait Vectors: Simd {
    /// Accumulators of one dot product.
    type Sum: Copy;

    /// Rounds numbers to the nearest bytes. What is no number, or infinite, makes the scale that.
    fn round(self, x: &[f32; GROUP]) -> Rounded;

    fn no_sum(self) -> Self::Sum;
    /// Adds the products of a chunk with groups of `WIDTH` elements. `WIDE` says whether levels are above 127.
    unsafe fn add_chunk<const WIDE: bool, const WIDTH: usize>(
        self,
        sum: Self::Sum,
        levels: &Levels<Self>,
        part: Part,
    ) -> Self::Sum;
    /// Sixteen numbers whose sum is the dot product.
    fn lanes(self, sum: Self::Sum) -> [f32; 16];
    /// The sums of those of some rows. One row alone would be waited for at each of four additions.
    #[inline(always)]
    fn totals(self, rows: &[[f32; 16]; ROWS]) -> [f32; ROWS] {
        rows.map(|mut lanes| {
            for half in [8, 4, 2, 1] {
                for lane in 0..half {
                    lanes[lane] += lanes[lane + half];
                }
            }
            lanes[0]
        })
    }

    /// Sixteen of the levels, times a scale and less a minimum, rounded once where the processor does that.
    fn weights(self, levels: Self::Bytes, sixteen: usize, scale: f32, minimum: f32)
    -> Self::Floats;

    fn no_floats(self) -> Self::Floats;
    /// Adds the products with sixteen numbers.
    unsafe fn add_products(
        self,
        sum: Self::Floats,
        floats: Self::Floats,
        x: *const f32,
    ) -> Self::Floats;

    unsafe fn store_bytes(self, bytes: Self::Bytes, to: *mut u8);
    unsafe fn store_floats(self, floats: Self::Floats, to: *mut f32);
    /// Transposes 16 by 16 elements of four bytes, from rows that are so many bytes apart to rows that are so many
    /// elements apart.
    unsafe fn transpose(self, from: *const u8, stride: usize, to: *mut u32, to_stride: usize);
}

// SAFETY: methods touch what the trait says.
unsafe impl Vectors for Plain {
    type Sum = f32;

    #[inline(always)]
    fn round(self, x: &[f32; GROUP]) -> Rounded {
        // As integers, infinities and what is no number are the largest.
        let most = x.iter().fold(0, |most, x| most.max(x.abs().to_bits()));
        let most = f32::from_bits(most);
        let inverse = if most > 0.0 { MOST / most } else { 0.0 };
        let bytes = x.map(|x| (x * inverse).round_ties_even() as i8);
        let sum = |half: &[i8]| half.iter().map(|&byte| i32::from(byte)).sum();
        let sums = [sum(&bytes[..16]), sum(&bytes[16..])];
        Rounded { bytes, scale: most * (1.0 / MOST), sums }
    }

    #[inline(always)]
    fn no_sum(self) -> f32 {
        0.0
    }

    #[inline(always)]
    unsafe fn add_chunk<const WIDE: bool, const WIDTH: usize>(
        self,
        mut sum: f32,
        levels: &Levels<Self>,
        part: Part,
    ) -> f32 {
        let all = levels.levels.as_flattened().chunks_exact(WIDTH);
        for (group, of_group) in all.enumerate() {
            // SAFETY: by the caller's word, here and below.
            let bytes = unsafe { std::slice::from_raw_parts(part.bytes.add(group * WIDTH), WIDTH) };
            let mut count = 0;
            for (&level, &byte) in of_group.iter().zip(bytes) {
                count += i32::from(level) * i32::from(byte);
            }
            // SAFETY: see above.
            let (scale, minimum, less) = unsafe {
                match WIDTH {
                    16 => (*part.scales.add(group), levels.minima[group], *part.sums.add(group)),
                    _ => (
                        *part.scales.add(group),
                        levels.scales[8 + group],
                        *part.scales.add(8 + group),
                    ),
                }
            };
            sum += count as f32 * (levels.scales[group] * scale) - minimum * less;
        }
        sum
    }

    #[inline(always)]
    fn lanes(self, sum: f32) -> [f32; 16] {
        let mut lanes = [0.0; 16];
        lanes[0] = sum;
        lanes
    }

    #[inline(always)]
    fn weights(self, levels: [u8; 64], sixteen: usize, scale: f32, minimum: f32) -> [f32; 16] {
        std::array::from_fn(|i| f32::from(levels[16 * sixteen + i]) * scale - minimum)
    }

    #[inline(always)]
    fn no_floats(self) -> [f32; 16] {
        [0.0; 16]
    }

    #[inline(always)]
    unsafe fn add_products(self, sum: [f32; 16], floats: [f32; 16], x: *const f32) -> [f32; 16] {
        // SAFETY: by the caller's word.
        std::array::from_fn(|i| sum[i] + floats[i] * unsafe { *x.add(i) })
    }

    #[inline(always)]
    unsafe fn store_bytes(self, bytes: [u8; 64], to: *mut u8) {
        // SAFETY: by the caller's word.
        unsafe { to.cast::<[u8; 64]>().write_unaligned(bytes) }
    }

    #[inline(always)]
    unsafe fn store_floats(self, floats: [f32; 16], to: *mut f32) {
        // SAFETY: by the caller's word.
        unsafe { to.cast::<[f32; 16]>().write_unaligned(floats) }
    }

    #[inline(always)]
    unsafe fn transpose(self, from: *const u8, stride: usize, to: *mut u32, to_stride: usize) {
        for row in 0..ROWS {
            for i in 0..ROWS {
                // SAFETY: by the caller's word.
                unsafe {
                    *to.add(i * to_stride + row) =
                        from.add(row * stride).cast::<u32>().add(i).read_unaligned();
                }
            }
        }
    }
}
