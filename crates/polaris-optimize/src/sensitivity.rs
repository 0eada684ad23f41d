//! What a language model loses if one of its tensors has fewer bits, and which bits each tensor gets for that.
//!
//! A probe replaces one tensor by what a format of few bits makes of it, runs a text, and compares the probabilities of the
//! next token with those of the whole model: the Kullback-Leibler divergence. To second order in the errors of the weights,
//! divergence grows with the square of their size, so one probe predicts every other format, whose errors cost no run:
//! `divergence(format) = divergence(probe) * error(format)^2 / error(probe)^2`. Losses of tensors are added up, which is a
//! prediction too: the file that is written has to be scored.

mod file;

pub use file::{Origin, load, save};

use bytes::Bytes;
use polaris_blocks::MOST_ELEMENTS;
use polaris_gguf::{Gguf, TensorType, dequantize};
use polaris_llm::{
    Engine, EngineOptions, LoadOptions, Model, Precision, Source, SourceTensor, Wanted,
    kl_divergence,
};
use polaris_ops::Block;
use polaris_runtime::DeviceRef;
use polaris_runtime::cpu::CpuDevice;
use serde::{Deserialize, Serialize};

use crate::allocate::Choice;
use crate::write::{How, encode};
use crate::{Error, PlannedTensor, Result};

/// The formats that probes have: few bits, so that divergences stand out from rounding.
const PROBES: [Block; 2] = [Block::Q3_K, Block::Q4_0];

/// Formats that tensors can get whose rows are whole blocks of 256.
pub const CANDIDATES: [TensorType; 7] = [
    TensorType::Block(Block::Q2_K),
    TensorType::Block(Block::Q3_K),
    TensorType::Block(Block::IQ4_XS),
    TensorType::Block(Block::Q4_K),
    TensorType::Block(Block::Q5_K),
    TensorType::Block(Block::Q6_K),
    TensorType::Block(Block::Q8_0),
];

/// Formats that other tensors can get, if their rows are whole blocks of 32.
pub const CANDIDATES_OF_SHORT_ROWS: [TensorType; 6] = [
    TensorType::Block(Block::Q4_0),
    TensorType::Block(Block::IQ4_NL),
    TensorType::Block(Block::Q4_1),
    TensorType::Block(Block::Q5_0),
    TensorType::Block(Block::Q5_1),
    TensorType::Block(Block::Q8_0),
];

/// How sensitivities are measured.
#[derive(Debug, Clone, Copy)]
pub struct SensitivityOptions {
    /// Tokens of a window.
    pub window: usize,
    /// Windows of the text that each probe runs.
    pub windows: usize,
}

impl Default for SensitivityOptions {
    fn default() -> Self {
        Self { window: 256, windows: 4 }
    }
}

/// What a format does to a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The format.
    #[serde(with = "file::name")]
    pub ty: TensorType,
    /// Bytes of the tensor in it.
    pub bytes: usize,
    /// The root of the squared error by that of the squares of the elements.
    pub relative_error: f64,
    /// The divergence that it is predicted to cause, in nats a token.
    pub divergence: f64,
}

/// How much a tensor matters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// Its name.
    pub name: String,
    /// Its elements.
    pub elements: usize,
    /// The format of its probe.
    #[serde(with = "file::name")]
    pub probe: TensorType,
    /// The divergence that was measured with it, in nats a token.
    pub divergence: f64,
    /// What each format would do, by rising size.
    pub candidates: Vec<Candidate>,
}

impl Sensitivity {
    /// What [`allocate`](crate::allocate::allocate) chooses from.
    pub fn choices(&self) -> Vec<Choice> {
        let choice = |candidate: &Candidate| Choice {
            cost: candidate.bytes as u64,
            loss: candidate.divergence,
        };
        self.candidates.iter().map(choice).collect()
    }
}

/// Measures the sensitivity of some tensors of a model in floats, on the CPU. `known` are those of an earlier run, which are
/// not measured again; `progress` is told all that are there after each.
///
/// # Errors
/// If the text is shorter than a window, the model is not supported, a tensor's weights are not finite, or `cancelled` or
/// `progress` say so.
pub fn sensitivities(
    gguf: &Gguf,
    tensors: &[PlannedTensor],
    device: &DeviceRef,
    windows: &[Vec<u32>],
    known: Vec<Sensitivity>,
    progress: &mut dyn FnMut(&[Sensitivity]) -> Result<()>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Sensitivity>> {
    let cpu = device.as_cpu().ok_or(Error::NotOnCpu)?;
    let mut found = known;
    let is_known = |found: &[Sensitivity], tensor: &PlannedTensor| {
        found.iter().any(|entry| entry.name == tensor.name)
    };
    if tensors.iter().all(|tensor| is_known(&found, tensor)) {
        return Ok(found);
    }
    let run = Run { device, windows, cancelled };
    let mut whole = Vec::with_capacity(windows.len());
    run.run(&Source::from_gguf(gguf)?, &mut |_, logits, _| whole.push(logits.to_vec()))?;
    for tensor in tensors {
        if !is_known(&found, tensor) {
            found.push(run.probe(gguf, cpu, tensor, &whole)?);
            progress(&found)?;
        }
    }
    Ok(found)
}

/// The windows of a text that probes run; `first` begins each of them, if the model wants that.
///
/// # Errors
/// If the text is shorter than one.
pub fn windows(
    tokens: &[u32],
    first: Option<u32>,
    options: &SensitivityOptions,
) -> Result<Vec<Vec<u32>>> {
    let window = options.window.max(1);
    if tokens.len() < window {
        return Err(Error::ShortText { tokens: tokens.len(), window });
    }
    let begun = |chunk: &[u32]| {
        let mut chunk = chunk.to_vec();
        chunk[0] = first.unwrap_or(chunk[0]);
        chunk
    };
    Ok(tokens.chunks_exact(window).take(options.windows.max(1)).map(begun).collect())
}

/// What all probes share.
struct Run<'a> {
    device: &'a DeviceRef,
    windows: &'a [Vec<u32>],
    cancelled: &'a dyn Fn() -> bool,
}

impl Run<'_> {
    /// Computes the windows; `each` gets the number of a window and the logits after each of its tokens, row by row.
    fn run(&self, source: &Source, each: &mut dyn FnMut(usize, &[f32], usize)) -> Result<()> {
        let context = self.windows.iter().map(Vec::len).max().unwrap_or(0);
        let model = Model::load(source, self.device, &LoadOptions { context }, |_| Ok(()))?;
        // Activations that are rounded too would hide errors of weights that are smaller than theirs.
        let precision = Precision::Full;
        let options = EngineOptions { context, precision, ..EngineOptions::default() };
        let mut engine = Engine::new(&model, &options)?;
        for (number, window) in self.windows.iter().enumerate() {
            engine.truncate(0, 0);
            let logits = engine.feed(0, window, Wanted::All, self.cancelled)?;
            each(number, logits, model.vocabulary());
        }
        Ok(())
    }

    fn probe(
        &self,
        gguf: &Gguf,
        cpu: &CpuDevice,
        tensor: &PlannedTensor,
        whole: &[Vec<f32>],
    ) -> Result<Sensitivity> {
        let missing = || Error::NoSuchTensor { pattern: tensor.name.clone(), some: String::new() };
        let bytes = gguf.find(&tensor.name).ok_or_else(missing)?.bytes();
        let row = tensor.dims.last().copied().unwrap_or(1);
        let fits = |ty: &TensorType| row.is_multiple_of(ty.block_elements());
        let error = |ty: TensorType| -> Result<(Vec<u8>, f64)> {
            let planned = PlannedTensor { to: ty, ..tensor.clone() };
            let (encoded, sums) = encode(cpu, &planned, How::Search(None), &bytes)?;
            Ok((encoded, sums.relative()))
        };
        let probe = PROBES.map(TensorType::Block).into_iter().find(fits);
        let probe = probe.ok_or_else(|| Error::NoFormat { tensor: tensor.name.clone(), row })?;
        let (encoded, probe_error) = error(probe)?;
        let divergence = self.divergence(gguf, tensor, &dequantize(probe, &encoded)?, whole)?;
        let mut candidates = Vec::new();
        let types = match row.is_multiple_of(MOST_ELEMENTS) {
            true => &CANDIDATES[..],
            false => &CANDIDATES_OF_SHORT_ROWS,
        };
        for &ty in types {
            let relative_error = if ty == probe { probe_error } else { error(ty)?.1 };
            let ratio = if probe_error > 0.0 { relative_error / probe_error } else { 0.0 };
            let bytes = PlannedTensor { to: ty, ..tensor.clone() }.bytes();
            let divergence = divergence * ratio * ratio;
            candidates.push(Candidate { ty, bytes, relative_error, divergence });
        }
        candidates.sort_by_key(|candidate| candidate.bytes);
        let elements = tensor.dims.iter().product();
        Ok(Sensitivity { name: tensor.name.clone(), elements, probe, divergence, candidates })
    }

    /// The mean divergence of the model with other weights in a tensor.
    fn divergence(
        &self,
        gguf: &Gguf,
        tensor: &PlannedTensor,
        weights: &[f32],
        whole: &[Vec<f32>],
    ) -> Result<f64> {
        let mut source = Source::from_gguf(gguf)?;
        let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
        let replaced = SourceTensor {
            ty: TensorType::F32,
            dims: tensor.dims.clone(),
            parts: vec![Bytes::from(bytes)],
            form: polaris_llm::Form::Plain,
        };
        source.tensors.insert(tensor.name.clone(), replaced);
        let (mut sum, mut count) = (0.0, 0u32);
        self.run(&source, &mut |number, found, vocabulary| {
            let rows = whole[number].chunks_exact(vocabulary).zip(found.chunks_exact(vocabulary));
            for (whole, found) in rows {
                sum += kl_divergence(whole, found);
                count += 1;
            }
        })?;
        // Rounding may make that of equal distributions a little smaller than zero.
        let mean = f64::max(sum / f64::from(count.max(1)), 0.0);
        match sum.is_finite() {
            true => Ok(mean),
            false => Err(Error::NoDivergence { tensor: tensor.name.clone(), sum }),
        }
    }
}
