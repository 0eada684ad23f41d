//! How often tokens are drawn: against their probabilities, and the same for the same seed.

use polaris_sample::{Options, Sampler};

use crate::Random;

const LOGITS: [f32; 8] = [0.0, 1.0, 2.0, -1.0, 0.5, 1.5, -2.0, 0.25];
const DRAWS: usize = 40_000;

fn counts(options: &Options) -> [usize; 8] {
    let mut sampler = Sampler::new(options, LOGITS.len()).unwrap();
    let mut counts = [0; 8];
    for _ in 0..DRAWS {
        counts[sampler.sample(&LOGITS).unwrap() as usize] += 1;
    }
    counts
}

fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
    let weights: Vec<f64> =
        logits.iter().map(|&logit| (f64::from(logit) / temperature).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// Pearson's statistic; tokens that cannot be drawn must not be.
fn chi_square(counts: &[usize; 8], probabilities: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (&count, &probability) in counts.iter().zip(probabilities) {
        let expected = probability * DRAWS as f64;
        if probability == 0.0 {
            assert_eq!(count, 0);
        } else {
            sum += (count as f64 - expected).powi(2) / expected;
        }
    }
    sum
}

/// The 99.9% quantile for seven degrees of freedom, and so a bound for fewer.
const LIMIT: f64 = 24.32;

#[test]
fn draws_follow_the_probabilities() {
    let off = Options { top_k: 0, top_p: 1.0, min_p: 0.0, ..Options::default() };
    for (seed, temperature) in [(1, 0.5), (2, 0.8), (3, 1.0), (4, 2.0)] {
        let counts = counts(&Options { seed, temperature, ..off.clone() });
        let statistic = chi_square(&counts, &softmax(&LOGITS, temperature.into()));
        assert!(statistic < LIMIT, "seed {seed}: {statistic}");
    }
    // The test can fail: another temperature is another distribution.
    let counts = counts(&Options { seed: 5, temperature: 0.9, ..off });
    assert!(chi_square(&counts, &softmax(&LOGITS, 0.8)) > LIMIT);
}

#[test]
fn draws_after_top_k_follow_the_probabilities_of_the_rest() {
    let options = Options {
        seed: 6,
        top_k: 3,
        top_p: 1.0,
        min_p: 0.0,
        temperature: 1.0,
        ..Options::default()
    };
    let mut kept = LOGITS;
    for (token, logit) in kept.iter_mut().enumerate() {
        if ![1, 2, 5].contains(&token) {
            *logit = f32::NEG_INFINITY;
        }
    }
    assert!(chi_square(&counts(&options), &softmax(&kept, 1.0)) < LIMIT);
}

#[test]
fn xtc_acts_as_often_as_it_should() {
    let options = Options {
        seed: 7,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        temperature: 1.0,
        xtc_probability: 0.4,
        xtc_threshold: 0.15,
        ..Options::default()
    };
    let all = softmax(&LOGITS, 1.0);
    let last =
        (0..8).filter(|&t| all[t] >= 0.15).min_by(|&a, &b| all[a].total_cmp(&all[b])).unwrap();
    let dropped: Vec<f64> =
        (0..8).map(|t| if all[t] >= 0.15 && t != last { 0.0 } else { all[t] }).collect();
    assert!(dropped.iter().filter(|p| **p == 0.0).count() > 0);
    let sum: f64 = dropped.iter().sum();
    let mixed: Vec<f64> = all.iter().zip(&dropped).map(|(p, q)| 0.6 * p + 0.4 * q / sum).collect();
    assert!(chi_square(&counts(&options), &mixed) < LIMIT);
}

#[test]
fn the_seed_decides_all_tokens() {
    let mut random = Random::new(9);
    let steps: Vec<Vec<f32>> =
        (0..50).map(|_| (0..1000).map(|_| random.normal()).collect()).collect();
    let options = |seed| Options {
        seed,
        penalty_repeat: 1.1,
        dry_multiplier: 0.8,
        xtc_probability: 0.5,
        xtc_threshold: 0.01,
        ..Options::default()
    };
    let text = |sampler: &mut Sampler| -> Vec<u32> {
        let mut tokens = Vec::new();
        for logits in &steps {
            let token = sampler.sample(logits).unwrap();
            sampler.accept(token).unwrap();
            tokens.push(token);
        }
        tokens
    };
    let mut first = Sampler::new(&options(1), 1000).unwrap();
    let tokens = text(&mut first);
    assert_eq!(text(&mut Sampler::new(&options(1), 1000).unwrap()), tokens);
    assert_ne!(text(&mut Sampler::new(&options(2), 1000).unwrap()), tokens);
    assert_ne!(text(&mut first), tokens, "without a reset, it goes on");
    first.reset();
    assert_eq!(text(&mut first), tokens);
}
