//! Sixteen rows of a weight times many tokens: the rows are unpacked into a panel, in which four levels of each row
//! follow one another, and the panel is multiplied with tiles of tokens.

use polaris_blocks::{Blocks, CHUNK, Plain};
use polaris_runtime::cpu::SimdLevel;

use super::activations::Tile;
#[cfg(target_arch = "x86_64")]
use super::has_vnni;
pub(crate) use super::vectors::ROWS;
use super::vectors::Vectors;
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Vnni};
use super::{LINE, WeightRows, chunk_start, filled_up};
use crate::cpu::fetch::fetch_next;

/// Where the parts of a panel lie: levels, then the scales and the minima of every sixteen elements; or of groups of 32,
/// where scales are, those of the eight groups of a chunk and then their minima.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panel {
    start: *mut u8,
    k: usize,
}

impl Panel {
    /// Bytes of a panel.
    pub const fn bytes(k: usize) -> usize {
        let k = k.next_multiple_of(CHUNK);
        ROWS * (k + 2 * k / 16 * size_of::<f32>())
    }

    /// A panel in memory of that many bytes.
    pub fn new(start: *mut u8, k: usize) -> Self {
        Self { start, k: k.next_multiple_of(CHUNK) }
    }

    fn scales(&self) -> *mut f32 {
        self.start.wrapping_add(ROWS * self.k).cast()
    }

    fn minima(&self) -> *mut f32 {
        self.scales().wrapping_add(ROWS * self.k / 16)
    }
}

/// Unpacks rows of a weight, at most [`ROWS`], of `k` elements each.
pub(crate) type Pack = unsafe fn(rows: WeightRows, k: usize, panel: Panel);

/// Multiplies a panel with a tile; results of a token are `stride` apart from those of the next.
pub(crate) type Multiply = unsafe fn(panel: Panel, tile: Tile, to: *mut f32, stride: usize);

/// What panels are made and multiplied with.
#[derive(Clone, Copy)]
pub(crate) struct PanelKernels {
    pub pack: Pack,
    /// For two tokens, four, and so on.
    pub multiply: &'static [Multiply],
}

/// The levels of one row in memory.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Unpacked {
    levels: [u8; CHUNK],
    scales: [f32; CHUNK / 16],
    minima: [f32; CHUNK / 16],
}

impl Unpacked {
    const ZERO: Self = Self { levels: [0; CHUNK], scales: [0.0; 16], minima: [0.0; 16] };
}

/// # Safety
/// The rows must be readable, and the panel writable.
#[inline(always)]
unsafe fn pack<B: Blocks, V: Vectors>(simd: V, rows: WeightRows, k: usize, panel: Panel) {
    let chunk_bytes = CHUNK / B::ELEMENTS * B::BYTES;
    let mut unpacked = [Unpacked::ZERO; ROWS];
    // SAFETY: by the caller's word.
    unsafe {
        for chunk in 0..panel.k / CHUNK {
            let place = chunk_start(chunk, k) / B::ELEMENTS * B::BYTES;
            for (row, to) in unpacked.iter_mut().take(rows.count).enumerate() {
                let start = rows.start.add(row * rows.stride + place);
                // Sixteen places at a time are more than the processor looks ahead at by itself.
                for line in (0..chunk_bytes).step_by(LINE) {
                    fetch_next(start.wrapping_add(ROWS * rows.stride + line));
                }
                if B::ELEMENTS == CHUNK || k >= CHUNK {
                    unpack::<B, V>(simd, std::slice::from_raw_parts(start, chunk_bytes), to);
                } else {
                    let bytes = k / B::ELEMENTS * B::BYTES;
                    let blocks = filled_up(std::slice::from_raw_parts(start, bytes));
                    unpack::<B, V>(simd, &blocks[..chunk_bytes], to);
                }
            }
            let (first, stride) = (&raw const unpacked[0], size_of::<Unpacked>());
            for sixteen in 0..4 {
                let from = (&raw const (*first).levels).cast::<u8>().add(64 * sixteen);
                let to = panel.start.cast::<u32>().add((chunk * 64 + sixteen * 16) * ROWS);
                simd.transpose(from, stride, to);
            }
            let at = chunk * (CHUNK / 16) * ROWS;
            let [scales, minima] = [panel.scales(), panel.minima()].map(|to| to.add(at).cast());
            simd.transpose((&raw const (*first).scales).cast(), stride, scales);
            if B::GROUP == 16 {
                simd.transpose((&raw const (*first).minima).cast(), stride, minima);
            }
        }
    }
}

/// Unpacks one chunk.
#[inline(always)]
fn unpack<B: Blocks, V: Vectors>(simd: V, blocks: &[u8], to: &mut Unpacked) {
    let levels = B::levels(simd, blocks);
    // SAFETY: there is room for each of them.
    unsafe {
        for (&from, to) in levels.levels.iter().zip(to.levels.as_chunks_mut::<64>().0) {
            simd.store_bytes(from, to.as_mut_ptr());
        }
        simd.store_floats(levels.scales, to.scales.as_mut_ptr());
        if B::GROUP == 16 {
            simd.store_floats(levels.minima, to.minima.as_mut_ptr());
        }
    }
}

/// # Safety
/// The panel and the tile of `T` tokens must be readable and equally long, and the target
/// have room for [`ROWS`] results of each token.
#[inline(always)]
unsafe fn multiply<V: Vectors, const T: usize, const GROUP: usize, const WIDE: bool>(
    simd: V,
    panel: Panel,
    tile: Tile,
    to: *mut f32,
    stride: usize,
) {
    // SAFETY: by the caller's word.
    unsafe {
        for lane in (0..ROWS).step_by(V::LANES) {
            let mut sums = [simd.no_reals(); T];
            let mut levels = panel.start.cast_const().add(4 * lane);
            let mut bytes = tile.bytes;
            for sixteens in (0..panel.k / 16).step_by(GROUP / 16) {
                let mut counts = [simd.no_counts(); T];
                for _ in 0..GROUP / 4 {
                    for (token, counts) in counts.iter_mut().enumerate() {
                        *counts = simd.count::<WIDE>(*counts, levels, bytes.add(token));
                    }
                    levels = levels.add(4 * ROWS);
                    bytes = bytes.add(T);
                }
                let (scales, minima) = match GROUP {
                    16 => {
                        (panel.scales().add(sixteens * ROWS), panel.minima().add(sixteens * ROWS))
                    }
                    _ => {
                        let first = sixteens / 16 * 16 + sixteens % 16 / 2;
                        let scales = panel.scales().add(first * ROWS);
                        (scales, scales.add(CHUNK / 32 * ROWS))
                    }
                };
                let scales = simd.load_reals(scales.add(lane));
                let minima = simd.load_reals(minima.add(lane));
                for (token, sum) in sums.iter_mut().enumerate() {
                    let at = sixteens * T + token;
                    let factor = tile.scales.add(at);
                    let less = tile.sums.add(at);
                    *sum = simd.scaled(*sum, counts[token], factor, scales, minima, less);
                }
            }
            for (token, &sum) in sums.iter().enumerate() {
                simd.store_reals(sum, to.add(token * stride + lane));
            }
        }
    }
}

/// Kernels compiled for some instructions.
macro_rules! compiled {
    ($pack:ident, $multiply:ident, $simd:expr $(, $features:literal)?) => {
        /// # Safety
        /// As for `pack`; the processor must have the instructions.
        $(#[target_feature(enable = $features)])?
        unsafe fn $pack<B: Blocks>(rows: WeightRows, k: usize, panel: Panel) {
            // SAFETY: by the caller's word.
            unsafe { pack::<B, _>($simd, rows, k, panel) }
        }

        /// # Safety
        /// As for `multiply`; the processor must have the instructions.
        $(#[target_feature(enable = $features)])?
        unsafe fn $multiply<const T: usize, const GROUP: usize, const WIDE: bool>(
            panel: Panel,
            tile: Tile,
            to: *mut f32,
            stride: usize,
        ) {
            // SAFETY: by the caller's word.
            unsafe { multiply::<_, T, GROUP, WIDE>($simd, panel, tile, to, stride) }
        }
    };
}

compiled!(pack_plain, plain, Plain);
#[cfg(target_arch = "x86_64")]
compiled!(pack_avx2, avx2, Avx2::new(), "avx2,fma,f16c,bmi2");
#[cfg(target_arch = "x86_64")]
compiled!(
    pack_vnni,
    vnni,
    Vnni::new(),
    "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c,bmi2"
);

/// The kernels of a group and width for numbers of tokens.
macro_rules! table {
    ($multiply:ident, $group:literal, $wide:literal, $($tokens:literal)*) => {
        &[$($multiply::<$tokens, $group, $wide>),*]
    };
}

/// The kernels of a format.
pub(crate) fn kernels<B: Blocks>(level: SimdLevel) -> PanelKernels {
    let is_wide = B::HIGHEST > 127;
    match level {
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 if has_vnni() => PanelKernels {
            pack: pack_vnni::<B>,
            multiply: match B::GROUP {
                16 => table!(vnni, 16, true, 2 4 6 8 10 12),
                _ => table!(vnni, 32, true, 2 4 6 8 10 12),
            },
        },
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 | SimdLevel::Avx2 => PanelKernels {
            pack: pack_avx2::<B>,
            multiply: match (B::GROUP, is_wide) {
                (16, false) => table!(avx2, 16, false, 2 4),
                (16, true) => table!(avx2, 16, true, 2 4),
                (_, false) => table!(avx2, 32, false, 2 4),
                (_, true) => table!(avx2, 32, true, 2 4),
            },
        },
        _ => PanelKernels {
            pack: pack_plain::<B>,
            multiply: match B::GROUP {
                16 => table!(plain, 16, true, 2 4),
                _ => table!(plain, 32, true, 2 4),
            },
        },
    }
}
