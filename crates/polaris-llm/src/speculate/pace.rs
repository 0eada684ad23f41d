//! How many tokens are worth proposing, by what was measured: the chance that a proposal is accepted, and what batches
//! of several tokens cost beside a batch of one.
//!
//! Two rules keep speculation from losing time. A length is chosen only if the tokens that it is expected to give by its
//! cost are more than one by the cost of one. And an account is kept of the time that proposals have saved and lost in
//! a generation: what may be lost in all is [`GRACE`] tokens and [`SHARE`] of the time, however wrong expectations are.

use super::MOST_PROPOSED;

/// Lengths that are considered; batches are one longer. Few, since each needs a plan, and dense where the kernels of the
/// CPU change: they read weights once for up to four tokens.
const LENGTHS: [usize; 7] = [1, 2, 3, 5, 7, 11, 15];
/// What each further token of a batch costs, as a part of a batch of one, before it was measured.
const GUESS: f64 = 0.2;
/// The weight of a new measurement in a moving average.
const NEW: f64 = 0.2;
/// The weight of a new outcome in a chance, once there are many.
const OUTCOME: f64 = 1.0 / 24.0;
/// The weight of what a chance is before anything is known, in outcomes.
const PRIOR: f64 = 4.0;
/// The gain below which nothing is proposed: what sampling and truncating take is not measured.
const LEAST_GAIN: f64 = 1.05;
/// Batches of one whose time may be lost by proposals, however short the text.
const GRACE: f64 = 1.5;
/// The part of the time of a generation that may be lost by proposals beside that.
const SHARE: f64 = 0.02;

/// The seconds of batches by their size, for an engine: they depend on the model and the device, not on the text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Costs {
    batches: [Cost; MOST_PROPOSED + 2],
    /// Of a proposed token, where a draft model computes it.
    proposal: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    seconds: f64,
    runs: u32,
}

impl Cost {
    /// The first run makes the plan, and does not count.
    fn known(&self) -> Option<f64> {
        (self.runs > 1).then_some(self.seconds)
    }
}

impl Costs {
    /// What a batch of one takes.
    fn single(&self) -> Option<f64> {
        self.batches[1].known()
    }

    /// What a batch would take, if a batch of one is known.
    fn expected(&self, size: usize) -> Option<f64> {
        let single = self.single()?;
        let known = |size: usize| Some((size, self.batches[size].known()?));
        let (nearest, seconds) = (1..=size).rev().find_map(known)?;
        Some(seconds + (size - nearest) as f64 * GUESS * single)
    }

    fn record(&mut self, size: usize, seconds: f64) {
        let cost = &mut self.batches[size];
        cost.runs = cost.runs.saturating_add(1);
        cost.seconds = match cost.runs {
            ..=2 => seconds,
            // A process that is interrupted measures the others.
            _ => cost.seconds + NEW * (seconds.min(2.0 * cost.seconds) - cost.seconds),
        };
        let Some(single) = self.single().filter(|_| size == 1) else { return };
        // A size that once seemed slow is not used, and not measured: it is forgotten slowly instead.
        for size in 2..self.batches.len() {
            let guess = single * (1.0 + GUESS * (size - 1) as f64);
            let cost = &mut self.batches[size];
            cost.seconds -= 0.01 * (cost.seconds - guess).max(0.0);
        }
    }
}

/// What a batch has shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub proposed: usize,
    pub accepted: usize,
    /// The time of the batch.
    pub seconds: f64,
    /// The time of making its proposals.
    pub proposing: f64,
}

/// What proposals of a kind are worth.
#[derive(Debug, Clone, Copy)]
struct Chance {
    prior: f64,
    value: f64,
    outcomes: f64,
}

/// The length of proposals during a generation.
#[derive(Debug)]
pub(super) struct Pace {
    chances: Vec<Chance>,
    /// Seconds that proposals have saved.
    balance: f64,
    elapsed: f64,
}

impl Pace {
    /// A pace for kinds of proposals with these chances.
    pub fn new(chances: &[f64]) -> Self {
        let chance = |&prior: &f64| Chance { prior, value: prior, outcomes: 0.0 };
        Self { chances: chances.iter().map(chance).collect(), balance: 0.0, elapsed: 0.0 }
    }

    /// Takes note of whether a token of a kind was, or would have been, accepted.
    pub fn observe(&mut self, kind: usize, accepted: bool) {
        let chance = &mut self.chances[kind];
        chance.outcomes += 1.0;
        let weight = (1.0 / (PRIOR + chance.outcomes)).max(OUTCOME);
        chance.value += weight * (f64::from(u8::from(accepted)) - chance.value);
    }

    /// Forgets a little of what is known of a kind that cannot be observed without a cost, so that it is tried again.
    pub fn hope(&mut self, kind: usize) {
        let chance = &mut self.chances[kind];
        chance.value += 0.01 * (chance.prior - chance.value).max(0.0);
    }

    /// The number of tokens to propose, at most `most`.
    pub fn length(&self, kind: usize, most: usize, costs: &Costs) -> usize {
        let Some(single) = costs.single() else { return 0 };
        let credit = self.balance + GRACE * single + SHARE * self.elapsed;
        let chance = self.chances[kind].value;
        let mut best = (LEAST_GAIN, 0);
        let (mut expected, mut product) = (1.0, 1.0);
        for length in 1..=most.min(MOST_PROPOSED) {
            product *= chance;
            expected += product;
            if !LENGTHS.contains(&length) {
                continue;
            }
            let Some(batch) = costs.expected(1 + length) else { break };
            let cost = batch + length as f64 * costs.proposal;
            let gain = expected * single / cost;
            if gain > best.0 && cost - single <= credit {
                best = (gain, length);
            }
        }
        best.1
    }

    /// Takes note of a batch.
    pub fn settle(&mut self, step: Step, costs: &mut Costs) {
        let Step { proposed, accepted, seconds, proposing } = step;
        self.elapsed += seconds + proposing;
        if proposed > 0 {
            let saved = costs.single().map(|single| (1 + accepted) as f64 * single);
            self.balance += saved.unwrap_or(0.0) - seconds - proposing;
            let each = proposing / proposed as f64;
            costs.proposal +=
                if costs.proposal == 0.0 { each } else { NEW * (each - costs.proposal) };
        }
        costs.record(1 + proposed, seconds);
    }
}
