//! Q8_0: 32 elements in 34 bytes, a scale in half precision and 32 signed bytes.

use polaris_core::f16;

use super::Blocks;

/// The format.
pub(crate) struct Q8_0;

impl Blocks for Q8_0 {
    const NAME: &'static str = "q8_0";
    const ELEMENTS: usize = 32;
    const BYTES: usize = 34;
    const OPENCL: &'static str = include_str!("q8_0.cl");

    #[inline(always)]
    fn decode(block: &[u8], elements: &mut [f32]) {
        let scale = f32::from(f16::from_le_bytes([block[0], block[1]]));
        for (element, &byte) in elements.iter_mut().zip(&block[2..34]) {
            *element = scale * f32::from(byte as i8);
        }
    }

    fn encode(elements: &[f32], block: &mut [u8]) {
        let largest = elements.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        let scale = largest / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        block[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
        for (byte, value) in block[2..34].iter_mut().zip(elements) {
            *byte = (value * inverse).round() as i8 as u8;
        }
    }
}
