//! How long a language model takes for a token in formats that it does not have yet: predicted from measured times.
//!
//! [`measure`] runs the decoder of the model itself, one token after another, with matrices of each format as large as the
//! file's would be. So each time is that of the operation, the shape and the precision that decoding uses, and weights come
//! from where they will come from: from memory, or from the cache if the model fits into it. A token of a mixture is then the
//! sum of its matrices and of the rest: attention, norms, look-ups, and what passes between steps.

mod drawn;
mod measure;

pub use measure::{SpeedOptions, measure, tokens_per_second};

use std::collections::BTreeMap;

use polaris_gguf::TensorType;
use polaris_llm::TimedStep;

use crate::PlannedTensor;

/// Nanoseconds of a token, and what they are made of.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenTimes {
    /// Of the model as it is.
    pub source: f64,
    /// Of all that is no matrix whose format is chosen.
    pub rest: f64,
    /// Of each of these matrices, by its name and formats.
    pub matrices: BTreeMap<String, Vec<(TensorType, f64)>>,
}

impl TokenTimes {
    /// Nanoseconds that a matrix takes of a token. Of one that no step multiplies with, such as a table of embeddings, it is
    /// none: what looking up a row takes is part of the rest.
    pub fn of(&self, name: &str, ty: TensorType) -> f64 {
        let formats = self.matrices.get(name).into_iter().flatten();
        formats.filter(|(of, _)| *of == ty).map(|&(_, time)| time).sum()
    }

    /// Nanoseconds of a token of a mixture.
    pub fn of_mixture(&self, types: &BTreeMap<String, TensorType>) -> f64 {
        self.rest + types.iter().map(|(name, &ty)| self.of(name, ty)).sum::<f64>()
    }
}

/// Tokens a second that take so many nanoseconds each.
pub fn rate(nanoseconds: f64) -> f64 {
    // A thousandth of a nanosecond, so that nothing is infinite.
    1e9 / nanoseconds.max(1e-3)
}

/// What was measured of a model whose matrices have some types.
#[derive(Debug, Default)]
struct Measured {
    types: BTreeMap<String, TensorType>,
    /// Seconds of whole tokens.
    whole: Vec<f64>,
    /// The steps of others.
    steps: Vec<Vec<TimedStep>>,
}

/// The times of matrices and of the rest, from measurements with several formats.
fn times(source: &[f64], all: &[Measured], tensors: &[PlannedTensor]) -> TokenTimes {
    let dims: BTreeMap<&str, &[usize]> =
        tensors.iter().map(|tensor| (tensor.name.as_str(), &tensor.dims[..])).collect();
    let mut by_role = BTreeMap::<_, Vec<f64>>::new();
    let mut rests = Vec::with_capacity(all.len());
    for measured in all {
        let whole = undisturbed(measured.whole.clone());
        let steps = each_step(&measured.steps);
        let sum: f64 = steps.iter().map(|(_, seconds)| seconds).sum();
        // Where steps overlap, each of them takes longer if it is waited for: parts of the whole are what they tell.
        let scale = if sum > whole { whole / sum } else { 1.0 };
        let mut seconds_of = BTreeMap::<&str, f64>::new();
        for (step, seconds) in steps {
            let bytes = |name: &String| {
                let ty = measured.types.get(name)?;
                ty.bytes_of(dims.get(name.as_str())?)
            };
            let total: usize = step.tensors.iter().filter_map(bytes).sum();
            for name in &step.tensors {
                let share = bytes(name).unwrap_or(0) as f64 / total.max(1) as f64;
                *seconds_of.entry(name).or_default() += scale * share * seconds;
            }
        }
        seconds_of.retain(|name, _| measured.types.contains_key(*name));
        rests.push((whole - seconds_of.values().sum::<f64>()).max(0.0));
        for (name, seconds) in seconds_of {
            let key = (role(name), dims[name], measured.types[name]);
            by_role.entry((key.0, key.1, key.2.name())).or_default().push(seconds);
        }
    }
    let mean = |list: &Vec<f64>| list.iter().sum::<f64>() / list.len().max(1) as f64;
    let mut matrices = BTreeMap::<String, Vec<(TensorType, f64)>>::new();
    for (name, &ty) in all.iter().flat_map(|measured| &measured.types) {
        let Some(dims) = dims.get(name.as_str()) else { continue };
        let formats = matrices.entry(name.clone()).or_default();
        if formats.iter().all(|(of, _)| *of != ty) {
            let seconds = by_role.get(&(role(name), dims, ty.name())).map_or(0.0, mean);
            formats.push((ty, 1e9 * seconds));
        }
    }
    TokenTimes { source: 1e9 * undisturbed(source.to_vec()), rest: 1e9 * median(rests), matrices }
}

/// What each step takes.
fn each_step(samples: &[Vec<TimedStep>]) -> Vec<(&TimedStep, f64)> {
    let first = samples.first().into_iter().flatten().enumerate();
    let seconds = |at: usize| {
        samples.iter().filter_map(|steps| steps.get(at)).map(|step| step.seconds).collect()
    };
    first.map(|(at, step)| (step, undisturbed(seconds(at)))).collect()
}

/// The lower quartile: other programs make some times longer and none shorter, and on a busy machine they disturb about half
/// of all tokens, so that the median is now one thing and now another.
fn undisturbed(times: Vec<f64>) -> f64 {
    sorted(times, |last| last / 4)
}

/// The median; of an even number the lower one.
fn median(values: Vec<f64>) -> f64 {
    sorted(values, |last| last / 2)
}

/// The value at a place between 0 and `last` in their order; of none 0.
fn sorted(mut values: Vec<f64>, place: impl Fn(usize) -> usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = place(values.len().saturating_sub(1));
    values.get(at).copied().unwrap_or(0.0)
}

/// What tensors of all layers have in common: `ffn_down.weight` of `blk.3.ffn_down.weight`.
fn role(name: &str) -> &str {
    let inner = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    inner.map_or(name, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use polaris_ops::Block;

    use super::*;

    const FEW: TensorType = TensorType::Block(Block::Q4_K);
    const MANY: TensorType = TensorType::Block(Block::Q8_0);

    fn tensor(name: &str, rows: usize) -> PlannedTensor {
        let dims = vec![rows, 256];
        let (from, reason) = (TensorType::F32, None);
        PlannedTensor { name: name.to_owned(), dims, from, to: FEW, reason }
    }

    fn step(tensors: &[&str], seconds: f64) -> TimedStep {
        let tensors: Vec<String> = tensors.iter().map(|&name| name.to_owned()).collect();
        TimedStep { label: tensors.concat(), tensors, seconds }
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6 * expected, "{found} instead of {expected}");
    }

    #[test]
    fn a_token_is_the_sum_of_its_matrices_and_of_the_rest() {
        let names = ["blk.0.q", "blk.1.q", "out", "table"];
        let tensors = names.map(|name| tensor(name, if name == "out" { 8 } else { 4 }));
        let measured = |ty: TensorType, times: [f64; 3], whole: f64| {
            let norm = step(&[], 0.001);
            let steps = |more: f64| {
                let products =
                    names.iter().zip(times).map(|(name, time)| step(&[name], time + more));
                products.chain([norm.clone()]).collect()
            };
            let types = names.iter().map(|name| ((*name).to_owned(), ty)).collect();
            // Of three, one was disturbed.
            let steps = vec![steps(0.0), steps(0.0), steps(9.0)];
            Measured { types, whole: vec![whole; 3], steps }
        };
        let few = measured(FEW, [0.010, 0.012, 0.020], 0.050);
        let many = measured(MANY, [0.020, 0.022, 0.040], 0.090);
        let times = times(&[0.2, 0.1, 0.3], &[few, many], &tensors);
        near(times.source, 1e8);
        // Layers share what was measured of both of them.
        near(times.of("blk.0.q", FEW), 1.1e7);
        near(times.of("blk.1.q", MANY), 2.1e7);
        assert_eq!(times.of("table", MANY), 0.0);
        near(times.rest, 8e6);
        let types = [("blk.0.q", FEW), ("blk.1.q", MANY), ("out", FEW), ("table", MANY)];
        let types = types.map(|(name, ty)| (name.to_owned(), ty)).into_iter().collect();
        near(times.of_mixture(&types), 8e6 + 1.1e7 + 2.1e7 + 2e7);
        near(rate(times.of_mixture(&types)), 1e9 / 6e7);
    }

    #[test]
    fn what_is_computed_at_once_is_shared_by_bytes() {
        let tensors = [tensor("blk.0.gate", 4), tensor("blk.0.up", 12)];
        let types = tensors.iter().map(|tensor| (tensor.name.clone(), FEW)).collect();
        // Waiting for each step makes the sum of the steps twice as long as the whole.
        let steps = vec![vec![step(&["blk.0.gate", "blk.0.up"], 0.06), step(&[], 0.02)]];
        let measured = Measured { types, whole: vec![0.04], steps };
        let times = times(&[0.1], &[measured], &tensors);
        near(times.of("blk.0.gate", FEW), 7.5e6);
        near(times.of("blk.0.up", FEW), 2.25e7);
        near(times.rest, 1e7);
        assert_eq!(times.of("blk.0.gate", MANY), 0.0);
    }

    #[test]
    fn nothing_measured_is_no_time() {
        let times = times(&[], &[], &[]);
        assert_eq!((times.source, times.rest, times.matrices.len()), (0.0, 0.0, 0));
        assert!(rate(0.0).is_finite());
    }
}
