//! Writing into a cache by definition, in `f64`.

use polaris_core::DType;

use super::Sizes;
use crate::format::{Block, Stored};
use crate::suite::rounded;

/// The cache after, from the elements of slots, cache and rows.
pub(super) fn write(values: &[Vec<f64>], [_, heads, depth]: Sizes, stored: Stored) -> Vec<f64> {
    let row = heads * depth;
    let mut result = values[1].clone();
    for (token, &slot) in values[0].iter().enumerate() {
        if slot >= 0.0 {
            let from = &values[2][token * row..][..row];
            let to = &mut result[slot as usize * row..][..row];
            match stored {
                Stored::Dense(dtype) => {
                    to.iter_mut().zip(from).for_each(|(to, &from)| *to = rounded(from, dtype));
                }
                Stored::Block(block) => {
                    let each = block.elements();
                    for (to, from) in to.chunks_exact_mut(each).zip(from.chunks_exact(each)) {
                        let found = Rounding::new(block, from);
                        to.iter_mut().zip(from).for_each(|(to, &from)| *to = found.value(from));
                    }
                }
            }
        }
    }
    result
}

/// How the elements of a block are rounded.
pub(super) struct Rounding {
    block: Block,
    /// The scale as it is, and in half precision; NaN if the block is.
    scale: f64,
    half: f64,
}

impl Rounding {
    /// That of a block of these elements.
    pub fn new(block: Block, elements: &[f64]) -> Self {
        let larger = |most: f64, x: &f64| if x.abs() > most.abs() { *x } else { most };
        let extreme = elements.iter().fold(0.0, larger);
        let scale = match block {
            // The element of the largest magnitude becomes -8, which has no positive counterpart.
            Block::Q4_0 => extreme / -8.0,
            _ => extreme.abs() / 127.0,
        };
        let half = rounded(scale, DType::F16);
        let is_finite = elements.iter().all(|x| x.is_finite()) && half.is_finite();
        Self { block, scale, half: if is_finite { half } else { f64::NAN } }
    }

    /// An element in units of the scale, before it is rounded.
    fn place(&self, x: f64) -> f64 {
        if self.scale == 0.0 { 0.0 } else { x / self.scale }
    }

    /// What an element becomes.
    pub fn value(&self, x: f64) -> f64 {
        let level = match self.block {
            Block::Q4_0 => (self.place(x) + 0.5).floor().min(7.0),
            _ => self.place(x).round(),
        };
        self.half * level
    }

    /// What an element may be off, since devices round the division that the scale and the levels come from in other
    /// places: one level near the middle of two, and one unit of the scale near the middle of two halves.
    pub fn slack(&self, x: f64) -> f64 {
        const NEAR: f64 = 1e-4;
        let place = self.place(x);
        let level = if (place - place.floor() - 0.5).abs() < NEAR { self.half.abs() } else { 0.0 };
        let [below, above] =
            [1.0 - 1e-6, 1.0 + 1e-6].map(|factor| rounded(self.scale * factor, DType::F16));
        let slack = level + (above - below).abs() * place.abs();
        if slack.is_finite() { slack } else { 0.0 }
    }
}
