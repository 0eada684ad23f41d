//! Formats whose levels choose from a table.

use super::fit::best_scale;
use super::k::integer_scales;
use super::{by_magnitude, lanes, weights};
use crate::bits::{inverse, write_half};
use crate::legacy::pack;
use crate::table::{NON_LINEAR, nearest_value, pack_iq4_xs};
use crate::{CHUNK, Refusal};

/// The largest magnitude of the table.
const MOST: f32 = -NON_LINEAR[0];

/// The value of the table that comes nearest: the lowest, and the steps up to those that are still below.
#[inline(always)]
fn nearest_of_table(x: f32) -> f32 {
    let mut value = NON_LINEAR[0];
    for pair in NON_LINEAR.windows(2) {
        let middle = (pair[0] + pair[1]) / 2.0;
        value = if x > middle { pair[1] } else { value };
    }
    value
}

#[inline(always)]
pub(crate) fn iq4_nl(
    x: &[f32; CHUNK],
    importance: Option<&[f32; CHUNK]>,
    out: &mut [u8],
) -> Result<(), Refusal> {
    let side_by_side = lanes::<8, 32>(x);
    let scales = best_scale(
        &side_by_side,
        &weights(&side_by_side, importance, by_magnitude),
        MOST,
        nearest_of_table,
    );
    let each = out.len() / 8;
    for ((x, scale), out) in x.as_chunks::<32>().0.iter().zip(scales).zip(out.chunks_mut(each)) {
        let factor = inverse(write_half(out, 0, scale, "scale")?);
        let q = x.map(|x| nearest_value(x * factor));
        pack(|j| q[j], &mut out[2..]);
    }
    Ok(())
}

#[inline(always)]
pub(crate) fn iq4_xs(
    x: &[f32; CHUNK],
    importance: Option<&[f32; CHUNK]>,
    out: &mut [u8],
) -> Result<(), Refusal> {
    let side_by_side = lanes::<8, 32>(x);
    let w = weights(&side_by_side, importance, by_magnitude);
    let wanted = best_scale(&side_by_side, &w, MOST, nearest_of_table);
    let (d, scales) = integer_scales((&side_by_side, &w), wanted, 32.0, nearest_of_table, out, 0)?;
    pack_iq4_xs(x, d, &scales.map(|scale| scale as i32), out);
    Ok(())
}
