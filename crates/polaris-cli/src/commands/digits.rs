//! The digits model that is built in: handwritten digits, read as ONNX on every device.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use polaris::DeviceRef;
use polaris::graph::{Mode, Options, Session as Model};
use polaris::nn::export::Onnx;
use polaris::nn::train::{ModelFile, load_data};
use polaris::onnx::{Model as Graph, NoExternalData, Tensor};
use serde::Serialize;

use crate::output::print_line;
use crate::session::Session;

/// What `polaris train digits` made.
const MODEL: &[u8] = include_bytes!("../../models/digits.safetensors");
/// Pixels of a side.
const SIDE: usize = 8;
/// Pictures that are shown.
const SHOWN: usize = 4;

/// The model as other engines would get it, and the digits that it did not learn from.
pub struct Digits {
    graph: Graph,
    images: Tensor,
    labels: Vec<i64>,
}

/// How a device reads them.
#[derive(Debug, Serialize)]
pub struct ReadDigits {
    pub device: String,
    pub digits: usize,
    pub right: usize,
    /// Digits a second, once everything is built.
    pub per_second: f64,
    /// The likeliest class of each.
    #[serde(skip)]
    predicted: Vec<i64>,
}

/// A digit as a person sees it.
#[derive(Debug, Serialize)]
pub struct Picture {
    pub digit: i64,
    pub predicted: i64,
    /// From top to bottom, two characters for each pixel.
    pub rows: Vec<String>,
}

impl Digits {
    /// Exports the model and gathers the digits that were kept for validation.
    pub fn new(session: &Session) -> anyhow::Result<Self> {
        let cpu = session.runtime.cpu();
        let (about, module) = ModelFile::decode(Path::new("the built-in model"), MODEL, cpu)?;
        let onnx = Onnx::of(&about, &*module)?;
        let graph = Graph::from_bytes(onnx.bytes.into(), &NoExternalData)?;
        let data = load_data(&about.config, Path::new(""), None)?;
        let kept = data.validation.context("the built-in model has no digits to test with")?;
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        for batch in kept.epoch(0, 0) {
            let batch = batch?;
            let (inputs, targets) = (batch.inputs.as_f32(), batch.targets.as_i64());
            pixels.extend_from_slice(inputs.context("digits should be of f32")?);
            labels.extend_from_slice(targets.context("digits should have classes")?);
        }
        let images = Tensor::new(&[labels.len(), 1, SIDE, SIDE], pixels)?;
        Ok(Self { graph, images, labels })
    }

    /// Reads all of them on a device, at once.
    pub fn read(&self, session: &Session, device: &DeviceRef) -> anyhow::Result<ReadDigits> {
        let mode = match device.as_cpu() {
            Some(_) => Mode::Cpu,
            None => Mode::Gpu,
        };
        let options = Options {
            mode,
            device: Some(device.clone()),
            cancellation: Some(crate::interrupt::token()),
            ..Options::default()
        };
        let model = Model::new(&session.runtime, self.graph.clone(), &options)?;
        // Once, so that it is planned and kernels are built.
        model.run_tensors(vec![self.images.clone()])?;
        let begin = Instant::now();
        let outputs = model.run_tensors(vec![self.images.clone()])?;
        let seconds = begin.elapsed().as_secs_f64();
        let scores = outputs.first().context("the model gives nothing")?.to_f64()?;
        let predicted = likeliest(&scores, self.labels.len())?;
        let right = predicted.iter().zip(&self.labels).filter(|(a, b)| a == b).count();
        let digits = self.labels.len();
        let per_second = digits as f64 / seconds;
        Ok(ReadDigits { device: device.id().to_string(), digits, right, per_second, predicted })
    }

    /// A few of them with what a device took them for: different digits, and one that it took for another,
    /// if there is one.
    pub fn pictures(&self, read: &ReadDigits) -> anyhow::Result<Vec<Picture>> {
        let wrong = (0..self.labels.len()).find(|&at| read.predicted[at] != self.labels[at]);
        let mut shown: Vec<usize> = Vec::new();
        for at in 0..self.labels.len() {
            let new = shown.iter().all(|&other| self.labels[other] != self.labels[at]);
            if new && shown.len() + usize::from(wrong.is_some()) < SHOWN && Some(at) != wrong {
                shown.push(at);
            }
        }
        shown.extend(wrong);
        let pixels = self.images.values::<f32>()?;
        let picture = |at: usize| Picture {
            digit: self.labels[at],
            predicted: read.predicted[at],
            rows: (pixels[at * SIDE * SIDE..][..SIDE * SIDE].chunks(SIDE).map(shades)).collect(),
        };
        Ok(shown.into_iter().map(picture).collect())
    }
}

/// The class with the highest score of each digit.
fn likeliest(scores: &[f64], digits: usize) -> anyhow::Result<Vec<i64>> {
    let classes = scores.len() / digits.max(1);
    ensure!(classes > 0 && classes * digits == scores.len(), "the model gives no classes");
    let best = |row: &[f64]| {
        let mut best = 0;
        for (class, score) in row.iter().enumerate() {
            if *score > row[best] {
                best = class;
            }
        }
        best as i64
    };
    Ok(scores.chunks(classes).map(best).collect())
}

/// A row of pixels from 0 to 1 as text; two characters are about as wide as they are high.
fn shades(pixels: &[f32]) -> String {
    const SHADES: [char; 6] = [' ', '.', ':', '+', '#', '@'];
    let shade =
        |pixel: &f32| SHADES[(pixel.clamp(0.0, 1.0) * (SHADES.len() - 1) as f32).round() as usize];
    pixels.iter().map(shade).flat_map(|shade| [shade; 2]).collect()
}

/// Prints pictures side by side, each above what it was taken for.
pub fn print_pictures(pictures: &[Picture]) -> anyhow::Result<()> {
    for row in 0..SIDE {
        let line: Vec<&str> = pictures.iter().map(|picture| picture.rows[row].as_str()).collect();
        print_line(format!("  {}", line.join("  ")).trim_end())?;
    }
    let words = |picture: &Picture| match picture.predicted == picture.digit {
        true => format!("read as {}", picture.predicted),
        false => format!("read as {}, is {}", picture.predicted, picture.digit),
    };
    let line: Vec<String> =
        pictures.iter().map(|picture| format!("{:<1$}", words(picture), 2 * SIDE)).collect();
    print_line(format!("  {}", line.join("  ")).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_score_wins_and_shades_follow_the_ink() {
        assert_eq!(likeliest(&[0.1, 0.7, 0.2, 3.0, -1.0, 2.0], 2).unwrap(), [1, 0]);
        assert!(likeliest(&[0.1, 0.7, 0.2], 2).is_err());
        assert_eq!(shades(&[0.0, 0.4, 1.0, 7.0]), "  ::@@@@");
        assert_eq!(shades(&[0.2, f32::NAN]).chars().count(), 4);
    }
}
