//! Loops over rows of int8 and floats.

use polaris_core::DType;

use super::bytes::Limits;
use super::{Row, Scale};
use crate::cpu::simd::multiversion;

/// How the bytes of an operand stand for numbers, as unsigned ones.
pub struct Bytes {
    pub flip: u8,
    pub zero: f32,
    pub scale: f32,
}

impl Bytes {
    #[inline(always)]
    fn number(&self, byte: u8) -> f32 {
        (f32::from(byte ^ self.flip) - self.zero) * self.scale
    }
}

/// How numbers become bytes.
pub struct Quantizer {
    limits: Limits,
    scale: f32,
    /// With which a quotient can be had without a division, if it can.
    inverse: Option<f32>,
}

impl Quantizer {
    pub fn new(dtype: DType, scale: &Scale, relu: bool) -> Option<Self> {
        let limits = Limits::new((dtype, scale.zero), relu)?;
        // Nothing on the way may leave the range in which numbers have all their bits.
        let usual = (1e-12..1e12).contains(&scale.scale);
        Some(Self { limits, scale: scale.scale, inverse: usual.then(|| scale.scale.recip()) })
    }
}

/// The quotient, rounded as a division rounds it: what is left of the first guess by the inverse tells
/// how far off it is. Divisions take as long as all the rest of a loop.
#[inline(always)]
fn quotient<const VECTOR_BYTES: usize>(x: f32, scale: f32, inverse: f32) -> f32 {
    // Where fusing is not an instruction, it is a slow call.
    if VECTOR_BYTES < 32 {
        return x / scale;
    }
    let guess = x * inverse;
    let left = (-guess).mul_add(scale, x);
    left.mul_add(inverse, guess)
}

/// Calls a body for each element of a row, with the index and the pointers to the operands' elements.
macro_rules! for_each {
    ($row:expr, |$at:ident, $strides:ident| $body:expr) => {{
        // Two loops, so that the first has strides that the compiler knows.
        if $row.is_dense() {
            let $strides = [1; 3];
            for $at in 0..$row.count {
                $body
            }
        } else {
            let $strides = $row.strides;
            for $at in 0..$row.count {
                $body
            }
        }
    }};
}

multiversion! {
    /// The caller vouches for the row's memory.
    pub fn quantize<>(row: &Row, to: &Quantizer) {
        let [target, x, _] = row.start;
        let x = x.cast::<f32>().cast_const();
        for_each!(row, |at, strides| {
            // SAFETY: by the caller's word.
            unsafe {
                let value = *x.add(at * strides[1]) / to.scale;
                *target.add(at * strides[0]) = to.limits.byte(value);
            }
        });
    }
}

multiversion! {
    /// The caller vouches for the row's memory.
    pub fn dequantize<>(row: &Row, from: &Bytes) {
        let [target, x, _] = row.start;
        let target = target.cast::<f32>();
        for_each!(row, |at, strides| {
            // SAFETY: by the caller's word.
            unsafe { *target.add(at * strides[0]) = from.number(*x.add(at * strides[1])) };
        });
    }
}

/// Elements of a sum at a time: a fixed number, so that the compiler makes vectors of them though the
/// result may be an operand's memory.
const BLOCK: usize = 64;

multiversion! {
    /// The caller vouches for the row's memory.
    pub fn add<>(row: &Row, operands: &[Bytes; 2], to: &Quantizer) {
        let [a, b] = operands;
        let [target, first, second] = row.start;
        let sum = |x: u8, y: u8| a.number(x) + b.number(y);
        let whole = match (row.is_dense(), to.inverse) {
            (true, Some(inverse)) => {
                for at in (0..row.count / BLOCK * BLOCK).step_by(BLOCK) {
                    // SAFETY: by the caller's word.
                    unsafe {
                        let x = first.add(at).cast::<[u8; BLOCK]>().read();
                        let y = second.add(at).cast::<[u8; BLOCK]>().read();
                        let mut bytes = [0; BLOCK];
                        for (to_byte, (&x, &y)) in bytes.iter_mut().zip(x.iter().zip(&y)) {
                            let value = quotient::<VECTOR_BYTES>(sum(x, y), to.scale, inverse);
                            *to_byte = to.limits.byte(value);
                        }
                        target.add(at).cast::<[u8; BLOCK]>().write(bytes);
                    }
                }
                row.count / BLOCK * BLOCK
            }
            _ => 0,
        };
        for at in whole..row.count {
            // SAFETY: by the caller's word.
            unsafe {
                let (x, y) = (*first.add(at * row.strides[1]), *second.add(at * row.strides[2]));
                *target.add(at * row.strides[0]) = to.limits.byte(sum(x, y) / to.scale);
            }
        }
    }
}
