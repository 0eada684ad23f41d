//! The generator, and the way from its words to normally distributed numbers.

// Coefficients are fits, also where one comes close to a constant of nature.
#![allow(clippy::approx_constant, clippy::excessive_precision)]

use crate::cpu::math::erfc_f64;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The four words of a block. `part` selects a further block at the same place, for types that
/// need more bits.
#[inline(always)]
pub fn words(seed: u64, block: u64, part: u32) -> [u32; 4] {
    philox([block as u32, (block >> 32) as u32, part, 0], [seed as u32, (seed >> 32) as u32])
}

#[inline(always)]
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let [a, b] = [
            u64::from(MULTIPLIERS[0]) * u64::from(counter[0]),
            u64::from(MULTIPLIERS[1]) * u64::from(counter[2]),
        ];
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

/// A normally distributed number from one word: its top bit is the sign, the others a
/// probability p in (0, 1/2) whose quantile is taken.
///
/// With y = -log2(p), from 1 to 33, the quantile is a smooth function of y, given by three
/// polynomials; the logarithm is one too. Only additions and multiplications: the result is the
/// same to the last bit wherever they are those of IEEE 754. The OpenCL source does the same.
#[inline(always)]
pub fn normal(word: u32) -> f32 {
    let bits = ((word << 1 | 1) as f32).to_bits();
    let shifted = bits.wrapping_sub(0x3f35_04f3);
    let exponent = ((shifted as i32) >> 23) as f32;
    let f = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(0x3f35_04f3)) - 1.0;
    let y = 33.0 - (exponent + f * horner(f, &LOG2));
    let quantile = if y < 3.0 {
        (y - 1.0) * horner(y - 2.0, &NEAR)
    } else if y < 10.0 {
        horner((y - 6.5) * (1.0 / 3.5), &MIDDLE)
    } else {
        horner((y - 21.5) * (1.0 / 11.5), &FAR)
    };
    if word >> 31 == 0 { quantile } else { -quantile }
}

#[inline(always)]
fn horner(x: f32, coefficients: &[f32; 9]) -> f32 {
    let mut sum = coefficients[8];
    for i in (0..8).rev() {
        sum = sum * x + coefficients[i];
    }
    sum
}

/// log2(1 + f) / f for 1 + f from sqrt(1/2) to sqrt(2).
pub const LOG2: [f32; 9] = [
    1.442_695,
    -0.721_347_2,
    0.480_910_28,
    -0.360_716_25,
    0.287_939_07,
    -0.238_675_93,
    0.215_212_8,
    -0.208_932_26,
    0.129_260_9,
];
/// The quantile over y - 1, for y from 1 to 3.
pub const NEAR: [f32; 9] = [
    0.674_489_7,
    -0.129_177,
    4.047_615e-2,
    -1.474_232_2e-2,
    5.746_431_4e-3,
    -2.202_320_6e-3,
    9.836_016e-4,
    -6.515_682e-4,
    2.522_685e-4,
];
/// The quantile for y from 3 to 10.
pub const MIDDLE: [f32; 9] = [
    2.288_692_7,
    0.921_989_3,
    -0.145_520_34,
    4.374_338_4e-2,
    -1.631_682_1e-2,
    5.682_216e-3,
    -1.808_945_1e-3,
    2.042_490_5e-3,
    -1.238_503_3e-3,
];
/// The quantile for y from 10 to 33.
pub const FAR: [f32; 9] = [
    4.968_606_5,
    1.545_940_8,
    -0.224_021_62,
    6.391_437e-2,
    -2.284_752_4e-2,
    7.849_665e-3,
    -2.620_364e-3,
    2.636_534_4e-3,
    -1.504_615_3e-3,
];

/// The same quantile by its definition: the x whose upper tail has probability p.
pub fn exact_normal(word: u32) -> f64 {
    let p = (f64::from(word & 0x7fff_ffff) + 0.5) / 2f64.powi(32);
    let tail = |x: f64| 0.5 * erfc_f64(x * std::f64::consts::FRAC_1_SQRT_2);
    // The tail falls from 1/2 at 0: bisection cannot go wrong.
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if tail(middle) > p { low = middle } else { high = middle }
    }
    if word >> 31 == 0 { low } else { -low }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_vectors() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn quantiles_are_right_everywhere() {
        let words =
            (0..32).flat_map(|bit| [1u32 << bit, (1 << bit) - 1, (1u32 << bit).wrapping_mul(3)]);
        let spread = (0..2000u32).map(|i| i.wrapping_mul(2_147_483));
        for word in words.chain(spread).chain([0, u32::MAX, 0x7fff_ffff, 0x8000_0000]) {
            let (found, exact) = (f64::from(normal(word)), exact_normal(word));
            assert!((found - exact).abs() < 6e-6, "{word:#x}: {found} is not {exact}");
        }
    }

    #[test]
    fn normal_numbers_have_the_right_moments() {
        let n = 200_000u64;
        let values: Vec<f64> = (0..n / 4)
            .flat_map(|block| words(7, block, 0))
            .map(|word| f64::from(normal(word)))
            .collect();
        let moment = |power: i32| values.iter().map(|v| v.powi(power)).sum::<f64>() / n as f64;
        for (power, expected, error) in
            [(1, 0.0, 0.01), (2, 1.0, 0.02), (3, 0.0, 0.05), (4, 3.0, 0.1)]
        {
            assert!(
                (moment(power) - expected).abs() < error,
                "moment {power} is {}",
                moment(power)
            );
        }
    }
}
