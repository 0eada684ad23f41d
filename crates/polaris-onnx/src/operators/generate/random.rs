//! Random numbers: the Mersenne Twister. With the same seed it gives the numbers that NumPy gives, so
//! results with a seed can be compared.

use std::hash::{BuildHasher, Hasher};

const LENGTH: usize = 624;
const MIDDLE: usize = 397;

/// A source of random numbers.
pub(in crate::operators) struct Random {
    state: [u32; LENGTH],
    next: usize,
    /// The second one of a pair of normally distributed numbers.
    spare: Option<f64>,
}

impl Random {
    /// A source with a seed, or with one that differs each time.
    pub(in crate::operators) fn new(seed: Option<u32>) -> Self {
        // The library seeds its hashers at random.
        let fresh = || std::collections::hash_map::RandomState::new().build_hasher().finish();
        let mut state = [0u32; LENGTH];
        state[0] = seed.unwrap_or_else(|| fresh() as u32);
        for index in 1..LENGTH {
            let before = state[index - 1];
            let mixed = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30));
            state[index] = mixed.wrapping_add(index as u32);
        }
        Self { state, next: LENGTH, spare: None }
    }

    fn refill(&mut self) {
        for index in 0..LENGTH {
            let high = self.state[index] & 0x8000_0000;
            let joined = high | (self.state[(index + 1) % LENGTH] & 0x7fff_ffff);
            let twisted = (joined >> 1) ^ if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[index] = self.state[(index + MIDDLE) % LENGTH] ^ twisted;
        }
        self.next = 0;
    }

    fn word(&mut self) -> u32 {
        if self.next == LENGTH {
            self.refill();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// From 0 up to, but not, 1, evenly.
    pub(in crate::operators) fn unit(&mut self) -> f64 {
        let (high, low) = (self.word() >> 5, self.word() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// Normally distributed, by Marsaglia's polar method.
    pub(super) fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare.take() {
            return value;
        }
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(scale * x);
                return scale * y;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn numbers_of_a_seed() {
        // NumPy's `RandomState(0).uniform(size=2)`, and `RandomState(0).randn(3)`.
        let mut random = Random::new(Some(0));
        assert!((random.unit() - 0.548_813_503_927_324_8).abs() < 1e-16);
        assert!((random.unit() - 0.715_189_366_372_419_5).abs() < 1e-16);
        let mut random = Random::new(Some(0));
        for expected in [1.764_052_345_967_664, 0.400_157_208_367_223_3, 0.978_737_984_105_739_2] {
            assert!((random.normal() - expected).abs() < 1e-12);
        }
    }
}
