//! The scales of groups, each for itself.

use super::{Lanes, rounded};
use crate::bits::inverse;

/// Candidates for a scale: the levels that the extremes are apart, from one fewer than there are to one more.
const CANDIDATES: usize = 17;
/// Rounds in which levels follow from the scale, and the scale from the levels.
const ROUNDS: usize = 2;

/// Elements as `scale * level + offset`.
pub(super) struct Affine<const G: usize> {
    pub scale: [f32; G],
    pub offset: [f32; G],
}

/// Levels from 0 to `most`. With `from_zero`, no offset is above zero, as formats with minima have it.
#[inline(always)]
pub(super) fn affine<const G: usize, const N: usize>(
    x: &Lanes<G, N>,
    w: &Lanes<G, N>,
    most: f32,
    from_zero: bool,
) -> Affine<G> {
    let (mut sum, mut sum_x) = ([0.0f32; G], [0.0f32; G]);
    let (mut low, mut high) = ([f32::INFINITY; G], [f32::NEG_INFINITY; G]);
    for (x, w) in x.iter().zip(w) {
        for g in 0..G {
            sum[g] += w[g];
            sum_x[g] += w[g] * x[g];
            low[g] = if x[g] < low[g] { x[g] } else { low[g] };
            high[g] = if x[g] > high[g] { x[g] } else { high[g] };
        }
    }
    if from_zero {
        low = low.map(|low| low.min(0.0));
    }
    let mut found = Affine { scale: [0.0; G], offset: low };
    // Equal elements are their offset, or the highest level if it cannot be one.
    for g in 0..G {
        if high[g] > low[g] {
            found.scale[g] = (high[g] - low[g]) / most;
        }
    }
    let mut gain = [f32::NEG_INFINITY; G];
    for candidate in 0..CANDIDATES + ROUNDS {
        let (mut factor, mut origin) = ([0.0f32; G], low);
        if candidate < CANDIDATES {
            let apart = most - 1.0 + candidate as f32 * (2.0 / (CANDIDATES - 1) as f32);
            for g in 0..G {
                factor[g] = apart * inverse(high[g] - low[g]);
            }
        } else {
            factor = found.scale.map(inverse);
            origin = found.offset;
        }
        let (mut q, mut qq, mut qx) = ([0.0f32; G], [0.0f32; G], [0.0f32; G]);
        for (x, w) in x.iter().zip(w) {
            for g in 0..G {
                let level = rounded(((x[g] - origin[g]) * factor[g]).max(0.0).min(most));
                let weighted = w[g] * level;
                q[g] += weighted;
                qq[g] += weighted * level;
                qx[g] += weighted * x[g];
            }
        }
        for g in 0..G {
            let determinant = sum[g] * qq[g] - q[g] * q[g];
            let over = inverse(determinant);
            let mut scale = (sum[g] * qx[g] - sum_x[g] * q[g]) * over;
            let mut offset = (qq[g] * sum_x[g] - q[g] * qx[g]) * over;
            if from_zero && offset > 0.0 {
                (scale, offset) = (qx[g] * inverse(qq[g]), 0.0);
            }
            // How much smaller than that of zeros the squared error is.
            let here = scale * qx[g] + offset * sum_x[g];
            if here > gain[g] && scale > 0.0 && scale.is_finite() && determinant > 0.0 {
                (gain[g], found.scale[g], found.offset[g]) = (here, scale, offset);
            }
        }
    }
    found
}

/// Elements as `scale * level`, with levels from `-most` to `most - 1`; scales may be negative.
#[inline(always)]
pub(super) fn symmetric<const G: usize, const N: usize>(
    x: &Lanes<G, N>,
    w: &Lanes<G, N>,
    most: f32,
) -> [f32; G] {
    best_scale(x, w, most, |value| rounded(value.max(-most).min(most - 1.0)))
}

/// Elements as `scale * level`, where `level` gives the nearest to a number, and `most` is the largest magnitude.
#[inline(always)]
pub(super) fn best_scale<const G: usize, const N: usize>(
    x: &Lanes<G, N>,
    w: &Lanes<G, N>,
    most: f32,
    level: impl Fn(f32) -> f32,
) -> [f32; G] {
    let mut extreme = [0.0f32; G];
    for x in x {
        for g in 0..G {
            extreme[g] = if x[g].abs() > extreme[g].abs() { x[g] } else { extreme[g] };
        }
    }
    let mut scale = extreme.map(|extreme| extreme / -most);
    let mut gain = [f32::NEG_INFINITY; G];
    for candidate in 0..2 * CANDIDATES + ROUNDS {
        let mut factor = scale.map(inverse);
        if candidate < 2 * CANDIDATES {
            // The extreme becomes the lowest level or about the highest.
            let step = most * (0.25 / (CANDIDATES - 1) as f32);
            let step = step.min(2.0 / (CANDIDATES - 1) as f32);
            let apart = (candidate / 2) as f32 * step - step * (CANDIDATES / 2) as f32;
            let sign = if candidate % 2 == 0 { -1.0 } else { 1.0 };
            factor = extreme.map(|extreme| sign * (most + apart) * inverse(extreme));
        }
        let (mut qq, mut qx) = ([0.0f32; G], [0.0f32; G]);
        for (x, w) in x.iter().zip(w) {
            for g in 0..G {
                let level = level(x[g] * factor[g]);
                let weighted = w[g] * level;
                qq[g] += weighted * level;
                qx[g] += weighted * x[g];
            }
        }
        for g in 0..G {
            let here = qx[g] * inverse(qq[g]);
            if here * qx[g] > gain[g] && here.is_finite() && qq[g] > 0.0 {
                (gain[g], scale[g]) = (here * qx[g], here);
            }
        }
    }
    scale
}
