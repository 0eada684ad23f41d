//! Random numbers for tests.

use polaris_core::random::SplitMix64;

/// Random numbers that a seed decides.
#[derive(Debug)]
pub struct Random(pub SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// From 0 to below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.0.bits() % end.max(1) as u64) as usize
    }

    pub fn unit(&mut self) -> f32 {
        self.0.unit() as f32
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.0.unit() < probability
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// About normal: the sum of uniform numbers.
    pub fn normal(&mut self) -> f32 {
        (0..6).map(|_| self.unit()).sum::<f32>() * 2.0 - 6.0
    }
}
