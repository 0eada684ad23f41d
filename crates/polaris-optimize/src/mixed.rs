//! Mixed precision: the format of each tensor by what it loses and costs.

use std::collections::BTreeMap;

use polaris_gguf::TensorType;

use crate::allocate::{Choice, allocate, allocate_within};
use crate::sensitivity::Sensitivity;
use crate::{Error, PlannedTensor, Result};

/// What a mixture is chosen for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// At most so many bytes of tensors, those among them that keep their type.
    Bytes(u64),
    /// At most this predicted divergence from the model, in nats a token.
    Divergence(f64),
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
    /// No mixture of the same formats within the same bytes is predicted to diverge less than this.
    pub bound: f64,
}

/// Tensors whose formats a mixture chooses: those that the plan would bring into a block format.
pub fn choosable(tensors: &[PlannedTensor]) -> Vec<PlannedTensor> {
    let is_choosable = |tensor: &&PlannedTensor| {
        tensor.from != tensor.to && matches!(tensor.to, TensorType::Block(_))
    };
    tensors.iter().filter(is_choosable).cloned().collect()
}

/// The mixture that meets a goal best. `tensors` are all of the model, of which those with a sensitivity get a format.
///
/// # Errors
/// If the goal cannot be met; the error says what can.
pub fn mixture(
    tensors: &[PlannedTensor],
    sensitivities: &[Sensitivity],
    goal: Goal,
) -> Result<Mixture> {
    let names: Vec<&str> = sensitivities.iter().map(|entry| entry.name.as_str()).collect();
    let others = tensors.iter().filter(|tensor| !names.contains(&tensor.name.as_str()));
    let fixed: u64 = others.map(|tensor| tensor.bytes() as u64).sum();
    let items: Vec<Vec<Choice>> = sensitivities.iter().map(Sensitivity::choices).collect();
    let found = match goal {
        Goal::Divergence(most) => allocate_within(&items, most)?,
        Goal::Bytes(budget) if budget < fixed => {
            let least = |choices: &Vec<Choice>| choices.iter().map(|choice| choice.cost).min();
            let least: u64 = items.iter().filter_map(least).sum();
            return Err(Error::Budget { budget, least: least + fixed });
        }
        Goal::Bytes(budget) => {
            allocate(&items, budget.saturating_sub(fixed)).map_err(|error| match error {
                Error::Budget { least, .. } => Error::Budget { budget, least: least + fixed },
                other => other,
            })?
        }
    };
    let chosen = sensitivities.iter().zip(&found.chosen);
    let types = chosen.map(|(entry, &at)| (entry.name.clone(), entry.candidates[at].ty)).collect();
    Ok(Mixture { types, bytes: found.cost + fixed, divergence: found.loss, bound: found.bound })
}

#[cfg(test)]
mod tests {
    use polaris_ops::Block;

    use super::*;
    use crate::sensitivity::Candidate;

    fn tensor(name: &str, to: TensorType) -> PlannedTensor {
        let dims = vec![4, 256];
        PlannedTensor { name: name.to_owned(), dims, from: TensorType::F32, to, reason: None }
    }

    fn sensitivity(name: &str, weight: f64) -> Sensitivity {
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
        let found = mixture(&tensors, &entries, goal).unwrap();
        assert_eq!(found.types["a"], TensorType::Block(Block::Q2_K));
        assert_eq!(found.types["b"], TensorType::Block(Block::Q8_0));
        assert_eq!(found.bytes, 336 + 1088 + norm);
        let within = mixture(&tensors, &entries, Goal::Divergence(found.divergence)).unwrap();
        assert_eq!(within.types, found.types);
        let error = mixture(&tensors, &entries, Goal::Bytes(norm)).unwrap_err();
        assert!(
            matches!(error, Error::Budget { budget, least } if budget == norm && least == 672 + norm)
        );
    }
}
