//! The tokens that are still to choose from, and the samplers that drop some of them.
//!
//! Nothing is sorted: a sampler finds the last candidate it keeps by selection, in time proportional to their number,
//! and drops those behind it.

use std::cmp::Ordering;

use polaris_core::random::SplitMix64;

/// A token to choose from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The token.
    pub token: u32,
    /// Its logit after bias, penalties and DRY, before the temperature.
    pub logit: f32,
    /// Its probability among the candidates, with the temperature.
    pub probability: f32,
}

/// A candidate in the order of a sampler: by key, then by token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub key: f32,
    pub token: u32,
    pub weight: f32,
}

impl Entry {
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.key.total_cmp(&other.key).then(self.token.cmp(&other.token))
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Candidates {
    /// By ascending token.
    pub items: Vec<Candidate>,
    pub entries: Vec<Entry>,
}

impl Candidates {
    /// Forgets all candidates; the room depends on the vocabulary alone, so only the first token allocates.
    fn make_room(&mut self, count: usize) {
        self.items.clear();
        self.items.reserve(count);
        self.entries.clear();
        self.entries.reserve(count);
    }

    /// All tokens that are not excluded.
    pub fn fill(&mut self, scores: &[f32]) {
        self.make_room(scores.len());
        for (token, &logit) in scores.iter().enumerate() {
            if logit > f32::NEG_INFINITY {
                self.items.push(Candidate { token: token as u32, logit, probability: 0.0 });
            }
        }
    }

    /// The tokens with the `count` largest logits.
    ///
    /// Logits above the threshold gather until there are too many; a selection then keeps `count` of them, and the
    /// smallest of those is the new threshold. Few logits of a large vocabulary are ever above it.
    pub fn fill_top(&mut self, scores: &[f32], count: usize) {
        const BLOCK: usize = 32;
        let room = count.saturating_mul(4).max(1024).min(scores.len() + BLOCK);
        self.make_room(room + BLOCK);
        let mut threshold = f32::NEG_INFINITY;
        for (block, chunk) in scores.chunks(BLOCK).enumerate() {
            let above = chunk.iter().fold(false, |above, &logit| above | (logit > threshold));
            if !above {
                continue;
            }
            for (offset, &logit) in chunk.iter().enumerate() {
                if logit > threshold {
                    let token = (block * BLOCK + offset) as u32;
                    self.items.push(Candidate { token, logit, probability: 0.0 });
                }
            }
            if self.items.len() >= room {
                threshold = self.keep_top(count);
            }
        }
        self.keep_top(count);
        self.items.sort_unstable_by_key(|item| item.token);
    }

    /// Keeps the `count` largest logits in any order; the smallest of them, or -inf while there are fewer.
    fn keep_top(&mut self, count: usize) -> f32 {
        if self.items.len() < count || count == 0 {
            return f32::NEG_INFINITY;
        }
        let (_, last, _) = self.items.select_nth_unstable_by(count - 1, |a, b| {
            b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
        });
        let threshold = last.logit;
        self.items.truncate(count);
        threshold
    }

    pub fn largest(&self) -> f32 {
        self.items.iter().fold(f32::NEG_INFINITY, |largest, item| largest.max(item.logit))
    }

    /// Keeps the largest logit alone; its token.
    pub fn keep_largest(&mut self) -> u32 {
        let largest = self.largest();
        let best = self.items.iter().find(|item| item.logit == largest);
        let best = *best.expect("there should be a candidate");
        self.items.clear();
        self.items.push(Candidate { probability: 1.0, ..best });
        best.token
    }

    /// The probabilities at a temperature above 0; the logarithm of what the exponentials were divided by, if the
    /// temperature is 1.
    pub fn softmax(&mut self, temperature: f64) -> f64 {
        let largest = self.largest();
        let mut sum = 0.0;
        // A temperature so small that its inverse is infinite leaves the largest logit: 0 * inf is not computed.
        let inverse = (1.0 / temperature).min(f64::from(f32::MAX)) as f32;
        for item in &mut self.items {
            let weight = ((item.logit - largest) * inverse).exp();
            item.probability = weight;
            sum += f64::from(weight);
        }
        let scale = (1.0 / sum) as f32;
        for item in &mut self.items {
            item.probability *= scale;
        }
        f64::from(largest) + sum.ln()
    }

    /// The entropy of the probabilities at temperature 1, in nats, from the result of `softmax`.
    pub fn entropy(&self, normaliser: f64) -> f64 {
        // Without a logarithm for each candidate: the surprise is the normaliser less the logit.
        let surprise = |item: &Candidate| match f64::from(item.probability) {
            0.0 => 0.0,
            p => p * (normaliser - f64::from(item.logit)),
        };
        self.items.iter().map(surprise).sum()
    }

    /// Keeps the most probable candidates until their probabilities reach `mass`.
    pub fn top_p(&mut self, mass: f64) {
        self.softmax(1.0);
        // Together, candidates below this have less than `1 - mass`, so the cut is above it.
        let floor = ((1.0 - mass) / self.items.len() as f64) as f32 * 0.999;
        self.entries.clear();
        for item in self.items.iter().filter(|item| item.probability >= floor) {
            let (token, weight) = (item.token, item.probability);
            self.entries.push(Entry { key: -item.logit, token, weight });
        }
        if let Some(last) = last_kept(&mut self.entries, |sum| sum >= mass) {
            self.retain_up_to(last, |item| -item.logit);
        }
    }

    /// Keeps the candidates whose surprise is nearest to the entropy until their probabilities exceed `mass`.
    pub fn typical(&mut self, mass: f64) {
        let normaliser = self.softmax(1.0);
        let entropy = self.entropy(normaliser);
        let distance =
            |item: &Candidate| ((normaliser - f64::from(item.logit)) - entropy).abs() as f32;
        self.entries.clear();
        for item in &self.items {
            let (token, weight) = (item.token, item.probability);
            self.entries.push(Entry { key: distance(item), token, weight });
        }
        if let Some(last) = last_kept(&mut self.entries, |sum| sum > mass) {
            self.retain_up_to(last, distance);
        }
    }

    /// Keeps the `count` largest logits.
    pub fn top_k(&mut self, count: usize) {
        if count < self.items.len() {
            self.entries.clear();
            self.entries.extend(self.items.iter().map(|item| Entry {
                key: -item.logit,
                token: item.token,
                weight: 0.0,
            }));
            let last = *self.entries.select_nth_unstable_by(count - 1, Entry::order).1;
            self.retain_up_to(last, |item| -item.logit);
        }
    }

    fn retain_up_to(&mut self, last: Entry, key: impl Fn(&Candidate) -> f32) {
        self.items.retain(|item| {
            let entry = Entry { key: key(item), token: item.token, weight: 0.0 };
            entry.order(&last) != Ordering::Greater
        });
    }

    /// Keeps candidates at least `ratio` times as probable as the most probable one.
    pub fn min_p(&mut self, ratio: f32) {
        let smallest = self.largest() + ratio.ln();
        self.items.retain(|item| item.logit >= smallest);
    }

    /// Drops all candidates with at least the probability `threshold` but the least probable of them.
    pub fn xtc(&mut self, threshold: f32) {
        self.softmax(1.0);
        let above = self.items.iter().filter(|item| item.probability >= threshold);
        let last = above.reduce(|last, item| if item.logit <= last.logit { item } else { last });
        if let Some(last) = last.map(|item| item.token) {
            self.items.retain(|item| item.probability < threshold || item.token == last);
        }
    }

    /// Draws by the probabilities; the index of the candidate.
    pub fn draw(&self, random: &mut SplitMix64) -> usize {
        let weights = || self.items.iter().map(|item| f64::from(item.probability));
        let target = random.unit() * weights().sum::<f64>();
        let mut sum = 0.0;
        let mut last = 0;
        for (index, weight) in weights().enumerate() {
            sum += weight;
            if weight > 0.0 {
                last = index;
            }
            if sum > target {
                break;
            }
        }
        last
    }
}

/// The first entry at which the running sum of weights is enough; the last entry if it never is.
fn last_kept(mut entries: &mut [Entry], enough: impl Fn(f64) -> bool) -> Option<Entry> {
    let mut before = 0.0;
    while !entries.is_empty() {
        let middle = (entries.len() - 1) / 2;
        let (low, pivot, high) = entries.select_nth_unstable_by(middle, Entry::order);
        let below = before + low.iter().map(|entry| f64::from(entry.weight)).sum::<f64>();
        if !low.is_empty() && enough(below) {
            entries = low;
            continue;
        }
        before = below + f64::from(pivot.weight);
        if enough(before) || high.is_empty() {
            return Some(*pivot);
        }
        entries = high;
    }
    None
}

/// Excludes logits that are more than `n` standard deviations below the largest.
pub(super) fn top_n_sigma(scores: &mut [f32], n: f64) {
    let finite = || scores.iter().filter(|score| **score > f32::NEG_INFINITY);
    let count = finite().count();
    if count < 2 {
        return;
    }
    let mean = finite().map(|&score| f64::from(score)).sum::<f64>() / count as f64;
    let squares = finite().map(|&score| (f64::from(score) - mean).powi(2)).sum::<f64>();
    let largest = finite().fold(f32::NEG_INFINITY, |largest, &score| largest.max(score));
    let smallest = f64::from(largest) - n * (squares / count as f64).sqrt();
    for score in scores {
        if f64::from(*score) < smallest {
            *score = f32::NEG_INFINITY;
        }
    }
}
