//! What was measured, as plain data: printed as JSON, shown as a table, kept in files.

use polaris_runtime::DeviceId;
use serde::Serialize;

use super::cases::{Dims, Numbers, Transpose};

/// Everything of one run.
#[derive(Debug, Serialize)]
pub struct Results {
    /// The version that was measured.
    pub polaris: &'static str,
    /// When it was measured.
    pub date: String,
    /// The command that gives these results again.
    pub command: String,
    /// The devices, with what they are known to reach.
    pub devices: Vec<DeviceFacts>,
    /// A row for each variant in each case.
    pub results: Vec<Row>,
    /// Ours by each peer's, type by type.
    pub summary: Vec<Summary>,
    /// Cases that could not be measured.
    pub skipped: Vec<Skipped>,
}

/// A device that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceFacts {
    /// Its number among the devices.
    pub device: DeviceId,
    /// What its driver calls it.
    pub device_name: String,
    /// The key of its chip.
    pub chip: String,
    /// The platform.
    pub platform: String,
    /// The driver's version.
    pub driver: String,
    /// Threads of a CPU.
    pub threads: Option<usize>,
    /// Measured FP32 arithmetic.
    pub peak_gflops: f64,
    /// Measured memory, read plus written.
    pub memory_gbs: f64,
    /// Libraries that were measured in the same turns.
    pub peers: Vec<PeerFacts>,
}

/// A library that was found.
#[derive(Debug, Clone, Serialize)]
pub struct PeerFacts {
    /// Its name.
    pub name: &'static str,
    /// Its version, as it says itself.
    pub version: String,
}

/// One variant in one case.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The device.
    pub device: DeviceId,
    /// Its name.
    pub device_name: String,
    /// The type of the operands.
    pub dtype: Numbers,
    /// How they are stored.
    pub transpose: Transpose,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Elements of each sum.
    pub k: usize,
    /// Threads of a CPU.
    pub threads: Option<usize>,
    /// What was measured.
    pub variant: String,
    /// The kernel behind it, if a device has several.
    pub kernel: Option<String>,
    /// Operations a second, in billions.
    pub gflops: f64,
    /// Microseconds of a call, the median.
    pub us: f64,
    /// Operations for each byte that has to be moved.
    pub intensity: f64,
    /// Of what the device can reach at this intensity.
    pub roofline_share: Option<f64>,
    /// The relative error, or how many integers are wrong; nothing where it is not a number.
    pub error: Option<f64>,
    /// The samples' standard deviation by their mean.
    pub cv: f64,
    /// How many there were.
    pub samples: usize,
    /// Its time by the plain product's, if it does more.
    pub time_by_plain: Option<f64>,
    /// Of a streamed product, by the device's clock.
    pub overlap: Option<OverlapRow>,
    /// Other libraries in the same case.
    pub peers: Vec<PeerRow>,
}

/// How long a streamed product copied and computed, and for how long it did both.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OverlapRow {
    /// Copies under way.
    pub copying_ms: f64,
    /// Products under way.
    pub computing_ms: f64,
    /// Both at once.
    pub both_ms: f64,
}

/// Another library in the same case.
#[derive(Debug, Clone, Serialize)]
pub struct PeerRow {
    /// Its name.
    pub name: &'static str,
    /// What it reaches.
    pub gflops: f64,
    /// Ours by theirs.
    pub ratio: f64,
    /// Its error.
    pub error: Option<f64>,
    /// Its spread.
    pub cv: f64,
}

/// Ours by a peer's, over all cases of a type.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The device.
    pub device: DeviceId,
    /// The type.
    pub dtype: Numbers,
    /// Ours.
    pub variant: String,
    /// Theirs.
    pub peer: &'static str,
    /// How many cases there were.
    pub cases: usize,
    /// Of the ratios.
    pub geometric_mean: f64,
    /// The lowest ratio.
    pub minimum: f64,
    /// Where the minimum was.
    pub minimum_at: String,
}

/// A case that could not be measured.
#[derive(Debug, Clone, Serialize)]
pub struct Skipped {
    /// The device.
    pub device: DeviceId,
    /// The type.
    pub dtype: Numbers,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Elements of each sum.
    pub k: usize,
    /// Why not.
    pub reason: String,
}

impl Row {
    /// Its size.
    pub fn dims(&self) -> Dims {
        Dims { m: self.m, n: self.n, k: self.k }
    }

    /// Its error, or the number of wrong integers, as text.
    pub fn error_text(&self) -> String {
        match self.error {
            None => "NaN".to_owned(),
            Some(error) if self.dtype.dtype().is_float() => format!("{error:.1e}"),
            Some(error) => format!("{error:.0} wrong"),
        }
    }
}

/// A speed in three or four digits that mean something.
pub fn speed_text(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// JSON has no word for what is not a number; an error that is none is left out.
pub(super) fn finite(error: f64) -> Option<f64> {
    error.is_finite().then_some(error)
}

/// The ratios of each variant to each peer, over all cases of a device and type.
pub(super) fn summarise(rows: &[Row]) -> Vec<Summary> {
    let mut summaries: Vec<Summary> = Vec::new();
    for row in rows {
        for peer in &row.peers {
            let of_same = |summary: &&mut Summary| {
                (summary.device, summary.dtype) == (row.device, row.dtype)
                    && summary.variant == row.variant
                    && summary.peer == peer.name
            };
            let place = format!("{} {}", row.dims(), row.transpose.name());
            match summaries.iter_mut().find(of_same) {
                Some(summary) => {
                    summary.cases += 1;
                    // The mean of logarithms, one more at a time.
                    let mean = summary.geometric_mean.ln();
                    let step = (peer.ratio.ln() - mean) / summary.cases as f64;
                    summary.geometric_mean = (mean + step).exp();
                    if peer.ratio < summary.minimum {
                        (summary.minimum, summary.minimum_at) = (peer.ratio, place);
                    }
                }
                None => summaries.push(Summary {
                    device: row.device,
                    dtype: row.dtype,
                    variant: row.variant.clone(),
                    peer: peer.name,
                    cases: 1,
                    geometric_mean: peer.ratio,
                    minimum: peer.ratio,
                    minimum_at: place,
                }),
            }
        }
    }
    summaries
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A row of a square product.
    pub fn row(size: usize, gflops: f64, ratio: f64) -> Row {
        let peer =
            PeerRow { name: "Peer", gflops: gflops / ratio, ratio, error: Some(1e-7), cv: 0.01 };
        Row {
            device: DeviceId::Cpu,
            device_name: "Some <CPU>".into(),
            dtype: Numbers::F32,
            transpose: Transpose::Nn,
            m: size,
            n: size,
            k: size,
            threads: Some(2),
            variant: "default".into(),
            kernel: None,
            gflops,
            us: 1.0,
            intensity: size as f64 / 6.0,
            roofline_share: Some(0.5),
            error: Some(1e-7),
            cv: 0.02,
            samples: 9,
            time_by_plain: None,
            overlap: None,
            peers: vec![peer],
        }
    }

    #[test]
    fn ratios_are_summed_up_by_geometric_mean_and_minimum() {
        let rows = [row(512, 10.0, 2.0), row(1024, 10.0, 0.5), row(2048, 10.0, 1.0)];
        let summaries = summarise(&rows);
        assert_eq!(summaries.len(), 1);
        assert!((summaries[0].geometric_mean - 1.0).abs() < 1e-12);
        assert_eq!((summaries[0].cases, summaries[0].minimum), (3, 0.5));
        assert_eq!(summaries[0].minimum_at, "1024x1024x1024 nn");
    }
}
