//! The epilogue: from accumulators to int8.

use crate::quantize::Limits;

/// Stores the bytes of sums of NHWC images.
///
/// # Safety
/// `to` must be valid for writing as many bytes as there are accumulators, `stride` apart.
#[inline(always)]
pub unsafe fn store(sums: &[i32], factors: &[f32], limits: Limits, to: *mut u8, stride: usize) {
    for (at, (&sum, &factor)) in sums.iter().zip(factors).enumerate() {
        // SAFETY: by the caller's word.
        unsafe { *to.add(at * stride) = limits.byte(sum as f32 * factor) };
    }
}

/// As `store` for `N` adjacent bytes, which become whole vectors.
///
/// # Safety
/// `to` must be valid for writing `N` bytes.
#[inline(always)]
pub unsafe fn store_all<const N: usize>(
    sums: &[i32; N],
    factors: &[f32; N],
    limits: Limits,
    to: *mut u8,
) {
    let bytes: [u8; N] = std::array::from_fn(|at| limits.byte(sums[at] as f32 * factors[at]));
    // SAFETY: by the caller's word.
    unsafe { to.cast::<[u8; N]>().write_unaligned(bytes) };
}
