//! Numbers within bounds, digit by digit.

use crate::grammar::charset::CharSet;
use crate::grammar::expr::Expr;

/// Without a bound, integers have at most so many digits.
const INTEGER_DIGITS: u32 = 16;
/// Decimal numbers have at most so many digits: with these, different texts are different doubles.
const DECIMAL_DIGITS: usize = 15;
/// The largest whole part of a bounded decimal number.
const LARGEST_WHOLE: u128 = 10u128.pow(DECIMAL_DIGITS as u32) - 1;

/// The end of a range of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    pub value: f64,
    /// The value, if the schema gives it as an integer.
    pub integer: Option<i128>,
    pub exclusive: bool,
}

impl Bound {
    /// The smallest integer that a lower bound admits; None if it excludes none here.
    fn lowest(&self) -> Option<i128> {
        match self.integer {
            Some(value) => Some(value + i128::from(self.exclusive)),
            None if self.value.abs() >= 1e30 => None,
            None => {
                let up = self.value.ceil();
                Some(up as i128 + i128::from(self.exclusive && up == self.value))
            }
        }
    }

    /// The same bound seen from the other side of zero.
    pub fn mirrored(&self) -> Self {
        let integer = self.integer.map(|value| -value);
        Self { value: -self.value, integer, exclusive: self.exclusive }
    }
}

/// The integers between two bounds.
pub(super) fn integer(low: Option<Bound>, high: Option<Bound>) -> Expr {
    let lowest = |bound: Bound| bound.lowest();
    // A bound beyond all numbers that are written excludes all of them or none.
    if low.is_some_and(|low| low.lowest().is_none() && low.value > 0.0)
        || high.is_some_and(|high| high.mirrored().lowest().is_none() && high.value < 0.0)
    {
        return Expr::never();
    }
    let low = low.and_then(lowest);
    let high = high.and_then(|high| high.mirrored().lowest()).map(|high| -high);
    let mut choices = Vec::new();
    // The magnitudes of negative numbers, then the others.
    if low.is_none_or(|low| low < 0) {
        let from = high.map_or(1, |high| (-high).max(1)) as u128;
        choices.push(Expr::Sequence(vec![
            Expr::text("-"),
            whole(from, low.map(|low| low.unsigned_abs())),
        ]));
    }
    if high.is_none_or(|high| high >= 0) {
        let from = low.map_or(0, |low| low.max(0)) as u128;
        choices.push(whole(from, high.map(|high| high as u128)));
    }
    Expr::Choice(choices)
}

/// The numbers from `low` to `high` without leading zeros.
fn whole(low: u128, high: Option<u128>) -> Expr {
    let count = |value: u128| value.checked_ilog10().unwrap_or(0) + 1;
    // Without an end there is still room above the lower bound.
    let high = high.unwrap_or_else(|| 10u128.pow(INTEGER_DIGITS.max(count(low) + 1)) - 1);
    let mut choices = Vec::new();
    if low <= high {
        for digits in count(low)..=count(high) {
            let smallest = if digits == 1 { 0 } else { 10u128.pow(digits - 1) };
            let largest = 10u128.pow(digits) - 1;
            let (from, to) = (low.max(smallest).to_string(), high.min(largest).to_string());
            choices.push(between(Some(from.as_bytes()), Some(to.as_bytes()), digits as usize));
        }
    }
    Expr::Choice(choices)
}

fn digits(low: u8, high: u8) -> Expr {
    Expr::Set(CharSet::new([(low.into(), high.into())]))
}

fn free(least: usize, most: usize) -> Expr {
    digits(b'0', b'9').repeat(least as u32, Some(most as u32))
}

/// So many digits, at least `low` and at most `high` where these still count.
fn between(low: Option<&[u8]>, high: Option<&[u8]>, count: usize) -> Expr {
    if count == 0 {
        return Expr::empty();
    }
    if low.is_none() && high.is_none() {
        return free(count, count);
    }
    fork(low.map(|low| low[0]), high.map(|high| high[0]), |low_counts, high_counts| {
        let low = low.filter(|_| low_counts).map(|low| &low[1..]);
        let high = high.filter(|_| high_counts).map(|high| &high[1..]);
        between(low, high, count - 1)
    })
}

/// A digit between two that may be bounds, then a rest, for which a bound counts only after its own digit.
fn fork(low: Option<u8>, high: Option<u8>, rest: impl Fn(bool, bool) -> Expr) -> Expr {
    let (mut from, mut to) = (low.unwrap_or(b'0'), high.unwrap_or(b'9'));
    let one = |digit, rest| Expr::Sequence(vec![digits(digit, digit), rest]);
    let mut choices = Vec::new();
    if low.is_some() && low == high {
        return one(from, rest(true, true));
    }
    if from <= to && low.is_some() {
        choices.push(one(from, rest(true, false)));
        from += 1;
    }
    if from <= to && high.is_some() {
        choices.push(one(to, rest(false, true)));
        to -= 1;
    }
    if from <= to {
        choices.push(Expr::Sequence(vec![digits(from, to), rest(false, false)]));
    }
    Expr::Choice(choices)
}

/// The magnitude of a bound in decimal digits.
struct Decimal {
    whole: u128,
    fraction: Vec<u8>,
    exclusive: bool,
}

/// The digits of a bound that still count, and whether it is exclusive.
type Tail<'a> = Option<(&'a [u8], bool)>;

impl Decimal {
    const ZERO: Self = Self { whole: 0, fraction: Vec::new(), exclusive: false };

    fn of(bound: &Bound) -> Option<Self> {
        let text = match bound.integer {
            Some(value) => value.unsigned_abs().to_string(),
            None => bound.value.abs().to_string(),
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let whole = whole.parse().ok()?;
        Some(Self { whole, fraction: fraction.into(), exclusive: bound.exclusive })
    }

    fn tail(&self) -> Tail<'_> {
        Some((&self.fraction, self.exclusive))
    }
}

/// The decimal numbers between two bounds, without exponents.
pub(super) fn decimal(low: Option<Bound>, high: Option<Bound>) -> Expr {
    let mut choices = Vec::new();
    if low.is_none_or(|low| low.value < 0.0) {
        let from = high.filter(|high| high.value <= 0.0);
        let magnitudes = magnitude(from, low);
        choices.push(Expr::Sequence(vec![Expr::text("-"), magnitudes]));
    }
    if high.is_none_or(|high| high.value >= 0.0) {
        choices.push(magnitude(low.filter(|low| low.value >= 0.0), high));
    }
    Expr::Choice(choices)
}

/// The numbers between the magnitudes of two bounds.
fn magnitude(low: Option<Bound>, high: Option<Bound>) -> Expr {
    let low = match low.map(|low| Decimal::of(&low)) {
        None => Decimal::ZERO,
        Some(Some(low)) => low,
        Some(None) => return Expr::never(),
    };
    // An upper bound beyond the largest number excludes nothing.
    let high = high.and_then(|high| Decimal::of(&high)).filter(|high| high.whole <= LARGEST_WHOLE);
    let last = high.as_ref().map_or(LARGEST_WHOLE, |high| high.whole);
    if low.whole > last {
        return Expr::never();
    }
    let exactly = |value: u128, low: Tail<'_>, high: Tail<'_>| {
        let text = value.to_string();
        let room = DECIMAL_DIGITS.saturating_sub(text.len());
        Expr::Sequence(vec![Expr::text(text), fraction(low, high, room)])
    };
    let high_tail = high.as_ref().and_then(Decimal::tail);
    if low.whole == last {
        return exactly(last, low.tail(), high_tail);
    }
    let mut choices = vec![exactly(low.whole, low.tail(), None), exactly(last, None, high_tail)];
    // Each number of whole digits by itself, since it decides how many may follow.
    let (from, to) = (low.whole + 1, last - 1);
    let mut smallest = from;
    while smallest <= to {
        let count = smallest.ilog10() + 1;
        let largest = to.min(10u128.pow(count) - 1);
        let room = DECIMAL_DIGITS.saturating_sub(count as usize);
        let whole = whole(smallest, Some(largest));
        choices.push(Expr::Sequence(vec![whole, fraction(None, None, room)]));
        smallest = largest + 1;
    }
    Expr::Choice(choices)
}

/// A fraction between the digits of two bounds, or none where zero is between them.
fn fraction(low: Tail<'_>, high: Tail<'_>, room: usize) -> Expr {
    let digits = Expr::Sequence(vec![Expr::text("."), more(low, high, room)]);
    if may_stop(low, high) { digits.optional() } else { digits }
}

/// Whether a number that ends where its digits equal those of the bounds so far is between them.
fn may_stop(low: Tail<'_>, high: Tail<'_>) -> bool {
    let zero = |digits: &[u8]| digits.iter().all(|&digit| digit == b'0');
    low.is_none_or(|(digits, exclusive)| zero(digits) && !exclusive)
        && high.is_none_or(|(digits, exclusive)| !zero(digits) || !exclusive)
}

/// One to `room` digits between those of the bounds.
fn more(low: Tail<'_>, high: Tail<'_>, room: usize) -> Expr {
    if room == 0 {
        return Expr::never();
    }
    // Nothing is below a bound that is zero from here on.
    let low = low.filter(|_| !may_stop(low, None));
    if low.is_none() && high.is_none() {
        return free(1, room);
    }
    fn first(tail: Tail<'_>) -> Option<u8> {
        tail.map(|(digits, _)| digits.first().copied().unwrap_or(b'0'))
    }
    fn rest(tail: Tail<'_>) -> Tail<'_> {
        tail.map(|(digits, exclusive)| (digits.get(1..).unwrap_or(&[]), exclusive))
    }
    fork(first(low), first(high), |low_counts, high_counts| {
        let low = rest(low.filter(|_| low_counts));
        let high = rest(high.filter(|_| high_counts));
        match (low, high) {
            (None, None) => free(0, room - 1),
            _ if may_stop(low, high) => more(low, high, room - 1).optional(),
            _ => more(low, high, room - 1),
        }
    })
}
