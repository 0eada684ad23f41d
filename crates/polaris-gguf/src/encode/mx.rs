//! MXFP4: a power of two for 32 weights of four bits.

use super::Refusal;
use crate::decode::{MXFP4_VALUES, mxfp4_scale};

pub fn mxfp4(x: &[f32], out: &mut [u8]) -> std::result::Result<(), Refusal> {
    let most = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let e = exponent(most);
    let d = mxfp4_scale(e);
    // The first of the nearest values, so that minus zero is never chosen.
    let nearest = |x: f32| {
        let error = |q: u8| (d * f32::from(MXFP4_VALUES[usize::from(q)]) - x).abs();
        (1..16).fold(0, |best, q| if error(q) < error(best) { q } else { best })
    };
    out[0] = e;
    for (j, byte) in out[1..].iter_mut().enumerate() {
        *byte = nearest(x[j]) | nearest(x[j + 16]) << 4;
    }
    Ok(())
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
