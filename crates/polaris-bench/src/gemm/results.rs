//! What was measured, as plain data: printed as JSON, shown as a table, kept in files.

use polaris::DeviceId;
use serde::Serialize;

use super::cases::{Dims, Numbers, Transpose};

/// Everything of one run.
#[derive(Debug, Serialize)]
pub struct Results {
    pub polaris: &'static str,
    pub date: String,
    pub command: String,
    pub devices: Vec<DeviceFacts>,
    pub results: Vec<Row>,
    pub summary: Vec<Summary>,
    pub skipped: Vec<Skipped>,
}

/// A device that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceFacts {
    pub device: DeviceId,
    pub device_name: String,
    pub chip: String,
    pub platform: String,
    pub driver: String,
    pub threads: Option<usize>,
    pub peak_gflops: f64,
    pub memory_gbs: f64,
    pub peers: Vec<PeerFacts>,
}

/// A library that was found.
#[derive(Debug, Clone, Serialize)]
pub struct PeerFacts {
    pub name: &'static str,
    pub version: String,
}

/// One variant in one case.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub device: DeviceId,
    pub device_name: String,
    pub dtype: Numbers,
    pub transpose: Transpose,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub threads: Option<usize>,
    pub variant: String,
    pub kernel: Option<String>,
    pub gflops: f64,
    pub us: f64,
    /// Operations for each byte that has to be moved.
    pub intensity: f64,
    pub roofline_share: Option<f64>,
    pub error: Option<f64>,
    pub cv: f64,
    pub samples: usize,
    /// Its time by the plain product's, if it does more.
    pub time_by_plain: Option<f64>,
    /// Of a streamed product, by the device's clock.
    pub overlap: Option<OverlapRow>,
    pub peers: Vec<PeerRow>,
}

/// How long a streamed product copied and computed, and for how long it did both.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OverlapRow {
    pub copying_ms: f64,
    pub computing_ms: f64,
    pub both_ms: f64,
}

/// Another library in the same case.
#[derive(Debug, Clone, Serialize)]
pub struct PeerRow {
    pub name: &'static str,
    pub gflops: f64,
    /// Ours by theirs.
    pub ratio: f64,
    pub error: Option<f64>,
    pub cv: f64,
}

/// Ours by a peer's, over all cases of a type.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    pub device: DeviceId,
    pub dtype: Numbers,
    pub variant: String,
    pub peer: &'static str,
    pub cases: usize,
    pub geometric_mean: f64,
    pub minimum: f64,
    /// Where the minimum was.
    pub minimum_at: String,
}

/// A case that could not be measured.
#[derive(Debug, Clone, Serialize)]
pub struct Skipped {
    pub device: DeviceId,
    pub dtype: Numbers,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub reason: String,
}

impl Row {
    pub fn dims(&self) -> Dims {
        Dims { m: self.m, n: self.n, k: self.k }
    }
}

/// JSON has no word for what is not a number; an error that is none is left out.
pub fn finite(error: f64) -> Option<f64> {
    error.is_finite().then_some(error)
}

/// The ratios of each variant to each peer, over all cases of a device and type.
pub fn summarise(rows: &[Row]) -> Vec<Summary> {
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
pub mod tests {
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
