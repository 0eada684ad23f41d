//! Calibrators against their definitions in `f64`, over all values instead of counts.

use polaris_core::random::SplitMix64;
use polaris_optimize::Error;
use polaris_optimize::calibration::{Calibrator, Histogram, Histograms, Range, Source};
use polaris_optimize::integer::Grid;

const SIDE: usize = 512;
const SYMMETRIC: Grid = Grid::INT8;
const AFFINE: Grid = Grid { symmetric: false, ..Grid::INT8 };

fn normal(random: &mut SplitMix64) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

/// Distributions by name, each with as many values.
fn distributions(count: usize) -> Vec<(&'static str, Vec<f32>)> {
    let mut random = SplitMix64::new(7);
    let mut draw = |of: &dyn Fn(&mut SplitMix64) -> f64| -> Vec<f32> {
        (0..count).map(|_| of(&mut random) as f32).collect()
    };
    vec![
        ("uniform", draw(&|random| random.unit() * 3.0 - 1.0)),
        ("normal", draw(&|random| normal(random) * 0.7)),
        // The quotient of two normal numbers would have no mean; here the divisor stays away from zero.
        (
            "heavy tails",
            draw(&|random| {
                let x = normal(random) / (normal(random).abs() + 0.05);
                x * 0.1
            }),
        ),
        (
            "bimodal",
            draw(&|random| normal(random) * 0.2 + if random.unit() < 0.3 { -2.0 } else { 4.0 }),
        ),
        ("after a relu", draw(&|random| normal(random).max(0.0))),
    ]
}

/// The width of a bin, by its definition.
fn width(values: &[f32]) -> f64 {
    let reach = values.iter().fold(0.0, |most, &x| f64::max(most, f64::from(x).abs()));
    let mut width = 2f64.powi(-40);
    while width * SIDE as f64 <= reach {
        width *= 2.0;
    }
    width
}

/// So many of the values that are not zero, sorted, and their ends.
fn by_percentile(values: &[f32], percent: f64, symmetric: bool) -> Range {
    let mut sorted: Vec<f64> = values.iter().map(|&x| f64::from(x)).filter(|x| *x != 0.0).collect();
    let place = |share: f64| (share * sorted.len() as f64).ceil() as usize - 1;
    if symmetric {
        let at = place(percent / 100.0);
        sorted.iter_mut().for_each(|x| *x = x.abs());
        sorted.sort_by(f64::total_cmp);
        return Range { low: -sorted[at], high: sorted[at] };
    }
    let at = place(0.5 + percent / 200.0);
    sorted.sort_by(f64::total_cmp);
    let low = sorted[sorted.len() - 1 - at];
    Range { low: low.min(0.0), high: sorted[at].max(0.0) }
}

/// The least of the expected squared errors of all pairs of ends.
fn by_squares(values: &[f32], symmetric: bool) -> Range {
    let width = width(values);
    let values: Vec<f64> = values.iter().map(|&x| f64::from(x)).filter(|x| *x != 0.0).collect();
    let ends: Vec<f64> = (0..=SIDE).map(|bins| bins as f64 * width).collect();
    let beyond = |value: &dyn Fn(f64) -> f64| -> Vec<f64> {
        let over = |end: f64| values.iter().map(|&x| (value(x) - end).max(0.0).powi(2)).sum();
        ends.iter().map(|&end| over(end)).collect()
    };
    let noise = |step: f64| values.len() as f64 * step * step / 12.0;
    let mut best = (f64::INFINITY, Range { low: 0.0, high: 0.0 });
    if symmetric {
        for (over, &end) in beyond(&f64::abs).into_iter().zip(&ends) {
            let error = over + noise(end / 127.0);
            if error < best.0 {
                best = (error, Range { low: -end, high: end });
            }
        }
        return best.1;
    }
    let (below, above) = (beyond(&|x| -x), beyond(&|x| x));
    for (under, &low) in below.iter().zip(&ends) {
        for (over, &high) in above.iter().zip(&ends) {
            let error = under + over + noise((low + high) / 255.0);
            if error < best.0 {
                best = (error, Range { low: -low, high });
            }
        }
    }
    best.1
}

/// The divergence by its definition: two distributions over the bins of a window.
fn divergence(counts: &[f64], first: usize, end: usize, groups: usize) -> f64 {
    let window = &counts[first..end];
    let mut reference = window.to_vec();
    reference[0] += counts[..first].iter().sum::<f64>();
    *reference.last_mut().unwrap() += counts[end..].iter().sum::<f64>();
    let mut candidate = vec![0.0; window.len()];
    for group in 0..groups {
        let bins = group * window.len() / groups..(group + 1) * window.len() / groups;
        let filled = window[bins.clone()].iter().filter(|count| **count > 0.0).count();
        let sum: f64 = window[bins.clone()].iter().sum();
        for bin in bins.filter(|&bin| window[bin] > 0.0) {
            candidate[bin] = sum / filled as f64;
        }
    }
    let sums = [&reference, &candidate].map(|list| list.iter().sum::<f64>());
    let terms = reference.iter().zip(&candidate).filter(|(p, _)| **p > 0.0);
    terms.map(|(p, q)| p / sums[0] * ((p / sums[0]) / (q / sums[1])).ln()).sum()
}

fn by_entropy(values: &[f32], symmetric: bool) -> Range {
    let width = width(values);
    let mut counts = vec![0.0; 2 * SIDE];
    for x in values.iter().map(|&x| f64::from(x)).filter(|x| *x != 0.0) {
        let x = if symmetric { x.abs() } else { x };
        counts[((x / width).floor() as i64 + SIDE as i64) as usize] += 1.0;
    }
    let used = |side: &mut dyn Iterator<Item = &f64>| {
        side.enumerate().filter(|(_, count)| **count > 0.0).last().map_or(0, |(bin, _)| bin + 1)
    };
    let below = used(&mut counts[..SIDE].iter().rev());
    let above = used(&mut counts[SIDE..].iter());
    let (longer, groups) = (below.max(above), if symmetric { 128 } else { 256 });
    let mut best = (f64::INFINITY, (below, above));
    for bins in 1..=longer {
        let window = ((below * bins).div_ceil(longer), (above * bins).div_ceil(longer));
        if window.0 + window.1 > groups {
            let (first, end) = (SIDE - window.0, SIDE + window.1);
            let found = divergence(
                &counts[SIDE - below..SIDE + above],
                first + below - SIDE,
                end + below - SIDE,
                groups,
            );
            if found < best.0 {
                best = (found, window);
            }
        }
    }
    let (low, high) = (best.1.0 as f64 * width, best.1.1 as f64 * width);
    Range { low: if symmetric { -high } else { -low }, high }
}

#[test]
fn thresholds_are_those_of_the_definitions_within_a_bin() {
    // Fewer values are not zero than a share of all would leave out.
    let at = |at: i16| if at % 1500 == 7 { f32::from(at) - 2000.0 } else { 0.0 };
    let sparse = ("sparse", (0..6000).map(at).collect());
    for (name, values) in distributions(6000).into_iter().chain([sparse]) {
        let width = width(&values);
        let mut histogram = Histogram::new(SIDE);
        values.chunks(97).for_each(|chunk| histogram.observe(chunk).unwrap());
        assert_eq!(histogram.width(), width);
        let min = values.iter().fold(0.0f64, |low, &x| low.min(x.into()));
        let max = values.iter().fold(0.0f64, |high, &x| high.max(x.into()));
        for grid in [SYMMETRIC, AFFINE] {
            let symmetric = grid.symmetric;
            let most = f64::max(-min, max);
            let widest = if symmetric {
                Range { low: -most, high: most }
            } else {
                Range { low: min, high: max }
            };
            for (calibrator, wanted, bins) in [
                (Calibrator::MinMax, widest, 0.0),
                (Calibrator::Percentile(99.0), by_percentile(&values, 99.0, symmetric), 1.0),
                (Calibrator::Percentile(99.99), by_percentile(&values, 99.99, symmetric), 1.0),
                (Calibrator::Entropy, by_entropy(&values, symmetric), 1.0),
                (Calibrator::Mse, by_squares(&values, symmetric), 1.0),
            ] {
                let found = calibrator.range(&histogram, grid).unwrap();
                let apart = (found.low - wanted.low).abs().max((found.high - wanted.high).abs());
                assert!(
                    apart <= bins * width * 1.000001,
                    "{name}, {calibrator:?}, symmetric {symmetric}: {found:?} instead of {wanted:?}, bins of {width}"
                );
                assert!(found.low >= widest.low && found.high <= widest.high && found.low <= 0.0);
            }
        }
    }
}

/// The mean squared error of values that become levels.
fn measured(values: &[f32], range: Range, grid: Grid) -> f64 {
    let (lowest, highest) = grid.levels();
    let step = match grid.symmetric {
        true => range.high / f64::from(highest),
        false => (range.high - range.low) / f64::from(highest - lowest),
    };
    let error = |x: f64| {
        let inside = x.clamp(range.low, range.high);
        x - (inside / step).round_ties_even() * step
    };
    values.iter().map(|&x| error(x.into()).powi(2)).sum::<f64>() / values.len() as f64
}

#[test]
fn the_least_expected_error_is_nearly_the_least_measured_one() {
    for (name, values) in distributions(20_000) {
        let mut histogram = Histogram::new(SIDE);
        histogram.observe(&values).unwrap();
        let found = Calibrator::Mse.range(&histogram, SYMMETRIC).unwrap();
        let error = measured(&values, found, SYMMETRIC);
        let width = histogram.width();
        for bins in 1..=SIDE {
            let high = bins as f64 * width;
            let other = measured(&values, Range { low: -high, high }, SYMMETRIC);
            assert!(error <= 1.02 * other, "{name}: {error} at {found:?}, {other} at {high}");
        }
    }
}

#[test]
fn memory_does_not_depend_on_the_samples() {
    let mut histograms = Histograms::new("model", 2048);
    let mut random = SplitMix64::new(3);
    let mut after = Vec::new();
    for sample in 1..=100_000u32 {
        // The range grows over nine powers of ten meanwhile.
        let reach = f64::from(sample).powi(2) * 1e-4;
        let values = [0; 6].map(|_| ((random.unit() - 0.3) * reach) as f32);
        histograms.observe("whole", &[1, 3, 2], &values, None).unwrap();
        histograms.observe("channels", &[1, 3, 2], &values, Some(1)).unwrap();
        if sample == 100 || sample == 100_000 {
            after.push(histograms.bytes());
        }
    }
    assert_eq!(after[0], after[1]);
    assert_eq!(histograms.get("whole").unwrap().whole().total(), 600_000);
    assert_eq!(histograms.get("channels").unwrap().channels[2].total(), 200_000);
}

#[test]
fn channels_have_ranges_of_their_own() {
    let mut histograms = Histograms::new("model", SIDE);
    let values: Vec<f32> = (0..2 * 3 * 4).map(|at| (at as f32 - 11.0) * 0.5).collect();
    histograms.observe("x", &[2, 3, 4], &values, Some(1)).unwrap();
    let ranges = histograms.ranges("x", Calibrator::MinMax, AFFINE).unwrap();
    for (channel, range) in ranges.iter().enumerate() {
        let own = |low: bool| {
            let of = values.iter().enumerate().filter(|(at, _)| at / 4 % 3 == channel);
            of.fold(0.0f64, |end, (_, &x)| if low { end.min(x.into()) } else { end.max(x.into()) })
        };
        assert_eq!(*range, Range { low: own(true), high: own(false) });
    }
    let whole = histograms.range("x", Calibrator::MinMax, SYMMETRIC).unwrap();
    assert_eq!(whole, Range { low: -6.0, high: 6.0 });
    assert!(histograms.observe("x", &[1, 2, 4], &values[..8], Some(1)).is_err());
    assert!(histograms.observe("x", &[1, 3, 4], &values[..12], None).is_err());
    assert!(histograms.observe("y", &[5], &values[..4], None).is_err());
}

#[test]
fn bad_values_are_named() {
    let mut histograms = Histograms::new("model", SIDE);
    let found = histograms.observe("conv1", &[2, 2], &[0.0, 1.0, f32::NAN, 2.0], None);
    assert!(
        matches!(&found, Err(Error::NotFiniteActivation { tensor, at: 2, .. }) if tensor == "conv1"),
        "{found:?}"
    );
    let found = histograms.observe("x", &[2, 2], &[0.0, 1.0, 2.0, f32::INFINITY], Some(1));
    assert!(found.unwrap_err().to_string().contains("`x`"));
    histograms.observe("empty", &[0, 3], &[], Some(1)).unwrap();
    histograms.observe("flat", &[3], &[0.25; 3], None).unwrap();
    let range = |name: &str| histograms.range(name, Calibrator::Mse, AFFINE);
    for name in ["empty", "never seen"] {
        assert!(matches!(range(name), Err(Error::EmptyActivation { tensor }) if tensor == name));
    }
    assert!(matches!(range("flat"), Err(Error::ConstantActivation { count: 3, .. })));
    histograms.observe("flat", &[1], &[0.0], None).unwrap();
    for calibrator in [Calibrator::MinMax, Calibrator::Percentile(100.0), Calibrator::Mse] {
        let range = histograms.range("flat", calibrator, AFFINE).unwrap();
        assert_eq!(range, Range { low: 0.0, high: 0.25 }, "{calibrator:?}");
    }
    assert!(histograms.range("flat", Calibrator::Percentile(0.0), AFFINE).is_err());
}

#[test]
fn shards_are_saved_merged_and_equal_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (_, values) = distributions(4000).swap_remove(2);
    let of = |from: usize, to: usize, data: &str| {
        let mut histograms = Histograms::new("a model", SIDE);
        histograms.observe("x", &[to - from], &values[from..to], None).unwrap();
        histograms.observe("y", &[(to - from) / 4, 4], &values[from..to], Some(1)).unwrap();
        histograms.add_source(Source { data: data.to_owned(), from, to });
        histograms
    };
    let whole = of(0, 4000, "data");
    let mut merged: Option<Histograms> = None;
    for (at, from) in [(0, 0), (1, 1000), (2, 3000)].into_iter().rev() {
        let path = folder.path().join(format!("shard{at}.json"));
        let shard = of(from, [1000, 3000, 4000][at], "data");
        shard.save(&path).unwrap();
        let read = Histograms::load(&path).unwrap();
        assert_eq!(read, shard);
        match &mut merged {
            Some(merged) => merged.merge(&read).unwrap(),
            None => merged = Some(read),
        }
    }
    let merged = merged.unwrap();
    assert_eq!(merged.get("x"), whole.get("x"));
    assert_eq!(merged.get("y"), whole.get("y"));
    assert_eq!((whole.counted("data"), whole.counted("other")), (4000, 0));
    let mut other = Histograms::new("another model", SIDE);
    assert!(matches!(other.merge(&whole), Err(Error::OtherHistograms { .. })));
    let mut coarse = Histograms::new("a model", SIDE / 2);
    assert!(matches!(coarse.merge(&whole), Err(Error::Bins { .. })));
}

#[test]
fn files_that_contradict_themselves_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("histograms.json");
    let mut histograms = Histograms::new("model", 64);
    histograms.observe("x", &[4], &[0.0, 0.5, -1.0, 1.5], None).unwrap();
    histograms.save(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(Histograms::load(&path).is_ok());
    for (from, to) in [
        ("polaris.histograms/1", "polaris.histograms/9"),
        ("\"side\":64", "\"side\":63"),
        ("\"side\":64", "\"side\":4611686018427387904"),
        ("\"side\":64", "\"side\":128"),
        ("\"first\":-", "\"first\":-9000000"),
        ("\"first\":-", "\"first\":9000000"),
        ("\"counts\":[1", "\"counts\":[18446744073709551615,1"),
        ("\"exponent\":-", "\"exponent\":-1"),
        ("\"exponent\":-5", "\"exponent\":null"),
        ("\"max\":1.5", "\"max\":1e39"),
        ("\"max\":1.5", "\"max\":null"),
        ("\"channels\":[", "\"channels\":[],\"others\":["),
        ("}", ""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from} in {text}");
        std::fs::write(&path, changed).unwrap();
        let error = Histograms::load(&path).unwrap_err();
        assert!(error.to_string().contains("histograms.json"), "{error}");
    }
    // Bins that are empty take no bytes of a file, but memory.
    let empty = r#"{"exponent":null,"first":0,"counts":[],"zeros":0,"min":null,"max":null}"#;
    let channels = vec![empty; 2049].join(",");
    let large = format!(
        r#"{{"format":"polaris.histograms/1","model":"","side":65536,"sources":[],
            "tensors":[{{"name":"x","axis":1,"channels":[{channels}]}}]}}"#
    );
    std::fs::write(&path, large).unwrap();
    let error = Histograms::load(&path).unwrap_err().to_string();
    assert!(error.contains("2049 histograms of 131072 bins"), "{error}");
    assert!(matches!(Histograms::load(&folder.path().join("none")), Err(Error::Read { .. })));
    assert!(Histograms::load(folder.path()).is_err());
}
