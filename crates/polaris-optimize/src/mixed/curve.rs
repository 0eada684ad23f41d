//! What a mixture is compared with: the best ones of other sizes or speeds, and formats that all tensors have.

use polaris_gguf::TensorType;

use super::{Mixture, fixed, nanoseconds, of_choices, timed};
use crate::allocate::{Choice, allocate};
use crate::sensitivity::{Candidate, Sensitivity};
use crate::speed::TokenTimes;
use crate::{PlannedTensor, Result};

/// The best mixtures, from the smallest to the one that loses least, about so many: of sizes that are evenly apart, or with
/// times of a token that are.
///
/// # Errors
/// If a loss is not a number.
pub fn curve(
    tensors: &[PlannedTensor],
    sensitivities: &[Sensitivity],
    times: Option<&TokenTimes>,
    points: usize,
) -> Result<Vec<Mixture>> {
    let fixed = fixed(tensors, sensitivities);
    let mut items: Vec<Vec<Choice>> = sensitivities.iter().map(Sensitivity::choices).collect();
    if let Some(times) = times {
        items = timed(&items, &nanoseconds(sensitivities, times));
    }
    let cheapest = |choices: &Vec<Choice>| choices.iter().map(|choice| choice.cost).min();
    let best = |choices: &Vec<Choice>| {
        let best = |a: &&Choice, b: &&Choice| a.loss.total_cmp(&b.loss).then(a.cost.cmp(&b.cost));
        choices.iter().min_by(best).map(|choice| choice.cost)
    };
    let least: u64 = items.iter().filter_map(cheapest).sum();
    let most: u64 = items.iter().filter_map(best).sum();
    let steps = points.saturating_sub(1).max(1) as u64;
    let mut curve = Vec::with_capacity(points);
    for step in 0..=steps {
        let budget =
            least + (u128::from(most - least) * u128::from(step) / u128::from(steps)) as u64;
        let found = allocate(&items, budget)?;
        curve.push(of_choices(&found.chosen, fixed, sensitivities, found.bound));
    }
    curve.dedup_by(|a, b| a.types == b.types);
    Ok(curve)
}

/// Each format that tensors can get, in all of them, by its name and by rising size. Tensors whose rows do not fill its blocks
/// get the one of about as many bits.
pub fn uniform(
    tensors: &[PlannedTensor],
    sensitivities: &[Sensitivity],
) -> Vec<(TensorType, Mixture)> {
    let fixed = fixed(tensors, sensitivities);
    let count = sensitivities.iter().map(|entry| entry.candidates.len()).max().unwrap_or(0);
    let largest = sensitivities.iter().filter(|entry| entry.candidates.len() == count);
    let Some(largest) = largest.max_by_key(|entry| entry.elements) else { return Vec::new() };
    let of = |(number, named): (usize, &Candidate)| {
        // By bits, since there are fewer formats for some.
        let bits = |candidate: &Candidate| {
            candidate.ty.block_bytes() as f64 / candidate.ty.block_elements() as f64
        };
        let nearest = |entry: &Sensitivity| {
            let distance = |at: &usize| (bits(&entry.candidates[*at]) - bits(named)).abs();
            let same = entry.candidates.get(number).filter(|candidate| candidate.ty == named.ty);
            let nearest =
                (0..entry.candidates.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)));
            same.map(|_| number).or(nearest).unwrap_or(0)
        };
        let chosen: Vec<usize> = sensitivities.iter().map(nearest).collect();
        let mixture = of_choices(&chosen, fixed, sensitivities, f64::INFINITY);
        (named.ty, Mixture { bound: mixture.divergence, ..mixture })
    };
    largest.candidates.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use polaris_ops::Block;

    use super::super::tests::{sensitivity, tensor, times};
    use super::*;

    #[test]
    fn uniform_formats_are_points_beside_mixtures() {
        let block = TensorType::Block(Block::Q4_K);
        let tensors = [tensor("a", block), tensor("norm", TensorType::F32)];
        let all = uniform(&tensors, &[sensitivity("a", 1.0)]);
        let types: Vec<_> = all.iter().map(|(ty, _)| ty.name()).collect();
        assert_eq!(types, ["Q2_K", "Q4_K", "Q8_0"]);
        assert_eq!(all[1].1.bytes, 4 * 1024 + 576);
        assert!(uniform(&tensors, &[]).is_empty());
    }

    #[test]
    fn curves_fall_from_the_smallest_to_the_best() {
        let block = TensorType::Block(Block::Q4_K);
        let tensors = [tensor("a", block), tensor("b", block)];
        let entries = [sensitivity("a", 0.01), sensitivity("b", 1.0)];
        let times = times(5000.0);
        for times in [None, Some(&times)] {
            let curve = curve(&tensors, &entries, times, 9).unwrap();
            assert_eq!((curve[0].bytes, curve.last().unwrap().bytes), (672, 2176));
            assert!(curve.len() > 4 && curve.is_sorted_by(|a, b| a.divergence > b.divergence));
        }
        assert_eq!(curve(&[], &[], None, 5).unwrap().len(), 1);
    }
}
