//! The best configuration that is known for a problem, from the nearest relative that has one.

use std::collections::{BTreeMap, HashSet};

use crate::record::{DeviceKey, Failure, Outcome, ProblemKey, Record};

/// A configuration and where its time comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The measurement it was chosen for: of several of one configuration the median one.
    pub record: Record,
    /// Whose measurement it is.
    pub from: Origin,
}

/// How near the device of a measurement is to the one that was asked for, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The same chip.
    Device,
    /// Another chip of the same architecture.
    Architecture,
    /// Another architecture of the same vendor.
    Vendor,
}

impl Origin {
    /// How near two devices are, if they have anything in common.
    pub fn between(asked: &DeviceKey, other: &DeviceKey) -> Option<Self> {
        if asked.vendor != other.vendor {
            None
        } else if asked.architecture != other.architecture {
            Some(Self::Vendor)
        } else if asked.chip != other.chip {
            Some(Self::Architecture)
        } else {
            Some(Self::Device)
        }
    }
}

/// The fastest configuration for exactly this problem: on the same chip; if nothing is known
/// there, on its architecture; if nothing is known there either, from its vendor.
///
/// What was measured goes before what was predicted, and times under the same driver go before
/// times under another one. A configuration that ever crashed or was wrong on a chip, for
/// whatever shape, is not taken from that chip; if it was on the chip that is asked for, from
/// none. Nor is what failed in any way for this shape on this chip taken over from a relative.
///
/// Times of different kernel sources are not told apart: pass the records of the current source.
pub fn best_for<'a>(
    records: impl Iterator<Item = &'a Record>,
    device: &DeviceKey,
    problem: &ProblemKey,
) -> Option<Best> {
    let mut usable = usable(records, device, problem);
    usable.retain(|(_, record)| record.problem.shape == problem.shape);
    let from = usable.iter().map(|&(origin, _)| origin).min()?;
    usable.retain(|&(origin, _)| origin == from);

    // Times of different chips, or of different worth, do not mix in one median.
    let mut times: BTreeMap<_, Vec<(f64, &Record)>> = BTreeMap::new();
    for (_, record) in usable {
        let predicted = matches!(record.outcome, Outcome::Predicted { .. });
        let worth = (predicted, record.device.driver != device.driver);
        if let Some(seconds) = record.outcome.seconds() {
            let group = (worth, &record.device.chip, &record.config);
            times.entry(group).or_default().push((seconds, record));
        }
    }
    let medians = times.into_iter().map(|((worth, ..), mut times)| {
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Of an even number the faster of the two in the middle: it must be one that exists.
        let (seconds, record) = times[(times.len() - 1) / 2];
        (worth, seconds, record)
    });
    let best = medians.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    best.map(|(_, _, record)| Best { record: record.clone(), from })
}

/// The problem nearest to this one for which [`best_for`] knows a configuration: it differs in
/// its shape alone, by at most `limit`, and is the nearest of those known for the same chip, else
/// for its architecture, else for its vendor.
///
/// The distance of two shapes is the root of the sum of the squares of log2 of the ratios: 1 is a
/// factor of two in one dimension. Shapes with different numbers of dimensions have none.
pub fn nearest_shape<'a>(
    records: impl Iterator<Item = &'a Record>,
    device: &DeviceKey,
    problem: &ProblemKey,
    limit: f64,
) -> Option<ProblemKey> {
    let near = usable(records, device, problem).into_iter().filter_map(|(origin, record)| {
        let distance = distance(&record.problem.shape, &problem.shape)?;
        (distance <= limit).then_some((origin, distance, &record.problem))
    });
    // Of equally near ones the smaller, so that the order of the records does not matter.
    let nearest = near.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(b.2)));
    nearest.map(|(_, _, problem)| problem.clone())
}

/// How far two shapes lie apart, if they have equally many dimensions.
fn distance(a: &[u64], b: &[u64]) -> Option<f64> {
    let log = |size: u64| (size.max(1) as f64).log2();
    let squares = a.iter().zip(b).map(|(&a, &b)| (log(a) - log(b)).powi(2));
    (a.len() == b.len()).then(|| squares.sum::<f64>().sqrt())
}

/// The records with a time that may be used for this problem or another shape of it.
fn usable<'a>(
    records: impl Iterator<Item = &'a Record>,
    device: &DeviceKey,
    problem: &ProblemKey,
) -> Vec<(Origin, &'a Record)> {
    let related: Vec<(Origin, &Record)> = records
        .filter(|record| record.problem.same_but_shape(problem))
        .filter_map(|record| Some((Origin::between(device, &record.device)?, record)))
        .collect();
    let mut dangerous = HashSet::new();
    let mut failed_here = HashSet::new();
    for (origin, record) in &related {
        if let Outcome::Failed { kind, .. } = record.outcome {
            if matches!(kind, Failure::Wrong | Failure::Crash) {
                dangerous.insert((&record.device.chip, &record.config));
            }
            if *origin == Origin::Device {
                failed_here.insert((&record.problem.shape, &record.config));
            }
        }
    }
    let may = |&(origin, record): &(Origin, &Record)| {
        let time = record.outcome.seconds().is_some_and(|time| time.is_finite() && time > 0.0);
        let shape_and_config = (&record.problem.shape, &record.config);
        time && !dangerous.contains(&(&record.device.chip, &record.config))
            && !dangerous.contains(&(&device.chip, &record.config))
            && (origin == Origin::Device || !failed_here.contains(&shape_and_config))
    };
    related.iter().filter(|related| may(related)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::measured;

    fn asked() -> (DeviceKey, ProblemKey) {
        let record = measured(0, 512, 1.0);
        (record.device, record.problem)
    }

    fn best(records: &[Record]) -> Option<(i64, f64, Origin)> {
        let (device, problem) = asked();
        let best = best_for(records.iter(), &device, &problem)?;
        Some((best.record.config["tile"], best.record.outcome.seconds()?, best.from))
    }

    fn failed(tile: i64, size: u64, kind: Failure) -> Record {
        let outcome = Outcome::Failed { kind, why: String::new() };
        Record { outcome, ..measured(tile, size, 1.0) }
    }

    fn on(chip: &str, architecture: &str, mut record: Record) -> Record {
        record.device.chip = chip.into();
        record.device.architecture = architecture.into();
        record
    }

    #[test]
    fn the_fastest_median_wins() {
        assert_eq!(best(&[]), None);
        let mut records = vec![measured(16, 512, 3.0), measured(32, 512, 2.0)];
        records.push(measured(64, 1024, 0.1));
        assert_eq!(best(&records), Some((32, 2.0, Origin::Device)));
        // One lucky measurement of three is none.
        records.extend([1.0, 4.0, 5.0].map(|seconds| measured(8, 512, seconds)));
        assert_eq!(best(&records), Some((32, 2.0, Origin::Device)));
        records.extend([3.9, 3.8].map(|seconds| measured(32, 512, seconds)));
        assert_eq!(best(&records), Some((16, 3.0, Origin::Device)));
        let mut other = measured(1, 512, 0.1);
        other.problem.dtype = "f16".into();
        records.push(other);
        assert_eq!(best(&records), Some((16, 3.0, Origin::Device)));
    }

    #[test]
    fn measured_goes_before_predicted_and_this_driver_before_another() {
        let mut predicted = measured(8, 512, 1.0);
        predicted.outcome = Outcome::Predicted { seconds: 0.5 };
        let mut older = measured(16, 512, 1.0);
        older.device.driver = "rusticl 24".into();
        let mut records = vec![predicted];
        assert_eq!(best(&records), Some((8, 0.5, Origin::Device)));
        records.push(older);
        assert_eq!(best(&records), Some((16, 1.0, Origin::Device)));
        records.push(measured(32, 512, 2.0));
        assert_eq!(best(&records), Some((32, 2.0, Origin::Device)));
    }

    #[test]
    fn relatives_help_where_the_chip_is_unknown() {
        let mut records = vec![on("vega10", "gcn5", measured(8, 512, 0.5))];
        assert_eq!(best(&records), Some((8, 0.5, Origin::Vendor)));
        records.push(on("polaris11", "gcn4", measured(16, 512, 2.0)));
        assert_eq!(best(&records), Some((16, 2.0, Origin::Architecture)));
        records.push(measured(32, 512, 3.0));
        assert_eq!(best(&records), Some((32, 3.0, Origin::Device)));
        records.iter_mut().for_each(|record| record.device.vendor = "another".into());
        assert_eq!(best(&records), None);
    }

    #[test]
    fn what_crashed_or_was_wrong_is_never_chosen() {
        for kind in [Failure::Wrong, Failure::Crash] {
            let mut records = vec![measured(8, 512, 1.0), failed(8, 64, kind)];
            assert_eq!(best(&records), None);
            records.push(on("polaris11", "gcn4", measured(8, 512, 1.0)));
            assert_eq!(best(&records), None);
            // A relative's failure rules out the relative's time, not one from here.
            records.push(on("polaris11", "gcn4", measured(16, 512, 1.0)));
            records.push(on("polaris11", "gcn4", failed(16, 512, kind)));
            assert_eq!(best(&records), None);
            records.push(measured(16, 512, 4.0));
            assert_eq!(best(&records), Some((16, 4.0, Origin::Device)));
        }
        let mut records = vec![measured(8, 512, 1.0), failed(8, 512, Failure::Timeout)];
        assert_eq!(best(&records), Some((8, 1.0, Origin::Device)));
        records[0] = on("polaris11", "gcn4", records[0].clone());
        assert_eq!(best(&records), None, "what timed out here is not taken over");
    }

    #[test]
    fn the_nearest_shape_is_one_that_can_be_used() {
        let (device, problem) = asked();
        let size = |records: &[Record], limit: f64| {
            nearest_shape(records.iter(), &device, &problem, limit).map(|near| near.shape[0])
        };
        let mut records = vec![measured(8, 2048, 1.0), measured(8, 256, 1.0)];
        // A factor of two in three dimensions is the root of three.
        assert_eq!((size(&records, 1.74), size(&records, 1.73)), (Some(256), None));
        records.push(measured(16, 500, 1.0));
        assert_eq!(size(&records, 2.0), Some(500));
        records.push(failed(16, 64, Failure::Wrong));
        assert_eq!(size(&records, 2.0), Some(256));
        records.push(on("polaris11", "gcn4", measured(8, 512, 1.0)));
        assert_eq!(size(&records, 2.0), Some(256));
        assert_eq!(size(&records[4..], 2.0), Some(512));
        records[4].problem.shape = vec![512, 512];
        assert_eq!(size(&records[4..], 9.0), None);
    }
}
