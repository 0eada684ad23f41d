//! Products of panels with tiles of tokens in the vectors of an instruction set.

use polaris_blocks::Plain;

use super::vectors::ROWS;

/// What the product of a panel with a tile does with the vectors of an instruction set.
///
/// # Safety
/// Pointers must be valid for what is named.
pub(super) unsafe trait Products: Copy {
    /// A vector of integers, each a sum of products.
    type Counts: Copy;
    /// A vector of numbers.
    type Reals: Copy;
    /// Elements of such vectors: a part of [`ROWS`].
    const LANES: usize;

    /// The products of a group with each token, by lanes. Of each of `FOURS` times four elements along k, levels are those
    /// of all rows of a panel, and bytes those of all tokens. No level is above `HIGHEST`, no byte is -128.
    unsafe fn counts<const TOKENS: usize, const FOURS: usize, const HIGHEST: u8>(
        self,
        levels: *const u8,
        bytes: *const u32,
    ) -> [Self::Counts; TOKENS];
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

/// How many products of pairs with levels up to `highest` can be summed in 16 bits, as a power of two: none, if one pair
/// does not fit.
pub(super) const fn pairs_in_16_bits(highest: u8) -> usize {
    let most = i16::MAX as usize / (2 * 127 * highest as usize);
    if most == 0 { 0 } else { 1 << most.ilog2() }
}

// SAFETY: methods touch what the trait says.
unsafe impl Products for Plain {
    type Counts = [i32; 4];
    type Reals = [f32; 4];
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn counts<const TOKENS: usize, const FOURS: usize, const HIGHEST: u8>(
        self,
        levels: *const u8,
        bytes: *const u32,
    ) -> [[i32; 4]; TOKENS] {
        let mut counts = [[0; 4]; TOKENS];
        for four in 0..FOURS {
            for (token, counts) in counts.iter_mut().enumerate() {
                // SAFETY: by the caller's word.
                let (levels, bytes) = unsafe {
                    (
                        levels.add(four * 4 * ROWS).cast::<[[u8; 4]; 4]>().read_unaligned(),
                        bytes.add(four * TOKENS + token).cast::<[i8; 4]>().read_unaligned(),
                    )
                };
                for (count, levels) in counts.iter_mut().zip(levels) {
                    let products = levels.iter().zip(bytes);
                    *count += products.map(|(&l, b)| i32::from(l) * i32::from(b)).sum::<i32>();
                }
            }
        }
        counts
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
}
