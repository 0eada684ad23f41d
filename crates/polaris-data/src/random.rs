//! Random numbers by counting: the n-th number of a stream is a function of the stream's words
//! and n. No state is shared, so neither threads nor order can change what comes out.

use polaris_core::random::{SplitMix64, mix};

/// A stream of random numbers, fixed by the words it was made from.
///
/// It is the SplitMix64 sequence with a key mixed from the words: good enough for shuffling and
/// augmentation, and not for secrets.
#[derive(Debug, Clone)]
pub struct Random(SplitMix64);

impl Random {
    /// The stream of these words, such as a seed, an epoch and an index. Words are mixed in one
    /// by one, so that `[1, 0]`, `[0, 1]` and `[1]` are different streams.
    pub fn new(words: &[u64]) -> Self {
        let key = words
            .iter()
            .fold(words.len() as u64, |key, &word| mix(SplitMix64::new(key).bits() ^ word));
        Self(SplitMix64::new(mix(key)))
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number from 0 to below `end`, each as likely as the others; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of a 128-bit product is uniform but for the few low halves that are
        // drawn again (Lemire's method).
        let reject = end.wrapping_neg().checked_rem(end).unwrap_or(0);
        loop {
            let product = u128::from(self.bits()) * u128::from(end);
            if product as u64 >= reject {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number from 0 to below 1.
    pub fn uniform(&mut self) -> f64 {
        self.0.unit()
    }

    /// A number from `-limit` to below `limit`.
    pub fn within(&mut self, limit: f64) -> f64 {
        (2.0 * self.uniform() - 1.0) * limit
    }

    /// A number of the normal distribution with mean 0 and variance 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        // 1 - u is never 0, whose logarithm would be infinite.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Puts a list into random order (Fisher and Yates): every order is as likely.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            list.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |words: &[u64]| {
            let mut random = Random::new(words);
            [random.bits(), random.bits(), random.bits()]
        };
        assert_eq!(draw(&[7, 3]), draw(&[7, 3]));
        let all = [draw(&[]), draw(&[0]), draw(&[1]), draw(&[0, 1]), draw(&[1, 0]), draw(&[0, 0])];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a[0] != b[0] && a[1] != b[1]));
        }
    }

    #[test]
    fn numbers_are_spread_as_promised() {
        let mut random = Random::new(&[1]);
        let n = 40_000;
        let mut counts = [0usize; 7];
        let (mut sum, mut squares, mut uniform) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            counts[random.below(7) as usize] += 1;
            let z = random.normal();
            sum += z;
            squares += z * z;
            let u = random.uniform();
            assert!((0.0..1.0).contains(&u));
            uniform += u;
        }
        // Four standard deviations of each figure.
        let n = n as f64;
        let expected = n / 7.0;
        for count in counts {
            assert!((count as f64 - expected).abs() < 4.0 * (expected * 6.0 / 7.0).sqrt());
        }
        assert!((sum / n).abs() < 4.0 / n.sqrt());
        assert!((squares / n - 1.0).abs() < 4.0 * (2.0 / n).sqrt());
        assert!((uniform / n - 0.5).abs() < 4.0 / (12.0 * n).sqrt());
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        assert!(random.within(0.0) == 0.0);
    }

    #[test]
    fn every_order_is_as_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..6000 {
            let mut list = [0, 1, 2];
            Random::new(&[seed]).shuffle(&mut list);
            *counts.entry(list).or_insert(0usize) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|&n| (880..1120).contains(&n)), "{counts:?}");
    }
}
