//! The HTML report of a language model that was quantised.

mod mixtures;

use std::path::Path;

use polaris::optimize::mixed::Goal;
use polaris::optimize::{Plan, PlannedTensor, WrittenTensor};
use polaris_report::{BarPlot, Page, Table};

use super::mixed::Chosen;
use super::validate::Validation;
use crate::arguments::Quantize;
use crate::output::replace_file;

/// Bars of a plot: the most important ones.
const BARS: usize = 48;

/// What the page is made of.
pub struct Report<'a> {
    pub options: &'a Quantize,
    pub plan: &'a Plan<'a>,
    /// Nothing with `--dry-run`.
    pub written: &'a [WrittenTensor],
    pub chosen: Option<&'a Chosen>,
    pub measured: Option<&'a Validation>,
}

/// Writes the page.
pub fn write(path: &Path, report: &Report<'_>) -> anyhow::Result<()> {
    let mut page =
        Page::new("A language model in fewer bits").lead(&decision(report)).facts(&facts(report));
    if let Some(chosen) = report.chosen {
        page = mixtures::curves(page, report.plan, chosen)?;
        page = mixtures::sensitivities(page, chosen);
    }
    page = errors(page, report.written);
    page = page.section("Tensors").table(&tensors(report));
    replace_file(path, &page.render())
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Signal-to-noise ratio of an error that is relative to the root of the mean square.
fn decibels(error: f64) -> f64 {
    -20.0 * error.log10()
}

/// The decision in words.
fn decision(report: &Report<'_>) -> String {
    let (before, after) = (report.plan.bytes_before(), report.plan.bytes());
    let share = 100.0 * after as f64 / before.max(1) as f64;
    let mut said = match report.chosen.map(|chosen| chosen.goal) {
        Some(Goal::Bytes(bytes)) => {
            format!("At most {} were asked for, with the least loss.", megabytes(bytes as usize))
        }
        Some(Goal::Divergence(most)) => format!(
            "The smallest file was asked for whose perplexity is predicted to rise by at most {:.2} %.",
            100.0 * most.exp_m1()
        ),
        Some(Goal::Speed { times, bytes }) => {
            let within = bytes.map_or_else(String::new, |bytes| {
                format!(" in at most {}", megabytes(bytes as usize))
            });
            format!("At least {times} times the speed was asked for{within}, with the least loss.")
        }
        None => "All tensors have the types of the mixture that was named.".to_owned(),
    };
    said += &format!(" The tensors take {share:.0} % of what they took");
    if let Some(chosen) = report.chosen {
        said += &format!(
            ", with a predicted divergence of {:.5} nats a token; no such mixture is below {:.5}",
            chosen.mixture.divergence, chosen.mixture.bound
        );
    }
    said += ".";
    if let Some(measured) = report.measured {
        let Validation { tokens_per_second: speed, source_tokens_per_second: source, .. } =
            measured;
        said += &format!(" The file makes {:.2} times as many tokens a second.", speed / source);
    }
    if let Some(chosen) = report.chosen {
        let mut counts = std::collections::BTreeMap::<&str, usize>::new();
        for ty in chosen.mixture.types.values() {
            *counts.entry(ty.name()).or_default() += 1;
        }
        let counts: Vec<String> =
            counts.into_iter().map(|(name, count)| format!("{name} in {count}")).collect();
        said += &format!(" The tensors that were chosen for: {}.", counts.join(", "));
    }
    said
}

fn facts(report: &Report<'_>) -> Vec<(&'static str, String)> {
    let (before, after) = (report.plan.bytes_before(), report.plan.bytes());
    let mut facts = vec![
        ("model", report.options.model.display().to_string()),
        ("size of all tensors", format!("{}, then {}", megabytes(before), megabytes(after))),
        ("rounding", if report.options.wants_gptq() { "GPTQ" } else { "nearest" }.to_owned()),
    ];
    let predicted = report
        .chosen
        .and_then(|chosen| Some((chosen.source_speed()?, chosen.speed(&chosen.mixture)?)));
    if let Some((source, speed)) = predicted {
        let times = speed / source;
        facts.push((
            "predicted speed",
            format!("{speed:.1} tokens/s, {times:.2} times the model's {source:.1}"),
        ));
    }
    if let Some(measured) = report.measured {
        let Validation { tokens_per_second: speed, source_tokens_per_second: source, score } =
            measured;
        let times = speed / source;
        facts.push((
            "measured speed",
            format!("{speed:.1} tokens/s, {times:.2} times the model's {source:.1}, in turns"),
        ));
        if let Some(score) = score {
            facts.push((
                "measured divergence",
                format!("{:.5} nats a token, in {} other windows", score.divergence, score.windows),
            ));
            facts.push((
                "perplexity there",
                format!("{:.3}, of the model {:.3}", score.perplexity, score.source_perplexity),
            ));
        }
    }
    facts
}

fn errors(page: Page, written: &[WrittenTensor]) -> Page {
    let mut entries: Vec<(&str, f64)> = written
        .iter()
        .filter_map(|tensor| Some((tensor.name.as_str(), decibels(tensor.relative_error?))))
        .filter(|(_, ratio)| ratio.is_finite())
        .collect();
    let all = entries.len();
    if all == 0 {
        return page;
    }
    entries.sort_by(|a, b| a.1.total_cmp(&b.1));
    entries.truncate(BARS);
    let of = match all > entries.len() {
        true => format!(" The {BARS} lowest of {all} are drawn."),
        false => String::new(),
    };
    page.section("Errors")
        .text(&format!("The squares of a tensor's weights by those of their errors.{of}"))
        .bars(&BarPlot {
            title: "Signal-to-noise ratio of weights".to_owned(),
            y_label: "decibels".to_owned(),
            groups: entries.iter().map(|(name, _)| short(name)).collect(),
            series: vec![(
                "SQNR".to_owned(),
                entries.iter().map(|&(_, ratio)| Some(ratio)).collect(),
            )],
            ..BarPlot::default()
        })
}

/// A name without what all have.
fn short(name: &str) -> String {
    let name = name.strip_suffix(".weight").unwrap_or(name);
    name.strip_prefix("blk.").unwrap_or(name).to_owned()
}

fn tensors(report: &Report<'_>) -> Table {
    let row = |(number, tensor): (usize, &PlannedTensor)| {
        let error = report.written.get(number).and_then(|written| written.relative_error);
        let percent = error.map_or("-".to_owned(), |error| format!("{:.3}", 100.0 * error));
        let ratio = error.map(decibels).filter(|ratio| ratio.is_finite());
        let chosen = report.chosen.map_or(&[][..], |chosen| &chosen.sensitivities[..]);
        let divergence = chosen.iter().find(|entry| entry.name == tensor.name);
        vec![
            tensor.name.clone(),
            tensor.from.name().to_owned(),
            tensor.to.name().to_owned(),
            tensor.bytes_before().to_string(),
            tensor.bytes().to_string(),
            percent,
            ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.1}")),
            divergence.map_or("-".to_owned(), |entry| format!("{:.6}", entry.divergence)),
        ]
    };
    Table {
        header: [
            "tensor",
            "from",
            "to",
            "bytes before",
            "bytes",
            "error %",
            "SQNR dB",
            "sensitivity",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: report.plan.tensors().iter().enumerate().map(row).collect(),
        numeric: vec![false, false, false, true, true, true, true, true],
        ..Table::default()
    }
}
