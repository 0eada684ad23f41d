//! Which type each tensor gets: the least loss that a budget allows.
//!
//! A multiple-choice knapsack. It is solved by dynamic programming over costs in units of a small part of the budget, rounded
//! up, so that what is chosen always fits; the Lagrangian dual says how far from the optimum that can be at most.

mod both;

pub use both::allocate_both;

use crate::{Error, Result};

/// Units that the budget is divided into. What rounding up wastes is at most an item's unit each.
const UNITS: usize = 1 << 15;
/// Halvings of the range of prices in the search for the dual's maximum, and of budgets.
const HALVINGS: usize = 60;

/// A way to store a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// What it costs: bytes, or a time in any unit.
    pub cost: u64,
    /// What it loses; losses of tensors add up.
    pub loss: f64,
}

/// A choice for each item.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// The number of the choice of each item.
    pub chosen: Vec<usize>,
    /// What they cost together.
    pub cost: u64,
    /// What they lose together.
    pub loss: f64,
    /// No choices within the budget lose less than this.
    pub bound: f64,
}

/// The choices with the least loss that cost at most `budget` together.
///
/// # Errors
/// If the cheapest choices cost more, an item has no choice, or a loss is not a number.
pub fn allocate(items: &[Vec<Choice>], budget: u64) -> Result<Allocation> {
    let items = useful(items)?;
    let least: u64 = items.iter().map(|choices| choices[0].1.cost).sum();
    if least > budget {
        return Err(Error::Budget { budget, least });
    }
    let unit = ((budget - least) / UNITS as u64).max(1);
    let room = ((budget - least) / unit) as usize;
    let by_units = by_units(&items, unit, room);
    let (by_price, bound) = by_price(&items, budget);
    let totals = |chosen: &[usize]| {
        let of = |(choices, &chosen): (&Useful, &usize)| choices[chosen].1;
        let all = || items.iter().zip(chosen).map(of);
        (all().map(|choice| choice.cost).sum(), all().map(|choice| choice.loss).sum::<f64>())
    };
    let both = [by_units, by_price].map(|chosen| (totals(&chosen), chosen));
    let [first, second] = both;
    let ((cost, loss), chosen) = if second.0.1 < first.0.1 { second } else { first };
    let chosen = items.iter().zip(chosen).map(|(choices, chosen)| choices[chosen].0).collect();
    // The sums of both are rounded.
    Ok(Allocation { chosen, cost, loss, bound: bound.min(loss) })
}

/// The cheapest choices that lose at most `loss` together, as far as [`allocate`] finds them.
///
/// # Errors
/// As [`allocate`], and if all choices lose more.
pub fn allocate_within(items: &[Vec<Choice>], loss: f64) -> Result<Allocation> {
    let all = useful(items)?;
    let ends = |at: fn(&Useful) -> Choice| all.iter().map(at);
    let least: f64 = ends(|choices| choices[choices.len() - 1].1).map(|choice| choice.loss).sum();
    if least > loss {
        return Err(Error::Loss { loss, least });
    }
    let mut low: u64 = ends(|choices| choices[0].1).map(|choice| choice.cost).sum();
    let mut high: u64 =
        ends(|choices| choices[choices.len() - 1].1).map(|choice| choice.cost).sum();
    let mut best = allocate(items, high)?;
    while low < high {
        let middle = low + (high - low) / 2;
        let found = allocate(items, middle)?;
        if found.loss <= loss {
            high = found.cost.min(middle);
            best = found;
        } else {
            low = middle + 1;
        }
    }
    Ok(best)
}

/// The choices of an item with their numbers, by cost; each loses less than all that are cheaper.
type Useful = Vec<(usize, Choice)>;

fn useful(items: &[Vec<Choice>]) -> Result<Vec<Useful>> {
    let of = |(item, choices): (usize, &Vec<Choice>)| {
        if choices.is_empty() || choices.iter().any(|choice| !choice.loss.is_finite()) {
            return Err(Error::NoChoice { item });
        }
        let mut sorted: Useful = choices.iter().copied().enumerate().collect();
        sorted.sort_by(|(_, a), (_, b)| a.cost.cmp(&b.cost).then(a.loss.total_cmp(&b.loss)));
        let mut kept: Useful = Vec::with_capacity(sorted.len());
        for (number, choice) in sorted {
            if kept.last().is_none_or(|(_, last)| choice.loss < last.loss) {
                kept.push((number, choice));
            }
        }
        Ok(kept)
    };
    items.iter().enumerate().map(of).collect()
}

/// By dynamic programming: `best[used]` is the least loss of the items so far with so many units beyond the cheapest choices.
fn by_units(items: &[Useful], unit: u64, room: usize) -> Vec<usize> {
    let mut best = vec![0.0f64; room + 1];
    let mut taken = Vec::with_capacity(items.len());
    for choices in items {
        let mut next = vec![f64::INFINITY; room + 1];
        let mut by = vec![0u32; room + 1];
        for (number, (_, choice)) in choices.iter().enumerate() {
            let more = (choice.cost - choices[0].1.cost).div_ceil(unit);
            let Some(more) = usize::try_from(more).ok().filter(|&more| more <= room) else { break };
            for used in more..=room {
                let loss = best[used - more] + choice.loss;
                if loss < next[used] {
                    (next[used], by[used]) = (loss, number as u32);
                }
            }
        }
        best = next;
        taken.push(by);
    }
    let mut used = room;
    let mut chosen = vec![0; items.len()];
    for (item, by) in taken.iter().enumerate().rev() {
        chosen[item] = by[used] as usize;
        let choices = &items[item];
        used -= (choices[chosen[item]].1.cost - choices[0].1.cost).div_ceil(unit) as usize;
    }
    chosen
}

/// By a price on cost: each item takes what is best at that price. Returns what fits at the lowest price that does, and the
/// largest of the lower bounds that prices give.
fn by_price(items: &[Useful], budget: u64) -> (Vec<usize>, f64) {
    let at = |price: f64| {
        let (mut chosen, mut cost, mut value) = (Vec::with_capacity(items.len()), 0u64, 0.0);
        for choices in items {
            let worth = |choice: &Choice| choice.loss + price * choice.cost as f64;
            let order = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
            let all = choices.iter().map(|(_, choice)| worth(choice)).enumerate();
            let (number, least) = all.min_by(order).unwrap_or((0, 0.0));
            chosen.push(number);
            cost += choices[number].1.cost;
            value += least;
        }
        (chosen, cost, value - price * budget as f64)
    };
    let (chosen, cost, value) = at(0.0);
    if cost <= budget {
        return (chosen, value);
    }
    let mut high = 1e-12;
    let (mut fitting, mut bound) = (vec![0; items.len()], value);
    let mut low = 0.0;
    // A price that nobody pays: at 1e30 even the last step of a loss is not worth a byte.
    while high < 1e30 && at(high).1 > budget {
        low = high;
        high *= 16.0;
    }
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        let (chosen, cost, value) = at(middle);
        bound = f64::max(bound, value);
        if cost <= budget {
            (high, fitting) = (middle, chosen);
        } else {
            low = middle;
        }
    }
    (fitting, bound)
}

#[cfg(test)]
mod tests {
    use polaris_core::random::SplitMix64;

    use super::*;

    fn draw(random: &mut SplitMix64, items: usize, most_cost: f64) -> Vec<Vec<Choice>> {
        let mut choices = |_| {
            let count = 1 + (random.unit() * 4.0) as usize;
            let mut choice = |_| Choice {
                cost: (random.unit() * most_cost) as u64,
                loss: random.unit().powi(3),
            };
            (0..count).map(&mut choice).collect()
        };
        (0..items).map(&mut choices).collect()
    }

    /// The least loss within a budget, by trying everything.
    fn brute(items: &[Vec<Choice>], budget: u64) -> Option<f64> {
        let Some((first, rest)) = items.split_first() else { return Some(0.0) };
        let fitting = first.iter().filter(|choice| choice.cost <= budget);
        let losses =
            fitting.filter_map(|choice| Some(choice.loss + brute(rest, budget - choice.cost)?));
        losses.min_by(f64::total_cmp)
    }

    #[test]
    fn small_problems_are_solved_as_by_trying_everything() {
        let mut random = SplitMix64::new(5);
        let mut solved = 0;
        for _ in 0..400 {
            // Fewer than UNITS, so that nothing is rounded.
            let items = draw(&mut random, 6, 100.0);
            let budget = (random.unit() * 400.0) as u64;
            match (brute(&items, budget), allocate(&items, budget)) {
                (Some(least), Ok(found)) => {
                    assert!((found.loss - least).abs() < 1e-12, "{} {least}", found.loss);
                    assert!(found.cost <= budget && found.bound <= least + 1e-9);
                    solved += 1;
                }
                (None, Err(Error::Budget { least, .. })) => assert!(least > budget),
                (least, found) => panic!("{least:?} {found:?}"),
            }
        }
        assert!(solved > 100, "{solved}");
    }

    #[test]
    fn large_problems_fit_and_are_near_the_bound() {
        let mut random = SplitMix64::new(9);
        for _ in 0..5 {
            let items = draw(&mut random, 300, 1e9);
            let all = useful(&items).unwrap();
            let least: u64 = all.iter().map(|choices| choices[0].1.cost).sum();
            let most: u64 = all.iter().map(|choices| choices.last().unwrap().1.cost).sum();
            let budget = least + (most - least) / 3;
            let found = allocate(&items, budget).unwrap();
            let cost: u64 =
                items.iter().zip(&found.chosen).map(|(choices, &at)| choices[at].cost).sum();
            assert!(cost == found.cost && cost <= budget);
            let gap = (found.loss - found.bound) / found.bound;
            assert!((0.0..0.01).contains(&gap), "{gap}");
        }
    }

    #[test]
    fn the_cheapest_within_a_loss_are_found() {
        let mut random = SplitMix64::new(2);
        for _ in 0..50 {
            let items = draw(&mut random, 5, 60.0);
            let loss = 1.0 + random.unit();
            let found = match allocate_within(&items, loss) {
                Ok(found) => found,
                Err(Error::Loss { least, .. }) => {
                    assert!(least > loss);
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            assert!(found.loss <= loss);
            if found.cost > 0 {
                let cheaper = brute(&items, found.cost - 1);
                assert!(cheaper.is_none_or(|cheaper| cheaper > loss), "{cheaper:?} {loss}");
            }
        }
    }

    #[test]
    fn what_cannot_be_chosen_is_an_error() {
        let choice = |cost, loss| Choice { cost, loss };
        assert!(matches!(allocate(&[vec![]], 1), Err(Error::NoChoice { item: 0 })));
        let items = [vec![choice(1, f64::NAN)]];
        assert!(matches!(allocate(&items, 1), Err(Error::NoChoice { item: 0 })));
        let items = [vec![choice(3, 1.0)], vec![choice(4, 0.5)]];
        let error = allocate(&items, 6).unwrap_err();
        assert!(matches!(error, Error::Budget { budget: 6, least: 7 }));
        assert_eq!(allocate(&items, 7).unwrap().loss, 1.5);
        assert_eq!(allocate(&[], 0).unwrap().cost, 0);
    }
}
