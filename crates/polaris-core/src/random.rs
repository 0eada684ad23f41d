//! SplitMix64, the one small generator of random numbers in the tree: the same numbers for a seed, on every
//! platform and in every version. Distributions are left to those who draw.

/// The golden ratio in 64 bits: the distance of two states.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 (Steele, Lea and Flood): good enough for shuffling, sampling and test data, not for secrets.
///
/// The n-th number is a function of the seed and n alone.
///
/// ```
/// use polaris_core::random::SplitMix64;
///
/// let mut random = SplitMix64::new(0);
/// assert_eq!(random.bits(), 0xe220_a839_7b1d_cdaf);
/// ```
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Numbers that depend on the seed alone.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(INCREMENT);
        mix(self.0)
    }

    /// A number from 0 to below 1, with all 53 bits that a double has.
    pub const fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// SplitMix64's finaliser: every bit of the input reaches every bit of the output.
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference_implementation() {
        // The first five for the seed 1234567, as Vigna's C program prints them.
        let mut random = SplitMix64::new(1_234_567);
        let expected: [u64; 5] = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected.map(|_| random.bits()), expected);
        let unit = random.unit();
        assert!((0.0..1.0).contains(&unit));
    }
}
