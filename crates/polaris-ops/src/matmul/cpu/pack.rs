//! Packing: a strip of a matrix becomes a panel in which all elements of a step of k are contiguous.
//! Rows of A and columns of B are packed alike; here both are lanes.

use polaris_runtime::cpu::SimdLevel;

use super::kernel::prefetch;
use super::stored::Packing;
use crate::cpu::simd::multiversion;

/// Some lanes of a matrix, and some of their elements along k. Strides are in elements.
#[derive(Clone, Copy)]
pub(crate) struct Strip {
    pub start: *const u8,
    pub lanes: usize,
    pub lane_stride: usize,
    /// Stored elements along k.
    pub depth: usize,
    pub depth_stride: usize,
}

/// Writes a strip to a panel: step after step of k, `width` packed elements each. Lanes beyond
/// the strip's are zero.
///
/// # Safety
/// The strip must be readable, and the panel writable for `width` elements in each step, of which
/// there are as many as groups in the depth.
pub(crate) type Packer<P> = unsafe fn(SimdLevel, &Strip, usize, *mut P);

/// The packer of one way of packing.
///
/// # Safety
/// As for [`Packer`].
pub(crate) unsafe fn pack<K: Packing>(
    level: SimdLevel,
    strip: &Strip,
    width: usize,
    panel: *mut K::Packed,
) {
    pack_strip::<K>(level, strip, width, panel);
}

multiversion! {
    /// Must only be called by `pack`, whose caller vouches for the pointers.
    fn pack_strip<K: Packing>(strip: &Strip, width: usize, panel: *mut K::Packed) {
        let whole = strip.depth / K::GROUP;
        // SAFETY: by the word of `pack`'s caller.
        unsafe {
            if width > strip.lanes {
                for step in 0..strip.depth.div_ceil(K::GROUP) {
                    let row = panel.add(step * width);
                    (strip.lanes..width).for_each(|lane| *row.add(lane) = K::Packed::default());
                }
            }
            match strip {
                Strip { lane_stride: 1, lanes: 16.., .. } => {
                    across::<K, 16, VECTOR_BYTES>(strip, whole, width, panel);
                }
                Strip { lane_stride: 1, lanes: 8.., .. } => {
                    across::<K, 8, VECTOR_BYTES>(strip, whole, width, panel);
                }
                Strip { depth_stride: 1, lanes: 4.., .. } => {
                    along::<K, VECTOR_BYTES>(strip, whole, width, panel);
                }
                _ => each::<K>(strip, 0..whole, width, panel),
            }
            if whole * K::GROUP < strip.depth {
                each::<K>(strip, whole..whole + 1, width, panel);
            }
        }
    }
}

/// Any strides, one element after another.
#[inline(always)]
unsafe fn each<K: Packing>(
    strip: &Strip,
    steps: std::ops::Range<usize>,
    width: usize,
    panel: *mut K::Packed,
) {
    let start = strip.start.cast::<K::Stored>();
    for step in steps {
        let first = step * K::GROUP;
        let count = K::GROUP.min(strip.depth - first);
        for lane in 0..strip.lanes {
            // SAFETY: by the caller's word; elements beyond `count` repeat the first and are cut.
            unsafe {
                let at = start.add(lane * strip.lane_stride + first * strip.depth_stride);
                let group: [K::Stored; 4] = std::array::from_fn(|i| {
                    *at.add(if i < count { i * strip.depth_stride } else { 0 })
                });
                *panel.add(step * width + lane) = K::pack(&group[..count]);
            }
        }
    }
}

/// Lanes are adjacent: chunks of `N`, the last of which may overlap the one before.
#[inline(always)]
unsafe fn across<K: Packing, const N: usize, const VECTOR_BYTES: usize>(
    strip: &Strip,
    steps: usize,
    width: usize,
    panel: *mut K::Packed,
) {
    let start = strip.start.cast::<K::Stored>();
    let last = strip.lanes - N;
    // SAFETY: by the caller's word; chunks lie inside the strip and the panel's row.
    unsafe {
        let mut from = start;
        let mut to = panel;
        for _ in 0..steps {
            prefetch(from.wrapping_add(AHEAD * strip.depth_stride));
            let mut lane = 0;
            while lane < last {
                to.add(lane).cast::<[K::Packed; N]>().write_unaligned(
                    K::across::<N, VECTOR_BYTES>(from.add(lane), strip.depth_stride),
                );
                lane += N;
            }
            to.add(last)
                .cast::<[K::Packed; N]>()
                .write_unaligned(K::across::<N, VECTOR_BYTES>(from.add(last), strip.depth_stride));
            from = from.add(K::GROUP * strip.depth_stride);
            to = to.add(width);
        }
    }
}

/// Steps of which the memory is asked for in advance.
const AHEAD: usize = 16;

/// Steps that are converted at a time.
const BLOCK: usize = 16;

/// Steps of k are adjacent: blocks are transposed, four lanes by four steps at a time.
#[inline(always)]
unsafe fn along<K: Packing, const VECTOR_BYTES: usize>(
    strip: &Strip,
    steps: usize,
    width: usize,
    panel: *mut K::Packed,
) {
    let start = strip.start.cast::<K::Stored>();
    // A native block needs no staging, and can be as small as what is transposed at once.
    let block = if K::SAME { 4 } else { BLOCK };
    let blocks_end = steps / block * block;
    let mut lane = 0;
    while lane < strip.lanes {
        // The last four lanes may overlap those before. Four at a time and all of their steps:
        // more rows than that, a power of two apart, would push each other out of the cache.
        let first = lane.min(strip.lanes - 4);
        for done in (0..blocks_end).step_by(block) {
            // SAFETY: by the caller's word; the block lies inside the strip and the panel.
            unsafe {
                let from = start.add(first * strip.lane_stride + done * K::GROUP);
                let to = panel.add(done * width + first);
                if K::SAME {
                    transpose_4x4(from.cast(), strip.lane_stride, to, width);
                    continue;
                }
                let staged: [[K::Packed; BLOCK]; 4] = std::array::from_fn(|i| {
                    K::along::<BLOCK, VECTOR_BYTES>(from.add(i * strip.lane_stride))
                });
                for step in (0..BLOCK).step_by(4) {
                    let from = staged.as_ptr().cast::<K::Packed>().add(step);
                    transpose_4x4(from, BLOCK, to.add(step * width), width);
                }
            }
        }
        lane += 4;
    }
    // SAFETY: by the caller's word.
    unsafe { each::<K>(strip, blocks_end..steps, width, panel) };
}

/// Four lanes by four steps.
#[inline(always)]
unsafe fn transpose_4x4<P: Copy>(from: *const P, stride: usize, to: *mut P, width: usize) {
    // The compiler turns the plain loop below into single moves.
    #[cfg(target_arch = "x86_64")]
    if size_of::<P>() == 4 {
        use std::arch::x86_64::*;
        // SAFETY: by the caller's word; SSE2 is part of x86-64.
        unsafe {
            let row = |i: usize| _mm_loadu_ps(from.add(i * stride).cast());
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (ab_low, ab_high) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
            let (cd_low, cd_high) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
            _mm_storeu_ps(to.cast(), _mm_movelh_ps(ab_low, cd_low));
            _mm_storeu_ps(to.add(width).cast(), _mm_movehl_ps(cd_low, ab_low));
            _mm_storeu_ps(to.add(2 * width).cast(), _mm_movelh_ps(ab_high, cd_high));
            _mm_storeu_ps(to.add(3 * width).cast(), _mm_movehl_ps(cd_high, ab_high));
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if size_of::<P>() == 8 {
        use std::arch::x86_64::*;
        for (lane, step) in [(0, 0), (0, 2), (2, 0), (2, 2)] {
            // SAFETY: as above.
            unsafe {
                let row = |i: usize| _mm_loadu_pd(from.add((lane + i) * stride + step).cast());
                let (a, b) = (row(0), row(1));
                let to = to.add(step * width + lane);
                _mm_storeu_pd(to.cast(), _mm_unpacklo_pd(a, b));
                _mm_storeu_pd(to.add(width).cast(), _mm_unpackhi_pd(a, b));
            }
        }
        return;
    }
    // SAFETY: by the caller's word.
    unsafe {
        let rows: [[P; 4]; 4] =
            std::array::from_fn(|lane| from.add(lane * stride).cast::<[P; 4]>().read_unaligned());
        let columns: [[P; 4]; 4] =
            std::array::from_fn(|step| std::array::from_fn(|lane| rows[lane][step]));
        for (step, column) in columns.into_iter().enumerate() {
            to.add(step * width).cast::<[P; 4]>().write_unaligned(column);
        }
    }
}
