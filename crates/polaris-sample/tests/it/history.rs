//! Penalties and DRY in cases worked out by hand; options; log-probabilities; breakers.

use polaris_sample::{
    Error, Mirostat, Options, Sampler, breakers, log_probability, top_log_probabilities,
};

/// The logits after bias, penalties and DRY.
fn changed(options: &Options, history: &[u32], logits: &[f32]) -> Vec<f32> {
    let options = Options { top_k: 0, top_p: 1.0, min_p: 0.0, ..options.clone() };
    let mut sampler = Sampler::new(&options, logits.len()).unwrap();
    history.iter().for_each(|&token| sampler.accept(token).unwrap());
    sampler.sample(logits).unwrap();
    assert_eq!(sampler.candidates().len(), logits.len());
    sampler.candidates().iter().map(|candidate| candidate.logit).collect()
}

#[track_caller]
fn assert_near(found: &[f32], expected: &[f32]) {
    let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4);
    assert!(near && found.len() == expected.len(), "{found:?} should be {expected:?}");
}

#[test]
fn penalties_count_the_last_tokens() {
    let options = Options {
        penalty_last_n: 3,
        penalty_repeat: 2.0,
        penalty_frequency: 0.5,
        penalty_presence: 0.25,
        ..Options::default()
    };
    let logits = [4.0, -1.0, 2.0, 1.0];
    assert_near(&changed(&options, &[], &logits), &logits);
    // Token 0 twice, token 1 once: 4/2 - 2*0.5 - 0.25 and -1*2 - 0.5 - 0.25.
    assert_near(&changed(&options, &[0, 1, 0], &logits), &[0.75, -2.75, 2.0, 1.0]);
    // Only the last three count.
    assert_near(&changed(&options, &[0, 1, 2, 2, 2], &logits), &[4.0, -1.0, -0.75, 1.0]);
    let off = Options { penalty_last_n: 0, ..options.clone() };
    assert_near(&changed(&off, &[0, 1, 2], &logits), &logits);
    // A context of any length in the place of -1, and of nothing else.
    let all = Options { penalty_last_n: -1, dry_last_n: -1, ..options.clone() };
    let known = all.for_context(5);
    assert_eq!((known.penalty_last_n, known.dry_last_n), (5, 5));
    assert_near(&changed(&known, &[0, 2, 2, 2, 2], &logits), &[1.25, -1.0, -1.25, 1.0]);
    assert_eq!(options.for_context(5), options);
    assert!(Sampler::new(&all.for_context(usize::MAX), 4).is_ok());
}

#[test]
fn dry_penalises_what_continues_a_repetition() {
    let dry = Options {
        dry_multiplier: 1.0,
        dry_base: 2.0,
        dry_allowed_length: 2,
        dry_last_n: 100,
        ..Options::default()
    };
    let zero = [0.0; 6];
    // 0 1 2 0 1 -> 2 would repeat `0 1`, of length 2: 1 * 2^0.
    assert_near(&changed(&dry, &[0, 1, 2, 0, 1], &zero), &[0.0, 0.0, -1.0, 0.0, 0.0, 0.0]);
    // A repetition of length 4: 1 * 2^2. The shorter one inside it counts less.
    let history = [3, 0, 1, 5, 2, 3, 0, 1, 5];
    assert_near(&changed(&dry, &history, &zero), &[0.0, 0.0, -4.0, 0.0, 0.0, 0.0]);
    // Too short.
    assert_near(&changed(&dry, &[0, 1, 2, 3, 1], &zero), &zero);
    // 0 0 0 0 overlaps itself: length 3.
    assert_near(&changed(&dry, &[0, 0, 0, 0], &zero), &[-2.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    // Out of reach.
    let near = Options { dry_last_n: 4, ..dry.clone() };
    assert_near(&changed(&near, &[0, 1, 2, 0, 1], &zero), &zero);
    // A breaker in the repetition: only what is behind it counts.
    let broken = Options { dry_breakers: vec![vec![0]], ..dry.clone() };
    let history = [3, 0, 1, 5, 2, 3, 0, 1, 5];
    assert_near(&changed(&broken, &history, &zero), &[0.0, 0.0, -1.0, 0.0, 0.0, 0.0]);
    // A breaker of two tokens, complete and incomplete.
    let broken = Options { dry_breakers: vec![vec![1, 5]], ..dry.clone() };
    assert_near(&changed(&broken, &history, &zero), &zero);
    let broken = Options { dry_breakers: vec![vec![5, 1]], ..dry.clone() };
    assert_near(&changed(&broken, &history, &zero), &[0.0, 0.0, -4.0, 0.0, 0.0, 0.0]);
    // A breaker is never penalised itself.
    let broken = Options { dry_breakers: vec![vec![2]], ..dry };
    assert_near(&changed(&broken, &[0, 1, 2, 0, 1], &zero), &zero);
}

#[test]
fn dry_agrees_with_comparing_all_positions() {
    let mut random = crate::Random::new(21);
    for _ in 0..300 {
        let size = 2 + random.below(5);
        let history: Vec<u32> = (0..random.below(40)).map(|_| random.below(size) as u32).collect();
        let last = 1 + random.below(45);
        let allowed = 1 + random.below(4);
        let options = Options {
            dry_multiplier: 0.5,
            dry_base: 1.5,
            dry_allowed_length: allowed as i32,
            dry_last_n: last as i32,
            ..Options::default()
        };
        let recent = &history[history.len().saturating_sub(last)..];
        let mut longest = vec![0; size];
        for end in 1..recent.len() {
            // How many tokens before `end` equal the last ones.
            let length = (1..=end)
                .take_while(|&back| recent[end - back] == recent[recent.len() - back])
                .count();
            let next = recent[end] as usize;
            longest[next] = longest[next].max(length);
        }
        let expected: Vec<f32> = longest
            .iter()
            .map(|&n| if n >= allowed { -0.5 * 1.5f32.powi((n - allowed) as i32) } else { 0.0 })
            .collect();
        let found = changed(&options, &history, &vec![0.0; size]);
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
        assert!(
            found.iter().zip(&expected).all(near),
            "{history:?} {options:?} {found:?} {expected:?}"
        );
    }
}

#[test]
fn breakers_are_tokens_with_the_text_or_its_beginning() {
    let pieces: [&[u8]; 6] = [b"a\n\nb", b"x\n", b"\n", b"y", b"", b"\n\n"];
    let found = breakers(&pieces, "\n\n", |rest| {
        assert_eq!(rest, "\n");
        vec![2]
    });
    assert_eq!(found, [vec![0], vec![1, 2], vec![2, 2], vec![5]]);
    assert!(breakers(&pieces, "", |_| Vec::new()).is_empty());
}

#[test]
fn options_outside_their_range_are_named() {
    let nan = f32::NAN;
    type Case = (&'static str, fn(&mut Options, f32), Vec<f32>);
    let cases: Vec<Case> = vec![
        ("top_p", |o, v| o.top_p = v, vec![nan, -0.1, 1.1, f32::INFINITY]),
        ("min_p", |o, v| o.min_p = v, vec![nan, -0.1, 1.5]),
        ("typical_p", |o, v| o.typical_p = v, vec![nan, 2.0]),
        ("xtc_probability", |o, v| o.xtc_probability = v, vec![nan, -1.0]),
        ("xtc_threshold", |o, v| o.xtc_threshold = v, vec![nan, 1.01]),
        ("temperature", |o, v| o.temperature = v, vec![nan, f32::INFINITY]),
        ("penalty_repeat", |o, v| o.penalty_repeat = v, vec![nan, 0.0, -1.0, 1e-45]),
        ("penalty_frequency", |o, v| o.penalty_frequency = v, vec![nan]),
        ("penalty_presence", |o, v| o.penalty_presence = v, vec![f32::NEG_INFINITY]),
        ("dry_multiplier", |o, v| o.dry_multiplier = v, vec![nan, -1.0]),
        ("dry_base", |o, v| o.dry_base = v, vec![nan, 0.5]),
        ("top_n_sigma", |o, v| o.top_n_sigma = v, vec![nan, -1.0]),
        ("mirostat_tau", |o, v| o.mirostat_tau = v, vec![nan, -1.0]),
        ("mirostat_eta", |o, v| o.mirostat_eta = v, vec![nan]),
        ("dynamic_temperature_range", |o, v| o.dynamic_temperature_range = v, vec![nan, -1.0]),
        ("top_k", |o, v| o.top_k = v as i32, vec![-2.0]),
        ("penalty_last_n", |o, v| o.penalty_last_n = v as i32, vec![-1.0, 1e9]),
        ("dry_last_n", |o, v| o.dry_last_n = v as i32, vec![-1.0]),
        ("dry_allowed_length", |o, v| o.dry_allowed_length = v as i32, vec![0.0]),
        ("logit_bias", |o, v| o.logit_bias = vec![(1, v)], vec![nan, f32::INFINITY]),
        ("logit_bias", |o, v| o.logit_bias = vec![(v as u32, 1.0)], vec![10.0]),
        ("dry_breakers", |o, v| o.dry_breakers = vec![vec![v as u32]], vec![10.0]),
        ("dry_breakers", |o, _| o.dry_breakers = vec![vec![]], vec![0.0]),
    ];
    for (option, set, values) in cases {
        for value in values {
            let mut options = Options::default();
            set(&mut options, value);
            match Sampler::new(&options, 10).unwrap_err() {
                Error::Option { name, accepted, .. } => {
                    assert_eq!(name, option);
                    assert!(!accepted.is_empty());
                }
                error => panic!("{option}: {error}"),
            }
        }
    }
    assert!(Sampler::new(&Options::default(), 0).is_err());
    let mirostat = Options { mirostat: Mirostat::V2, ..Options::default() };
    assert!(Sampler::new(&mirostat, 1).unwrap().sample(&[0.0]).is_ok());
}

#[test]
fn log_probabilities_are_those_of_the_softmax() {
    let logits = [1.0f32, 3.0, f32::NEG_INFINITY, 2.0, 3.0];
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    let top = top_log_probabilities(&logits, 3).unwrap();
    assert_eq!(top.iter().map(|entry| entry.token).collect::<Vec<_>>(), [1, 4, 3]);
    for entry in &top {
        let expected = (f64::from(logits[entry.token as usize]).exp() / sum).ln();
        assert!((entry.value - expected).abs() < 1e-6);
        assert_eq!(log_probability(&logits, entry.token).unwrap(), entry.value);
    }
    assert_eq!(top_log_probabilities(&logits, 99).unwrap().len(), 5);
    assert_eq!(log_probability(&logits, 2).unwrap(), f64::NEG_INFINITY);
    assert!(log_probability(&logits, 5).is_err());
    assert!(top_log_probabilities(&[f32::NAN], 1).is_err());
    assert!(top_log_probabilities(&[], 1).is_err());
}
