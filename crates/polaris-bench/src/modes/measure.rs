//! A workload in every mode: run once, compared, and timed in turns.

use std::time::{Duration, Instant};

use polaris_core::CancellationToken;
use polaris_graph::plan::Choice;
use polaris_graph::{Mode, Options, Session as Model};
use polaris_onnx::{Tensor, Value};
use polaris_runtime::{DeviceRef, Runtime};

use super::draft::Drafted;
use super::effort::{Effort, Speeds};
use super::results::{Entry, Measured, ModeOf, TOLERANCE};
use super::tokens::Text;
use crate::error::go_on;
use crate::timing::{Contender, Timing, take_turns};
use crate::{Error, Result};

/// A session goes on without a device that fails; its time would be the CPU's.
const DEVICE_FAILED: &str = "the device failed; POLARIS_LOG=warn shows why";

/// A model in a mode, with what is known of it so far.
struct Candidate<'a> {
    mode: ModeOf,
    model: Model,
    inputs: &'a [(&'a str, Value)],
    first_ms: f64,
    difference: Option<f64>,
}

impl Contender for Candidate<'_> {
    fn run(&mut self) -> Result<()> {
        self.model.run(self.inputs)?;
        Ok(())
    }

    /// Outputs are on the host when a run returns.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    fn settles_in(&self) -> Duration {
        Duration::from_micros(100)
    }
}

/// Measures a graph in each mode; the operations of a call, where there are any, come with it.
pub fn measure_graph(
    runtime: &Runtime,
    device: Option<&DeviceRef>,
    drafted: &Drafted,
    effort: &Effort,
    speeds: &mut Speeds,
    cancellation: &CancellationToken,
) -> Result<(Option<u64>, Vec<Entry>)> {
    let open = |mode: Mode| {
        let options = Options {
            mode,
            device: device.filter(|_| mode != Mode::Cpu).cloned(),
            cancellation: Some(cancellation.clone()),
            ..Options::default()
        };
        Model::new(runtime, drafted.model.clone(), &options)
    };
    let inputs: Vec<(&str, Value)> = (drafted.inputs.iter())
        .map(|(name, tensor)| (name.as_str(), Value::Tensor(tensor.clone())))
        .collect();
    let cpu = open(Mode::Cpu)?;
    // With less than an operation for each byte, nothing is computed to speak of.
    let work = cpu.plan(&drafted.types())?.work();
    let flops = Some(work.flops).filter(|&flops| flops >= work.bytes);
    let mut entries = Vec::new();
    let mut candidates = Vec::new();
    let mut expected_outputs = None;
    let mut cpu = Some(cpu);
    let mut failed = false;
    for mode in ModeOf::ALL {
        if device.is_none() && mode != ModeOf::Cpu {
            continue;
        }
        if failed {
            entries.push(Entry::left_out(mode, DEVICE_FAILED));
            continue;
        }
        go_on(cancellation)?;
        if let Some(why) = effort.too_long(mode, flops, speeds, candidates.len()) {
            entries.push(Entry::left_out(mode, why));
            continue;
        }
        let model = match (mode, cpu.take()) {
            (ModeOf::Cpu, Some(model)) => model,
            (ModeOf::Hybrid, _) => open(Mode::Hybrid)?,
            _ => open(Mode::Gpu)?,
        };
        let begin = Instant::now();
        let outputs = model.run(&inputs)?;
        let first_ms = begin.elapsed().as_secs_f64() * 1e3;
        if model.fallback().is_some() {
            failed = true;
            entries.push(Entry::left_out(mode, DEVICE_FAILED));
            continue;
        }
        let output = outputs.into_iter().next();
        let (_, output) = output.ok_or(Error::BadWorkload("the graph has no outputs"))?;
        let output = output.tensor()?.clone();
        let difference = match &expected_outputs {
            None => None,
            Some(expected) => Some(largest_difference(&output, expected)?),
        };
        expected_outputs.get_or_insert(output);
        candidates.push(Candidate { mode, model, inputs: &inputs, first_ms, difference });
    }
    let mut contenders: Vec<&mut dyn Contender> =
        candidates.iter_mut().map(|one| one as &mut dyn Contender).collect();
    let timings = match contenders.is_empty() {
        true => Vec::new(),
        false => take_turns(&mut contenders, &effort.limits, cancellation)?,
    };
    for (candidate, timing) in candidates.into_iter().zip(timings) {
        speeds.learn(candidate.mode, flops, timing.seconds);
        entries.push(candidate.summary(timing, drafted, effort)?);
    }
    entries.sort_by_key(|entry| entry.mode as usize);
    Ok((flops, entries))
}

impl Candidate<'_> {
    fn summary(self, timing: Timing, drafted: &Drafted, effort: &Effort) -> Result<Entry> {
        let plan = self.model.plan(&drafted.types())?;
        let prediction = plan.prediction.as_ref().map(|prediction| {
            let seconds = match prediction.chosen {
                Choice::Cpu => prediction.cpu,
                Choice::Gpu => prediction.gpu,
                Choice::Hybrid => prediction.hybrid,
            };
            (seconds * 1e3, prediction.chosen)
        });
        let compute_ms = match effort.watched_runs {
            0 => None,
            runs => Some(self.model.profile(self.inputs, runs)?.seconds * 1e3),
        };
        let measured = Measured {
            compute_ms,
            difference: self.difference,
            agrees: self.difference.map(|difference| difference <= TOLERANCE),
            wholly_on_device: (self.mode == ModeOf::Gpu)
                .then(|| plan.is_wholly_on(self.model.side())),
            predicted_ms: prediction.map(|(ms, _)| ms),
            chosen: prediction.map(|(_, chosen)| chosen),
            ..timed(timing, self.first_ms)
        };
        Ok(Entry::measured(self.mode, measured))
    }
}

fn timed(timing: Timing, first_ms: f64) -> Measured {
    Measured {
        first_ms,
        ms: timing.seconds * 1e3,
        fastest_ms: timing.fastest * 1e3,
        cv: timing.cv,
        samples: timing.samples,
        ..Measured::default()
    }
}

/// The largest difference of two outputs, by the largest element of the expected one; infinite where one is not a
/// number.
fn largest_difference(found: &Tensor, expected: &Tensor) -> Result<f64> {
    if found.shape() != expected.shape() {
        return Ok(f64::INFINITY);
    }
    let (found, expected) = (found.to_f64()?, expected.to_f64()?);
    let largest = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let mut difference = 0.0f64;
    for (found, expected) in found.iter().zip(&expected) {
        let by = (found - expected).abs();
        // The larger of two numbers ignores what is none.
        difference = if by.is_nan() { f64::INFINITY } else { difference.max(by) };
    }
    Ok(if difference == 0.0 { 0.0 } else { difference / largest.max(f64::MIN_POSITIVE) })
}

impl Contender for &Text {
    fn run(&mut self) -> Result<()> {
        std::hint::black_box(self.encode()?);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    fn settles_in(&self) -> Duration {
        Duration::ZERO
    }
}

/// Measures tokenization, which knows one mode only.
pub fn measure_tokens(
    with_device: bool,
    effort: &Effort,
    cancellation: &CancellationToken,
) -> Result<Vec<Entry>> {
    let begin = Instant::now();
    let text = Text::new()?;
    let first_ms = begin.elapsed().as_secs_f64() * 1e3;
    let mut contender = &text;
    let timings = take_turns::<Error>(&mut [&mut contender], &effort.limits, cancellation)?;
    let timing = timings[0];
    let mut entries = vec![Entry::measured(ModeOf::Cpu, timed(timing, first_ms))];
    if with_device {
        let why = "on the CPU in every mode";
        let others = [ModeOf::Gpu, ModeOf::Hybrid];
        entries.extend(others.map(|mode| Entry::left_out(mode, why)));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(values: &[f32]) -> Tensor {
        Tensor::new(&[values.len()], values.to_vec()).unwrap()
    }

    #[test]
    fn differences_count_by_the_largest_output() {
        let expected = tensor(&[1.0, -10.0]);
        let by = |values: &[f32]| largest_difference(&tensor(values), &expected).unwrap();
        assert_eq!(by(&[1.0, -10.0]), 0.0);
        assert!((by(&[1.5, -10.0]) - 0.05).abs() < 1e-9);
        assert!(by(&[1.0, f32::NAN]) > TOLERANCE && by(&[f32::NAN, -10.0]) > TOLERANCE);
        assert!(by(&[1.0]) > TOLERANCE);
        // Zeros are no excuse.
        let zeros = tensor(&[0.0, 0.0]);
        assert!(largest_difference(&expected, &zeros).unwrap() > TOLERANCE);
    }
}
