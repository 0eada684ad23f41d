//! Counts of values in bins, with a range that grows.

/// Bins on each side of zero, where nobody chooses.
const USUAL_BINS: usize = 2048;

/// How often values fell into bins. Bin `k`, which may be negative, holds those from `k` to below `k + 1` times the width,
/// except zeros: they have a count of their own, since zero always has a level and costs nothing.
///
/// The width is the smallest power of two with which all values have a bin. So the counts depend on the values alone, and
/// not on their order or on which were counted together.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Bins on each side of zero.
    side: usize,
    /// The width of a bin, as a power of two. Nothing but zeros has none.
    exponent: Option<i32>,
    /// That of bin `k` at `k + side`.
    counts: Vec<u64>,
    zeros: u64,
    extremes: Option<(f32, f32)>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new(USUAL_BINS)
    }
}

impl Histogram {
    /// The fewest and the most bins on a side.
    pub const SIDES: std::ops::RangeInclusive<usize> = 64..=65536;

    /// One without values. The number of bins on each side of zero is brought into [`Histogram::SIDES`], and rounded up to a
    /// power of two.
    pub fn new(side: usize) -> Self {
        let side = side.clamp(*Self::SIDES.start(), *Self::SIDES.end()).next_power_of_two();
        Self { side, exponent: None, counts: vec![0; 2 * side], zeros: 0, extremes: None }
    }

    /// The parts of one that was saved; `None` if they contradict each other.
    pub(super) fn of_parts(
        side: usize,
        exponent: Option<i32>,
        (first, counts): (i64, &[u64]),
        zeros: u64,
        extremes: Option<(f32, f32)>,
    ) -> Option<Self> {
        let mut histogram = Self::new(side);
        let at = usize::try_from(first.checked_add(histogram.side as i64)?).ok()?;
        let end = at.checked_add(counts.len())?;
        histogram.counts.get_mut(at..end)?.copy_from_slice(counts);
        let all = counts.iter().try_fold(zeros, |sum, &count| sum.checked_add(count))?;
        let finite = extremes.is_none_or(|(a, b)| a.is_finite() && b.is_finite() && a <= b);
        let reach = extremes.map_or(0.0, |(a, b)| f64::from(a).abs().max(f64::from(b).abs()));
        let fits = finite
            && histogram.side == side
            && (all > 0) == extremes.is_some()
            && exponent == needed(reach, side)
            && (all > zeros) == exponent.is_some();
        (histogram.exponent, histogram.zeros, histogram.extremes) = (exponent, zeros, extremes);
        fits.then_some(histogram)
    }

    /// Counts values.
    ///
    /// # Errors
    /// The place of the first that is not finite; then none is counted.
    pub fn observe(&mut self, values: &[f32]) -> std::result::Result<(), usize> {
        let (mut min, mut max, mut sum) = (f32::INFINITY, f32::NEG_INFINITY, 0.0f32);
        for &value in values {
            min = min.min(value);
            max = max.max(value);
            // Times zero, what is not finite is not a number, and stays so.
            sum += value * 0.0;
        }
        if sum.is_nan() {
            return Err(values.iter().position(|value| !value.is_finite()).unwrap_or(0));
        }
        if values.is_empty() {
            return Ok(());
        }
        self.widen(needed(f64::from(min).abs().max(f64::from(max).abs()), self.side));
        let (low, high) = self.extremes.unwrap_or((min, max));
        self.extremes = Some((low.min(min), high.max(max)));
        // Of a power of two, so that the quotient is exact.
        let inverse = self.exponent.map_or(0.0, |exponent| 2f64.powi(-exponent));
        for &value in values {
            if value == 0.0 {
                self.zeros += 1;
            } else {
                let bin = (f64::from(value) * inverse).floor() as i64;
                self.counts[(bin + self.side as i64) as usize] += 1;
            }
        }
        Ok(())
    }

    /// Adds the values of another one with as many bins.
    pub(super) fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.side, other.side, "histograms should have as many bins");
        self.widen(other.exponent);
        let mut wide = None;
        if self.exponent != other.exponent && other.exponent.is_some() {
            let copy: &mut Self = wide.insert(other.clone());
            copy.widen(self.exponent);
        }
        let other = wide.as_ref().unwrap_or(other);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.zeros = self.zeros.saturating_add(other.zeros);
        self.extremes = match (self.extremes, other.extremes) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }

    /// Merges bins until they are so wide.
    fn widen(&mut self, exponent: Option<i32>) {
        let Some(wanted) = exponent else { return };
        let Some(own) = self.exponent.replace(wanted.max(self.exponent.unwrap_or(wanted))) else {
            return;
        };
        let shift = (wanted - own).clamp(0, 62);
        if shift == 0 {
            return;
        }
        let side = self.side as i64;
        let old = std::mem::replace(&mut self.counts, vec![0; 2 * self.side]);
        for (at, count) in old.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let bin = (at as i64 - side) >> shift;
            self.counts[(bin + side) as usize] += count;
        }
    }

    /// Bins on each side of zero.
    pub fn side(&self) -> usize {
        self.side
    }

    /// The width of a bin; 0 if there is nothing but zeros.
    pub fn width(&self) -> f64 {
        self.exponent.map_or(0.0, |exponent| 2f64.powi(exponent))
    }

    pub(super) fn exponent(&self) -> Option<i32> {
        self.exponent
    }

    /// The counts of all bins, from the lowest; zeros are not among them.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Values that are zero.
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// All values.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(self.zeros, |sum, &count| sum.saturating_add(count))
    }

    /// The smallest and the largest value; `None` if there are none.
    pub fn extremes(&self) -> Option<(f32, f32)> {
        self.extremes
    }

    /// Bytes of memory it takes, however many values it has counted.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.counts.capacity() * size_of::<u64>()
    }

    /// The counts below zero, from zero outwards, as far as there are some.
    pub(super) fn below(&self) -> Vec<f64> {
        outwards(self.counts[..self.side].iter().rev())
    }

    /// The counts above zero, from zero outwards, as far as there are some.
    pub(super) fn above(&self) -> Vec<f64> {
        outwards(self.counts[self.side..].iter())
    }

    /// The counts of magnitudes, as far as there are some.
    pub(super) fn magnitudes(&self) -> Vec<f64> {
        let (mut longer, mut shorter) = (self.below(), self.above());
        if longer.len() < shorter.len() {
            std::mem::swap(&mut longer, &mut shorter);
        }
        longer.iter_mut().zip(shorter).for_each(|(count, more)| *count += more);
        longer
    }
}

fn outwards<'c>(counts: impl DoubleEndedIterator<Item = &'c u64>) -> Vec<f64> {
    let mut list: Vec<f64> = counts.map(|&count| count as f64).collect();
    let used = list.iter().rposition(|&count| count > 0.0).map_or(0, |last| last + 1);
    list.truncate(used);
    list
}

/// The smallest power of two of which so many are more than a number; none for zero.
fn needed(reach: f64, side: usize) -> Option<i32> {
    if reach == 0.0 {
        return None;
    }
    // Floats of 32 bits are normal ones of 64, whose exponents are in their bits.
    let exponent = ((reach.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    Some(exponent + 1 - side.trailing_zeros() as i32)
}

#[cfg(test)]
mod tests {
    use polaris_core::random::SplitMix64;

    use super::*;

    #[test]
    fn counts_depend_on_the_values_alone() {
        let mut random = SplitMix64::new(1);
        let values: Vec<f32> = (0..4000)
            .map(|at| (random.unit() - 0.4) as f32 * if at % 7 == 0 { 80.0 } else { 1e-3 })
            .chain([0.0, -0.0, 1e-40, -64.0, 64.0, f32::MIN_POSITIVE])
            .collect();
        let mut whole = Histogram::new(256);
        whole.observe(&values).unwrap();
        assert_eq!(whole.total(), values.len() as u64);
        assert_eq!(whole.zeros(), 2);
        for part in [1, 13, 999] {
            let (mut grown, mut merged) = (Histogram::new(256), Histogram::new(256));
            for chunk in values.chunks(part).rev() {
                grown.observe(chunk).unwrap();
                let mut shard = Histogram::new(256);
                shard.observe(chunk).unwrap();
                merged.merge(&shard);
            }
            assert_eq!(grown, whole);
            assert_eq!(merged, whole);
        }
        // Against the definition.
        let width = whole.width();
        for &value in values.iter().filter(|value| **value != 0.0) {
            let bin = (f64::from(value) / width).floor() as i64 + 256;
            assert!(whole.counts()[bin as usize] > 0, "{value}");
        }
        assert!(width * 256.0 > 64.0 && width * 128.0 <= 80.0);
    }

    #[test]
    fn extreme_floats_have_bins() {
        let mut histogram = Histogram::new(64);
        histogram.observe(&[f32::from_bits(1)]).unwrap();
        histogram.observe(&[f32::MAX, f32::MIN, -1e-45]).unwrap();
        assert_eq!(histogram.total(), 4);
        assert_eq!(histogram.extremes(), Some((f32::MIN, f32::MAX)));
        assert_eq!(histogram.observe(&[1.0, f32::NAN]), Err(1));
        assert_eq!(histogram.observe(&[f32::INFINITY]), Err(0));
        assert_eq!(histogram.total(), 4);
    }
}
