//! Byte counts as people write and read them.

use std::fmt;

/// Shows a byte count in binary units: `512 MiB`, `1.5 GiB`, `17 B`.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub u64);

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut unit = 0;
        // 1023.95 would be shown as 1024.0: it belongs to the next unit.
        while value >= 1023.95 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let text = if unit == 0 || (value - value.round()).abs() < 0.05 {
            format!("{value:.0} {}", UNITS[unit])
        } else {
            format!("{value:.1} {}", UNITS[unit])
        };
        f.pad(&text)
    }
}

/// Reads a byte count: `4096`, `512MiB`, `1.5 GiB`, `8GB` (decimal) and single letters (`512M`,
/// which mean binary units, as most command lines have it).
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let scale: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return None,
    };
    let bytes = number * scale;
    (bytes.is_finite() && bytes < u64::MAX as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_bytes() {
        let shown =
            [17, 1024, 1536, 512 << 20, 8 << 30, (1 << 20) - 1].map(|b| Bytes(b).to_string());
        assert_eq!(shown, ["17 B", "1 KiB", "1.5 KiB", "512 MiB", "8 GiB", "1 MiB"]);
    }

    #[test]
    fn reads_bytes() {
        assert_eq!(parse_bytes("512MiB"), Some(512 << 20));
        assert_eq!(parse_bytes(" 1.5 GiB "), Some(3 << 29));
        assert_eq!(parse_bytes("2g"), Some(2 << 30));
        assert_eq!(parse_bytes("8GB"), Some(8_000_000_000));
        assert_eq!(parse_bytes("0"), Some(0));
        for bad in ["", "MiB", "-1", "1.2.3", "5 parsecs", "1e400", "99999999999999999999999"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }
}
