//! Mirostat: keeps the surprise of the chosen tokens near a target by feedback.

use super::Sampler;
use super::candidates::Entry;

/// How many of the most probable tokens the estimate of Zipf's exponent uses.
const ESTIMATE: usize = 100;

impl Sampler {
    /// Mirostat 1: keeps as many candidates as a Zipf distribution needs for the target; the chosen index.
    pub(super) fn mirostat_v1(&mut self, temperature: f64) -> usize {
        let exponent = self.zipf_exponent(temperature);
        let epsilon = exponent - 1.0;
        let size = self.size as f64;
        let count = (epsilon * self.mu.exp2() / (1.0 - size.powf(-epsilon))).powf(1.0 / exponent);
        let all = self.candidates.items.len();
        // A flat or one-sided estimate gives no number: then every candidate stays.
        let count = if count.is_finite() { (count as usize).clamp(1, all) } else { all };
        self.candidates.top_k(count);
        self.draw_and_learn(temperature)
    }

    /// Mirostat 2: drops candidates whose surprise exceeds the limit; the chosen index.
    pub(super) fn mirostat_v2(&mut self) -> usize {
        let limit = self.mu;
        let items = &mut self.candidates.items;
        if items.iter().any(|item| surprise(item.probability) <= limit) {
            items.retain(|item| surprise(item.probability) <= limit);
        } else {
            self.candidates.keep_largest();
        }
        self.draw_and_learn(self.options.temperature.into())
    }

    /// The exponent of Zipf's law, by least squares over the most probable tokens.
    fn zipf_exponent(&mut self, temperature: f64) -> f64 {
        let candidates = &mut self.candidates;
        candidates.entries.clear();
        candidates.entries.extend(candidates.items.iter().map(|item| Entry {
            key: -item.logit,
            token: item.token,
            weight: 0.0,
        }));
        let count = candidates.entries.len().min(ESTIMATE);
        if count < candidates.entries.len() {
            candidates.entries.select_nth_unstable_by(count, Entry::order);
        }
        let top = &mut candidates.entries[..count];
        top.sort_unstable_by(Entry::order);
        let (mut products, mut squares) = (0.0, 0.0);
        for (rank, pair) in top.windows(2).enumerate() {
            let step = ((rank + 2) as f64 / (rank + 1) as f64).ln();
            let fall = (f64::from(pair[1].key) - f64::from(pair[0].key)) / temperature;
            products += step * fall;
            squares += step * step;
        }
        products / squares
    }

    fn draw_and_learn(&mut self, temperature: f64) -> usize {
        self.candidates.softmax(temperature);
        let chosen = self.candidates.draw(&mut self.random);
        let observed = surprise(self.candidates.items[chosen].probability);
        let error = observed - f64::from(self.options.mirostat_tau);
        self.mu -= f64::from(self.options.mirostat_eta) * error;
        chosen
    }
}

/// How unexpected a token is, in bits.
fn surprise(probability: f32) -> f64 {
    -f64::from(probability).log2()
}
