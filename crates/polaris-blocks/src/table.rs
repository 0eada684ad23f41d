//! Formats whose nibbles choose from a table of sixteen values.
//!
//! | format | bytes of a block | weight |
//! |---|---|---|
//! | IQ4_NL | d, 16 of nibbles | d·table, 32 weights |
//! | IQ4_XS | d, 2 of high and 4 of low bits of scales, 128 of nibbles | (d(sc − 32))·table, 8 groups of 32 |
//! | MXFP4 | exponent e, 16 of nibbles | 2^(e − 128)·table, 32 weights |
//!
//! Nibbles lie as in Q4_0: the lower one of byte j is weight j of its 32, the upper one weight j + 16.

use crate::bits::{extreme, half, inverse, nearest, part, whole, write_half};
use crate::legacy::pack;
use crate::levels::{each_of, less_32, looked_up};
use crate::{Block, Blocks, CHUNK, Levels, Refusal, Simd, Values, search};

/// llama.cpp's values for weights that are denser around zero.
pub(crate) const NON_LINEAR: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];

/// The same, raised by 128.
const NON_LINEAR_LEVELS: [u8; 16] = raised(NON_LINEAR, 128);

/// E2M1 numbers, doubled.
const E2M1: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// The same, raised by 12.
const E2M1_LEVELS: [u8; 16] = raised(E2M1, 12);

/// Whole numbers without signs.
const fn raised(values: [f32; 16], by: i32) -> [u8; 16] {
    let mut levels = [0; 16];
    let mut i = 0;
    while i < 16 {
        levels[i] = (values[i] as i32 + by) as u8;
        i += 1;
    }
    levels
}

/// The place of the value that comes nearest.
pub(crate) fn nearest_value(value: f32) -> u8 {
    let error = |q: u8| (NON_LINEAR[usize::from(q)] - value).abs();
    (1..16).fold(0, |best, q| if error(q) < error(best) { q } else { best })
}

/// Twice the value of an E2M1 number (OCP Microscaling Formats 1.0), so that it is an integer: 0, 1, 2, 3, 4, 6, 8 or 12,
/// and with bit 3 its negative; minus zero counts as zero. Arithmetic vectorises, a table does not.
#[inline(always)]
fn doubled_e2m1(q: u8) -> f32 {
    let m = (q & 7) as i8;
    let magnitude = m.max(2 * m - 4).max(4 * m - 16);
    let sign = 1 - 2 * (q as i8 >> 3 & 1);
    f32::from(magnitude * sign)
}

/// 2^(e − 128): half of what the exponent says, since values are doubled. The smallest two are subnormal.
#[inline(always)]
fn mxfp4_scale(e: u8) -> f32 {
    f32::from_bits(match e {
        0 | 1 => 0x0020_0000 << e,
        _ => (u32::from(e) - 1) << 23,
    })
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct IQ4_NL;

impl Blocks for IQ4_NL {
    const BLOCK: Block = Block::IQ4_NL;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 2 + 16;
    const GROUP: usize = 32;
    const HIGHEST: u8 = 241;
    const VALUES: Values = Values::Table(&NON_LINEAR);

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let d = half(block, 0);
        let (qs, y): (&[u8; 16], &mut [f32; 32]) = (part(block, 2), whole(y));
        for j in 0..16 {
            y[j] = d * NON_LINEAR[usize::from(qs[j] & 15)];
            y[j + 16] = d * NON_LINEAR[usize::from(qs[j] >> 4)];
        }
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let blocks = &blocks[..8 * Self::BYTES];
        let levels = looked_up(simd, &NON_LINEAR_LEVELS, blocks, Self::BYTES, 2);
        Levels::centred_by_32(simd, levels, simd.halves::<{ Self::BYTES }>(blocks, [0; 2]), 128.0)
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        pack(|j| numbers[j], &mut block[2..]);
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        // The weight of the largest magnitude becomes the value of the largest.
        let d = write_half(out, 0, extreme(x) / NON_LINEAR[0], "scale")?;
        let q = |j: usize| nearest_value(x[j] * inverse(d));
        for (j, byte) in out[2..18].iter_mut().enumerate() {
            *byte = q(j) | q(j + 16) << 4;
        }
        Ok(())
    }

    #[inline(always)]
    fn encode_best(
        x: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        search::iq4_nl(x, importance, out)
    }
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct IQ4_XS;

impl Blocks for IQ4_XS {
    const BLOCK: Block = Block::IQ4_XS;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 2 + 2 + 4 + 128;
    const GROUP: usize = 32;
    const HIGHEST: u8 = 241;
    const VALUES: Values = Values::Table(&NON_LINEAR);

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let d = half(block, 0);
        let high = u16::from_le_bytes(*part(block, 2));
        let low: &[u8; 4] = part(block, 4);
        let y: &mut [f32; 256] = whole(y);
        for (g, y) in y.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let scale = low[g / 2] >> (4 * (g % 2)) & 15 | ((high >> (2 * g) & 3) as u8) << 4;
            let dl = d * f32::from(scale as i8 - 32);
            let qs: &[u8; 16] = part(block, 8 + 16 * g);
            for j in 0..16 {
                y[j] = dl * NON_LINEAR[usize::from(qs[j] & 15)];
                y[j + 16] = dl * NON_LINEAR[usize::from(qs[j] >> 4)];
            }
        }
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let block = &blocks[..Self::BYTES];
        let levels = looked_up(simd, &NON_LINEAR_LEVELS, block, 16, 8);
        // Fields are moved apart: halves of what is left, until each has a byte.
        let mut low = u64::from(u32::from_le_bytes(*part(block, 4)));
        low = (low | low << 16) & 0x0000_ffff_0000_ffff;
        low = (low | low << 8) & 0x00ff_00ff_00ff_00ff;
        low = (low | low << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        let mut high = u64::from(u16::from_le_bytes(*part(block, 2)));
        high = (high | high << 24) & 0x0000_00ff_0000_00ff;
        high = (high | high << 12) & 0x000f_000f_000f_000f;
        high = (high | high << 6) & 0x0303_0303_0303_0303;
        let scales = u128::from(low | high << 4);
        let scales = simd.floats(less_32(scales | scales << 64));
        Levels::centred_by_32(simd, levels, simd.times_half(scales, part(block, 0)), 128.0)
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        let groups = numbers.as_chunks::<32>().0.iter().zip(block[8..].as_chunks_mut::<16>().0);
        groups.for_each(|(numbers, out)| pack(|j| numbers[j], out));
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        let mut wanted = [0.0f32; 8];
        for (wanted, x) in wanted.iter_mut().zip(x.chunks_exact(32)) {
            *wanted = extreme(x) / NON_LINEAR[0];
        }
        let d = write_half(out, 0, extreme(&wanted) / -32.0, "scale")?;
        pack_iq4_xs(x, d, &wanted.map(|wanted| nearest(wanted * inverse(d), -32, 31)), out);
        Ok(())
    }

    #[inline(always)]
    fn encode_best(
        x: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        search::iq4_xs(x, importance, out)
    }
}

/// Packs scales of IQ4_XS and the nearest values; `d` is written before.
#[inline(always)]
pub(crate) fn pack_iq4_xs(x: &[f32], d: f32, scales: &[i32; 8], out: &mut [u8]) {
    out[2..8].fill(0);
    for (g, (&scale, x)) in scales.iter().zip(x.chunks_exact(32)).enumerate() {
        let raised = (scale + 32) as u8;
        out[2 + g / 4] |= (raised >> 4) << (g % 4 * 2);
        out[4 + g / 2] |= (raised & 15) << (g % 2 * 4);
        let q = |j: usize| nearest_value(x[j] * inverse(d * scale as f32));
        for j in 0..16 {
            out[8 + 16 * g + j] = q(j) | q(j + 16) << 4;
        }
    }
}

/// The format of its name.
#[derive(Debug, Clone, Copy)]
pub struct MXFP4;

impl Blocks for MXFP4 {
    const BLOCK: Block = Block::MXFP4;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 1 + 16;
    const GROUP: usize = 32;
    const HIGHEST: u8 = 24;
    const VALUES: Values = Values::Table(&E2M1);

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let d = mxfp4_scale(block[0]);
        let (qs, y): (&[u8; 16], &mut [f32; 32]) = (part(block, 1), whole(y));
        for j in 0..16 {
            y[j] = d * doubled_e2m1(qs[j] & 15);
            y[j + 16] = d * doubled_e2m1(qs[j] >> 4);
        }
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let blocks = &blocks[..8 * Self::BYTES];
        let levels = looked_up(simd, &E2M1_LEVELS, blocks, Self::BYTES, 1);
        let scales = each_of!(8, block => mxfp4_scale(blocks[block * Self::BYTES]));
        Levels::centred_by_32(simd, levels, simd.repeated(scales), 12.0)
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        pack(|j| numbers[j], &mut block[1..]);
    }

    /// The bytes of the Python package, but that blocks below 2^-125 get the smallest exponent, where the package lets it
    /// wrap around.
    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        let e = exponent(extreme(x).abs());
        let d = mxfp4_scale(e);
        // The first of the nearest values, so that minus zero is never chosen.
        let nearest = |x: f32| {
            let error = |q: u8| (d * doubled_e2m1(q) - x).abs();
            (1..16).fold(0, |best, q| if error(q) < error(best) { q } else { best })
        };
        out[0] = e;
        for (j, byte) in out[1..17].iter_mut().enumerate() {
            *byte = nearest(x[j]) | nearest(x[j + 16]) << 4;
        }
        Ok(())
    }
}

/// The exponent with which the largest weight is between 4 and 8, biased by 127. The logarithm is rounded to `f32`, as
/// the package does: what is just below a power of two counts as that power.
fn exponent(most: f32) -> u8 {
    if most == 0.0 {
        return 0;
    }
    let log = f64::from(most).log2() as f32;
    (log.floor() - 2.0 + 127.0).max(0.0) as u8
}
