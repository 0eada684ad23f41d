//! Mixed precision: the format of each tensor by what it loses and costs.

mod curve;

pub use curve::{curve, uniform};

use std::collections::BTreeMap;

use polaris_gguf::TensorType;

use crate::allocate::{Choice, allocate, allocate_both, allocate_within};
use crate::sensitivity::{Candidate, Sensitivity};
use crate::speed::{TokenTimes, rate};
use crate::{Error, PlannedTensor, Result};

/// What a mixture is chosen for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// At most so many bytes of tensors, those among them that keep their type.
    Bytes(u64),
    /// At most this predicted divergence from the model, in nats a token.
    Divergence(f64),
    /// At least so many times as many tokens a second as the model makes, and at most so many bytes if they are given.
    Speed {
        /// How many times as many.
        times: f64,
        /// The most bytes.
        bytes: Option<u64>,
    },
}

/// A format for each of some tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    /// The formats, by the names of tensors.
    pub types: BTreeMap<String, TensorType>,
    /// Bytes of all tensors of the model.
    pub bytes: u64,
    /// The divergence that is predicted.
    pub divergence: f64,
    /// No mixture of the same formats within the same bytes, or as fast, is predicted to diverge less than this.
    pub bound: f64,
}

/// Tensors whose formats a mixture chooses: those that the plan would bring into a block format.
pub fn choosable(tensors: &[PlannedTensor]) -> Vec<PlannedTensor> {
    let is_choosable = |tensor: &&PlannedTensor| {
        tensor.from != tensor.to && matches!(tensor.to, TensorType::Block(_))
    };
    tensors.iter().filter(is_choosable).cloned().collect()
}

/// The mixture that meets a goal best. `tensors` are all of the model, of which those with a sensitivity get a format; `times`
/// are of the same, and needed for goals of speed.
///
/// # Errors
/// If the goal cannot be met; the error says what can. If it is a speed and there are no times.
pub fn mixture(
    tensors: &[PlannedTensor],
    sensitivities: &[Sensitivity],
    times: Option<&TokenTimes>,
    goal: Goal,
) -> Result<Mixture> {
    let fixed = fixed(tensors, sensitivities);
    let items: Vec<Vec<Choice>> = sensitivities.iter().map(Sensitivity::choices).collect();
    let least = || {
        let least = |choices: &Vec<Choice>| choices.iter().map(|choice| choice.cost).min();
        items.iter().filter_map(least).sum::<u64>() + fixed
    };
    // Bytes of the tensors that are chosen for.
    let room = |budget: u64| {
        budget.checked_sub(fixed).ok_or_else(|| Error::Budget { budget, least: least() })
    };
    let of_all = |error: Error, budget: u64| match error {
        Error::Budget { least, .. } => Error::Budget { budget, least: least + fixed },
        other => other,
    };
    let found = match goal {
        Goal::Divergence(most) => allocate_within(&items, most)?,
        Goal::Bytes(budget) => {
            allocate(&items, room(budget)?).map_err(|error| of_all(error, budget))?
        }
        Goal::Speed { times: faster, bytes } => {
            let times = times.ok_or(Error::NoTimes)?;
            let room = bytes.map(|bytes| Ok::<_, Error>((bytes, room(bytes)?))).transpose()?;
            let nanoseconds = nanoseconds(sensitivities, times);
            let too_slow = |least: f64| Error::Speed {
                asked: rate(times.source / faster),
                fastest: rate(least),
                source_speed: rate(times.source),
                within_size: bytes.is_some(),
            };
            let least = || -> f64 {
                let least = |list: &Vec<u64>| list.iter().min().copied();
                nanoseconds.iter().filter_map(least).sum::<u64>() as f64 + times.rest
            };
            let budget = times.source / faster - times.rest;
            if budget.is_nan() || budget < 0.0 {
                return Err(too_slow(least()));
            }
            match room {
                Some((bytes, room)) => allocate_both(&items, &nanoseconds, room, budget as u64)
                    .map_err(|error| match error {
                        Error::Both { least, .. } => too_slow(least as f64 + times.rest),
                        other => of_all(other, bytes),
                    })?,
                None => {
                    let timed = timed(&items, &nanoseconds);
                    allocate(&timed, budget as u64).map_err(|error| match error {
                        Error::Budget { .. } => too_slow(least()),
                        other => other,
                    })?
                }
            }
        }
    };
    Ok(of_choices(&found.chosen, fixed, sensitivities, found.bound))
}

/// What each candidate takes of a token.
fn nanoseconds(sensitivities: &[Sensitivity], times: &TokenTimes) -> Vec<Vec<u64>> {
    let of = |entry: &Sensitivity| {
        let of = |candidate: &Candidate| times.of(&entry.name, candidate.ty) as u64;
        entry.candidates.iter().map(of).collect()
    };
    sensitivities.iter().map(of).collect()
}

/// Choices that cost time instead of bytes.
fn timed(items: &[Vec<Choice>], nanoseconds: &[Vec<u64>]) -> Vec<Vec<Choice>> {
    let of = |(choices, times): (&Vec<Choice>, &Vec<u64>)| {
        let timed = |(choice, &cost): (&Choice, &u64)| Choice { cost, ..*choice };
        choices.iter().zip(times).map(timed).collect()
    };
    items.iter().zip(nanoseconds).map(of).collect()
}

/// Bytes of tensors whose types are not chosen.
fn fixed(tensors: &[PlannedTensor], sensitivities: &[Sensitivity]) -> u64 {
    let names: Vec<&str> = sensitivities.iter().map(|entry| entry.name.as_str()).collect();
    let others = tensors.iter().filter(|tensor| !names.contains(&tensor.name.as_str()));
    others.map(|tensor| tensor.bytes() as u64).sum()
}

/// The mixture of some choices.
fn of_choices(chosen: &[usize], fixed: u64, sensitivities: &[Sensitivity], bound: f64) -> Mixture {
    let mut mixture = Mixture { types: BTreeMap::new(), bytes: fixed, divergence: 0.0, bound };
    for (entry, &at) in sensitivities.iter().zip(chosen) {
        let Some(candidate) = entry.candidates.get(at) else { continue };
        mixture.types.insert(entry.name.clone(), candidate.ty);
        mixture.bytes += candidate.bytes as u64;
        mixture.divergence += candidate.divergence;
    }
    mixture.bound = mixture.bound.min(mixture.divergence);
    mixture
}

#[cfg(test)]
pub(crate) mod tests {
    use polaris_ops::Block;

    use super::*;

    pub fn tensor(name: &str, to: TensorType) -> PlannedTensor {
        let dims = vec![4, 256];
        PlannedTensor { name: name.to_owned(), dims, from: TensorType::F32, to, reason: None }
    }

    pub fn sensitivity(name: &str, weight: f64) -> Sensitivity {
        let candidate = |block: Block, error: f64| {
            let ty = TensorType::Block(block);
            let bytes = tensor(name, ty).bytes();
            Candidate { ty, bytes, relative_error: error, divergence: weight * error * error }
        };
        Sensitivity {
            name: name.to_owned(),
            elements: 1024,
            probe: TensorType::Block(Block::Q4_K),
            divergence: weight,
            candidates: vec![
                candidate(Block::Q2_K, 0.3),
                candidate(Block::Q4_K, 0.07),
                candidate(Block::Q8_0, 0.005),
            ],
        }
    }

    #[test]
    fn what_matters_more_gets_more_bits() {
        let block = TensorType::Block(Block::Q4_K);
        let tensors = [tensor("a", block), tensor("b", block), tensor("norm", TensorType::F32)];
        let entries = [sensitivity("a", 0.01), sensitivity("b", 1.0)];
        assert_eq!(choosable(&tensors).len(), 2);
        let norm = 4 * 1024;
        // 336, 576 and 1088 bytes: room for the smallest and the largest.
        let goal = Goal::Bytes(336 + 1088 + norm);
        let found = mixture(&tensors, &entries, None, goal).unwrap();
        assert_eq!(found.types["a"], TensorType::Block(Block::Q2_K));
        assert_eq!(found.types["b"], TensorType::Block(Block::Q8_0));
        assert_eq!(found.bytes, 336 + 1088 + norm);
        let within = mixture(&tensors, &entries, None, Goal::Divergence(found.divergence)).unwrap();
        assert_eq!(within.types, found.types);
        let error = mixture(&tensors, &entries, None, Goal::Bytes(norm)).unwrap_err();
        assert!(
            matches!(error, Error::Budget { budget, least } if budget == norm && least == 672 + norm)
        );
    }

    /// The same for both tensors: a byte takes a nanosecond, and what is no matrix takes 1,000.
    pub fn times(source: f64) -> TokenTimes {
        let formats = [(Block::Q2_K, 336.0), (Block::Q4_K, 576.0), (Block::Q8_0, 1088.0)];
        let formats = formats.map(|(block, time)| (TensorType::Block(block), time)).to_vec();
        let matrices = ["a", "b"].map(|name| (name.to_owned(), formats.clone()));
        TokenTimes { source, rest: 1000.0, matrices: matrices.into_iter().collect() }
    }

    #[test]
    fn formats_are_chosen_for_a_speed() {
        let block = TensorType::Block(Block::Q4_K);
        let tensors = [tensor("a", block), tensor("b", block), tensor("norm", TensorType::F32)];
        let entries = [sensitivity("a", 0.01), sensitivity("b", 1.0)];
        let times = times(4848.0);
        let at = |faster: f64, bytes: Option<u64>| {
            mixture(&tensors, &entries, Some(&times), Goal::Speed { times: faster, bytes })
        };
        // 2,424 nanoseconds: 1,000, 336 and 1,088.
        let found = at(2.0, None).unwrap();
        assert_eq!(found.types["a"], TensorType::Block(Block::Q2_K));
        assert_eq!(found.types["b"], TensorType::Block(Block::Q8_0));
        assert_eq!(times.of_mixture(&found.types), 2424.0);
        assert!(found.bound <= found.divergence);
        let slow = at(1.0, None).unwrap();
        assert!(slow.types.values().all(|&ty| ty == TensorType::Block(Block::Q8_0)));
        for faster in [3.0, 5.0] {
            let error = at(faster, None).unwrap_err();
            let fastest = rate(1000.0 + 2.0 * 336.0);
            assert!(
                matches!(error, Error::Speed { fastest: found, within_size: false, .. } if found == fastest),
                "{error}"
            );
            assert!(error.to_string().contains("2.90 times as many"), "{error}");
        }
        // Fewer bytes than what is fast enough would have.
        let norm = 4 * 1024;
        let small = at(2.0, Some(norm + 336 + 576)).unwrap();
        assert_eq!(small.types["b"], TensorType::Block(Block::Q4_K));
        assert_eq!(small.bytes, norm + 336 + 576);
        let error = at(3.0, Some(norm + 2 * 1088)).unwrap_err();
        assert!(error.to_string().contains("within that size"), "{error}");
        let error = at(2.0, Some(norm + 671)).unwrap_err();
        assert!(matches!(error, Error::Budget { least, .. } if least == norm + 672), "{error}");
        let error = mixture(&tensors, &entries, None, Goal::Speed { times: 2.0, bytes: None });
        assert!(matches!(error, Err(Error::NoTimes)));
    }
}
