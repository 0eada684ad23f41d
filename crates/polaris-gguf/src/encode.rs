//! `f32` to blocks, with the rounding of the Python package `gguf` 0.19.

mod legacy;
mod mx;

use polaris_core::{bf16, f16};

use crate::error::with_room;
use crate::{Error, Result, TensorType};

/// What is wrong with the weights of a block.
type Refusal = String;

/// Weights as blocks of a type: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or MXFP4.
///
/// The bytes are those of the Python package `gguf`, with two exceptions. Where it silently writes a scale that is
/// infinite or NaN, this is an error. And MXFP4 blocks below 2^-125 get the smallest exponent, where the package
/// lets it wrap around.
///
/// ```
/// use polaris_gguf::{TensorType, dequantize, quantize};
///
/// let weights: Vec<f32> = (0..32).map(|i| i as f32 - 15.5).collect();
/// let blocks = quantize(TensorType::Q8_0, &weights)?;
/// assert_eq!(blocks.len(), 34);
/// let close = |(a, b): (&f32, &f32)| (a - b).abs() < 0.07;
/// assert!(weights.iter().zip(&dequantize(TensorType::Q8_0, &blocks)?).all(close));
/// # Ok::<(), polaris_gguf::Error>(())
/// ```
///
/// # Errors
/// If the weights do not end with a block; if the type is quantised and a weight is not finite or beyond what its
/// scales can say; for the K and IQ types, which are not encoded.
pub fn quantize(ty: TensorType, weights: &[f32]) -> Result<Vec<u8>> {
    let encode: fn(&[f32], &mut [u8]) -> std::result::Result<(), Refusal> = match ty {
        TensorType::F32 => |x, out| copy(out, &x[0].to_le_bytes()),
        TensorType::F16 => |x, out| copy(out, &f16::from_f32(x[0]).to_le_bytes()),
        TensorType::BF16 => |x, out| copy(out, &bf16::from_f32(x[0]).to_le_bytes()),
        TensorType::Q4_0 => legacy::q4_0,
        TensorType::Q4_1 => legacy::q4_1,
        TensorType::Q5_0 => legacy::q5_0,
        TensorType::Q5_1 => legacy::q5_1,
        TensorType::Q8_0 => legacy::q8_0,
        TensorType::MXFP4 => mx::mxfp4,
        TensorType::Q2_K
        | TensorType::Q3_K
        | TensorType::Q4_K
        | TensorType::Q5_K
        | TensorType::Q6_K
        | TensorType::IQ4_NL
        | TensorType::IQ4_XS => {
            let what = format!(
                "quantising to {ty}; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and MXFP4 can be written"
            );
            return Err(Error::Unsupported { what });
        }
    };
    let (size, each) = (ty.block_bytes(), ty.block_elements());
    if !weights.len().is_multiple_of(each) {
        let why = format!("{} weights are no multiple of the block's {each}", weights.len());
        return Err(Error::block(ty, why));
    }
    let total =
        (weights.len() / each).checked_mul(size).ok_or(Error::OutOfMemory { bytes: usize::MAX })?;
    let mut bytes = with_room(total)?;
    bytes.resize(total, 0);
    for (number, (block, out)) in
        weights.chunks_exact(each).zip(bytes.chunks_exact_mut(size)).enumerate()
    {
        let start = number * each;
        if each > 1
            && let Some(place) = block.iter().position(|weight| !weight.is_finite())
        {
            let why =
                format!("weight {} is {}; weights must be finite", start + place, block[place]);
            return Err(Error::block(ty, why));
        }
        encode(block, out).map_err(|why| {
            Error::block(
                ty,
                format!("in the block of weights {start} to {}: {why}", start + each - 1),
            )
        })?;
    }
    Ok(bytes)
}

fn copy(out: &mut [u8], bytes: &[u8]) -> std::result::Result<(), Refusal> {
    out.copy_from_slice(bytes);
    Ok(())
}

/// Writes a scale or minimum in half precision.
fn write_half(out: &mut [u8], value: f32, what: &str) -> std::result::Result<(), Refusal> {
    let half = f16::from_f32(value);
    if !half.is_finite() {
        return Err(format!(
            "the {what} {value} is beyond half precision, which ends at {}",
            f16::MAX
        ));
    }
    copy(out, &half.to_le_bytes())
}

/// What to multiply with instead of dividing by a scale; zero for a scale of zero.
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
