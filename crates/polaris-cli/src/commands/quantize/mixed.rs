//! Mixed precision in `polaris quantize`: sensitivities are measured or read, and formats chosen for a goal.

use anyhow::{Context, bail};
use polaris::gguf::Gguf;
use polaris::llm::{Source, Special};
use polaris::optimize::mixed::{Goal, Mixture, choosable, mixture};
use polaris::optimize::sensitivity::{
    Origin, Sensitivity, SensitivityOptions, load, save, sensitivities, windows,
};
use polaris::optimize::{Error, Plan};

use crate::arguments::{Global, Quantize};
use crate::output::{Table, print_line};
use crate::session::Session;
use crate::{interrupt, output};

/// The most bytes of a text.
const LARGEST_TEXT: u64 = 1 << 30;
/// Sizes that are listed beside the chosen one.
const LISTED: usize = 6;

/// A mixture with what it was chosen from.
pub struct Chosen {
    pub mixture: Mixture,
    pub sensitivities: Vec<Sensitivity>,
}

/// What the options ask for, if it is a mixture.
pub fn goal(options: &Quantize) -> Option<Goal> {
    let divergence = |percent: f64| Goal::Divergence((1.0 + percent / 100.0).ln());
    options.size.map(Goal::Bytes).or(options.loss.map(divergence))
}

/// Chooses a format for each tensor that the plan would bring into one, and changes the plan.
pub fn choose(
    global: Global,
    options: &Quantize,
    gguf: &Gguf,
    plan: &mut Plan<'_>,
    goal: Goal,
) -> anyhow::Result<Chosen> {
    let Some(text) = &options.text.calibrate else {
        bail!("a mixture needs a text to measure what tensors lose: --calibrate TEXT");
    };
    let text = polaris::files::read_text(text, LARGEST_TEXT)
        .with_context(|| format!("cannot read {}", text.display()))?;
    let tokenizer = Source::from_gguf(gguf)?.tokenizer()?;
    let tokenizer = tokenizer.context("the model's file has no tokenizer for the text")?;
    let tokens = tokenizer.framed(&tokenizer.encode(&text, Special::Plain)?);
    let defaults = SensitivityOptions::default();
    let settings = SensitivityOptions {
        windows: options.text.probe_windows.map_or(defaults.windows, |count| count as usize),
        ..defaults
    };
    let first = tokenizer.begin().first().copied();
    let windows = windows(&tokens, first, &settings)?;
    let origin = Origin::new(gguf, &windows);
    let known = match &options.text.sensitivities {
        Some(path) => load(path, &origin, plan.tensors())?,
        None => Vec::new(),
    };
    let session = Session::on_cpu(global)?;
    let device = session.runtime.cpu();
    let all = choosable(plan.tensors());
    let fixed = |name: &str| options.tensor.iter().any(|wanted| name.contains(&wanted.pattern));
    let all: Vec<_> = all.into_iter().filter(|tensor| !fixed(&tensor.name)).collect();
    let bar = output::progress(all.len(), "tensors measured");
    let mut progress = |found: &[Sensitivity]| {
        bar.set_position(found.len() as u64);
        match &options.text.sensitivities {
            Some(path) => save(path, &origin, found),
            None => Ok(()),
        }
    };
    let found =
        sensitivities(gguf, &all, device, &windows, known, &mut progress, &interrupt::requested);
    bar.finish_and_clear();
    // A file may have more tensors than are to be chosen this time.
    let is_wanted = |entry: &Sensitivity| all.iter().any(|tensor| tensor.name == entry.name);
    let sensitivities: Vec<_> = found?.into_iter().filter(is_wanted).collect();
    let mixture = mixture(plan.tensors(), &sensitivities, goal)?;
    plan.set_types(&mixture.types)?;
    Ok(Chosen { mixture, sensitivities })
}

impl Chosen {
    /// What was chosen, what other sizes would lose, and the tensors that matter most.
    pub fn print(&self, plan: &Plan<'_>) -> anyhow::Result<()> {
        let Mixture { bytes, divergence, bound, .. } = &self.mixture;
        print_line(&format!(
            "predicted divergence {divergence:.5} nats a token (no mixture of this size below {bound:.5})"
        ))?;
        let mut table = Table::new(&[">size", ">predicted divergence"]);
        for (size, divergence) in self.curve(plan)? {
            let mark = if size == *bytes { "  (chosen)" } else { "" };
            let size = format!("{:.1} MB{mark}", size as f64 / 1e6);
            table.row(vec![size, format!("{divergence:.5}")]);
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

    /// The chosen size and some others, with the divergence that is predicted for each.
    pub fn curve(&self, plan: &Plan<'_>) -> Result<Vec<(u64, f64)>, Error> {
        let at = |goal| mixture(plan.tensors(), &self.sensitivities, goal);
        let most = at(Goal::Bytes(u64::MAX))?;
        let least = match at(Goal::Bytes(0)) {
            Err(Error::Budget { least, .. }) => least,
            other => other?.bytes,
        };
        let mut curve = vec![(self.mixture.bytes, self.mixture.divergence)];
        for step in 0..LISTED as u64 {
            let budget = least + (most.bytes - least) * step / (LISTED as u64 - 1);
            let found = at(Goal::Bytes(budget))?;
            curve.push((found.bytes, found.divergence));
        }
        curve.sort_by_key(|&(bytes, _)| bytes);
        curve.dedup();
        Ok(curve)
    }
}
