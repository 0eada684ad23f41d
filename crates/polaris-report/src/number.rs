//! Numbers as people read them: exact in hover titles, short on the picture.

/// The space between groups of three digits; it does not break lines.
const THIN_SPACE: char = '\u{202f}';

/// A number with every digit that matters, to be read back exactly.
pub(crate) fn exact(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if (1e-5..1e15).contains(&size) || !value.is_finite() {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}

/// A number in about three digits.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&size) {
        return format!("{value:.2e}");
    }
    let decimals = (2 - magnitude(size)).clamp(0, 6) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    grouped(&text)
}

/// A number with the given decimals, its thousands set apart.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    grouped(&format!("{value:.decimals$}"))
}

/// A count with its thousands set apart.
pub(crate) fn count(value: u128) -> String {
    grouped(&value.to_string())
}

/// A count in at most four characters, for a small square: 950, 1.2k, 38k, 4.1M.
pub(crate) fn compact(value: u64) -> String {
    if value < 1000 {
        return value.to_string();
    }
    let mut size = value as f64;
    let mut unit = "";
    for next in ["k", "M", "G", "T", "P", "E"] {
        // 999.6 thousand would be written as 1000k.
        if size < 999.5 {
            break;
        }
        size /= 1000.0;
        unit = next;
    }
    if size < 9.95 { format!("{size:.1}{unit}") } else { format!("{size:.0}{unit}") }
}

/// A share in percent with one decimal, without the sign; a dash where there is nothing to share.
/// What is not all or nothing is not rounded to it: 99.96% is not 100%.
pub(crate) fn percent(part: u128, whole: u128) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    if part == whole {
        return "100".to_owned();
    }
    if part == 0 {
        return "0".to_owned();
    }
    format!("{:.1}", (part as f64 / whole as f64 * 100.0).clamp(0.1, 99.9))
}

/// The power of ten of the first digit.
pub(crate) fn magnitude(size: f64) -> i32 {
    size.log10().floor() as i32
}

/// Sets groups of three digits apart, from five digits on: 1234, but 12 345.
fn grouped(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (whole, fraction) = match digits.find('.') {
        Some(point) => digits.split_at(point),
        None => (digits, ""),
    };
    if whole.len() < 5 {
        return text.to_owned();
    }
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(THIN_SPACE);
        }
        out.push(digit);
    }
    out + fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(short(0.0), "0");
        assert_eq!(short(0.034567), "0.0346");
        assert_eq!(short(2.0), "2");
        assert_eq!(short(-12.345), "-12.3");
        assert_eq!(short(1234.5), "1234");
        assert_eq!(short(2000.0), "2000");
        assert_eq!(short(1234567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(short(3e9), "3.00e9");
        assert_eq!(fixed(-1234567.25, 1), "-1\u{202f}234\u{202f}567.2");
        assert_eq!(exact(0.1), "0.1");
        assert_eq!(exact(1e-7), "1e-7");
    }

    #[test]
    fn shares_are_not_rounded_to_all_or_nothing() {
        assert_eq!(percent(99_999, 100_000), "99.9");
        assert_eq!(percent(1, 100_000), "0.1");
        assert_eq!(percent(5, 5), "100");
        assert_eq!(percent(0, 5), "0");
        assert_eq!(percent(0, 0), "–");
    }

    proptest! {
        #[test]
        fn exact_numbers_read_back(value in any::<f64>()) {
            let back: f64 = exact(value).parse().expect("a number");
            prop_assert!(back == value || value.is_nan());
        }

        #[test]
        fn compact_counts_stay_small(value in any::<u64>(), shift in 0u32..64) {
            let text = compact(value >> shift);
            prop_assert!(text.chars().count() <= 4, "{}", text);
        }
    }
}
