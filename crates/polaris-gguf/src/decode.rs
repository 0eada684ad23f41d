//! Blocks to `f32`, one function for each type: the reference for kernels. Speed does not matter here.
//!
//! All arithmetic is in `f32`, in the order of the Python package `gguf` 0.19, and gives its bits. Scales that are
//! infinite or NaN give what IEEE arithmetic makes of them; only which NaN is not defined.

mod floats;
mod k;
mod legacy;
mod lookup;

use polaris_core::f16;

use crate::error::with_room;
use crate::{Error, Result, TensorType};

/// The powers of two and the table of MXFP4, for the encoder too.
pub(crate) use lookup::{MXFP4_VALUES, mxfp4_scale};

/// The elements of blocks.
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
    let decode = match ty {
        TensorType::F32 => floats::f32,
        TensorType::F16 => floats::f16,
        TensorType::BF16 => floats::bf16,
        TensorType::Q4_0 => legacy::q4_0,
        TensorType::Q4_1 => legacy::q4_1,
        TensorType::Q5_0 => legacy::q5_0,
        TensorType::Q5_1 => legacy::q5_1,
        TensorType::Q8_0 => legacy::q8_0,
        TensorType::Q2_K => k::q2,
        TensorType::Q3_K => k::q3,
        TensorType::Q4_K => k::q4,
        TensorType::Q5_K => k::q5,
        TensorType::Q6_K => k::q6,
        TensorType::IQ4_NL => lookup::iq4_nl,
        TensorType::IQ4_XS => lookup::iq4_xs,
        TensorType::MXFP4 => lookup::mxfp4,
    };
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
    values.resize(elements, 0.0);
    for (block, out) in bytes.chunks_exact(size).zip(values.chunks_exact_mut(each)) {
        decode(block, out);
    }
    Ok(values)
}

/// The half-precision number at a position of a block.
fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Half of a byte: 0 is the lower, 1 the upper.
fn nibble(byte: u8, half: usize) -> u8 {
    byte >> (4 * half) & 15
}
