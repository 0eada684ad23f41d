//! The error function, which Rust's library does not have.

use std::f64::consts::PI;

/// The error function, to about the last digit of `f64`.
pub(in crate::operators) fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let magnitude = x.abs();
    let value = if magnitude < 2.5 { series(magnitude) } else { 1.0 - tail(magnitude) };
    value.copysign(x)
}

/// `2/√π · exp(-x²) · Σ 2ⁿ x²ⁿ⁺¹ / (1·3·…·(2n+1))`: all terms are positive, so nothing cancels.
fn series(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term > sum * 1e-17 {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

/// `1 - erf(x)` for large x by its continued fraction `x + (1/2)/(x + 1/(x + (3/2)/(x + …)))`.
fn tail(x: f64) -> f64 {
    // Beyond it the result is below the smallest difference to 1.
    if x > 6.5 {
        return 0.0;
    }
    let fraction = (1..=60).rev().fold(x, |below, step| x + f64::from(step) / 2.0 / below);
    (-x * x).exp() / (PI.sqrt() * fraction)
}

#[cfg(test)]
mod tests {
    use super::erf;

    #[test]
    fn known_values() {
        let known = [
            (0.0, 0.0),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.4, 0.999_311_486_103_354_9),
            (2.6, 0.999_763_965_583_470_7),
            (4.0, 0.999_999_984_582_742_1),
            (9.0, 1.0),
        ];
        for (x, value) in known {
            assert!((erf(x) - value).abs() < 1e-15, "{x}");
            assert!((erf(-x) + value).abs() < 1e-15, "-{x}");
        }
    }
}
