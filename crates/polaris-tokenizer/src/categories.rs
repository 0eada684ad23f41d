//! Classes of characters by Unicode's general categories, and sets of characters made of them.

use crate::category_table::RUNS;

/// What a character is. The numbers are those in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    Other = 0,
    Uppercase,
    Lowercase,
    Titlecase,
    Modifier,
    OtherLetter,
    Mark,
    Digit,
    OtherNumber,
    Punctuation,
    Symbol,
}

const CLASSES: [Class; 11] = [
    Class::Other,
    Class::Uppercase,
    Class::Lowercase,
    Class::Titlecase,
    Class::Modifier,
    Class::OtherLetter,
    Class::Mark,
    Class::Digit,
    Class::OtherNumber,
    Class::Punctuation,
    Class::Symbol,
];

/// `\p{L}` in the `classes` of a [`Set`].
pub(crate) const L: u16 = LL | LU | 1 << Class::Modifier as u16 | 1 << Class::OtherLetter as u16;
/// `\p{Ll}`.
pub(crate) const LL: u16 = 1 << Class::Lowercase as u16;
/// `\p{Lu}\p{Lt}`.
pub(crate) const LU: u16 = 1 << Class::Uppercase as u16 | 1 << Class::Titlecase as u16;
/// `\p{Lm}\p{Lo}`: letters without case.
pub(crate) const LO: u16 = 1 << Class::Modifier as u16 | 1 << Class::OtherLetter as u16;
/// `\p{M}`.
pub(crate) const M: u16 = 1 << Class::Mark as u16;
/// `\p{Nd}`, which is `\d`.
pub(crate) const ND: u16 = 1 << Class::Digit as u16;
/// `\p{N}`.
pub(crate) const N: u16 = ND | 1 << Class::OtherNumber as u16;
/// `\p{P}`.
pub(crate) const P: u16 = 1 << Class::Punctuation as u16;
/// `\p{S}`.
pub(crate) const S: u16 = 1 << Class::Symbol as u16;

/// The class of a character.
pub(crate) const fn class(c: char) -> Class {
    let c = c as u32;
    let (mut low, mut high) = (0, RUNS.len());
    while high - low > 1 {
        let middle = (low + high) / 2;
        if RUNS[middle] >> 4 <= c {
            low = middle;
        } else {
            high = middle;
        }
    }
    CLASSES[(RUNS[low] & 15) as usize]
}

/// A set of characters, as `[...]` in a regular expression.
#[derive(Debug)]
pub(crate) struct Set {
    /// Bits by [`Class`].
    classes: u16,
    /// Whether white space (`\s`) belongs to it.
    white: bool,
    /// Further characters, in order and without overlaps.
    ranges: &'static [(char, char)],
    /// Whether the set is all others, `[^...]`.
    not: bool,
    /// The answer for each character of ASCII, of which most text consists.
    ascii: u128,
}

impl Set {
    /// `[classes ranges]`.
    pub(crate) const fn new(classes: u16, ranges: &'static [(char, char)]) -> Self {
        Self { classes, white: false, ranges, not: false, ascii: 0 }.with_ascii()
    }

    /// `[\s classes ranges]`.
    pub(crate) const fn white(classes: u16, ranges: &'static [(char, char)]) -> Self {
        Self { classes, white: true, ranges, not: false, ascii: 0 }.with_ascii()
    }

    /// `[^...]` of a set.
    pub(crate) const fn not(self) -> Self {
        Self { not: !self.not, ..self }.with_ascii()
    }

    const fn with_ascii(mut self) -> Self {
        self.ascii = 0;
        let mut c = 0u8;
        while c < 128 {
            if self.search(c as char) {
                self.ascii |= 1 << c;
            }
            c += 1;
        }
        self
    }

    const fn search(&self, c: char) -> bool {
        let mut found =
            self.classes >> class(c) as u16 & 1 == 1 || (self.white && c.is_whitespace());
        let (mut low, mut high) = (0, self.ranges.len());
        while !found && low < high {
            let middle = (low + high) / 2;
            let (first, last) = self.ranges[middle];
            if (c as u32) < first as u32 {
                high = middle;
            } else if c as u32 > last as u32 {
                low = middle + 1;
            } else {
                found = true;
            }
        }
        found != self.not
    }

    /// Whether a character belongs to it.
    pub(crate) const fn has(&self, c: char) -> bool {
        if c.is_ascii() { self.ascii >> c as u32 & 1 == 1 } else { self.search(c) }
    }
}

#[cfg(test)]
mod tests {
    use fancy_regex::Regex;

    use super::*;
    use crate::category_table::HAN;

    #[test]
    fn sets_are_those_of_regular_expressions() {
        let ranges: &[(char, char)] = &[('$', '$'), ('\u{4e00}', '\u{9fa5}')];
        let cases = [
            (Set::new(L, &[]), r"\p{L}"),
            (Set::new(LU, &[]), r"[\p{Lu}\p{Lt}]"),
            (Set::new(LL, &[]), r"\p{Ll}"),
            (Set::new(LO, &[]), r"[\p{Lm}\p{Lo}]"),
            (Set::new(M, &[]), r"\p{M}"),
            (Set::new(ND, &[]), r"\d"),
            (Set::new(N, &[]), r"\p{N}"),
            (Set::new(P, &[]), r"\p{P}"),
            (Set::new(S, &[]), r"\p{S}"),
            (Set::new(0, HAN), r"\p{Han}"),
            (Set::white(0, &[]), r"\s"),
            (Set::white(L | N, ranges).not(), r"[^\s\p{L}\p{N}$\x{4e00}-\x{9fa5}]"),
        ];
        let every: String = (0..=char::MAX as u32).filter_map(char::from_u32).collect();
        for (set, pattern) in cases {
            let regex = Regex::new(pattern).unwrap();
            let wanted: Vec<&str> = regex.find_iter(&every).map(|m| m.unwrap().as_str()).collect();
            let found: Vec<char> = every.chars().filter(|&c| set.has(c)).collect();
            assert!(wanted.concat().chars().eq(found), "{pattern}");
        }
    }
}
