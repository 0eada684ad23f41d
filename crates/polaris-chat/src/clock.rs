//! The date and time that a template may ask for with `strftime_now`. The caller brings it, so that the same
//! conversation renders to the same text whenever the caller wants that.

use std::fmt::Write;

use crate::error::{Error, Result, shown};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// In bytes. Patterns have about 20; a longer one would be text of another kind.
const LONGEST_PATTERN: usize = 1_000;

/// A date and a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateTime {
    year: i64,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

impl DateTime {
    /// A date (month and day from 1) and a time of day, in any time zone.
    pub fn new(date: (i64, u32, u32), time: (u32, u32, u32)) -> Result<Self> {
        let ((year, month, day), (hour, minute, second)) = (date, time);
        let valid = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if valid {
            return Ok(Self { year, month, day, hour, minute, second });
        }
        Err(Error::message(
            "date",
            format!(
                "{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} does not exist; \
                 years from 1 to 9999 are accepted"
            ),
        ))
    }

    /// The date and time so many seconds after 1970-01-01 00:00. Add the offset of the time zone before, since
    /// templates want the user's date. The years 1 to 9999 are reached; beyond them lie their first and last second.
    pub fn from_unix(seconds: i64) -> Self {
        let seconds = seconds.clamp(-62_135_596_800, 253_402_300_799);
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as u32);
        // Days since 0000-03-01, in eras of 400 years: a year that begins in March has its leap day at the end.
        let days = days + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
        Self {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: (day_of_year - (153 * shifted + 2) / 5 + 1) as u32,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    /// The days since the first of January, from 1.
    fn day_of_year(&self) -> u32 {
        (1..self.month).map(|month| days_in(self.year, month)).sum::<u32>() + self.day
    }

    /// The day of the week, from Sunday, by Sakamoto's method.
    fn weekday(&self) -> usize {
        const SHIFT: [i64; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
        let year = self.year - i64::from(self.month < 3);
        let sum = year + year / 4 - year / 100 + year / 400 + SHIFT[self.month as usize - 1];
        (sum + i64::from(self.day)).rem_euclid(7) as usize
    }

    /// Python's `strftime` without a locale and without a time zone.
    pub(crate) fn format(&self, pattern: &str) -> Result<String> {
        if pattern.len() > LONGEST_PATTERN {
            return Err(Error::limit("the pattern of strftime_now", LONGEST_PATTERN as u64));
        }
        let mut text = String::new();
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                text.push(character);
                continue;
            }
            let directive = characters.next();
            // `%-d` is glibc's form of a number without padding.
            let (padded, directive) =
                if directive == Some('-') { (false, characters.next()) } else { (true, directive) };
            let twelve = (self.hour + 11) % 12 + 1;
            let weekday = self.weekday();
            let mut number = |value: u32, width: usize| {
                let width = if padded { width } else { 0 };
                write!(text, "{value:0width$}")
            };
            let written = match directive {
                Some('d') => number(self.day, 2),
                Some('m') => number(self.month, 2),
                Some('y') => number((self.year % 100) as u32, 2),
                Some('H') => number(self.hour, 2),
                Some('I') => number(twelve, 2),
                Some('M') => number(self.minute, 2),
                Some('S') => number(self.second, 2),
                Some('j') => number(self.day_of_year(), 3),
                Some('Y') => write!(text, "{}", self.year),
                Some('e') => write!(text, "{:2}", self.day),
                Some('B') => write!(text, "{}", MONTHS[self.month as usize - 1]),
                Some('b' | 'h') => write!(text, "{}", &MONTHS[self.month as usize - 1][..3]),
                Some('A') => write!(text, "{}", DAYS[weekday]),
                Some('a') => write!(text, "{}", &DAYS[weekday][..3]),
                Some('w') => write!(text, "{weekday}"),
                Some('u') => write!(text, "{}", (weekday + 6) % 7 + 1),
                Some('p') => write!(text, "{}", if self.hour < 12 { "AM" } else { "PM" }),
                Some('F') => write!(text, "{}-{:02}-{:02}", self.year, self.month, self.day),
                Some('T') => {
                    write!(text, "{:02}:{:02}:{:02}", self.hour, self.minute, self.second)
                }
                Some('R') => write!(text, "{:02}:{:02}", self.hour, self.minute),
                Some('D') => {
                    write!(text, "{:02}/{:02}/{:02}", self.month, self.day, self.year % 100)
                }
                Some('z' | 'Z') => Ok(()),
                Some('%') => write!(text, "%"),
                _ => {
                    return Err(Error::render(format!(
                        "strftime_now does not know `%{}` of `{}`",
                        directive.map(String::from).unwrap_or_default(),
                        shown(pattern)
                    )));
                }
            };
            written.expect("a string should take what is written");
        }
        Ok(text)
    }
}

fn days_in(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        let date = |seconds| DateTime::from_unix(seconds).format("%A %Y-%m-%d %T %j").unwrap();
        assert_eq!(date(0), "Thursday 1970-01-01 00:00:00 001");
        assert_eq!(date(951_825_599), "Tuesday 2000-02-29 11:59:59 060");
        assert_eq!(date(-1), "Wednesday 1969-12-31 23:59:59 365");
        assert_eq!(date(i64::MAX), "Friday 9999-12-31 23:59:59 365");
        assert_eq!(date(i64::MIN), "Monday 1-01-01 00:00:00 001");
        assert!(DateTime::new((2023, 2, 29), (0, 0, 0)).is_err());
        let new = DateTime::new((2024, 7, 6), (13, 5, 9)).unwrap();
        assert_eq!(new, DateTime::from_unix(1_720_271_109));
        assert_eq!(
            new.format("%d %b %y, %-d %B, %I:%M %p, %a %w %u %D %%").unwrap(),
            "06 Jul 24, 6 July, 01:05 PM, Sat 6 6 07/06/24 %"
        );
        assert!(new.format("%Q").is_err());
        assert!(new.format("%").is_err());
    }
}
