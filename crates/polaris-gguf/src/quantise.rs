//! Tensors of every type to `f32` and back: the reference for kernels.

use polaris_core::{bf16, f16};

use crate::error::with_room;
use crate::{Error, Result, TensorType};

/// The elements of blocks, with the bits of the Python package `gguf` 0.19. Scales that are infinite or NaN give what
/// IEEE arithmetic makes of them; only which NaN is not defined.
///
/// ```
/// use polaris_gguf::{TensorType, dequantize};
///
/// let mut block = [0x88; 18]; // every weight is 8, which stands for 0
/// (block[0], block[1]) = (0x00, 0x38); // the scale: 0.5 in half precision
/// block[2] = 0x9f; // 15 as the first weight, 9 as the 17th
/// let weights = dequantize(TensorType::Q4_0, &block)?;
/// assert_eq!((weights[0], weights[16], weights[1]), (3.5, 0.5, 0.0));
/// # Ok::<(), polaris_gguf::Error>(())
/// ```
///
/// # Errors
/// If the bytes do not end with a block, or there is no memory for the elements.
pub fn dequantize(ty: TensorType, bytes: &[u8]) -> Result<Vec<f32>> {
    let (size, each) = (ty.block_bytes(), ty.block_elements());
    if !bytes.len().is_multiple_of(size) {
        return Err(Error::block(
            ty,
            format!("{} bytes are no multiple of the block's {size}", bytes.len()),
        ));
    }
    let elements =
        (bytes.len() / size).checked_mul(each).ok_or(Error::OutOfMemory { bytes: usize::MAX })?;
    let mut values: Vec<f32> = with_room(elements)?;
    let (twos, fours) = (bytes.as_chunks::<2>().0, bytes.as_chunks::<4>().0);
    match ty {
        // Copied bit by bit, NaNs too.
        TensorType::F32 => values.extend(fours.iter().map(|&bytes| f32::from_le_bytes(bytes))),
        TensorType::F16 => {
            values.extend(twos.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f32()));
        }
        // The upper half of an `f32`, NaNs too.
        TensorType::BF16 => {
            values.extend(twos.iter().map(|&[a, b]| f32::from_le_bytes([0, 0, a, b])));
        }
        TensorType::Block(block) => {
            values.resize(elements, 0.0);
            block.decode(bytes, &mut values);
        }
    }
    Ok(values)
}

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
/// scales can say; for the K and IQ types, for which there is no quantiser that searches scales.
pub fn quantize(ty: TensorType, weights: &[f32]) -> Result<Vec<u8>> {
    if matches!(ty, TensorType::Block(block) if !block.has_reference_encoder()) {
        let can = |ty: &TensorType| match ty {
            TensorType::Block(block) => block.has_reference_encoder(),
            _ => true,
        };
        let accepted: Vec<&str> =
            TensorType::ALL.iter().filter(|ty| can(ty)).map(|ty| ty.name()).collect();
        let what = format!("quantising to {ty}; {} can be written", accepted.join(", "));
        return Err(Error::Unsupported { what });
    }
    let (size, each) = (ty.block_bytes(), ty.block_elements());
    if !weights.len().is_multiple_of(each) {
        let why = format!("{} weights are no multiple of the block's {each}", weights.len());
        return Err(Error::block(ty, why));
    }
    let total =
        (weights.len() / each).checked_mul(size).ok_or(Error::OutOfMemory { bytes: usize::MAX })?;
    let mut bytes = with_room(total)?;
    match ty {
        TensorType::F32 => bytes.extend(weights.iter().flat_map(|x| x.to_le_bytes())),
        TensorType::F16 => {
            bytes.extend(weights.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()));
        }
        TensorType::BF16 => {
            bytes.extend(weights.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()));
        }
        TensorType::Block(block) => {
            bytes.resize(total, 0);
            block.encode_nearest(weights, &mut bytes)?;
        }
    }
    Ok(bytes)
}
