//! A small generator of random numbers: the same numbers for a seed, everywhere and always.

use polaris_core::random::SplitMix64;

/// SplitMix64 with the draws that searches and models need.
#[derive(Debug, Clone)]
pub struct Random(SplitMix64);

impl Random {
    /// Numbers that depend on the seed alone.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number from 0 up to, not including, `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// A number from 0 up to, not including, 1.
    pub fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// A number of a normal distribution with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (self.unit().max(1e-300), self.unit());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// In another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn numbers_depend_on_the_seed_alone_and_fill_their_range() {
        let of = |seed: u64| {
            (0..50).map(move |_| 0).scan(Random::new(seed), |r, _: i32| Some(r.below(10)))
        };
        assert!(of(1).eq(of(1)) && !of(1).eq(of(2)));
        let mut seen = [0; 10];
        let mut random = Random::new(7);
        (0..10_000).for_each(|_| seen[random.below(10)] += 1);
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
        let mean = (0..10_000).map(|_| random.normal()).sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.05);
    }
}
