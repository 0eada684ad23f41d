//! Plain encoders of the K family: scales and minima from the extremes of each group, rounded, then weights rounded to
//! the nearest. Nothing is searched, so that the error is larger than that of llama.cpp's quantisers. Layouts are in
//! `k.rs`.

use crate::Refusal;
use crate::bits::{bounds, extreme, inverse, nearest, write_half};

/// Weights between a minimum, which is 0 or below, and a maximum: the block's `d` and `dmin`, and for each group its
/// scale and minimum as integers up to `most_scale`.
struct Ranges<const GROUPS: usize> {
    scales: [u8; GROUPS],
    mins: [u8; GROUPS],
    d: f32,
    dmin: f32,
}

impl<const GROUPS: usize> Ranges<GROUPS> {
    /// Finds them, and writes `d` and after it `dmin`.
    fn find(
        x: &[f32],
        most: f32,
        most_scale: i32,
        out: &mut [u8],
        at: usize,
    ) -> Result<Self, Refusal> {
        let mut wanted = [(0.0f32, 0.0f32); GROUPS];
        for (wanted, x) in wanted.iter_mut().zip(x.chunks_exact(x.len() / GROUPS)) {
            let (min, max) = bounds(x);
            let min = min.min(0.0);
            *wanted = ((max - min) / most, -min);
        }
        let largest = |of: fn(&(f32, f32)) -> f32| wanted.iter().map(of).fold(0.0, f32::max);
        let d = write_half(out, at, largest(|w| w.0) / most_scale as f32, "scale")?;
        let dmin = write_half(out, at + 2, largest(|w| w.1) / most_scale as f32, "minimum")?;
        let integers = |of: fn(&(f32, f32)) -> f32, unit: f32| {
            wanted.map(|wanted| nearest(of(&wanted) * inverse(unit), 0, most_scale) as u8)
        };
        let (scales, mins) = (integers(|w| w.0, d), integers(|w| w.1, dmin));
        Ok(Self { scales, mins, d, dmin })
    }

    /// The number that comes nearest to a weight of a group.
    fn number(&self, group: usize, x: f32, most: i32) -> u8 {
        let scale = self.d * f32::from(self.scales[group]);
        let min = self.dmin * f32::from(self.mins[group]);
        nearest((x + min) * inverse(scale), 0, most) as u8
    }
}

/// Weights around 0: the block's `d`, and for each group its scale as an integer.
struct Scales {
    scales: [i8; 16],
    d: f32,
}

impl Scales {
    /// Finds them for numbers from `-most` on, and writes `d`. The scale of the largest magnitude becomes `-most_scale`.
    fn find(
        x: &[f32],
        most: f32,
        most_scale: i32,
        out: &mut [u8],
        at: usize,
    ) -> Result<Self, Refusal> {
        let mut wanted = [0.0f32; 16];
        for (wanted, x) in wanted.iter_mut().zip(x.chunks_exact(16)) {
            *wanted = extreme(x) / -most;
        }
        let d = write_half(out, at, extreme(&wanted) / -most_scale as f32, "scale")?;
        let integer = |wanted| nearest(wanted * inverse(d), -most_scale, most_scale - 1) as i8;
        Ok(Self { scales: wanted.map(integer), d })
    }

    /// The number that comes nearest to a weight of a group, raised by `most`.
    fn number(&self, group: usize, x: f32, most: i32) -> u8 {
        let scale = self.d * f32::from(self.scales[group]);
        (nearest(x * inverse(scale), -most, most - 1) + most) as u8
    }
}

pub(crate) fn q2(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
    let ranges = Ranges::<16>::find(x, 3.0, 15, out, 80)?;
    pack_q2(&ranges.scales, &ranges.mins, |i| ranges.number(i / 16, x[i], 3), out);
    Ok(())
}

/// Packs scales, minima and numbers of Q2_K; `d` and `dmin` are written before.
#[inline(always)]
pub(crate) fn pack_q2(
    scales: &[u8; 16],
    mins: &[u8; 16],
    number: impl Fn(usize) -> u8,
    out: &mut [u8],
) {
    for (byte, (scale, min)) in out.iter_mut().zip(scales.iter().zip(mins)) {
        *byte = scale | min << 4;
    }
    q2_numbers(number, out);
}

/// The numbers alone.
#[inline(always)]
pub(crate) fn q2_numbers(number: impl Fn(usize) -> u8, out: &mut [u8]) {
    out[16..80].fill(0);
    for i in 0..256 {
        out[16 + 32 * (i / 128) + i % 32] |= number(i) << (i % 128 / 32 * 2);
    }
}

pub(crate) fn q3(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
    let scales = Scales::find(x, 4.0, 32, out, 108)?;
    pack_q3(&scales.scales, |i| scales.number(i / 16, x[i], 4), out);
    Ok(())
}

/// The same of Q3_K, whose numbers are raised by 4.
#[inline(always)]
pub(crate) fn pack_q3(scales: &[i8; 16], number: impl Fn(usize) -> u8, out: &mut [u8]) {
    out[96..108].fill(0);
    for (group, scale) in scales.iter().enumerate() {
        let raised = (scale + 32) as u8;
        out[96 + group % 8] |= (raised & 15) << (group / 8 * 4);
        out[104 + group % 4] |= (raised >> 4) << (group / 4 * 2);
    }
    q3_numbers(number, out);
}

/// The numbers alone.
#[inline(always)]
pub(crate) fn q3_numbers(number: impl Fn(usize) -> u8, out: &mut [u8]) {
    out[..96].fill(0);
    for i in 0..256 {
        let q = number(i);
        out[i % 32] |= (q >> 2) << (i / 32);
        out[32 + 32 * (i / 128) + i % 32] |= (q & 3) << (i % 128 / 32 * 2);
    }
}

/// Packs the scales and minima of Q4_K and Q5_K.
#[inline(always)]
fn pack_ranges(scales: &[u8; 8], mins: &[u8; 8], out: &mut [u8]) {
    out.fill(0);
    for (group, (&scale, &min)) in scales.iter().zip(mins).enumerate() {
        if group < 4 {
            out[group] |= scale;
            out[group + 4] |= min;
        } else {
            out[group + 4] = scale & 15 | min << 4;
            out[group - 4] |= scale >> 4 << 6;
            out[group] |= min >> 4 << 6;
        }
    }
}

pub(crate) fn q4(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
    let ranges = Ranges::<8>::find(x, 15.0, 63, out, 0)?;
    pack_q4(&ranges.scales, &ranges.mins, |i| ranges.number(i / 32, x[i], 15), out);
    Ok(())
}

/// The same of Q4_K.
#[inline(always)]
pub(crate) fn pack_q4(
    scales: &[u8; 8],
    mins: &[u8; 8],
    number: impl Fn(usize) -> u8,
    out: &mut [u8],
) {
    pack_ranges(scales, mins, &mut out[4..16]);
    q4_numbers(number, out);
}

/// The numbers alone.
#[inline(always)]
pub(crate) fn q4_numbers(number: impl Fn(usize) -> u8, out: &mut [u8]) {
    out[16..].fill(0);
    for i in 0..256 {
        out[16 + 32 * (i / 64) + i % 32] |= number(i) << (i % 64 / 32 * 4);
    }
}

pub(crate) fn q5(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
    let ranges = Ranges::<8>::find(x, 31.0, 63, out, 0)?;
    pack_q5(&ranges.scales, &ranges.mins, |i| ranges.number(i / 32, x[i], 31), out);
    Ok(())
}

/// The same of Q5_K.
#[inline(always)]
pub(crate) fn pack_q5(
    scales: &[u8; 8],
    mins: &[u8; 8],
    number: impl Fn(usize) -> u8,
    out: &mut [u8],
) {
    pack_ranges(scales, mins, &mut out[4..16]);
    q5_numbers(number, out);
}

/// The numbers alone.
#[inline(always)]
pub(crate) fn q5_numbers(number: impl Fn(usize) -> u8, out: &mut [u8]) {
    out[16..].fill(0);
    for i in 0..256 {
        let q = number(i);
        out[16 + i % 32] |= (q >> 4) << (i / 32);
        out[48 + 32 * (i / 64) + i % 32] |= (q & 15) << (i % 64 / 32 * 4);
    }
}

pub(crate) fn q6(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
    let scales = Scales::find(x, 32.0, 128, out, 208)?;
    pack_q6(&scales.scales, |i| scales.number(i / 16, x[i], 32), out);
    Ok(())
}

/// The same of Q6_K, whose numbers are raised by 32.
#[inline(always)]
pub(crate) fn pack_q6(scales: &[i8; 16], number: impl Fn(usize) -> u8, out: &mut [u8]) {
    for (group, &scale) in scales.iter().enumerate() {
        out[192 + group] = scale as u8;
    }
    q6_numbers(number, out);
}

/// The numbers alone.
#[inline(always)]
pub(crate) fn q6_numbers(number: impl Fn(usize) -> u8, out: &mut [u8]) {
    out[..192].fill(0);
    for i in 0..256 {
        let q = number(i);
        out[64 * (i / 128) + i % 64] |= (q & 15) << (i % 128 / 64 * 4);
        out[128 + 32 * (i / 128) + i % 32] |= (q >> 4) << (i % 128 / 32 * 2);
    }
}
