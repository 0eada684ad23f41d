//! Formats of 32 elements, eight blocks at a time.

use super::fit::{affine, symmetric};
use super::{by_magnitude, lanes, rounded, weights};
use crate::bits::{inverse, write_half};
use crate::legacy::{pack, pack_fifth};
use crate::{CHUNK, Refusal};

/// Writes `d`, and gives the levels, from 0 to `2 * most - 1`, of each block to `pack`.
#[inline(always)]
fn centred(
    (x, importance): (&[f32; CHUNK], Option<&[f32; CHUNK]>),
    most: f32,
    out: &mut [u8],
    pack: impl Fn(&[u8; 32], &mut [u8]),
) -> Result<(), Refusal> {
    let side_by_side = lanes::<8, 32>(x);
    let scales = symmetric(&side_by_side, &weights(&side_by_side, importance, by_magnitude), most);
    let each = out.len() / 8;
    for ((x, scale), out) in x.as_chunks::<32>().0.iter().zip(scales).zip(out.chunks_mut(each)) {
        let factor = inverse(write_half(out, 0, scale, "scale")?);
        let level = |x: f32| (rounded((x * factor).max(-most).min(most - 1.0)) + most) as u8;
        pack(&x.map(level), out);
    }
    Ok(())
}

/// Writes `d` and `m`, and gives the levels, from 0 to `most`, of each block to `pack`.
#[inline(always)]
fn with_minimum(
    (x, importance): (&[f32; CHUNK], Option<&[f32; CHUNK]>),
    most: f32,
    out: &mut [u8],
    pack: impl Fn(&[u8; 32], &mut [u8]),
) -> Result<(), Refusal> {
    let side_by_side = lanes::<8, 32>(x);
    let fit = affine(&side_by_side, &weights(&side_by_side, importance, by_magnitude), most, false);
    let each = out.len() / 8;
    let blocks = x.as_chunks::<32>().0.iter().zip(out.chunks_mut(each));
    for ((x, out), (scale, offset)) in blocks.zip(fit.scale.into_iter().zip(fit.offset)) {
        let factor = inverse(write_half(out, 0, scale, "scale")?);
        let minimum = write_half(out, 2, offset, "minimum")?;
        let level = |x: f32| rounded(((x - minimum) * factor).max(0.0).min(most)) as u8;
        pack(&x.map(level), out);
    }
    Ok(())
}

#[inline(always)]
pub(crate) fn q4_0(
    x: &[f32; CHUNK],
    importance: Option<&[f32; CHUNK]>,
    out: &mut [u8],
) -> Result<(), Refusal> {
    centred((x, importance), 8.0, out, |q, out| pack(|j| q[j], &mut out[2..]))
}

#[inline(always)]
pub(crate) fn q4_1(
    x: &[f32; CHUNK],
    importance: Option<&[f32; CHUNK]>,
    out: &mut [u8],
) -> Result<(), Refusal> {
    with_minimum((x, importance), 15.0, out, |q, out| pack(|j| q[j], &mut out[4..]))
}

#[inline(always)]
pub(crate) fn q5_0(
    x: &[f32; CHUNK],
    importance: Option<&[f32; CHUNK]>,
    out: &mut [u8],
) -> Result<(), Refusal> {
    centred((x, importance), 16.0, out, |q, out| {
        pack_fifth(|j| q[j], &mut out[2..6]);
        pack(|j| q[j], &mut out[6..]);
    })
}

#[inline(always)]
pub(crate) fn q5_1(
    x: &[f32; CHUNK],
    importance: Option<&[f32; CHUNK]>,
    out: &mut [u8],
) -> Result<(), Refusal> {
    with_minimum((x, importance), 31.0, out, |q, out| {
        pack_fifth(|j| q[j], &mut out[4..8]);
        pack(|j| q[j], &mut out[8..]);
    })
}
