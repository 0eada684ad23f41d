//! Sets of Unicode characters as sorted ranges, and their UTF-8 as sequences of byte ranges.

/// The largest code point.
pub(crate) const LAST: u32 = 0x10_ffff;
/// Code points that are not characters: halves of UTF-16 pairs.
const SURROGATES: (u32, u32) = (0xd800, 0xdfff);

/// UTF-8 as sequences of byte ranges.
pub(crate) type Sequences = Vec<Vec<(u8, u8)>>;

/// A set of characters: ranges of code points, both ends included, ascending, apart, without surrogates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CharSet(Vec<(u32, u32)>);

impl CharSet {
    /// The characters in these ranges, in any order; surrogates in them do not count.
    pub fn new(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut parts = Vec::new();
        for (low, high) in ranges {
            let high = high.min(LAST);
            for (low, high) in
                [(low, high.min(SURROGATES.0 - 1)), (low.max(SURROGATES.1 + 1), high)]
            {
                if low <= high {
                    parts.push((low, high));
                }
            }
        }
        parts.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(parts.len());
        for (low, high) in parts {
            match merged.last_mut() {
                Some(last) if low <= last.1 + 1 => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Self(merged)
    }

    pub fn of(characters: &str) -> Self {
        Self::new(characters.chars().map(|c| (u32::from(c), u32::from(c))))
    }

    pub fn all() -> Self {
        Self::new([(0, LAST)])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    pub fn contains(&self, character: char) -> bool {
        let code = u32::from(character);
        let after = self.0.partition_point(|&(low, _)| low <= code);
        after > 0 && code <= self.0[after - 1].1
    }

    pub fn union(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).copied())
    }

    /// All other characters.
    pub fn negated(&self) -> Self {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut start = 0;
        for &(low, high) in &self.0 {
            if start < low {
                gaps.push((start, low - 1));
            }
            start = high + 1;
        }
        gaps.push((start, LAST));
        Self::new(gaps.into_iter().filter(|(low, high)| low <= high))
    }

    pub fn without(&self, other: &Self) -> Self {
        self.negated().union(other).negated()
    }

    /// The UTF-8 of the set: sequences of byte ranges in ascending order. Two first ranges are equal or apart.
    pub fn utf8(&self) -> Sequences {
        let mut sequences = Vec::new();
        for &(low, high) in &self.0 {
            let mut low = low;
            // Each length of UTF-8 by itself.
            for (last, length) in [(0x7f, 1), (0x7ff, 2), (0xffff, 3), (LAST, 4)] {
                if low <= last.min(high) {
                    split(low, high.min(last), length, &mut Vec::new(), &mut sequences);
                    low = last + 1;
                }
            }
        }
        sequences
    }
}

/// Splits a range of code points with UTF-8 of one length where its last bytes are not all of 80 to BF.
fn split(
    low: u32,
    high: u32,
    length: u32,
    prefix: &mut Vec<(u8, u8)>,
    out: &mut Vec<Vec<(u8, u8)>>,
) {
    let shift = 6 * (length - 1);
    let is_first = prefix.is_empty();
    let byte = |code: u32| {
        let bits = (code >> shift) as u8;
        // The first byte of a sequence carries its length.
        let mark = match (is_first, length) {
            (false, _) => 0x80 | (bits & 0x3f),
            (true, 1) => bits,
            (true, 2) => 0xc0 | bits,
            (true, 3) => 0xe0 | bits,
            (true, _) => 0xf0 | bits,
        };
        (mark, code >> shift)
    };
    let ((first, low_top), (last, high_top)) = (byte(low), byte(high));
    if length == 1 {
        let mut sequence = prefix.clone();
        sequence.push((first, last));
        out.push(sequence);
        return;
    }
    let mask = (1 << shift) - 1;
    if low_top == high_top {
        prefix.push((first, last));
        split(low, high, length - 1, prefix, out);
        prefix.pop();
        return;
    }
    // Tops whose lower bits are all free go together; the two ends may not be.
    let low_full = low & mask == 0;
    let high_full = high & mask == mask;
    if !low_full {
        prefix.push((first, first));
        split(low, low | mask, length - 1, prefix, out);
        prefix.pop();
    }
    let (from, to) = (low_top + u32::from(!low_full), high_top - u32::from(!high_full));
    if from <= to {
        let (from_byte, to_byte) = (byte(from << shift).0, byte(to << shift).0);
        let mut sequence = prefix.clone();
        sequence.push((from_byte, to_byte));
        sequence.extend(std::iter::repeat_n((0x80, 0xbf), length as usize - 1));
        out.push(sequence);
    }
    if !high_full {
        prefix.push((last, last));
        split(high & !mask, high, length - 1, prefix, out);
        prefix.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(sequences: &[Vec<(u8, u8)>], bytes: &[u8]) -> bool {
        sequences.iter().any(|sequence| {
            sequence.len() == bytes.len()
                && sequence
                    .iter()
                    .zip(bytes)
                    .all(|((low, high), byte)| (low..=high).contains(&byte))
        })
    }

    #[test]
    fn utf8_has_exactly_the_characters_of_the_set() {
        let sets = [
            CharSet::all(),
            CharSet::of("\"\\").negated(),
            CharSet::new([(0x7f, 0x80), (0x7fe, 0x801), (0xfffe, 0x1_0001)]),
            CharSet::new([(0x100, 0x150), (0x160, 0x170), (0x12_34, 0x4_5678)]),
            CharSet::new([(0xd700, 0xe100)]),
        ];
        for set in sets {
            let sequences = set.utf8();
            for character in '\0'..=char::MAX {
                let code = u32::from(character);
                // All near the ends of ranges and lengths, some elsewhere.
                if code % 61 != 0
                    && !(0x7f0..0x810).contains(&code)
                    && !(0xff00..0x1_0100).contains(&code)
                    && code > 0x200
                {
                    continue;
                }
                let mut buffer = [0; 4];
                let bytes = character.encode_utf8(&mut buffer).as_bytes();
                assert_eq!(matches(&sequences, bytes), set.contains(character), "{code:x}");
            }
        }
    }

    #[test]
    fn sets_have_no_surrogates_and_algebra_holds() {
        let set = CharSet::new([(0xd000, 0xe000), (5, 7), (6, 9), (10, 10)]);
        assert_eq!(set.ranges(), [(5, 10), (0xd000, 0xd7ff), (0xe000, 0xe000)]);
        assert_eq!(set.negated().negated(), set);
        assert_eq!(CharSet::all().negated(), CharSet::default());
        assert_eq!(set.without(&CharSet::new([(0, 100)])).ranges()[0], (0xd000, 0xd7ff));
    }
}
