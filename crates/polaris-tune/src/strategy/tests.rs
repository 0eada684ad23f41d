//! Every strategy on made-up machines.

use std::collections::HashSet;

use super::landscape::{EASY, FAILING, recording};
use super::{History, NAMES, Trial, by_name};
use crate::{Points, Random, Recording, Space};

/// Predictions that are mostly right within a factor of two, and have no idea of failures.
fn prior(recording: &Recording) -> Vec<f64> {
    let mut random = Random::new(77);
    let timed: Vec<f64> = recording.seconds.iter().flatten().copied().collect();
    let blurred = |seconds: &Option<f64>| {
        let seconds = seconds.or(timed.get(random.below(timed.len().max(1))).copied());
        seconds.unwrap_or(1.0) * (0.4 * random.normal()).exp()
    };
    recording.seconds.iter().map(blurred).collect()
}

/// The points a strategy proposes, at most so many.
fn proposals(name: &str, seed: u64, recording: &Recording, evaluations: usize) -> Vec<Trial> {
    let mut strategy = by_name(name, seed, Some(prior(recording))).unwrap();
    assert_eq!(strategy.name(), name);
    let mut history = History::default();
    while history.trials.len() < evaluations {
        let Some(point) = strategy.propose(&recording.points, &history) else { break };
        history.trials.push(Trial { point, seconds: recording.seconds[point] });
    }
    history.trials
}

fn small() -> Points {
    let space = Space::new("a test").parameter("a", [1, 2, 4, 8]).parameter("b", [0, 1, 2]);
    let space = space.parameter("c", [-1, 3, 5]);
    space.constraint("not all", &["a", "b"], |v| v[0] != 2 || v[1] == 1).points().unwrap()
}

#[test]
fn every_point_is_proposed_once_and_then_none() {
    let points = small();
    let count = points.len();
    let seconds =
        |point: usize| (!point.is_multiple_of(5)).then_some(1.0 + (point * 7 % 11) as f64);
    let recording = Recording { points, seconds: (0..count).map(seconds).collect() };
    let failures = Recording { points: small(), seconds: vec![None; count] };
    for name in NAMES {
        for recording in [&recording, &failures] {
            let tried = proposals(name, 3, recording, 1000);
            let distinct: HashSet<usize> = tried.iter().map(|trial| trial.point).collect();
            assert_eq!((tried.len(), distinct.len()), (count, count), "{name}");
        }
    }
}

#[test]
fn proposals_depend_on_the_seed_alone() {
    let recording = recording(&EASY, 0.05, 1);
    for name in NAMES {
        let tried = proposals(name, 5, &recording, 60);
        let distinct: HashSet<usize> = tried.iter().map(|trial| trial.point).collect();
        assert_eq!(distinct.len(), 60, "{name}");
        assert_eq!(tried, proposals(name, 5, &recording, 60), "{name}");
        if *name == "random" {
            assert_ne!(tried, proposals(name, 6, &recording, 60), "{name}");
        }
    }
}

#[test]
fn an_unknown_name_and_a_missing_prior_are_explained() {
    let error = by_name("luck", 1, None).err().unwrap().to_string();
    assert!(NAMES.iter().all(|name| error.contains(name)), "{error}");
    let error = by_name("guided", 1, None).err().unwrap().to_string();
    assert!(error.contains("guided") && error.contains("predict"), "{error}");
}

#[test]
fn a_search_goes_on_from_trials_it_did_not_make() {
    let recording = recording(&EASY, 0.05, 1);
    let earlier = (0..recording.points.len()).step_by(9);
    let trials = earlier.map(|point| Trial { point, seconds: recording.seconds[point] });
    let history = History { trials: trials.collect() };
    for name in NAMES {
        let mut strategy = by_name(name, 1, Some(prior(&recording))).unwrap();
        let next = strategy.propose(&recording.points, &history).unwrap();
        assert!(!history.has(next), "{name}");
    }
}

/// Evaluations to within 5% of the optimum for the seeds from 0, sorted; those that did not get
/// there count as all points.
fn needed(
    name: &str,
    recording: &Recording,
    seeds: u64,
    limit: usize,
    prior: Option<&Vec<f64>>,
) -> Vec<usize> {
    let optimum = recording.seconds.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    // As `replay`, but it ends where the answer is known.
    let run = |seed| {
        let mut strategy = by_name(name, seed, prior.cloned()).unwrap();
        let mut history = History::default();
        while history.trials.len() < limit {
            let Some(point) = strategy.propose(&recording.points, &history) else { break };
            let seconds = recording.seconds[point];
            history.trials.push(Trial { point, seconds });
            if seconds.is_some_and(|seconds| seconds <= 1.05 * optimum) {
                return history.trials.len();
            }
        }
        recording.points.len()
    };
    let mut all: Vec<usize> = (0..seeds).map(run).collect();
    all.sort_unstable();
    all
}

/// The greater of the two in the middle.
fn median(sorted: &[usize]) -> usize {
    sorted[sorted.len() / 2]
}

#[test]
fn annealing_and_bayesian_need_few_evaluations() {
    let recording = recording(&EASY, 0.05, 1);
    let limit = recording.points.len() * 15 / 100;
    for name in ["annealing", "bayesian"] {
        let needed = needed(name, &recording, 10, limit, None);
        assert!(median(&needed) <= limit, "{name}: {needed:?} of at most {limit}");
    }
}

#[test]
fn a_rough_prior_saves_evaluations() {
    let recording = recording(&FAILING, 0.05, 1);
    let prior = prior(&recording);
    let limit = recording.points.len() / 10;
    for name in ["annealing", "genetic", "bayesian", "guided"] {
        let needed = needed(name, &recording, 5, limit, Some(&prior));
        assert!(median(&needed) <= limit, "{name}: {needed:?} of at most {limit}");
    }
}

#[test]
fn bayesian_learns_what_fails() {
    let recording = recording(&FAILING, 0.05, 1);
    // The first trials are spread over the space, as nothing is known: they do not count.
    let (unknowing, all) = (20, 80);
    let failures = |name: &str| -> usize {
        let mut failures = 0;
        for seed in 0..3 {
            let mut strategy = by_name(name, seed, None).unwrap();
            let mut history = History::default();
            for _ in 0..all {
                let point = strategy.propose(&recording.points, &history).unwrap();
                history.trials.push(Trial { point, seconds: recording.seconds[point] });
            }
            let later = history.trials.iter().skip(unknowing);
            failures += later.filter(|trial| trial.seconds.is_none()).count();
        }
        failures
    };
    let (bayesian, random) = (failures("bayesian"), failures("random"));
    // The fastest points lie beside the failing ones, so some failures are worth their risk.
    assert!(bayesian * 2 < random, "{bayesian} failures, {random} of random search");
}
