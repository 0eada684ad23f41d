//! The tests of polaris-sample that need nothing but the library.

mod distribution;
mod grammars;
mod history;
mod hostile;
mod recogniser;
mod samplers;
mod schemas;
mod stops;
mod validator;
mod walks;

use polaris_core::random::SplitMix64;

/// Random numbers that a seed decides.
struct Random(SplitMix64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// From 0 to below `end`.
    fn below(&mut self, end: usize) -> usize {
        (self.0.bits() % end.max(1) as u64) as usize
    }

    fn unit(&mut self) -> f32 {
        self.0.unit() as f32
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.0.unit() < probability
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// About normal: the sum of uniform numbers.
    fn normal(&mut self) -> f32 {
        (0..6).map(|_| self.unit()).sum::<f32>() * 2.0 - 6.0
    }
}
