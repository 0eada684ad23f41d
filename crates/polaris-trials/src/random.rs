//! Random numbers that a seed decides (SplitMix64), and the numbers that readers of files get wrong.

use polaris_core::random::SplitMix64;

/// A generator of random numbers.
#[derive(Debug, Clone)]
pub struct Random(SplitMix64);

impl Random {
    /// The generator of one trial: other families and other indices get unrelated numbers.
    pub fn of_trial(seed: u64, family: &str, index: u64) -> Self {
        let mut random = Self(SplitMix64::new(seed));
        for word in family.bytes().map(u64::from).chain([index]) {
            random.0 = SplitMix64::new(random.next().wrapping_add(word));
        }
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// From 0 to `end`, without it; 0 if `end` is.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// From `first` to `last`, with both.
    pub fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// From -1 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }
}

/// Lengths, counts and indices at the edges of what fits.
pub const ODD_INTEGERS: [i64; 22] = [
    0,
    1,
    -1,
    2,
    3,
    -2,
    7,
    255,
    65_536,
    1 << 20,
    i32::MAX as i64,
    1 << 31,
    (1 << 32) + 1,
    1 << 33,
    -(1 << 31),
    -(1 << 40),
    1 << 61,
    1 << 62,
    i64::MAX / 4 + 1,
    i64::MAX,
    i64::MAX - 1,
    i64::MIN,
];

/// Floats at the edges.
pub const ODD_FLOATS: [f32; 10] =
    [0.0, -0.0, -1.0, 1e-45, 1e38, -1e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.999_999_94];

/// Strings that are names, paths or text somewhere.
pub const ODD_STRINGS: [&str; 16] = [
    "",
    " ",
    ".",
    "..",
    "/",
    "../outside",
    "/etc/passwd",
    "/dev/zero",
    "a/b/c",
    "\u{1b}[31mred\u{1b}[0m\u{7}",
    "line\nbreak\r\n",
    "nul\0byte",
    "\u{202e}right to left",
    "名前",
    "%s%n{}{0}",
    "-1",
];

/// An odd string, now and then a very long one.
pub fn odd_string(random: &mut Random) -> String {
    match random.below(ODD_STRINGS.len() + 1) {
        index if index < ODD_STRINGS.len() => ODD_STRINGS[index].to_owned(),
        _ => "x".repeat(*random.pick(&[256, 5_000, 100_000])),
    }
}
