//! What blocks can hold, for methods that choose the numbers of elements themselves: scales stay, numbers are written anew.
//!
//! An element is `scale * value + offset`, where its [`Step`] is shared by a group and its value is one of [`Values`].

use crate::{Block, Blocks, CHUNK, Plain, with_block_type};

/// What numbers stand for, before scale and offset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values {
    /// Whole numbers, from the lowest on.
    Whole {
        /// What 0 stands for.
        lowest: i16,
        /// How many there are.
        count: u16,
    },
    /// A table.
    Table(&'static [f32; 16]),
}

impl Values {
    /// How many there are.
    pub const fn count(self) -> usize {
        match self {
            Self::Whole { count, .. } => count as usize,
            Self::Table(table) => table.len(),
        }
    }

    /// That of a number, which is below the count.
    pub fn value(self, number: u8) -> f32 {
        match self {
            Self::Whole { lowest, .. } => f32::from(lowest + i16::from(number)),
            Self::Table(table) => table[usize::from(number)],
        }
    }

    /// The number whose value is nearest. What is no number is as 0.
    pub fn nearest(self, value: f32) -> u8 {
        match self {
            Self::Whole { lowest, count } => {
                // Casting limits it, and makes 0 of what is no number.
                let above = (value.round_ties_even() as i32).saturating_sub(lowest.into());
                above.clamp(0, i32::from(count) - 1) as u8
            }
            Self::Table(table) => {
                let away = |number: u8| (table[usize::from(number)] - value).abs();
                (1..16)
                    .fold(0, |best, number| if away(number) < away(best) { number } else { best })
            }
        }
    }
}

/// Scale and offset of an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// What values are multiplied by; may be zero or negative.
    pub scale: f32,
    /// What is added.
    pub offset: f32,
}

impl Step {
    /// The element of a number: the bits that the format's decoder gives, but for the sign of zero.
    pub fn element(self, values: Values, number: u8) -> f32 {
        self.scale * values.value(number) + self.offset
    }

    /// The number whose element is nearest.
    pub fn nearest(self, values: Values, element: f32) -> u8 {
        let value = (element - self.offset) / self.scale;
        // All elements are the same where the scale is zero.
        values.nearest(if value.is_nan() { 0.0 } else { value })
    }
}

impl Block {
    /// What numbers of this format stand for.
    pub const fn values(self) -> Values {
        with_block_type!(self, B => B::VALUES)
    }

    /// The steps of the elements of whole blocks, as many as both sides have.
    pub fn steps(self, blocks: &[u8], steps: &mut [Step]) {
        with_block_type!(self, B => {
            // As many blocks as make a chunk, filled up with zeros at the end.
            let each = CHUNK / B::ELEMENTS * B::BYTES;
            for (blocks, steps) in blocks.chunks(each).zip(steps.chunks_mut(CHUNK)) {
                let mut whole = [0; 8 * 34];
                whole[..blocks.len()].copy_from_slice(blocks);
                let made = B::levels(Plain, &whole[..each]);
                // Where values are around zero, decoders subtract their middle from levels, not from elements.
                let is_centred = match B::VALUES {
                    Values::Whole { lowest, .. } => lowest < 0,
                    Values::Table(_) => true,
                };
                for (at, step) in steps.iter_mut().enumerate() {
                    let (scale, minimum) = match B::GROUP {
                        16 => (made.scales[at / 16], made.minima[at / 16]),
                        _ => (made.scales[at / 32], made.scales[8 + at / 32]),
                    };
                    *step = Step { scale, offset: if is_centred { 0.0 } else { -minimum } };
                }
            }
        });
    }

    /// Writes the numbers of whole blocks, as many as both sides have; what scales are made of stays.
    pub fn write_numbers(self, numbers: &[u8], blocks: &mut [u8]) {
        with_block_type!(self, B => {
            let each = numbers.chunks_exact(B::ELEMENTS);
            let pairs = each.zip(blocks.chunks_exact_mut(B::BYTES));
            pairs.for_each(|(numbers, block)| B::write_numbers(numbers, block));
        });
    }
}

#[cfg(test)]
mod tests {
    use polaris_core::random::SplitMix64;

    use super::*;

    fn draw(random: &mut SplitMix64, count: usize) -> Vec<f32> {
        (0..count).map(|_| (random.unit() - 0.4) as f32).collect()
    }

    #[test]
    fn numbers_decode_to_the_elements_of_their_steps() {
        let mut random = SplitMix64::new(3);
        for block in Block::ALL {
            for blocks in [1, 3, 8, 11] {
                let count = blocks * block.elements();
                let mut bytes = vec![0; blocks * block.bytes()];
                block.encode_best(&draw(&mut random, count), None, &mut bytes).unwrap();
                let mut steps = vec![Step { scale: 0.0, offset: 0.0 }; count];
                block.steps(&bytes, &mut steps);
                let values = block.values();
                let numbers: Vec<u8> =
                    (0..count).map(|_| (random.bits() % values.count() as u64) as u8).collect();
                block.write_numbers(&numbers, &mut bytes);
                let mut decoded = vec![0.0; count];
                block.decode(&bytes, &mut decoded);
                for (at, (&number, step)) in numbers.iter().zip(&steps).enumerate() {
                    assert_eq!(step.element(values, number), decoded[at], "{block} {at} {number}");
                }
                let mut again = steps.clone();
                block.steps(&bytes, &mut again);
                assert_eq!(again, steps, "{block}: scales changed");
            }
        }
    }

    #[test]
    fn the_nearest_number_is_the_nearest_of_all() {
        let mut random = SplitMix64::new(5);
        for block in Block::ALL {
            let values = block.values();
            for scale in [0.1, -0.03, 0.0, 1e-30] {
                let step = Step { scale, offset: -0.2 };
                for element in draw(&mut random, 50) {
                    let away = |number: u8| (step.element(values, number) - element).abs();
                    let found = away(step.nearest(values, element));
                    let best =
                        (0..values.count()).map(|number| away(number as u8)).fold(9.0, f32::min);
                    assert!(found <= best + 1e-6, "{block} {scale}: {found} {best}");
                }
            }
            let step = Step { scale: 1.0, offset: 0.0 };
            for element in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX] {
                assert!(usize::from(step.nearest(values, element)) < values.count());
            }
        }
    }

    #[test]
    fn what_encoders_choose_is_among_the_numbers() {
        let mut random = SplitMix64::new(7);
        for block in Block::ALL {
            let x = draw(&mut random, 8 * block.elements());
            let mut bytes = vec![0; 8 * block.bytes()];
            block.encode_best(&x, None, &mut bytes).unwrap();
            let (mut decoded, mut steps) =
                (vec![0.0; x.len()], vec![Step { scale: 0.0, offset: 0.0 }; x.len()]);
            block.decode(&bytes, &mut decoded);
            block.steps(&bytes, &mut steps);
            let error =
                |y: &[f32]| -> f64 { x.iter().zip(y).map(|(a, b)| f64::from(a - b).powi(2)).sum() };
            let numbers: Vec<u8> =
                x.iter().zip(&steps).map(|(&x, step)| step.nearest(block.values(), x)).collect();
            let before = error(&decoded);
            block.write_numbers(&numbers, &mut bytes);
            block.decode(&bytes, &mut decoded);
            assert!(error(&decoded) <= before * 1.000_001, "{block}: {} {before}", error(&decoded));
        }
    }
}
