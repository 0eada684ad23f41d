//! Products of levels and bytes in the vectors of an instruction set.

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
    /// A vector of integers, each the sum of four products.
    type Counts: Copy;
    /// A vector of numbers.
    type Reals: Copy;
    /// Elements of such vectors: a part of [`ROWS`].
    const LANES: usize;

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

    unsafe fn store_bytes(self, bytes: Self::Bytes, to: *mut u8);
    unsafe fn store_floats(self, floats: Self::Floats, to: *mut f32);
    /// Transposes 16 by 16 elements of four bytes, from rows that are so many bytes apart.
    unsafe fn transpose(self, from: *const u8, stride: usize, to: *mut u32);

    fn no_counts(self) -> Self::Counts;
    /// Adds the products of four levels in each lane with the same four bytes.
    unsafe fn count<const WIDE: bool>(
        self,
        counts: Self::Counts,
        levels: *const u8,
        bytes: *const u32,
    ) -> Self::Counts;
    fn no_reals(self) -> Self::Reals;
    unsafe fn load_reals(self, from: *const f32) -> Self::Reals;
    unsafe fn store_reals(self, reals: Self::Reals, to: *mut f32);
    /// `sum + counts * factor * scales - minima * less`.
    unsafe fn scaled(
        self,
        sum: Self::Reals,
        counts: Self::Counts,
        factor: *const f32,
        scales: Self::Reals,
        minima: Self::Reals,
        less: *const f32,
    ) -> Self::Reals;
}

// SAFETY: methods touch what the trait says.
unsafe impl Vectors for Plain {
    type Sum = f32;
    type Counts = [i32; 4];
    type Reals = [f32; 4];
    const LANES: usize = 4;

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
    fn no_counts(self) -> [i32; 4] {
        [0; 4]
    }

    #[inline(always)]
    unsafe fn count<const WIDE: bool>(
        self,
        counts: [i32; 4],
        levels: *const u8,
        bytes: *const u32,
    ) -> [i32; 4] {
        // SAFETY: by the caller's word.
        let (levels, bytes) = unsafe {
            (
                levels.cast::<[[u8; 4]; 4]>().read_unaligned(),
                bytes.cast::<[i8; 4]>().read_unaligned(),
            )
        };
        std::array::from_fn(|lane| {
            (0..4)
                .fold(counts[lane], |sum, i| sum + i32::from(levels[lane][i]) * i32::from(bytes[i]))
        })
    }

    #[inline(always)]
    fn no_reals(self) -> [f32; 4] {
        [0.0; 4]
    }

    #[inline(always)]
    unsafe fn load_reals(self, from: *const f32) -> [f32; 4] {
        // SAFETY: by the caller's word.
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store_reals(self, reals: [f32; 4], to: *mut f32) {
        // SAFETY: by the caller's word.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(reals) }
    }

    #[inline(always)]
    unsafe fn scaled(
        self,
        sum: [f32; 4],
        counts: [i32; 4],
        factor: *const f32,
        scales: [f32; 4],
        minima: [f32; 4],
        less: *const f32,
    ) -> [f32; 4] {
        // SAFETY: by the caller's word.
        let (factor, less) = unsafe { (*factor, *less) };
        std::array::from_fn(|i| sum[i] + counts[i] as f32 * factor * scales[i] - minima[i] * less)
    }

    #[inline(always)]
    unsafe fn transpose(self, from: *const u8, stride: usize, to: *mut u32) {
        for row in 0..ROWS {
            for i in 0..ROWS {
                // SAFETY: by the caller's word.
                unsafe {
                    *to.add(i * ROWS + row) =
                        from.add(row * stride).cast::<u32>().add(i).read_unaligned();
                }
            }
        }
    }
}
