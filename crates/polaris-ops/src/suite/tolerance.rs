//! All tolerances between results and references.

use polaris_core::DType;

/// The accuracy that is asked of an operation, in units of the result type's precision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// Every bit counts: moves, comparisons, integers, random numbers.
    Exact,
    /// A few correctly rounded steps: sums and products of two or three numbers.
    Arithmetic,
    /// Division and square root, which OpenCL lets be off by up to three units.
    Division,
    /// Elementary functions, for which OpenCL allows up to 16 units.
    Elementary,
    /// Sums of many numbers, relative to the sum of their magnitudes.
    Accumulated,
    /// Sums of many products of numbers that were rounded to eleven bits, relative to the sum of
    /// their magnitudes.
    Tf32,
    /// Sums of many products with numbers that were rounded to bytes, relative to the sum of their magnitudes.
    Int8,
    /// A fixed absolute error: the normal quantile, which is an approximation by design.
    Absolute(f64),
    /// Rounded to one of a few levels: exact, except that a number halfway between two levels may become either. The
    /// scale of each output is what it may be off: the distance of its levels there, and zero elsewhere.
    Levels,
}

/// The distance from 1 to the next number.
fn precision(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f64::from(f32::EPSILON),
    }
}

/// Below this a device may round to zero.
fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        // The spacing of its denormal numbers, which are always kept.
        DType::F16 => 2f64.powi(-24),
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65_504.0,
        DType::BF16 => 3.3895e38,
        DType::F64 => f64::MAX,
        _ => f64::from(f32::MAX),
    }
}

impl Tolerance {
    fn units(self) -> f64 {
        match self {
            Self::Exact | Self::Absolute(_) | Self::Levels => 0.0,
            Self::Arithmetic => 2.0,
            Self::Division => 4.0,
            Self::Elementary => 20.0,
            Self::Accumulated => 32.0,
            // Each factor is off by up to half of its last place, 2^-11 of it.
            Self::Tf32 => 2f64.powi(-10) / f64::from(f32::EPSILON),
            // Each is off by up to 1/254 of the largest of its group, which is some times the average.
            Self::Int8 => 2f64.powi(-7) / f64::from(f32::EPSILON),
        }
    }

    /// The most a result may be off, given the magnitude that the error scales with.
    pub fn allowed(self, dtype: DType, scale: f64) -> f64 {
        if let Self::Absolute(error) = self {
            return error + precision(dtype) * scale;
        }
        if self == Self::Exact || !dtype.is_float() {
            return 0.0;
        }
        // Half precisions are computed in f32 and rounded once: one unit of their own, plus the
        // f32 units, which vanish beside it.
        let units = match dtype {
            DType::F16 | DType::BF16 => {
                1.0 + self.units() * f64::from(f32::EPSILON) / precision(dtype)
            }
            _ => self.units(),
        };
        units * precision(dtype) * scale + smallest(dtype)
    }
}

/// Whether a result is right, and if so how much of the allowed error it used.
pub fn agrees(
    tolerance: Tolerance,
    dtype: DType,
    found: f64,
    expected: f64,
    scale: f64,
) -> Result<f64, f64> {
    if found == expected || found.is_nan() && expected.is_nan() {
        return Ok(0.0);
    }
    let beyond = largest(dtype);
    if found.is_infinite()
        && expected.abs() >= beyond * (1.0 - precision(dtype))
        && found.signum() == expected.signum()
    {
        // The reference has a range that the type lacks.
        return Ok(0.0);
    }
    let error = (found - expected).abs();
    if !error.is_finite() {
        // One of them is NaN or infinite: no tolerance is meant for that.
        return Err(error);
    }
    let allowed = match tolerance {
        Tolerance::Levels => scale,
        _ => tolerance.allowed(dtype, scale.max(expected.abs())),
    };
    if error <= allowed { Ok(error / allowed.max(f64::MIN_POSITIVE)) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_wrong_passes() {
        let wrong = [
            (1.0, f64::NAN),
            (f64::NAN, 1.0),
            (f64::INFINITY, 1.0),
            (1.0, f64::INFINITY),
            (-1.0, 1.0),
        ];
        for tolerance in
            [Tolerance::Exact, Tolerance::Arithmetic, Tolerance::Elementary, Tolerance::Accumulated]
        {
            for (found, expected) in wrong {
                assert!(agrees(tolerance, DType::F32, found, expected, 1.0).is_err());
            }
        }
        assert!(agrees(Tolerance::Exact, DType::F32, 1.0, 1.0 + 1e-9, 1.0).is_err());
        assert!(agrees(Tolerance::Arithmetic, DType::I32, 1.0, 2.0, 1.0).is_err());
        assert!(agrees(Tolerance::Arithmetic, DType::F32, 1.0, 1.000_001, 1.0).is_err());
        assert!(agrees(Tolerance::Arithmetic, DType::F32, 1.0, 1.0 + 1e-7, 1.0).is_ok());
        assert!(agrees(Tolerance::Arithmetic, DType::F16, f64::INFINITY, 70_000.0, 1.0).is_ok());
        assert!(
            agrees(Tolerance::Arithmetic, DType::F16, f64::NEG_INFINITY, 70_000.0, 1.0).is_err()
        );
    }
}
