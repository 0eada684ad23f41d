//! Floating-point types of 8 and 4 bits.

use crate::ElementType;

/// The layout of a narrow floating-point type.
struct Narrow {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    /// What the largest bit patterns mean.
    top: Top,
}

/// What the bit patterns at the top of a type's range stand for.
#[derive(PartialEq, Eq)]
enum Top {
    /// Infinity, then NaNs, as in IEEE types.
    Infinity,
    /// The very last pattern is NaN, and there is no infinity.
    LastIsNan,
    /// Numbers; what would be minus zero is NaN.
    MinusZeroIsNan,
    /// Numbers only.
    Numbers,
}

fn layout(element: ElementType) -> Option<Narrow> {
    let (exponent_bits, mantissa_bits, bias, top) = match element {
        ElementType::F8E4M3FN => (4, 3, 7, Top::LastIsNan),
        ElementType::F8E4M3FNUZ => (4, 3, 8, Top::MinusZeroIsNan),
        ElementType::F8E5M2 => (5, 2, 15, Top::Infinity),
        ElementType::F8E5M2FNUZ => (5, 2, 16, Top::MinusZeroIsNan),
        ElementType::F4E2M1 => (2, 1, 1, Top::Numbers),
        _ => return None,
    };
    Some(Narrow { exponent_bits, mantissa_bits, bias, top })
}

impl Narrow {
    fn sign_bit(&self) -> u8 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The value of the magnitude's bits, whatever the top ones mean.
    fn magnitude(&self, bits: u8) -> f64 {
        let fraction = f64::from(bits & ((1 << self.mantissa_bits) - 1));
        let unit = f64::from(1u32 << self.mantissa_bits);
        match i32::from(bits >> self.mantissa_bits) {
            0 => fraction / unit * 2f64.powi(1 - self.bias),
            exponent => (1.0 + fraction / unit) * 2f64.powi(exponent - self.bias),
        }
    }

    /// The bits of the largest finite magnitude.
    fn largest(&self) -> u8 {
        let last = self.sign_bit() - 1;
        match self.top {
            Top::Infinity => last - (1 << self.mantissa_bits),
            Top::LastIsNan => last - 1,
            Top::MinusZeroIsNan | Top::Numbers => last,
        }
    }

    fn nan(&self, sign: u8) -> u8 {
        match self.top {
            Top::Infinity => sign | (self.sign_bit() - 1) & !((1 << (self.mantissa_bits - 1)) - 1),
            Top::LastIsNan => sign | (self.sign_bit() - 1),
            // Where there is none, minus zero stands for it.
            Top::MinusZeroIsNan | Top::Numbers => self.sign_bit(),
        }
    }
}

/// The value of a narrow element.
pub(crate) fn decode(element: ElementType, bits: u8) -> f64 {
    if element == ElementType::F8E8M0 {
        return if bits == 255 { f64::NAN } else { 2f64.powi(i32::from(bits) - 127) };
    }
    let Some(narrow) = layout(element) else { return f64::NAN };
    let sign_bit = narrow.sign_bit();
    let magnitude = bits & (sign_bit - 1);
    let negative = bits & sign_bit != 0;
    let value = match narrow.top {
        Top::MinusZeroIsNan if negative && magnitude == 0 => return f64::NAN,
        Top::LastIsNan if magnitude == sign_bit - 1 => return f64::NAN,
        Top::Infinity if magnitude > narrow.largest() => {
            if magnitude == narrow.largest() + 1 {
                f64::INFINITY
            } else {
                return f64::NAN;
            }
        }
        _ => narrow.magnitude(magnitude),
    };
    if negative { -value } else { value }
}

/// The nearest narrow element, ties to even. What is too large becomes the largest where it shall
/// saturate, and otherwise infinity, or NaN in types that have none. Exponents alone are rounded up.
pub(crate) fn encode(element: ElementType, value: f64, saturate: bool) -> u8 {
    if element == ElementType::F8E8M0 {
        return encode_power(value, saturate, PowerRounding::Up);
    }
    let Some(narrow) = layout(element) else { return 0 };
    let sign = if value.is_sign_negative() { narrow.sign_bit() } else { 0 };
    if value.is_nan() {
        return narrow.nan(sign);
    }
    let magnitude = value.abs();
    let largest = narrow.largest();
    let overflow = || match narrow.top {
        _ if saturate => sign | largest,
        Top::Infinity => sign | (largest + 1),
        Top::Numbers => sign | largest,
        Top::LastIsNan | Top::MinusZeroIsNan => narrow.nan(sign),
    };
    if magnitude.is_infinite() {
        return overflow();
    }
    // The magnitudes of a type are in the order of their bits.
    let (mut low, mut high) = (0u8, largest);
    if magnitude >= narrow.magnitude(largest) {
        // Half a step above the largest one still rounds to it.
        let step = narrow.magnitude(largest) - narrow.magnitude(largest - 1);
        let limit = narrow.magnitude(largest) + step / 2.0;
        let even = largest & 1 == 0;
        let fits = magnitude < limit || (magnitude == limit && even);
        return if fits { sign | largest } else { overflow() };
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if narrow.magnitude(middle) <= magnitude { low = middle } else { high = middle }
    }
    let (below, above) = (magnitude - narrow.magnitude(low), narrow.magnitude(high) - magnitude);
    let nearest = match below.total_cmp(&above) {
        std::cmp::Ordering::Less => low,
        std::cmp::Ordering::Greater => high,
        std::cmp::Ordering::Equal => low + (low & 1),
    };
    // A type without minus zero writes zero for it.
    if nearest == 0 && narrow.top == Top::MinusZeroIsNan { 0 } else { sign | nearest }
}

/// How a number between two powers of two is rounded to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PowerRounding {
    /// To the larger one.
    Up,
    /// To the smaller one.
    Down,
    /// To the nearer one, and up from the middle.
    Nearest,
}

/// The power of two that stands for a number in a type of exponents alone. What is out of range becomes
/// the nearest end where it shall saturate, and NaN otherwise; so does zero, which the type does not
/// have. Negative numbers are NaN.
pub(crate) fn encode_power(value: f64, saturate: bool, rounding: PowerRounding) -> u8 {
    const NAN: u8 = 255;
    const LARGEST: u8 = 254;
    if value.is_nan() || value < 0.0 {
        return NAN;
    }
    let too_small = if saturate { 0 } else { NAN };
    let too_large = if saturate { LARGEST } else { NAN };
    // The bits of an `f64`: an exponent with a bias of 1023 over 52 bits of a fraction.
    let exponent = (value.to_bits() >> 52) as i32 - 1023;
    let fraction = value.to_bits() & ((1 << 52) - 1);
    let up = match rounding {
        PowerRounding::Up => fraction > 0,
        PowerRounding::Down => false,
        PowerRounding::Nearest => fraction >= 1 << 51,
    };
    match exponent + 127 {
        biased if biased < 0 => too_small,
        biased => match u8::try_from(biased + i32::from(up)) {
            Ok(bits @ 0..=LARGEST) => bits,
            _ => too_large,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_elements_stay_themselves() {
        for element in ElementType::ALL.into_iter().filter(|other| layout(*other).is_some()) {
            for bits in 0..=u8::MAX >> (8 - element.bits_in_files().unwrap_or(8)) {
                let value = decode(element, bits);
                if !value.is_nan() {
                    assert_eq!(encode(element, value, false), bits, "{element} {bits}");
                }
            }
        }
    }

    #[test]
    fn powers_of_two() {
        use PowerRounding::{Down, Nearest, Up};
        let encoded = |value| [Up, Down, Nearest].map(|mode| encode_power(value, true, mode));
        assert_eq!(encoded(1.0), [127, 127, 127]);
        assert_eq!(encoded(1.25), [128, 127, 127]);
        assert_eq!(encoded(1.5), [128, 127, 128]);
        assert_eq!(encoded(0.0), [0, 0, 0]);
        assert_eq!(encoded(f64::INFINITY), [254, 254, 254]);
        assert_eq!(encoded(2f64.powi(127) * 1.5), [254, 254, 254]);
        assert_eq!(encoded(f64::NAN), [255, 255, 255]);
        let unsaturated = [0.0, f64::INFINITY, 2f64.powi(128), 2f64.powi(-128)];
        assert_eq!(unsaturated.map(|value| encode_power(value, false, Nearest)), [255; 4]);
    }
}
