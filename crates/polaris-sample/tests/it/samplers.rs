//! Every sampler against a plain definition: sort, add up, cut.

use polaris_sample::{Error, Mask, Mirostat, Options, Sampler};

use crate::Random;

/// A candidate of the definition: token and logit.
type Pair = (u32, f64);

fn sorted(mut items: Vec<Pair>) -> Vec<Pair> {
    items.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    items
}

fn softmax(items: &[Pair], temperature: f64) -> Vec<f64> {
    let largest = items.iter().fold(f64::NEG_INFINITY, |m, item| m.max(item.1));
    let weights: Vec<f64> =
        items.iter().map(|item| ((item.1 - largest) / temperature).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

fn entropy(probabilities: &[f64]) -> f64 {
    probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum()
}

/// The candidates that are left, the largest logit first, and their probabilities. XTC acts if it is enabled.
fn expected(logits: &[f32], options: &Options) -> (Vec<Pair>, Vec<f64>) {
    let all = logits.iter().enumerate().map(|(token, &logit)| (token as u32, f64::from(logit)));
    let mut items: Vec<Pair> = all.filter(|item| item.1 > f64::NEG_INFINITY).collect();
    for item in &mut items {
        for (token, bias) in &options.logit_bias {
            if *token == item.0 {
                item.1 += f64::from(*bias);
            }
        }
    }
    items.retain(|item| item.1 > f64::NEG_INFINITY);
    if options.top_n_sigma > 0.0 {
        let count = items.len() as f64;
        let mean = items.iter().map(|item| item.1).sum::<f64>() / count;
        let variance = items.iter().map(|item| (item.1 - mean).powi(2)).sum::<f64>() / count;
        let largest = items.iter().fold(f64::NEG_INFINITY, |m, item| m.max(item.1));
        let cut = largest - f64::from(options.top_n_sigma) * variance.sqrt();
        items.retain(|item| item.1 >= cut);
    }
    let mut items = sorted(items);
    if options.top_k > 0 {
        items.truncate(options.top_k as usize);
    }
    if options.typical_p < 1.0 {
        let probabilities = softmax(&items, 1.0);
        let entropy = entropy(&probabilities);
        let mut order: Vec<usize> = (0..items.len()).collect();
        let distance = |i: usize| (-probabilities[i].ln() - entropy).abs();
        order.sort_by(|&a, &b| {
            distance(a).total_cmp(&distance(b)).then(items[a].0.cmp(&items[b].0))
        });
        let mut sum = 0.0;
        let mut kept = Vec::new();
        for index in order {
            kept.push(items[index]);
            sum += probabilities[index];
            if sum > f64::from(options.typical_p) {
                break;
            }
        }
        items = sorted(kept);
    }
    if options.top_p < 1.0 {
        let mut sum = 0.0;
        let probabilities = softmax(&items, 1.0);
        let enough = probabilities.iter().position(|p| {
            sum += p;
            sum >= f64::from(options.top_p)
        });
        items.truncate(enough.map_or(items.len(), |last| last + 1));
    }
    if options.min_p > 0.0 {
        let probabilities = softmax(&items, 1.0);
        let least = probabilities[0] * f64::from(options.min_p);
        let count = probabilities.iter().filter(|p| **p >= least * (1.0 - 1e-6)).count();
        items.truncate(count);
    }
    if options.xtc_probability > 0.0 && options.xtc_threshold <= 0.5 && items.len() > 1 {
        let probabilities = softmax(&items, 1.0);
        let above =
            probabilities.iter().filter(|p| **p >= f64::from(options.xtc_threshold)).count();
        items.drain(..above.saturating_sub(1));
    }
    let mut temperature = f64::from(options.temperature);
    let range = f64::from(options.dynamic_temperature_range);
    if range > 0.0 && items.len() > 1 {
        let low = (temperature - range).max(0.0);
        let part = entropy(&softmax(&items, 1.0)) / (items.len() as f64).ln();
        temperature = low
            + (temperature + range - low)
                * part.powf(f64::from(options.dynamic_temperature_exponent));
    }
    if temperature <= 0.0 {
        items.truncate(1);
        return (items, vec![1.0]);
    }
    let probabilities = softmax(&items, temperature);
    (items, probabilities)
}

fn compare(sampler: &Sampler, expected: (Vec<Pair>, Vec<f64>), context: &str) {
    let mut pairs: Vec<_> = expected.0.iter().map(|item| item.0).zip(expected.1).collect();
    pairs.sort_by_key(|pair| pair.0);
    let found = sampler.candidates();
    let tokens: Vec<u32> = found.iter().map(|candidate| candidate.token).collect();
    assert_eq!(tokens, pairs.iter().map(|pair| pair.0).collect::<Vec<_>>(), "{context}");
    for (candidate, (_, probability)) in found.iter().zip(pairs) {
        let difference = (f64::from(candidate.probability) - probability).abs();
        assert!(difference < 2e-5, "{context}: {candidate:?} should have {probability}");
    }
}

fn logits(random: &mut Random, count: usize, spread: f32) -> Vec<f32> {
    // Some equal ones, some excluded ones.
    let coarse = random.chance(0.3);
    let mut logits: Vec<f32> = (0..count)
        .map(|_| {
            let logit = random.normal() * spread;
            if random.chance(0.05) {
                f32::NEG_INFINITY
            } else if coarse {
                (logit * 8.0).round() / 8.0
            } else {
                logit
            }
        })
        .collect();
    logits[random.below(count)] = spread;
    logits
}

#[test]
fn every_sampler_keeps_what_its_definition_keeps() {
    let mut random = Random::new(11);
    let off = Options { top_k: 0, top_p: 1.0, min_p: 0.0, temperature: 1.0, ..Options::default() };
    for case in 0..1500 {
        let count = 2 + random.below(if case % 10 == 0 { 6000 } else { 300 });
        let spread = 0.2 + random.unit() * 4.0;
        let logits = logits(&mut random, count, spread);
        let mut options = Options { seed: case, ..off.clone() };
        // One sampler alone, or any of them together.
        let which = random.below(10);
        let mut use_it = |index: usize| which == index || (which == 9 && random.chance(0.5));
        let uses: Vec<bool> = (0..9).map(&mut use_it).collect();
        if uses[0] {
            options.top_k = 1 + random.below(count + 10) as i32;
        }
        if uses[1] {
            options.top_p = random.unit();
        }
        if uses[2] {
            options.min_p = random.unit();
        }
        if uses[3] {
            options.typical_p = random.unit();
        }
        if uses[4] {
            options.top_n_sigma = random.unit() * 3.0 + 0.01;
        }
        if uses[5] {
            (options.xtc_probability, options.xtc_threshold) = (1.0, random.unit() * 0.5);
        }
        if uses[6] {
            options.temperature = random.unit() * 2.0 - 0.2;
        }
        if uses[7] {
            options.dynamic_temperature_range = random.unit();
            options.dynamic_temperature_exponent = random.unit() * 2.0;
        }
        if uses[8] {
            let bias = |random: &mut Random| (random.below(count) as u32, random.normal());
            options.logit_bias = (0..4).map(|_| bias(&mut random)).collect();
            options.logit_bias.push((random.below(count) as u32, f32::NEG_INFINITY));
        }
        let mut sampler = Sampler::new(&options, count).unwrap();
        let Ok(token) = sampler.sample(&logits) else {
            assert!(expected(&logits, &options).0.is_empty());
            continue;
        };
        assert!(sampler.candidates().iter().any(|candidate| candidate.token == token));
        compare(&sampler, expected(&logits, &options), &format!("case {case}: {options:?}"));
    }
}

#[test]
fn greedy_takes_the_largest_logit_and_of_equal_ones_the_first() {
    let options = Options { temperature: 0.0, ..Options::default() };
    let mut sampler = Sampler::new(&options, 5).unwrap();
    assert_eq!(sampler.sample(&[0.0, 3.0, -1.0, 3.0, 2.0]).unwrap(), 1);
    let mut mask = Mask::none(5);
    mask.allow(4);
    mask.allow(3);
    assert_eq!(sampler.sample_masked(&[0.0, 3.0, -1.0, 3.0, 2.0], &mask).unwrap(), 3);
}

#[test]
fn mirostat_follows_its_definition_over_a_text() {
    for version in [Mirostat::V1, Mirostat::V2] {
        let (tau, eta, temperature) = (3.0, 0.3, 0.9);
        let options = Options {
            mirostat: version,
            mirostat_tau: tau,
            mirostat_eta: eta,
            temperature,
            seed: 5,
            ..Options::default()
        };
        let count = 500;
        let mut sampler = Sampler::new(&options, count).unwrap();
        let mut random = Random::new(3);
        let mut mu = 2.0 * f64::from(tau);
        let mut surprises = 0.0;
        for step in 0..300 {
            let all: Vec<f32> = (0..count).map(|_| random.normal() * 2.0).collect();
            let items = sorted((0..).zip(all.iter().map(|&logit| f64::from(logit))).collect());
            let probabilities = softmax(&items, temperature.into());
            let kept = match version {
                Mirostat::V2 => probabilities.iter().filter(|p| -p.log2() <= mu).count().max(1),
                _ => {
                    let (mut products, mut squares) = (0.0, 0.0);
                    for i in 0..99 {
                        let t = ((i + 2) as f64 / (i + 1) as f64).ln();
                        products += t * (probabilities[i] / probabilities[i + 1]).ln();
                        squares += t * t;
                    }
                    let s: f64 = products / squares;
                    let e = s - 1.0;
                    let k = (e * mu.exp2() / (1.0 - (count as f64).powf(-e))).powf(1.0 / s);
                    (k as usize).clamp(1, count)
                }
            };
            let left = items[..kept].to_vec();
            let probabilities = softmax(&left, temperature.into());
            let token = sampler.sample(&all).unwrap();
            compare(&sampler, (left.clone(), probabilities.clone()), &format!("step {step}"));
            let chosen = left.iter().position(|item| item.0 == token).unwrap();
            let surprise = -probabilities[chosen].log2();
            mu -= f64::from(eta) * (surprise - f64::from(tau));
            surprises += surprise;
        }
        assert!((surprises / 300.0 - f64::from(tau)).abs() < 0.3, "{version:?}: {surprises}");
    }
}

#[test]
fn extreme_logits_and_temperatures_still_give_a_token() {
    let extremes = [f32::MAX, f32::MIN, 0.0, -f32::MIN_POSITIVE, 1e38, f32::NEG_INFINITY];
    for temperature in [1e-45, 1e-3, 1.0, f32::MAX] {
        for mirostat in [Mirostat::Off, Mirostat::V1, Mirostat::V2] {
            let options = Options {
                temperature,
                mirostat,
                penalty_repeat: 1e-30,
                penalty_frequency: f32::MAX,
                penalty_presence: f32::MIN,
                dry_multiplier: f32::MAX,
                typical_p: 0.9,
                top_n_sigma: 1.0,
                logit_bias: vec![(0, f32::MAX), (1, f32::MIN)],
                ..Options::default()
            };
            let mut sampler = Sampler::new(&options, extremes.len()).unwrap();
            for _ in 0..20 {
                let token = sampler.sample(&extremes).unwrap();
                assert!(token < 5);
                sampler.accept(token).unwrap();
                let sum: f32 = sampler.candidates().iter().map(|c| c.probability).sum();
                assert!((sum - 1.0).abs() < 1e-5, "{sum}");
            }
        }
    }
}

#[test]
fn bad_logits_are_errors() {
    let mut sampler = Sampler::new(&Options::default(), 3000).unwrap();
    let mut logits = vec![0.0; 3000];
    for value in [f32::NAN, f32::INFINITY] {
        logits[2100] = value;
        let error = sampler.sample(&logits).unwrap_err();
        assert!(matches!(error, Error::Logit { token: 2100, .. }), "{error}");
    }
    assert_eq!(sampler.sample(&[0.0]).unwrap_err(), Error::Length { found: 1, expected: 3000 });
    logits.fill(f32::NEG_INFINITY);
    assert!(matches!(sampler.sample(&logits), Err(Error::NoToken { .. })));
    logits.fill(0.0);
    let nothing = Mask::none(3000);
    assert!(matches!(sampler.sample_masked(&logits, &nothing), Err(Error::NoToken { .. })));
    assert!(sampler.sample_masked(&logits, &Mask::none(2)).is_err());
    assert!(sampler.accept(3000).is_err());
    assert!(sampler.sample(&logits).is_ok());
}
