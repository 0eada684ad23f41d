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

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs of batches that take `1 + each * (size - 1)` seconds.
    fn costs(each: f64) -> Costs {
        let mut costs = Costs::default();
        for size in 1..=MOST_PROPOSED + 1 {
            (0..3).for_each(|_| costs.record(size, 1.0 + each * (size - 1) as f64));
        }
        costs
    }

    /// The pace after so many tokens that took a second each.
    fn pace(chance: f64, seconds: usize) -> Pace {
        let mut pace = Pace::new(&[chance]);
        pace.elapsed = seconds as f64;
        pace
    }

    #[test]
    fn nothing_is_proposed_before_a_token_was_measured() {
        let mut unknown = Costs::default();
        assert_eq!(pace(0.9, 100).length(0, 15, &unknown), 0);
        // The first run makes the plan.
        unknown.record(1, 50.0);
        assert_eq!(pace(0.9, 100).length(0, 15, &unknown), 0);
        unknown.record(1, 1.0);
        assert!(pace(0.9, 100).length(0, 15, &unknown) > 0);
    }

    #[test]
    fn the_length_follows_chances_and_costs() {
        assert_eq!(pace(0.0, 1000).length(0, 15, &costs(0.1)), 0);
        assert_eq!(pace(0.1, 1000).length(0, 15, &costs(0.1)), 0);
        assert_eq!(pace(0.99, 1000).length(0, 15, &costs(0.01)), 15);
        assert_eq!(pace(0.99, 1000).length(0, 4, &costs(0.01)), 3);
        assert_eq!(pace(0.99, 1000).length(0, 0, &costs(0.01)), 0);
        // Batches that cost as much as their tokens one by one cannot gain.
        assert_eq!(pace(1.0, 1000).length(0, 15, &costs(1.0)), 0);
        let middle = pace(0.6, 1000).length(0, 15, &costs(0.1));
        assert!((2..=5).contains(&middle), "{middle}");
        // A draft model that takes a third of a token for each.
        let mut drafted = costs(0.1);
        drafted.proposal = 0.3;
        assert!(pace(0.6, 1000).length(0, 15, &drafted) < middle);
    }

    /// However hopeful it is, proposals that are always refused cost no more than the account allows.
    #[test]
    fn losses_are_bounded() {
        for each in [0.05, 0.3, 0.9] {
            for (tokens, allowed) in [(20, 0.1), (100, 0.05), (1000, 0.03)] {
                let mut costs = costs(each);
                let mut pace = Pace::new(&[0.9]);
                let mut seconds = 0.0;
                for _ in 0..tokens {
                    // The estimate stays as wrong as it can be.
                    pace.chances[0].value = 0.95;
                    let proposed = pace.length(0, 15, &costs);
                    let step = Step {
                        proposed,
                        accepted: 0,
                        seconds: 1.0 + each * proposed as f64,
                        proposing: 0.0,
                    };
                    seconds += step.seconds;
                    pace.settle(step, &mut costs);
                }
                let lost = seconds / f64::from(tokens) - 1.0;
                assert!(lost < allowed, "{each}: {lost} of {tokens} tokens");
            }
        }
    }

    #[test]
    fn chances_are_learned_and_refusals_end_proposals() {
        let costs = costs(0.2);
        let mut pace = pace(0.8, 1000);
        assert!(pace.length(0, 15, &costs) > 0);
        (0..40).for_each(|_| pace.observe(0, false));
        assert_eq!(pace.length(0, 15, &costs), 0);
        (0..40).for_each(|_| pace.observe(0, true));
        assert!(pace.length(0, 15, &costs) > 0);
        // What cannot be observed is tried again after a while.
        (0..80).for_each(|_| pace.observe(0, false));
        assert_eq!(pace.length(0, 15, &costs), 0);
        (0..200).for_each(|_| pace.hope(0));
        assert!(pace.length(0, 15, &costs) > 0);
    }

    /// A size that was slow once is measured again.
    #[test]
    fn a_bad_measurement_is_forgotten() {
        let mut costs = costs(0.1);
        (0..30).for_each(|_| costs.record(4, 9.0));
        let slow = costs.expected(4).unwrap();
        (0..400).for_each(|_| costs.record(1, 1.0));
        assert!(slow > 5.0 && costs.expected(4).unwrap() < 1.8);
    }
}
