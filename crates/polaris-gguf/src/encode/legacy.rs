//! The legacy types, blocks of 32 with evenly spaced weights; `decode/legacy.rs` has their layouts.

use super::{Refusal, inverse, write_half};

type Outcome = std::result::Result<(), Refusal>;

/// A number of `0..=most`, from one that is rounded down. What cannot be converted is 0: that is what the package gives
/// on x86-64 where a scale is so small that its inverse is infinite. Such a scale is 0 in half precision, so that the
/// weights do not depend on it.
fn truncated(value: f32, most: u8) -> u8 {
    if (0.0..256.0).contains(&value) { (value as u8).min(most) } else { 0 }
}

/// The first of the weights with the largest magnitude.
fn extreme(x: &[f32]) -> f32 {
    x.iter().fold(x[0], |most, &x| if x.abs() > most.abs() { x } else { most })
}

/// The smallest and the largest weight.
fn bounds(x: &[f32]) -> (f32, f32) {
    let min = x.iter().fold(x[0], |min, &x| if x < min { x } else { min });
    let max = x.iter().fold(x[0], |max, &x| if x > max { x } else { max });
    (min, max)
}

/// Packs numbers of four bits: weight j below weight j + 16.
fn pack(q: impl Fn(usize) -> u8, out: &mut [u8]) {
    for (j, byte) in out.iter_mut().enumerate() {
        *byte = q(j) & 15 | q(j + 16) << 4;
    }
}

/// Packs the fifth bits of 32 numbers.
fn pack_fifth(q: impl Fn(usize) -> u8, out: &mut [u8]) {
    for (j, byte) in out.iter_mut().enumerate() {
        *byte = (0..8).map(|bit| (q(8 * j + bit) >> 4 & 1) << bit).sum();
    }
}

pub fn q4_0(x: &[f32], out: &mut [u8]) -> Outcome {
    // The weight of the largest magnitude becomes -8, of which there is no positive counterpart.
    let d = extreme(x) / -8.0;
    let id = inverse(d);
    write_half(&mut out[..2], d, "scale")?;
    pack(|j| truncated(x[j] * id + 8.5, 15), &mut out[2..]);
    Ok(())
}

pub fn q4_1(x: &[f32], out: &mut [u8]) -> Outcome {
    let (min, max) = bounds(x);
    let d = (max - min) / 15.0;
    let id = inverse(d);
    write_half(&mut out[..2], d, "scale")?;
    write_half(&mut out[2..4], min, "minimum")?;
    pack(|j| truncated((x[j] - min) * id + 0.5, 15), &mut out[4..]);
    Ok(())
}

pub fn q5_0(x: &[f32], out: &mut [u8]) -> Outcome {
    let d = extreme(x) / -16.0;
    let id = inverse(d);
    write_half(&mut out[..2], d, "scale")?;
    let q = |j: usize| truncated(x[j] * id + 16.5, 31);
    pack_fifth(q, &mut out[2..6]);
    pack(q, &mut out[6..]);
    Ok(())
}

pub fn q5_1(x: &[f32], out: &mut [u8]) -> Outcome {
    let (min, max) = bounds(x);
    let d = (max - min) / 31.0;
    let id = inverse(d);
    write_half(&mut out[..2], d, "scale")?;
    write_half(&mut out[2..4], min, "minimum")?;
    let q = |j: usize| truncated((x[j] - min) * id + 0.5, 31);
    pack_fifth(q, &mut out[4..8]);
    pack(q, &mut out[8..]);
    Ok(())
}

pub fn q8_0(x: &[f32], out: &mut [u8]) -> Outcome {
    let d = extreme(x).abs() / 127.0;
    let id = inverse(d);
    write_half(&mut out[..2], d, "scale")?;
    for (out, &x) in out[2..].iter_mut().zip(x) {
        // Halves are rounded away from zero.
        let q = (x * id).round();
        *out = if q.is_finite() { q as i8 as u8 } else { 0 };
    }
    Ok(())
}
