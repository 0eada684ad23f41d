//! Histograms in files.
//!
//! JSON, so that scripts can read it:
//!
//! ```json
//! {"format": "polaris.histograms/1", "model": "...", "side": 2048,
//!  "sources": [{"data": "images", "from": 0, "to": 128}],
//!  "tensors": [{"name": "conv1", "axis": null, "channels": [
//!    {"exponent": -9, "first": -3, "counts": [1, 0, 7], "zeros": 12, "min": -0.005, "max": 0.0}]}]}
//! ```
//!
//! Bin `k` holds the values from `k` to below `k + 1` times 2 to the power of `exponent`, which is null where there is
//! nothing but zeros; `counts` begin with the bin `first`, and those that are left out are zero. Zeros themselves are counted
//! by `zeros`. There are `side` bins on each side of zero.

use std::path::Path;

use polaris_core::ErrorKind;
use serde::{Deserialize, Serialize};

use super::{Histogram, Histograms, TensorHistogram};
use crate::{Error, Result};

const FORMAT: &str = "polaris.histograms/1";

/// Bytes of a file, at most: some thousand tensors with a range each, or some hundred with one for each channel.
const MOST_BYTES: u64 = 1 << 30;

/// Bins of a file in all, at most: 2 GiB in memory. Bins that are empty take no bytes of a file.
const MOST_BINS: usize = 1 << 28;

/// Samples that have been counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// What data they are of.
    pub data: String,
    /// The first of them.
    pub from: usize,
    /// What follows the last of them.
    pub to: usize,
}

#[derive(Serialize, Deserialize)]
struct File {
    format: String,
    model: String,
    side: usize,
    sources: Vec<Source>,
    tensors: Vec<Tensor>,
}

#[derive(Serialize, Deserialize)]
struct Tensor {
    name: String,
    axis: Option<usize>,
    channels: Vec<Channel>,
}

#[derive(Serialize, Deserialize)]
struct Channel {
    exponent: Option<i32>,
    first: i64,
    counts: Vec<u64>,
    zeros: u64,
    min: Option<f32>,
    max: Option<f32>,
}

impl Histograms {
    /// Adds samples to what has been counted; those that follow others of the same data join them.
    pub fn add_source(&mut self, source: Source) {
        let follows = |other: &&mut Source| other.data == source.data && other.to == source.from;
        match self.sources.iter_mut().find(follows) {
            Some(other) => other.to = source.to,
            None => self.sources.push(source),
        }
    }

    /// Samples from the beginning of some data that have been counted.
    pub fn counted(&self, data: &str) -> usize {
        let own = self.sources.iter().filter(|source| source.data == data && source.from == 0);
        own.map(|source| source.to).max().unwrap_or(0)
    }

    /// Writes a file, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let tensors = self.tensors.iter().map(|(name, tensor)| Tensor {
            name: name.clone(),
            axis: tensor.axis,
            channels: tensor.channels.iter().map(Channel::of).collect(),
        });
        let file = File {
            format: FORMAT.to_owned(),
            model: self.model.clone(),
            side: self.side,
            sources: self.sources.clone(),
            tensors: tensors.collect(),
        };
        let bytes = serde_json::to_vec(&file).map_err(|error| failed(path, error.to_string()))?;
        polaris_files::write_atomic(path, &bytes).map_err(|error| Error::Write {
            path: path.to_owned(),
            why: format!("{error}{}", polaris_files::write_advice(&error)),
            kind: ErrorKind::of_io(&error),
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is no file of histograms, or contradicts itself.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = polaris_files::read(path, MOST_BYTES).map_err(|error| Error::Read {
            path: path.to_owned(),
            why: error.to_string(),
            kind: ErrorKind::of_io(&error),
        })?;
        let file: File =
            serde_json::from_slice(&bytes).map_err(|error| failed(path, error.to_string()))?;
        if file.format != FORMAT {
            let why = format!("its format is {:?}; {FORMAT:?} is read", file.format);
            return Err(failed(path, why));
        }
        let sides = Histogram::SIDES;
        if !sides.contains(&file.side) || !file.side.is_power_of_two() {
            let why = format!(
                "it has {} bins on a side; a power of two in {sides:?} is accepted",
                file.side
            );
            return Err(failed(path, why));
        }
        let channels: usize = file.tensors.iter().map(|tensor| tensor.channels.len()).sum();
        let bins = channels.saturating_mul(2 * file.side);
        if bins > MOST_BINS {
            let why = format!(
                "{channels} histograms of {} bins have {bins} in all; at most {MOST_BINS} are read",
                2 * file.side
            );
            return Err(failed(path, why));
        }
        let mut histograms = Self::new(&file.model, file.side);
        histograms.sources = file.sources;
        if let Some(source) = histograms.sources.iter().find(|source| source.from > source.to) {
            let why = format!("samples {} to {} of {:?}", source.from, source.to, source.data);
            return Err(failed(path, why));
        }
        for tensor in file.tensors {
            let wrong = |what: &str| failed(path, format!("the tensor {:?} {what}", tensor.name));
            let read = |channel: &Channel| channel.read(file.side);
            let channels: Option<Vec<Histogram>> = tensor.channels.iter().map(read).collect();
            let channels = channels.ok_or_else(|| wrong("contradicts itself"))?;
            if tensor.axis.is_none() && channels.len() != 1 {
                return Err(wrong("has channels and no axis"));
            }
            let made = TensorHistogram { axis: tensor.axis, channels };
            if histograms.tensors.insert(tensor.name.clone(), made).is_some() {
                return Err(wrong("is there twice"));
            }
        }
        Ok(histograms)
    }
}

impl Channel {
    fn of(histogram: &Histogram) -> Self {
        let counts = histogram.counts();
        let first = counts.iter().position(|&count| count > 0);
        let last = counts.iter().rposition(|&count| count > 0);
        let used = first.zip(last).map_or(0..0, |(first, last)| first..last + 1);
        let extremes = histogram.extremes();
        Self {
            exponent: histogram.exponent(),
            first: used.start as i64 - histogram.side() as i64,
            counts: counts[used].to_vec(),
            zeros: histogram.zeros(),
            min: extremes.map(|(min, _)| min),
            max: extremes.map(|(_, max)| max),
        }
    }

    fn read(&self, side: usize) -> Option<Histogram> {
        let extremes = match (self.min, self.max) {
            (Some(min), Some(max)) => Some((min, max)),
            (None, None) => None,
            _ => return None,
        };
        let counts = (self.first, self.counts.as_slice());
        Histogram::of_parts(side, self.exponent, counts, self.zeros, extremes)
    }
}

fn failed(path: &Path, why: String) -> Error {
    Error::HistogramFile { path: path.to_owned(), why }
}
