//! The date in UTC, as ISO 8601 writes it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, as in `2026-01-31T12:34:56Z`.
pub fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    iso_8601(seconds)
}

/// Seconds since 1970 as in `2026-01-31T12:34:56Z`.
pub fn iso_8601(unix_time: u64) -> String {
    let (days, second) = (unix_time / 86_400, unix_time % 86_400);
    // Counted in years that begin in March, so that leap days come last; from 0000-03-01, in
    // cycles of 400 years.
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = cycle * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::iso_8601 as text;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(text(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
