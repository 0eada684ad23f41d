//! Q4_0: 32 elements in 18 bytes, a scale in half precision and 16 bytes of two elements each: byte `j` holds element
//! `j` in its lower half and element `j + 16` in its upper half, both raised by 8.

use polaris_core::f16;

use super::Blocks;

/// The format.
pub(crate) struct Q4_0;

impl Blocks for Q4_0 {
    const NAME: &'static str = "q4_0";
    const ELEMENTS: usize = 32;
    const BYTES: usize = 18;
    const OPENCL: &'static str = include_str!("q4_0.cl");

    #[inline(always)]
    fn decode(block: &[u8], elements: &mut [f32]) {
        let scale = f32::from(f16::from_le_bytes([block[0], block[1]]));
        let (low, high) = elements[..32].split_at_mut(16);
        for ((low, high), &byte) in low.iter_mut().zip(high).zip(&block[2..18]) {
            *low = scale * f32::from((byte & 15) as i8 - 8);
            *high = scale * f32::from((byte >> 4) as i8 - 8);
        }
    }

    fn encode(elements: &[f32], block: &mut [u8]) {
        // The element of the largest magnitude becomes -8, of which there is no opposite.
        let largest = elements
            .iter()
            .fold(0.0f32, |most, &value| if value.abs() > most.abs() { value } else { most });
        let scale = largest / -8.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        block[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
        let four_bits = |value: f32| ((value * inverse + 8.5) as u8).min(15);
        let (low, high) = elements[..32].split_at(16);
        for ((byte, &low), &high) in block[2..18].iter_mut().zip(low).zip(high) {
            *byte = four_bits(low) | four_bits(high) << 4;
        }
    }
}
