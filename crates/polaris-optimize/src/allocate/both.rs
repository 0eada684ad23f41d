//! Two budgets at once: a price on the second one, paid as loss, and the first one as [`allocate`] keeps it.

use super::{Allocation, Choice, allocate};
use crate::{Error, Result};

/// Prices that are tried between one that is too low and one that is not.
const TRIED: usize = 24;
/// The factor between prices that are tried before.
const FACTOR: f64 = 16.0;
/// Beyond so many factors the second cost alone decides.
const MOST_FACTORS: usize = 16;

/// The choices with the least loss that cost at most `budget` together, and whose `seconds` (the second costs, as
/// many for each item as it has choices) are at most `most`. Choices that are found meet both; that nothing else is better
/// is not certain, but the bound holds.
///
/// # Errors
/// As [`allocate`] if the first budget cannot be met, and [`Error::Both`] if the second cannot be met within it.
pub fn allocate_both(
    items: &[Vec<Choice>],
    seconds: &[Vec<u64>],
    budget: u64,
    most: u64,
) -> Result<Allocation> {
    let totals = |chosen: &[usize]| {
        let (mut second, mut loss) = (0, 0.0);
        for ((choices, seconds), &at) in items.iter().zip(seconds).zip(chosen) {
            second += seconds.get(at).copied().unwrap_or(0);
            loss += choices[at].loss;
        }
        (second, loss)
    };
    // Losses at a price; without one, the second costs alone.
    let at = |price: Option<f64>| -> Result<(Allocation, u64)> {
        let priced = |(choice, &second): (&Choice, &u64)| {
            let loss = price.map_or(second as f64, |price| choice.loss + price * second as f64);
            Choice { loss, ..*choice }
        };
        let priced: Vec<Vec<Choice>> = (items.iter().zip(seconds))
            .map(|(choices, seconds)| choices.iter().zip(seconds).map(priced).collect())
            .collect();
        let mut found = allocate(&priced, budget)?;
        let (second, loss) = totals(&found.chosen);
        // What is paid for all of the second budget bounds what is paid by any choice that meets it.
        let paid = price.map_or(f64::INFINITY, |price| price * most as f64);
        (found.bound, found.loss) = (found.bound - paid, loss);
        Ok((found, second))
    };
    let (free, second) = at(Some(0.0))?;
    if second <= most {
        return Ok(free);
    }
    let (fastest, least) = at(None)?;
    if least > most {
        return Err(Error::Both { budget, most, least });
    }
    let (mut bound, mut best) = (free.bound, fastest);
    let mut note = |(found, second): (Allocation, u64)| {
        bound = f64::max(bound, found.bound);
        let is_met = second <= most;
        if is_met && found.loss < best.loss {
            best = found;
        }
        is_met
    };
    // A price at which all of the second budget is worth a small part of the loss.
    let mut low = 0.0;
    let mut high = 1e-6 * free.loss.max(1e-12) / most.max(1) as f64;
    for _ in 0..MOST_FACTORS {
        if note(at(Some(high))?) {
            break;
        }
        low = high;
        high *= FACTOR;
    }
    for _ in 0..TRIED {
        let middle = if low > 0.0 { (low * high).sqrt() } else { high / 2.0 };
        if note(at(Some(middle))?) { high = middle } else { low = middle }
    }
    Ok(Allocation { bound: bound.min(best.loss), ..best })
}

#[cfg(test)]
mod tests {
    use polaris_core::random::SplitMix64;

    use super::*;

    /// The least loss within both budgets, by trying everything.
    fn brute(items: &[Vec<(Choice, u64)>], budget: u64, most: u64) -> Option<f64> {
        let Some((first, rest)) = items.split_first() else { return Some(0.0) };
        let fits = |(choice, second): &&(Choice, u64)| choice.cost <= budget && *second <= most;
        let losses = first.iter().filter(fits).filter_map(|(choice, second)| {
            Some(choice.loss + brute(rest, budget - choice.cost, most - second)?)
        });
        losses.min_by(f64::total_cmp)
    }

    #[test]
    fn both_budgets_hold_and_the_optimum_is_near() {
        let mut random = SplitMix64::new(11);
        let (mut solved, mut optimal) = (0, 0);
        for _ in 0..150 {
            let mut choice = |_| {
                let cost = (random.unit() * 100.0) as u64;
                (Choice { cost, loss: random.unit().powi(3) }, (random.unit() * 100.0) as u64)
            };
            let items: Vec<Vec<_>> = (0..6).map(|_| (0..4).map(&mut choice).collect()).collect();
            let [budget, most] = [0, 0].map(|_: u64| 100 + (random.unit() * 250.0) as u64);
            let firsts: Vec<Vec<Choice>> =
                items.iter().map(|all| all.iter().map(|one| one.0).collect()).collect();
            let seconds: Vec<Vec<u64>> =
                items.iter().map(|all| all.iter().map(|one| one.1).collect()).collect();
            let least = brute(&items, budget, most);
            match allocate_both(&firsts, &seconds, budget, most) {
                Ok(found) => {
                    let second: u64 =
                        seconds.iter().zip(&found.chosen).map(|(list, &at)| list[at]).sum();
                    assert!(found.cost <= budget && second <= most);
                    let least = least.expect("what was found should be possible");
                    assert!(found.bound <= least + 1e-9 && found.loss >= least - 1e-9);
                    solved += 1;
                    optimal += usize::from(found.loss < least + 1e-9);
                }
                Err(Error::Both { least: fastest, .. }) => {
                    assert!(least.is_none() && fastest > most);
                }
                Err(Error::Budget { .. }) => assert!(least.is_none()),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(solved > 80 && optimal > solved / 2, "{optimal} of {solved}");
    }
}
