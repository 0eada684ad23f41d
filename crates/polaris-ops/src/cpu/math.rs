//! Elementary functions without branches or calls, so that loops over them become vector code.
//! The standard library's are called one by one and cost ten times as much.
//!
//! The polynomials are minimax fits of our own; the tests compare every function with `f64`.

// Coefficients are fits, also where one comes close to a constant of nature.
#![allow(clippy::approx_constant, clippy::excessive_precision)]

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::cpu::blocks::ComputeType;

/// What a computation needs of a floating-point type.
pub trait Real:
    ComputeType
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    fn of(value: f64) -> Self;
    fn is_nan(self) -> bool;
    fn abs(self) -> Self;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tanh(self) -> Self;
    fn erf(self) -> Self;
    fn normal_cdf(self) -> Self;
    fn gelu_slope(self) -> Self;
    fn powf(self, exponent: Self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round_ties_even(self) -> Self;

    /// `self * factor + added`, rounded once where processors with vectors of so many bytes do that.
    fn multiply_add<const VECTOR_BYTES: usize>(self, factor: Self, added: Self) -> Self;

    /// e^x of numbers up to 88, and of NaN, for half the work. Below e^-87 results are zero.
    fn exp_of_small<const VECTOR_BYTES: usize>(self) -> Self;
}

macro_rules! real {
    ($type:ident, exp: $exp:path, ln: $ln:path, tanh: $tanh:path, erf: $erf:path,
     normal_cdf: $normal_cdf:path, gelu_slope: $gelu_slope:path, exp_of_small: |$x:ident| $exp_of_small:expr) => {
        impl Real for $type {
            #[inline(always)]
            fn of(value: f64) -> Self {
                value as Self
            }

            real!($type, is_nan -> bool, $type::is_nan);
            real!($type, abs -> Self, $type::abs);
            real!($type, sqrt -> Self, $type::sqrt);
            real!($type, exp -> Self, $exp);
            real!($type, ln -> Self, $ln);
            real!($type, sin -> Self, $type::sin);
            real!($type, cos -> Self, $type::cos);
            real!($type, tanh -> Self, $tanh);
            real!($type, erf -> Self, $erf);
            real!($type, normal_cdf -> Self, $normal_cdf);
            real!($type, gelu_slope -> Self, $gelu_slope);
            real!($type, floor -> Self, $type::floor);
            real!($type, ceil -> Self, $type::ceil);
            real!($type, round_ties_even -> Self, $type::round_ties_even);

            #[inline(always)]
            fn multiply_add<const VECTOR_BYTES: usize>(self, factor: Self, added: Self) -> Self {
                // Where fusing is not an instruction, it is a slow call.
                if VECTOR_BYTES >= 32 || cfg!(target_arch = "aarch64") {
                    self.mul_add(factor, added)
                } else {
                    self * factor + added
                }
            }

            #[inline(always)]
            fn exp_of_small<const VECTOR_BYTES: usize>(self) -> Self {
                let $x = self;
                $exp_of_small
            }

            #[inline(always)]
            fn powf(self, exponent: Self) -> Self {
                $type::powf(self, exponent)
            }
        }
    };
    ($type:ident, $name:ident -> $result:ty, $function:path) => {
        #[inline(always)]
        fn $name(self) -> $result {
            $function(self)
        }
    };
}

real!(f32, exp: exp, ln: ln, tanh: tanh, erf: erf, normal_cdf: normal_cdf, gelu_slope: gelu_slope,
      exp_of_small: |x| exp_of_small::<VECTOR_BYTES>(x));
real!(f64, exp: f64::exp, ln: f64::ln, tanh: f64::tanh, erf: erf_f64, normal_cdf: normal_cdf_f64,
      gelu_slope: gelu_slope_f64, exp_of_small: |x| x.exp());

/// Horner's scheme, lowest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        sum = sum * x + coefficients[i];
    }
    sum
}

/// `if condition { yes } else { no }` as a select, never a branch.
#[inline(always)]
fn select(condition: bool, yes: f32, no: f32) -> f32 {
    if condition { yes } else { no }
}

/// Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum.
const ROUNDER: f32 = 12_582_912.0;

/// e^r with |r| <= ln(2)/2.
const EXP: [f32; 7] =
    [1.0, 1.0, 0.499_999_92, 0.166_664_2, 4.166_822_6e-2, 8.374_824e-3, 1.383_682_7e-3];

/// e^x = 2^n * e^r with |r| <= ln(2)/2.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Comparisons instead of `clamp`, so that NaN passes through to the polynomial.
    let limited = select(x > 89.0, 89.0, select(x < -104.0, -104.0, x));
    let shifted = limited * std::f32::consts::LOG2_E + ROUNDER;
    let n = shifted - ROUNDER;
    // ln(2) in two parts: n times the first is exact.
    let r = (limited - n * 0.693_359_4) - n * -2.121_944_4e-4;
    let p = polynomial(r, EXP);
    // 2^n in two factors, since n may be beyond what one exponent holds (denormals, overflow).
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32);
    let half = n >> 1;
    let power = |e: i32| f32::from_bits((e.wrapping_add(127) as u32) << 23);
    p * power(half) * power(n.wrapping_sub(half))
}

/// As `exp`, where 2^n has an exponent of its own. A NaN stays one, since it is multiplied by.
#[inline(always)]
fn exp_of_small<const VECTOR_BYTES: usize>(x: f32) -> f32 {
    let shifted = x.multiply_add::<VECTOR_BYTES>(std::f32::consts::LOG2_E, ROUNDER);
    let n = shifted - ROUNDER;
    let r = n.multiply_add::<VECTOR_BYTES>(-0.693_359_4, x);
    let r = n.multiply_add::<VECTOR_BYTES>(2.121_944_4e-4, r);
    let mut p = EXP[EXP.len() - 1];
    for &coefficient in EXP.iter().rev().skip(1) {
        p = p.multiply_add::<VECTOR_BYTES>(r, coefficient);
    }
    let power = shifted.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(127) << 23;
    select(x < -87.0, 0.0, p * f32::from_bits(power))
}

/// ln(x) = e * ln(2) + ln(m) with m in [sqrt(1/2), sqrt(2)).
#[inline(always)]
fn ln(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = select(tiny, x * 8_388_608.0, x);
    let bits = scaled.to_bits().wrapping_sub(0x3f35_04f3);
    let exponent = (bits as i32) >> 23;
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3));
    let e = exponent as f32 - select(tiny, 23.0, 0.0);
    let f = m - 1.0;
    let q = polynomial(
        f,
        [
            0.333_333_3,
            -0.249_999_81,
            0.200_006_88,
            -0.166_691_5,
            0.142_511_54,
            -0.123_967_15,
            0.116_346_94,
            -0.116_598_4,
            7.332_335e-2,
        ],
    );
    let f2 = f * f;
    let low = e * -2.121_944_4e-4 + f * f2 * q - 0.5 * f2;
    let result = e * 0.693_359_4 + (f + low);
    let result = select(x == f32::INFINITY, x, result);
    let result = select(x == 0.0, f32::NEG_INFINITY, result);
    // Negative numbers and NaN.
    select(x >= 0.0, result, f32::NAN)
}

#[inline(always)]
fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let t = x * x;
    let small = x + x
        * t
        * polynomial(
            t,
            [
                -0.333_333_33,
                0.133_333_05,
                -5.395_955e-2,
                2.177_099_4e-2,
                -8.350_002e-3,
                2.298_935_7e-3,
            ],
        );
    let large = 1.0 - 2.0 / (exp(2.0 * magnitude) + 1.0);
    select(magnitude < 0.625, small, large.copysign(x))
}

#[inline(always)]
fn erf(x: f32) -> f32 {
    let magnitude = x.abs();
    let t = x * x;
    let small = x * polynomial(
        t,
        [
            1.128_379_2,
            -0.376_126_38,
            0.112_837_83,
            -2.686_544_6e-2,
            5.221_075e-3,
            -8.484_711e-4,
            1.127_054_3e-4,
            -9.680_132e-6,
        ],
    );
    // Beyond 4 the function is 1 to the last bit; the fit holds up to there. NaN stays.
    let limited = select(magnitude > 4.0, 4.0, magnitude);
    // The fourth root of what is missing to 1: a short polynomial, without exp or division.
    let root = polynomial(
        limited,
        [
            1.002_138,
            -0.293_385_18,
            -9.374_954_6e-2,
            -1.699_418_9e-2,
            4.345_305e-2,
            -1.258_399e-2,
            7.287_147e-4,
            1.854_664e-4,
            -2.278_181e-5,
        ],
    );
    let square = root * root;
    let large = 1.0 - square * square;
    select(magnitude < 1.0, small, large.copysign(x))
}

/// The share of a normal distribution that lies below `x`: half the work of `erf`, since what is requested is the
/// part that `erf` adds to a half.
#[inline(always)]
fn normal_cdf(x: f32) -> f32 {
    let magnitude = x.abs();
    // Beyond 5.5 next to nothing is left.
    let beyond = select(magnitude > 5.5, 0.0, normal_beyond(magnitude));
    select(x > 0.0, 1.0 - beyond, beyond)
}

/// The derivative of GELU: the share of a normal distribution below `x`, and `x` times its density.
/// On the left it is the share beyond the magnitude times a factor that a polynomial fits, without
/// exp; on the right it is what is missing to 1.
#[inline(always)]
fn gelu_slope(x: f32) -> f32 {
    let magnitude = x.abs();
    let factor = polynomial(
        magnitude,
        [
            1.000_000_1,
            -0.797_892_85,
            -0.636_520_3,
            -0.109_449_38,
            2.007_983_8e-2,
            -9.198_677e-4,
            -5.618_076_5e-4,
            1.402_574_5e-4,
            -1.096_027e-5,
        ],
    );
    // Both fits hold up to 6.25, where next to nothing is left.
    let left = select(magnitude > 6.25, 0.0, normal_beyond(magnitude) * factor);
    select(x > 0.0, 1.0 - left, left)
}

/// The share of a normal distribution beyond a magnitude of up to 6.25.
#[inline(always)]
fn normal_beyond(magnitude: f32) -> f32 {
    // Its eighth root.
    let root = polynomial(
        magnitude,
        [
            0.917_004_05,
            -9.145_782e-2,
            -3.192_654_6e-2,
            -6.744_315_6e-4,
            1.506_284_6e-3,
            3.360_217_3e-5,
            -6.018_153_4e-5,
            7.492_789e-6,
            -2.985_288_7e-7,
        ],
    );
    let square = root * root;
    let fourth = square * square;
    fourth * fourth
}

fn normal_cdf_f64(x: f64) -> f64 {
    0.5 * (1.0 + erf_f64(x * std::f64::consts::FRAC_1_SQRT_2))
}

fn gelu_slope_f64(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() * (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
    normal_cdf_f64(x) + x * density
}

/// The error function to a few units in the last place.
pub fn erf_f64(x: f64) -> f64 {
    if x.abs() < 2.5 { erf_series(x) } else { (1.0 - erfc_f64(x.abs())).copysign(x) }
}

/// The complementary error function of numbers that are not negative, also far out in its tail.
pub fn erfc_f64(x: f64) -> f64 {
    if x < 2.5 {
        return 1.0 - erf_series(x);
    }
    // A continued fraction, which converges the faster the larger x is.
    let mut fraction = 0.0;
    for n in (1..=120).rev() {
        fraction = f64::from(n) / 2.0 / (x + fraction);
    }
    (-x * x).exp() / ((x + fraction) * std::f64::consts::PI.sqrt())
}

fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
        if term.abs() < sum.abs() * 1e-18 {
            break;
        }
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error in units of the last place of the true value.
    fn ulps(found: f32, expected: f64) -> f64 {
        if expected.is_nan() && found.is_nan() || f64::from(found) == expected {
            return 0.0;
        }
        let nearest = expected as f32;
        if nearest == found {
            return 0.0;
        }
        let spacing =
            f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
        (f64::from(found) - expected).abs() / spacing
    }

    fn worst(function: fn(f32) -> f32, exact: fn(f64) -> f64, range: (f32, f32)) -> (f64, f32) {
        let steps = 200_000;
        (0..=steps)
            .map(|i| range.0 + (range.1 - range.0) * (i as f32 / steps as f32))
            .map(|x| (ulps(function(x), exact(f64::from(x))), x))
            .fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a })
    }

    #[test]
    fn functions_are_accurate() {
        for (name, function, exact, range, limit) in [
            ("exp", exp as fn(f32) -> f32, f64::exp as fn(f64) -> f64, (-87.0, 88.7), 2.0),
            ("ln", ln, f64::ln, (1e-3, 100.0), 2.0),
            ("ln", ln, f64::ln, (1e30, 3e38), 2.0),
            ("tanh", tanh, f64::tanh, (-10.0, 10.0), 4.0),
            ("erf", erf, erf_f64, (-5.0, 5.0), 4.0),
        ] {
            let (error, at) = worst(function, exact, range);
            assert!(error <= limit, "{name} is {error} ulps off at {at}");
        }
    }

    /// Far out on the left the share is small, and its error with it.
    #[test]
    fn the_normal_distribution_is_accurate() {
        for (range, limit) in [((-1.0, 8.0), 12.0), ((-3.0, -1.0), 100.0), ((-5.4, -3.0), 4e4)] {
            let exact = |x: f64| {
                let tail = 0.5 * erfc_f64(x.abs() * std::f64::consts::FRAC_1_SQRT_2);
                if x > 0.0 { 1.0 - tail } else { tail }
            };
            let (error, at) = worst(normal_cdf, exact, range);
            assert!(error <= limit, "{error} ulps off at {at}");
        }
        assert_eq!(
            [-6.0, f32::NEG_INFINITY, 6.0, f32::INFINITY].map(normal_cdf),
            [0.0, 0.0, 1.0, 1.0]
        );
        assert!(normal_cdf(f32::NAN).is_nan());
    }

    /// Its error is one of the share, whose largest value is 1.
    #[test]
    fn the_slope_of_gelu_is_accurate() {
        let error = |x: f32| (f64::from(gelu_slope(x)) - gelu_slope_f64(f64::from(x))).abs();
        let worst = (-70_000..=70_000).map(|i| error(i as f32 / 1e4)).fold(0.0, f64::max);
        assert!(worst < 4.0 * f64::from(f32::EPSILON), "{worst}");
        assert_eq!([f32::NEG_INFINITY, f32::INFINITY].map(gelu_slope), [0.0, 1.0]);
        assert!(gelu_slope(f32::NAN).is_nan());
    }

    #[test]
    fn special_values() {
        for x in
            [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-40, -1.0, 1.0, 200.0, -200.0]
        {
            let wide = f64::from(x);
            let same = |found: f32, expected: f64, name: &str| {
                let near = ulps(found, expected) <= 2.0;
                assert!(
                    near || found.is_nan() && expected.is_nan(),
                    "{name}({x}) = {found}, not {expected}"
                );
            };
            same(exp(x), f64::from(wide.exp() as f32), "exp");
            same(ln(x), wide.ln(), "ln");
            same(tanh(x), wide.tanh(), "tanh");
            same(erf(x), erf_f64(wide), "erf");
        }
    }

    #[test]
    fn erf_in_double_precision_matches_known_values() {
        for (x, expected) in [
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (3.0, 0.999_977_909_503_001_4),
        ] {
            assert!((erf_f64(x) - expected).abs() < 1e-15, "erf({x})");
        }
    }
}
