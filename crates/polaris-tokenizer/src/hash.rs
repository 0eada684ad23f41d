//! A fast hash with a random seed: a file or a text that was made to collide under another seed does not under this one.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Makes hashers with one seed.
#[derive(Debug, Clone)]
pub(crate) struct Seeded {
    start: u64,
    factor: u64,
}

impl Default for Seeded {
    fn default() -> Self {
        let random = || RandomState::new().build_hasher().finish();
        Self { start: random(), factor: random() | 1 }
    }
}

impl BuildHasher for Seeded {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding { state: self.start, factor: self.factor }
    }
}

/// Multiplies by the secret factor and folds the two halves of the product.
#[derive(Debug)]
pub(crate) struct Folding {
    state: u64,
    factor: u64,
}

impl Hasher for Folding {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.factor);
        self.state = (product as u64) ^ (product >> 64) as u64;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
