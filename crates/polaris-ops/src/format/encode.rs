//! Encoding of weights with scales that are searched for, compiled for the processor.

use polaris_blocks::{Block, Blocks, CHUNK, Refusal, with_block_type};
use polaris_runtime::cpu::SimdLevel;

use crate::cpu::simd::multiversion;

/// Blocks that come near to elements, as [`Block::encode_best`] gives them. Instruction sets round sums differently, so that
/// where two scales are about as good, bytes may differ.
///
/// # Errors
/// If the elements do not fill the blocks, one of them is not finite, or a scale is beyond half precision.
pub fn encode_best(
    level: SimdLevel,
    block: Block,
    elements: &[f32],
    bytes: &mut [u8],
) -> polaris_blocks::Result<()> {
    encode_by_importance(level, block, elements, None, bytes)
}

/// The same, where squared errors count by the importance of their elements, if there is one.
///
/// # Errors
/// As [`encode_best`]; if there is not an importance for each element, or one is negative or not finite.
pub fn encode_by_importance(
    level: SimdLevel,
    block: Block,
    elements: &[f32],
    importance: Option<&[f32]>,
    bytes: &mut [u8],
) -> polaris_blocks::Result<()> {
    block.encode_best_by(
        elements,
        importance,
        bytes,
        |elements, importance, bytes| with_block_type!(block, B => encode::<B>(level, elements, importance, bytes)),
    )
}

multiversion! {
    fn encode<B: Blocks>(
        elements: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        bytes: &mut [u8],
    ) -> Result<(), Refusal> {
        B::encode_best(elements, importance, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_comes_as_near() {
        let elements: Vec<f32> =
            (0..32 * CHUNK).map(|i| ((i * 7919 % 4001) as f32 / 2000.0 - 1.0).powi(3)).collect();
        for block in Block::ALL {
            let error = |bytes: &[u8]| {
                let mut decoded = vec![0.0; elements.len()];
                block.decode(bytes, &mut decoded);
                let pairs = elements.iter().zip(&decoded);
                pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>()
            };
            let mut plain = vec![0; elements.len() / block.elements() * block.bytes()];
            block.encode_best(&elements, None, &mut plain).unwrap();
            let expected = error(&plain);
            for level in [SimdLevel::Portable, SimdLevel::Avx2, SimdLevel::Avx512] {
                if level <= SimdLevel::detect() {
                    let mut bytes = vec![0; plain.len()];
                    encode_best(level, block, &elements, &mut bytes).unwrap();
                    let found = error(&bytes);
                    assert!((found / expected - 1.0).abs() < 1e-3, "{block} {level:?}");
                }
            }
        }
    }
}
