//! Mixed precision in `polaris quantize`: what tensors lose and take is measured or read, and formats chosen for a goal.

use anyhow::{Context, bail};
use polaris::gguf::{Gguf, TensorType};
use polaris::llm::{Error as LlmError, Source, Special};
use polaris::optimize::mixed::{Goal, Mixture, choosable, curve, mixture, uniform};
use polaris::optimize::sensitivity::{
    Origin, Sensitivity, SensitivityOptions, load, save, sensitivities, windows,
};
use polaris::optimize::speed::{SpeedOptions, TokenTimes, measure, rate};
use polaris::optimize::{Error, Plan, PlannedTensor};

use super::calibrate;
use super::validate::HeldOut;
use crate::arguments::Quantize;
use crate::commands::llm::text as read_text;
use crate::output::{Table, print_line, say};
use crate::session::Session;
use crate::{interrupt, output};

/// Sizes that are listed beside the chosen one.
pub const LISTED: usize = 6;

/// A mixture with what it was chosen from.
pub struct Chosen {
    pub goal: Goal,
    pub mixture: Mixture,
    pub sensitivities: Vec<Sensitivity>,
    /// What a token takes; nothing for models that do not continue texts.
    pub times: Option<TokenTimes>,
    /// What is left of the text to score the file with.
    pub held_out: HeldOut,
}

/// What the options ask for, if it is a mixture.
pub fn goal(options: &Quantize) -> Option<Goal> {
    if let Some(times) = options.speed {
        return Some(Goal::Speed { times, bytes: options.size });
    }
    let divergence = |percent: f64| Goal::Divergence((1.0 + percent / 100.0).ln());
    options.size.map(Goal::Bytes).or(options.loss.map(divergence))
}

/// Chooses a format for each tensor that the plan would bring into one, and changes the plan.
pub fn choose(
    session: &Session,
    options: &Quantize,
    gguf: &Gguf,
    plan: &mut Plan<'_>,
    goal: Goal,
) -> anyhow::Result<Chosen> {
    let Some(text) = &options.text.calibrate else {
        bail!("a mixture needs a text to measure what tensors lose: --calibrate TEXT");
    };
    let text = read_text(text)?;
    let tokenizer = Source::from_gguf(gguf)?.tokenizer()?;
    let tokenizer = tokenizer.context("the model's file has no tokenizer for the text")?;
    let mut tokens = tokenizer.framed(&tokenizer.encode(&text, Special::Plain)?);
    let defaults = SensitivityOptions::default();
    let settings = SensitivityOptions {
        windows: options.text.probe_windows.map_or(defaults.windows, |count| count as usize),
        ..defaults
    };
    let first = tokenizer.begin().first().copied();
    let windows = windows(&tokens, first, &settings)?;
    let all = choosable(plan.tensors());
    let fixed = |name: &str| options.tensor.iter().any(|wanted| name.contains(&wanted.pattern));
    let all: Vec<_> = all.into_iter().filter(|tensor| !fixed(&tensor.name)).collect();
    let found = measure_losses(session, options, gguf, plan, &all, &windows)?;
    let choose = |times: Option<&TokenTimes>| mixture(plan.tensors(), &found, times, goal);
    // A size that cannot be is an error before anything else is measured.
    let (mixture, times) = if let Goal::Speed { .. } = goal {
        let times = measure_times(session, gguf, plan, &found)?;
        (choose(Some(&times))?, Some(times))
    } else {
        let mixture = choose(None)?;
        let times = match measure_times(session, gguf, plan, &found) {
            Ok(times) => Some(times),
            Err(error) => without(error)?,
        };
        (mixture, times)
    };
    plan.set_types(&mixture.types)?;
    // GPTQ looks at the text as well.
    let used = (windows.len() * settings.window).max(calibrate::tokens(options));
    let held_out = HeldOut {
        tokens: tokens.split_off(used.min(tokens.len())),
        first,
        window: settings.window,
        windows: settings.windows,
    };
    Ok(Chosen { goal, mixture, sensitivities: found, times, held_out })
}

/// What tensors lose, on the CPU.
fn measure_losses(
    session: &Session,
    options: &Quantize,
    gguf: &Gguf,
    plan: &Plan<'_>,
    all: &[PlannedTensor],
    windows: &[Vec<u32>],
) -> anyhow::Result<Vec<Sensitivity>> {
    let origin = Origin::new(gguf, windows);
    let known = match &options.text.sensitivities {
        Some(path) => load(path, &origin, plan.tensors())?,
        None => Vec::new(),
    };
    let device = session.runtime.cpu();
    let bar = output::progress(all.len(), "tensors measured");
    let mut progress = |found: &[Sensitivity]| {
        bar.set_position(found.len() as u64);
        match &options.text.sensitivities {
            Some(path) => save(path, &origin, found),
            None => Ok(()),
        }
    };
    let found =
        sensitivities(gguf, all, device, windows, known, &mut progress, &interrupt::requested);
    bar.finish_and_clear();
    // A file may have more tensors than are to be chosen this time.
    let is_wanted = |entry: &Sensitivity| all.iter().any(|tensor| tensor.name == entry.name);
    Ok(found?.into_iter().filter(is_wanted).collect())
}

/// What tensors take of a token, on the device that was named or the CPU.
fn measure_times(
    session: &Session,
    gguf: &Gguf,
    plan: &Plan<'_>,
    sensitivities: &[Sensitivity],
) -> anyhow::Result<TokenTimes> {
    let device = session.chosen_or_cpu()?;
    let cpu = session.runtime.cpu().as_cpu().context("the CPU should be one")?;
    let formats = sensitivities.iter().map(|entry| {
        let types = entry.candidates.iter().map(|candidate| candidate.ty);
        (entry.name.as_str(), types.collect())
    });
    let formats: Vec<(&str, Vec<TensorType>)> = formats.collect();
    let bar = output::spinner("measuring what tokens take");
    let options = SpeedOptions::default();
    let times =
        measure(gguf, plan.tensors(), &formats, &device, cpu, &options, &interrupt::requested);
    bar.finish_and_clear();
    Ok(times?)
}

/// A mixture whose speed cannot be predicted is still one; that the user stopped is an error.
fn without(error: anyhow::Error) -> anyhow::Result<Option<TokenTimes>> {
    if interrupt::requested() {
        return Err(error);
    }
    let is_no_decoder =
        matches!(error.downcast_ref(), Some(Error::Llm(LlmError::NotAutoregressive { .. })));
    if !is_no_decoder {
        say!("note: the speed cannot be predicted: {error}");
    }
    Ok(None)
}

impl Chosen {
    /// Tokens a second that a mixture is predicted to make.
    pub fn speed(&self, mixture: &Mixture) -> Option<f64> {
        self.times.as_ref().map(|times| rate(times.of_mixture(&mixture.types)))
    }

    /// Tokens a second that the model makes as it is.
    pub fn source_speed(&self) -> Option<f64> {
        self.times.as_ref().map(|times| rate(times.source))
    }

    /// What was chosen, what others would lose, and the tensors that matter most.
    pub fn print(&self, plan: &Plan<'_>) -> anyhow::Result<()> {
        let Mixture { divergence, bound, .. } = &self.mixture;
        let like = if self.is_for_speed() { "speed" } else { "size" };
        print_line(&format!(
            "predicted divergence {divergence:.5} nats a token (no mixture of this {like} below {bound:.5})"
        ))?;
        if let (Some(speed), Some(source)) = (self.speed(&self.mixture), self.source_speed()) {
            print_line(&format!(
                "predicted speed {speed:.1} tokens/s, {:.2} times as fast as the model ({source:.1})",
                speed / source
            ))?;
        }
        let mut table = Table::new(&[">size", ">predicted tokens/s", ">predicted divergence"]);
        for point in self.curve(plan, LISTED)? {
            let mark = if point.types == self.mixture.types { "  (chosen)" } else { "" };
            let size = format!("{:.1} MB{mark}", point.bytes as f64 / 1e6);
            let speed = self.speed(&point).map_or("-".to_owned(), |speed| format!("{speed:.1}"));
            table.row(vec![size, speed, format!("{:.5}", point.divergence)]);
        }
        table.print()?;
        let mut worst: Vec<&Sensitivity> = self.sensitivities.iter().collect();
        let per_element = |entry: &Sensitivity| entry.divergence / entry.elements.max(1) as f64;
        worst.sort_by(|a, b| per_element(b).total_cmp(&per_element(a)));
        print_line("most sensitive for their size, with what they got:")?;
        let mut table = Table::new(&["tensor", "type", ">measured divergence", "as"]);
        for entry in worst.into_iter().take(LISTED) {
            let ty = self.mixture.types.get(&entry.name).map_or("", |ty| ty.name());
            let divergence = format!("{:.5}", entry.divergence);
            table.row(vec![entry.name.clone(), ty.to_owned(), divergence, entry.probe.to_string()]);
        }
        table.print()
    }

    /// Each format in all tensors, with what is predicted of it.
    pub fn uniform(&self, plan: &Plan<'_>) -> Vec<(TensorType, Mixture)> {
        uniform(plan.tensors(), &self.sensitivities)
    }

    /// The chosen mixture and some others, the best of their sizes or, if a speed was asked for, of their speeds.
    pub fn curve(&self, plan: &Plan<'_>, points: usize) -> Result<Vec<Mixture>, Error> {
        let times = self.times.as_ref().filter(|_| self.is_for_speed());
        let mut curve = curve(plan.tensors(), &self.sensitivities, times, points)?;
        if curve.iter().all(|point| point.types != self.mixture.types) {
            curve.push(self.mixture.clone());
        }
        curve.sort_by(|a, b| b.divergence.total_cmp(&a.divergence).then(a.bytes.cmp(&b.bytes)));
        Ok(curve)
    }

    /// Whether a speed was asked for.
    pub fn is_for_speed(&self) -> bool {
        matches!(self.goal, Goal::Speed { .. })
    }
}
