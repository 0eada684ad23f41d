//! Hadamard rotation: spreads outliers of activations over many elements, so that few bits suffice for them.
//!
//! For an orthogonal `R`, `(W R^T)(R x) = W x`: weights and inputs may be rotated together, and quantised then. A Hadamard
//! matrix with random signs (Ashkboos et al. 2024, QuaRot) gives each element a part of each other one, and its product takes
//! `log2(n)` additions an element. Rows whose length is no power of two are rotated in blocks.

use polaris_core::random::SplitMix64;

use crate::{Error, Result};

/// A rotation of rows.
#[derive(Debug, Clone)]
pub struct Rotation {
    /// Elements that are mixed, a power of two.
    block: usize,
    /// What each element of a row is multiplied by before: 1 or -1, over the root of the block.
    signs: Vec<f32>,
}

impl Rotation {
    /// In the largest blocks that fill rows of so many columns. Signs depend on the seed.
    pub fn new(columns: usize, seed: u64) -> Self {
        let block = 1 << columns.max(1).trailing_zeros();
        Self::with(columns, block, seed)
    }

    /// In blocks of so many.
    ///
    /// # Errors
    /// If these are no power of two, or do not fill rows.
    pub fn with_blocks(columns: usize, block: usize, seed: u64) -> Result<Self> {
        if !block.is_power_of_two() || !columns.is_multiple_of(block) {
            return Err(Error::Rotation { block, columns });
        }
        Ok(Self::with(columns, block, seed))
    }

    fn with(columns: usize, block: usize, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let size = 1.0 / (block as f32).sqrt();
        let signs = (0..columns).map(|_| if random.bits() >> 63 == 0 { size } else { -size });
        Self { block, signs: signs.collect() }
    }

    /// Elements that are mixed.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Rotates each row: of weights, and of the inputs that they are for.
    pub fn apply(&self, rows: &mut [f32]) {
        for row in rows.chunks_mut(self.signs.len().max(1)) {
            row.iter_mut().zip(&self.signs).for_each(|(x, sign)| *x *= sign);
            row.chunks_exact_mut(self.block).for_each(hadamard);
        }
    }

    /// Undoes it.
    pub fn undo(&self, rows: &mut [f32]) {
        for row in rows.chunks_mut(self.signs.len().max(1)) {
            row.chunks_exact_mut(self.block).for_each(hadamard);
            row.iter_mut().zip(&self.signs).for_each(|(x, sign)| *x *= sign);
        }
    }
}

/// The product with the Hadamard matrix of 1 and -1, in place.
fn hadamard(x: &mut [f32]) {
    let mut half = 1;
    while half < x.len() {
        for pair in x.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}
