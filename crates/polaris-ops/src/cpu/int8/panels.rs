//! Sixteen rows of a weight times many tokens: the rows are unpacked into a panel, in which four levels of each row
//! follow one another, and the panel is multiplied with tiles of tokens.

use polaris_blocks::{Blocks, CHUNK, Plain};

use super::activations::Tile;
use super::products::Products;
pub(crate) use super::vectors::ROWS;
use super::vectors::Vectors;
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Products512, Vnni};
use super::{Instructions, LINE, WeightRows, chunk_start, filled_up};
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
pub(crate) type Multiply =
    unsafe fn(panel: Panel, tile: Tile, to: *mut f32, stride: usize, ahead: Ahead);

/// Memory that is needed next, and fetched while a panel is multiplied. Sixteen rows at a time are more than the processor
/// looks ahead at by itself, and fetches while a panel is unpacked would be more at once than a core can wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    pub start: *const u8,
    pub bytes: usize,
}

impl Ahead {
    /// Its part for tile `number` of `count`.
    pub fn part(self, number: usize, count: usize) -> Self {
        let each = self.bytes.div_ceil(count).next_multiple_of(LINE);
        let first = (number * each).min(self.bytes);
        let bytes = each.min(self.bytes - first);
        Self { start: self.start.wrapping_add(first), bytes }
    }

    /// Fetches the next `bytes`.
    #[inline(always)]
    fn fetch(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        for line in (0..bytes).step_by(LINE) {
            fetch_next(self.start.wrapping_add(line));
        }
        *self = Self { start: self.start.wrapping_add(bytes), bytes: self.bytes - bytes };
    }
}

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
                simd.transpose(from, stride, to, ROWS);
            }
            let at = chunk * (CHUNK / 16) * ROWS;
            let [scales, minima] = [panel.scales(), panel.minima()].map(|to| to.add(at).cast());
            simd.transpose((&raw const (*first).scales).cast(), stride, scales, ROWS);
            if B::GROUP == 16 {
                simd.transpose((&raw const (*first).minima).cast(), stride, minima, ROWS);
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
unsafe fn multiply<P: Products, const T: usize, const FOURS: usize, const HIGHEST: u8>(
    simd: P,
    panel: Panel,
    tile: Tile,
    to: *mut f32,
    stride: usize,
    mut ahead: Ahead,
) {
    let groups = panel.k / (4 * FOURS);
    let each = ahead.bytes.div_ceil(groups.max(1)).next_multiple_of(LINE);
    // SAFETY: by the caller's word.
    unsafe {
        for lane in (0..ROWS).step_by(P::LANES) {
            let mut sums = [simd.no_reals(); T];
            let mut levels = panel.start.cast_const().add(4 * lane);
            let mut bytes = tile.bytes;
            for sixteens in (0..panel.k / 16).step_by(FOURS / 4) {
                ahead.fetch(each);
                let counts = simd.counts::<T, FOURS, HIGHEST>(levels, bytes);
                levels = levels.add(4 * ROWS * FOURS);
                bytes = bytes.add(T * FOURS);
                let (scales, minima) = match FOURS {
                    4 => (panel.scales().add(sixteens * ROWS), panel.minima().add(sixteens * ROWS)),
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

/// A kernel that unpacks, compiled for some instructions.
macro_rules! pack_with {
    ($name:ident, $simd:expr $(, $features:literal)?) => {
        /// # Safety
        /// As for `pack`; the processor must have the instructions.
        $(#[target_feature(enable = $features)])?
        unsafe fn $name<B: Blocks>(rows: WeightRows, k: usize, panel: Panel) {
            // SAFETY: by the caller's word.
            unsafe { pack::<B, _>($simd, rows, k, panel) }
        }
    };
}

/// A kernel that multiplies, compiled for some instructions.
macro_rules! multiply_with {
    ($name:ident, $simd:expr $(, $features:literal)?) => {
        /// # Safety
        /// As for `multiply`; the processor must have the instructions.
        $(#[target_feature(enable = $features)])?
        unsafe fn $name<const T: usize, const FOURS: usize, const HIGHEST: u8>(
            panel: Panel,
            tile: Tile,
            to: *mut f32,
            stride: usize,
            ahead: Ahead,
        ) {
            // SAFETY: by the caller's word.
            unsafe { multiply::<_, T, FOURS, HIGHEST>($simd, panel, tile, to, stride, ahead) }
        }
    };
}

pack_with!(pack_plain, Plain);
multiply_with!(plain, Plain);
#[cfg(target_arch = "x86_64")]
pack_with!(pack_avx2, Avx2::new(), "avx2,fma,f16c,bmi2");
#[cfg(target_arch = "x86_64")]
multiply_with!(avx2, Avx2::new(), "avx2,fma,f16c,bmi2");
#[cfg(target_arch = "x86_64")]
multiply_with!(
    avx512,
    Products512::<false>::new(),
    "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,bmi2"
);
#[cfg(target_arch = "x86_64")]
pack_with!(
    pack_vnni,
    Vnni::new(),
    "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c,bmi2"
);
#[cfg(target_arch = "x86_64")]
multiply_with!(
    vnni,
    Products512::<true>::new(),
    "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c,bmi2"
);

/// The kernels for groups of so many fours and levels up to some height, for numbers of tokens.
macro_rules! table {
    ($multiply:ident, $fours:literal, $highest:literal, $($tokens:literal)*) => {
        &[$($multiply::<$tokens, $fours, $highest>),*]
    };
    // What sums pairs in 16 bits has a kernel for each number of them that fits.
    ($multiply:ident by pairs, $blocks:ident, $($tokens:literal)*) => {
        match ($blocks::GROUP, $blocks::HIGHEST) {
            (16, ..8) => table!($multiply, 4, 7, $($tokens)*),
            (16, ..64) => table!($multiply, 4, 63, $($tokens)*),
            (16, _) => table!($multiply, 4, 255, $($tokens)*),
            (_, ..16) => table!($multiply, 8, 15, $($tokens)*),
            (_, ..32) => table!($multiply, 8, 31, $($tokens)*),
            (_, _) => table!($multiply, 8, 255, $($tokens)*),
        }
    };
}

/// The kernels of a format.
pub(crate) fn kernels<B: Blocks>(instructions: Instructions) -> PanelKernels {
    match instructions {
        #[cfg(target_arch = "x86_64")]
        Instructions::Vnni => PanelKernels {
            pack: pack_vnni::<B>,
            multiply: match B::GROUP {
                16 => table!(vnni, 4, 255, 2 4 6 8 10 12),
                _ => table!(vnni, 8, 255, 2 4 6 8 10 12),
            },
        },
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => {
            PanelKernels { pack: pack_avx2::<B>, multiply: table!(avx512 by pairs, B, 2 4 6 8 10) }
        }
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => {
            PanelKernels { pack: pack_avx2::<B>, multiply: table!(avx2 by pairs, B, 2 4) }
        }
        Instructions::Plain => PanelKernels {
            pack: pack_plain::<B>,
            multiply: match B::GROUP {
                16 => table!(plain, 4, 255, 2 4),
                _ => table!(plain, 8, 255, 2 4),
            },
        },
    }
}
