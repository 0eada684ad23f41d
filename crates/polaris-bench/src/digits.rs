//! The built-in digits model: classifies handwritten digits as ONNX on every device.

use std::path::Path;
use std::time::Instant;

use polaris_core::CancellationToken;
use polaris_graph::{Mode, Options, Session};
use polaris_nn::export::Onnx;
use polaris_nn::train::{ModelFile, load_data};
use polaris_onnx::{Model, NoExternalData, Tensor};
use polaris_runtime::{DeviceRef, Runtime};
use serde::Serialize;

use crate::{Error, Result};

/// A model of `polaris train digits`.
const MODEL: &[u8] = include_bytes!("../models/digits.safetensors");
/// Width and height of an image in pixels.
pub const SIDE: usize = 8;
/// Images that are shown.
const SHOWN: usize = 4;

/// The exported model and its validation digits.
pub struct Digits {
    model: Model,
    images: Tensor,
    labels: Vec<i64>,
}

/// The results of a device.
#[derive(Debug, Serialize)]
pub struct ReadDigits {
    /// The device.
    pub device: String,
    /// How many it read.
    pub digits: usize,
    /// How many of them it took for what they are.
    pub right: usize,
    /// Digits per second, after a warm-up run.
    pub per_second: f64,
    /// The most probable class of each.
    #[serde(skip)]
    predicted: Vec<i64>,
}

/// A digit as text.
#[derive(Debug, Serialize)]
pub struct Picture {
    /// What it is.
    pub digit: i64,
    /// What it was taken for.
    pub predicted: i64,
    /// From top to bottom, two characters for each pixel.
    pub rows: Vec<String>,
}

impl Digits {
    /// Exports the model and loads the validation digits.
    ///
    /// # Errors
    /// If a device has no room.
    pub fn new(runtime: &Runtime) -> Result<Self> {
        let name = Path::new("the built-in model");
        let (about, module) = ModelFile::decode(name, MODEL, runtime.cpu())?;
        let onnx = Onnx::of(&about, &*module)?;
        let model = Model::from_bytes(onnx.bytes.into(), &NoExternalData)?;
        let kept = load_data(&about.config, None)?.validation;
        let kept = kept.ok_or(Error::BadWorkload("the built-in model has no validation digits"))?;
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        for batch in kept.epoch(0, 0) {
            let batch = batch?;
            let (Some(inputs), Some(targets)) = (batch.inputs.as_f32(), batch.targets.as_i64())
            else {
                return Err(Error::BadWorkload("digits should be f32 and have classes"));
            };
            pixels.extend_from_slice(inputs);
            labels.extend_from_slice(targets);
        }
        let images = Tensor::new(&[labels.len(), 1, SIDE, SIDE], pixels)?;
        Ok(Self { model, images, labels })
    }

    /// Classifies all of them on a device in one batch.
    ///
    /// # Errors
    /// If the device fails or has no room, or `cancellation` ends it.
    pub fn read(
        &self,
        runtime: &Runtime,
        device: &DeviceRef,
        cancellation: &CancellationToken,
    ) -> Result<ReadDigits> {
        let mode = match device.as_cpu() {
            Some(_) => Mode::Cpu,
            None => Mode::Gpu,
        };
        let options = Options {
            mode,
            device: Some(device.clone()),
            cancellation: Some(cancellation.clone()),
            ..Options::default()
        };
        let session = Session::new(runtime, self.model.clone(), &options)?;
        // The first run plans and builds kernels.
        session.run_tensors(vec![self.images.clone()])?;
        let begin = Instant::now();
        let outputs = session.run_tensors(vec![self.images.clone()])?;
        let seconds = begin.elapsed().as_secs_f64();
        let nothing = Error::BadWorkload("the built-in model has no outputs");
        let scores = outputs.first().ok_or(nothing)?.to_f64()?;
        let predicted = likeliest(&scores, self.labels.len())?;
        let right = predicted.iter().zip(&self.labels).filter(|(a, b)| a == b).count();
        let digits = self.labels.len();
        let per_second = digits as f64 / seconds;
        Ok(ReadDigits { device: device.id().to_string(), digits, right, per_second, predicted })
    }

    /// A few different digits with their predictions, one wrong prediction included if there is one.
    ///
    /// # Errors
    /// If the pixels are not `f32`, which is a bug in Polaris.
    pub fn pictures(&self, read: &ReadDigits) -> Result<Vec<Picture>> {
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
fn likeliest(scores: &[f64], digits: usize) -> Result<Vec<i64>> {
    let classes = scores.len() / digits.max(1);
    if classes == 0 || classes * digits != scores.len() {
        return Err(Error::BadWorkload("the built-in model has no classes"));
    }
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
