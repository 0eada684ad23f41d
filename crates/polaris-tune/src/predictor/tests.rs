use super::*;

/// The candidates of a tile and an unrolling for shapes on a grid, on devices of different speed.
/// The best tile grows with the shape, no two shapes are alike, and no two candidates
/// of one take equally long.
fn smooth(sizes: u64, devices: u64) -> Vec<Sample> {
    let mut samples = Vec::new();
    let numbers = |end: u64| 0..end;
    for (m, n, device) in numbers(sizes).flat_map(|m| {
        numbers(sizes).flat_map(move |n| numbers(devices).map(move |device| (m, n, device)))
    }) {
        for (tile, unroll) in (0..6).flat_map(|tile| (0..4).map(move |unroll| (tile, unroll))) {
            let [m_log, n_log, tile, unroll, speed] =
                [m, n, tile, unroll, device].map(|value| value as f64);
            let best_tile = 1.1 + (2.2 * m_log + 0.9 * n_log) / sizes as f64;
            let log = -9.0 + 0.7 * m_log + 0.5 * n_log - 0.5 * speed
                + 0.15 * (tile - best_tile).powi(2)
                + 0.113 * (unroll - 1.9).powi(2);
            samples.push(Sample {
                features: [m_log, n_log, m_log + n_log, tile, unroll, speed]
                    .map(|value| value as f32)
                    .to_vec(),
                seconds: log.exp(),
                baseline: 1.0,
                group: m * sizes + n,
                device,
            });
        }
    }
    samples
}

#[test]
fn models_predict_shapes_they_never_saw() {
    let samples = smooth(6, 1);
    for which in [Model::Forest, Model::Network, Model::Both] {
        let scores = cross_validate(&samples, which, 4, GroupBy::Shape, 1).unwrap();
        println!("{which:?} {scores:?}");
        assert_eq!((scores.samples, scores.groups), (36 * 24, 36));
        assert!(scores.r2_log > 0.95, "{which:?} {scores:?}");
        assert!(scores.spearman > 0.8 && scores.spearman_overall > 0.95, "{which:?} {scores:?}");
        let [one, five, ten] = scores.regret_at;
        assert!(one >= five && five >= ten && one < 0.2, "{which:?} {scores:?}");
    }
}

#[test]
fn ranks_are_of_one_problem_on_one_device() {
    let samples = smooth(3, 3);
    let all: Vec<&Sample> = samples.iter().collect();
    let perfect: Vec<f64> = samples.iter().map(|sample| sample.seconds).collect();
    let scores = score(&all, &perfect, 3);
    assert_eq!((scores.r2_log, scores.regret_at), (1.0, [0.0; 3]));
    // Right about the shapes and the devices, and exactly wrong about the candidates.
    let reversed: Vec<f64> = samples
        .iter()
        .map(|sample| (sample.group * 10 + sample.device) as f64 * 1e6 + 1.0 / sample.seconds)
        .collect();
    let scores = score(&all, &reversed, 3);
    assert!((scores.spearman + 1.0).abs() < 1e-12, "{scores:?}");
    assert!(scores.spearman_overall > -0.5 && scores.regret_at[0] > 1.0, "{scores:?}");
    // The mean explains nothing and orders nothing.
    let mean = perfect.iter().map(|seconds| seconds.ln()).sum::<f64>() / perfect.len() as f64;
    let scores = score(&all, &vec![mean.exp(); all.len()], 3);
    assert!(scores.r2_log.abs() < 1e-9 && scores.spearman == 0.0, "{scores:?}");

    let scores = cross_validate(&samples, Model::Forest, 9, GroupBy::Device, 1).unwrap();
    assert_eq!((scores.samples, scores.groups), (27 * 24, 3));
    assert!(scores.spearman > 0.9, "{scores:?}");
}

#[test]
fn what_is_held_out_is_never_seen() {
    // The time depends on nothing but which group it is: known if any of it was seen, and beyond
    // knowing if not.
    let mut random = Random::new(4);
    let mut samples = Vec::new();
    for group in 0..40 {
        let log = 2.0 * random.normal();
        for _ in 0..10 {
            let features = vec![group as f32, random.unit() as f32];
            samples.push(Sample {
                features,
                seconds: log.exp(),
                baseline: 1.0,
                group,
                device: group / 4,
            });
        }
    }
    let predictor = Predictor::fit(&samples, Model::Forest, 1).unwrap();
    let of = |value: &dyn Fn(&Sample) -> f64| samples.iter().map(value).collect::<Vec<f64>>();
    let truth = of(&|sample| sample.seconds.ln());
    let seen = r2(&truth, &of(&|sample| predictor.predict(&sample.features).ln()));
    // Not 1: a leaf has two samples at least, which may be of two groups.
    assert!(seen > 0.95, "{seen}");
    for by in [GroupBy::Shape, GroupBy::Device] {
        let unseen = cross_validate(&samples, Model::Forest, 5, by, 1).unwrap().r2_log;
        println!("{by:?} {unseen}");
        assert!(unseen < 0.3, "{by:?} {unseen}");
    }
}

#[test]
fn too_little_is_an_error() {
    let mut samples = smooth(2, 1);
    let one_group = cross_validate(&samples[..24], Model::Forest, 5, GroupBy::Shape, 1);
    assert!(one_group.unwrap_err().to_string().contains("one shape"));
    let one_device = cross_validate(&samples, Model::Forest, 5, GroupBy::Device, 1);
    assert!(one_device.unwrap_err().to_string().contains("one device"));
    assert!(cross_validate(&[], Model::Forest, 5, GroupBy::Shape, 1).is_err());
    samples.truncate(20);
    samples[..6].iter_mut().for_each(|sample| sample.seconds = 0.0);
    samples[6..12].iter_mut().for_each(|sample| sample.features[0] = f32::NAN);
    assert!(Predictor::fit(&samples, Model::Both, 1).is_ok(), "eight are left");
    samples[12].seconds = f64::NAN;
    let error = Predictor::fit(&samples, Model::Both, 1).unwrap_err();
    assert!(matches!(error, Error::TooFew { found: 7, needed: FEWEST }), "{error}");
}
