//! Blocks of the K family: scales of groups are integers, times what half precision makes of the block's `d`.

use super::fit::{affine, symmetric};
use super::{Lanes, by_magnitude, by_square, lanes, level, rounded, weights};
use crate::bits::{extreme, inverse, write_half};
use crate::{CHUNK, Refusal, k_encode};

/// Rounds in which scales follow from `d`, and `d` from the levels.
const ROUNDS: usize = 2;

/// Scales and minima as integers, and the levels of elements.
struct Ranges<const G: usize, const N: usize> {
    scales: [u8; G],
    mins: [u8; G],
    levels: Lanes<G, N>,
}

/// Writes `d` at a place and `dmin` behind it.
#[inline(always)]
fn ranges<const G: usize, const N: usize>(
    (x, importance): (&[f32; CHUNK], Option<&[f32; CHUNK]>),
    by: impl Fn(f32, f32) -> f32,
    most: f32,
    most_scale: f32,
    out: &mut [u8],
    at: usize,
) -> Result<Ranges<G, N>, Refusal> {
    let x: Lanes<G, N> = lanes(x);
    let w = weights(&x, importance, by);
    let fit = affine(&x, &w, most, true);
    let largest = |of: [f32; G]| of.into_iter().fold(0.0, f32::max);
    let mins = fit.offset.map(|offset| -offset);
    let mut d = write_half(out, at, largest(fit.scale) / most_scale, "scale")?;
    let mut dmin = write_half(out, at + 2, largest(mins) / most_scale, "minimum")?;
    let integers =
        |of: [f32; G], unit: f32| of.map(|of| rounded((of * inverse(unit)).min(most_scale)));
    let (mut scales, mut mins) = (integers(fit.scale, d), integers(mins, dmin));
    let mut levels = [[0.0; G]; N];
    for round in 0..ROUNDS {
        let (old_scales, old_mins) = (scales, mins);
        let mut least = [f32::INFINITY; G];
        for neighbour in 0..9 {
            let (up, more) = ((neighbour % 3) as f32 - 1.0, (neighbour / 3) as f32 - 1.0);
            let scale = old_scales.map(|scale| (scale + up).max(0.0).min(most_scale));
            let min = old_mins.map(|min| (min + more).max(0.0).min(most_scale));
            let (real, less) = (scale.map(|scale| d * scale), min.map(|min| dmin * min));
            let factor = real.map(inverse);
            let mut error = [0.0f32; G];
            for (x, w) in x.iter().zip(&w) {
                for g in 0..G {
                    let level = rounded(((x[g] + less[g]) * factor[g]).max(0.0).min(most));
                    let away = real[g] * level - less[g] - x[g];
                    error[g] += w[g] * away * away;
                }
            }
            for g in 0..G {
                if error[g] < least[g] {
                    (least[g], scales[g], mins[g]) = (error[g], scale[g], min[g]);
                }
            }
        }
        let factor = scales.map(|scale| inverse(d * scale));
        for (levels, x) in levels.iter_mut().zip(&x) {
            for g in 0..G {
                levels[g] = rounded(((x[g] + dmin * mins[g]) * factor[g]).max(0.0).min(most));
            }
        }
        if round + 1 < ROUNDS {
            // The least squares of all elements as `d * a - dmin * b`.
            let [mut aa, mut ab, mut bb, mut ax, mut bx] = [[0.0f32; G]; 5];
            for ((x, w), q) in x.iter().zip(&w).zip(&levels) {
                for g in 0..G {
                    let (a, b) = (scales[g] * q[g], mins[g]);
                    aa[g] += w[g] * a * a;
                    ab[g] += w[g] * a * b;
                    bb[g] += w[g] * b * b;
                    ax[g] += w[g] * a * x[g];
                    bx[g] += w[g] * b * x[g];
                }
            }
            let [aa, ab, bb, ax, bx] = [aa, ab, bb, ax, bx].map(|sums| sums.iter().sum::<f32>());
            let determinant = aa * bb - ab * ab;
            let (wide, deep) = match determinant > 1e-6 * aa * bb {
                true => ((ax * bb - bx * ab) / determinant, (ax * ab - bx * aa) / determinant),
                false => ((ax + dmin * ab) * inverse(aa), dmin),
            };
            if wide > 0.0 && deep >= 0.0 {
                d = write_half(out, at, wide, "scale")?;
                dmin = write_half(out, at + 2, deep, "minimum")?;
            }
        }
    }
    Ok(Ranges { scales: scales.map(|s| s as u8), mins: mins.map(|m| m as u8), levels })
}

/// Scales as integers from `-most_scale` to `most_scale - 1`, near those that are wanted; `nearest` gives the level for a
/// number. Writes `d` and returns it.
#[inline(always)]
pub(super) fn integer_scales<const G: usize, const N: usize>(
    (x, w): (&Lanes<G, N>, &Lanes<G, N>),
    wanted: [f32; G],
    most_scale: f32,
    nearest: impl Fn(f32) -> f32,
    out: &mut [u8],
    at: usize,
) -> Result<(f32, [f32; G]), Refusal> {
    let extreme = extreme(&wanted);
    let mut d = write_half(out, at, extreme / -most_scale, "scale")?;
    let limited = |scale: f32| scale.max(-most_scale).min(most_scale - 1.0);
    let mut scales = wanted.map(|wanted| rounded(limited(wanted * inverse(d))));
    for round in 0..ROUNDS {
        let old = scales;
        let mut least = [f32::INFINITY; G];
        // Of the best scales: the sums of squares of the levels, and of their products with the elements.
        let (mut aa, mut ax) = ([0.0f32; G], [0.0f32; G]);
        for up in [0.0, -1.0, 1.0] {
            let scale = old.map(|scale| limited(scale + up));
            let factor = scale.map(|scale| inverse(d * scale));
            let [mut error, mut qq, mut qx] = [[0.0f32; G]; 3];
            for (x, w) in x.iter().zip(w) {
                for g in 0..G {
                    let level = nearest(x[g] * factor[g]);
                    let away = d * scale[g] * level - x[g];
                    error[g] += w[g] * away * away;
                    qq[g] += w[g] * level * level;
                    qx[g] += w[g] * level * x[g];
                }
            }
            for g in 0..G {
                if error[g] < least[g] {
                    (least[g], scales[g]) = (error[g], scale[g]);
                    (aa[g], ax[g]) = (scale[g] * scale[g] * qq[g], scale[g] * qx[g]);
                }
            }
        }
        let over = inverse(aa.iter().sum());
        if round + 1 < ROUNDS && over > 0.0 {
            d = write_half(out, at, ax.iter().sum::<f32>() * over, "scale")?;
        }
    }
    Ok((d, scales))
}

/// Scales of groups of 16, and the level of each element, from 0 to `2 * most - 1`.
#[inline(always)]
fn centred(
    (x, importance): (&[f32; CHUNK], Option<&[f32; CHUNK]>),
    by: impl Fn(f32, f32) -> f32,
    most: f32,
    most_scale: f32,
    out: &mut [u8],
    at: usize,
) -> Result<([i8; 16], [u8; CHUNK]), Refusal> {
    let side_by_side: Lanes<16, 16> = lanes(x);
    let w = weights(&side_by_side, importance, by);
    let nearest = |x: f32| rounded(x.max(-most).min(most - 1.0));
    let wanted = symmetric(&side_by_side, &w, most);
    let (d, scales) = integer_scales((&side_by_side, &w), wanted, most_scale, nearest, out, at)?;
    let mut levels = [0; CHUNK];
    for (i, level) in levels.iter_mut().enumerate() {
        *level = (nearest(x[i] * inverse(d * scales[i / 16])) + most) as u8;
    }
    Ok((scales.map(|scale| scale as i8), levels))
}

#[inline(always)]
pub(crate) fn q2(
    x: &[f32; CHUNK],
    importance: Option<&[f32; CHUNK]>,
    out: &mut [u8],
) -> Result<(), Refusal> {
    let Ranges { scales, mins, levels } =
        ranges::<16, 16>((x, importance), by_square, 3.0, 15.0, out, 80)?;
    k_encode::pack_q2(&scales, &mins, |i| level(&levels, i) as u8, out);
    Ok(())
}

#[inline(always)]
pub(crate) fn q3(
    x: &[f32; CHUNK],
    importance: Option<&[f32; CHUNK]>,
    out: &mut [u8],
) -> Result<(), Refusal> {
    let (scales, levels) = centred((x, importance), by_square, 4.0, 32.0, out, 108)?;
    k_encode::pack_q3(&scales, |i| levels[i], out);
    Ok(())
}

#[inline(always)]
pub(crate) fn q4(
    x: &[f32; CHUNK],
    importance: Option<&[f32; CHUNK]>,
    out: &mut [u8],
) -> Result<(), Refusal> {
    let Ranges { scales, mins, levels } =
        ranges::<8, 32>((x, importance), by_magnitude, 15.0, 63.0, out, 0)?;
    k_encode::pack_q4(&scales, &mins, |i| level(&levels, i) as u8, out);
    Ok(())
}

#[inline(always)]
pub(crate) fn q5(
    x: &[f32; CHUNK],
    importance: Option<&[f32; CHUNK]>,
    out: &mut [u8],
) -> Result<(), Refusal> {
    let Ranges { scales, mins, levels } =
        ranges::<8, 32>((x, importance), by_magnitude, 31.0, 63.0, out, 0)?;
    k_encode::pack_q5(&scales, &mins, |i| level(&levels, i) as u8, out);
    Ok(())
}

#[inline(always)]
pub(crate) fn q6(
    x: &[f32; CHUNK],
    importance: Option<&[f32; CHUNK]>,
    out: &mut [u8],
) -> Result<(), Refusal> {
    let (scales, levels) = centred((x, importance), by_magnitude, 32.0, 128.0, out, 208)?;
    k_encode::pack_q6(&scales, |i| levels[i], out);
    Ok(())
}
