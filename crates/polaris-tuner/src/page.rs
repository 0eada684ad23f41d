//! What searches found, as one page that needs nothing beside it: for each problem its figures,
//! the course of the search, which parameters matter, and how well times are predicted.

mod heat_map;
mod importance;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use polaris_tune::{Failure, History, Points};

use super::protocol::Config;
use super::results::config_text;
use super::subject::Work;
use crate::commands::bench_gemm::plot::{Plot, SHEET, Scale, Series, Style, escape, short};
use heat_map::HeatMap;

/// Fewer measured configurations say too little about the parameters.
const FEWEST: usize = 20;

/// The axis of evaluations is at least this long: a shorter one would have ticks at fractions.
const FEWEST_TICKS: usize = 5;

/// Beside what all pages with plots have.
const STYLE: &str = "\
figure { margin: 1.5rem 0; }
figcaption { font-size: 13px; max-width: 45rem; }
svg .on-dark { fill: #fff; }
svg .on-light { fill: #000; }
";

/// What the page shows of one problem.
pub struct Section<'a> {
    pub title: String,
    pub points: &'a Points,
    /// All trials, those of earlier runs first.
    pub history: &'a History,
    /// Of one run.
    pub work: Work,
    /// Measured in turns; infinite if the search was stopped before.
    pub default_seconds: f64,
    pub best_seconds: f64,
    /// None where the default is as good.
    pub config: Option<&'a Config>,
    /// Of this run, by kind.
    pub failures: &'a [(Failure, usize)],
    /// Predicted and measured seconds, cross-validated.
    pub predicted: Vec<(f64, f64)>,
}

impl Section<'_> {
    /// None for what is no time.
    fn rate(&self, seconds: f64) -> Option<f64> {
        Some(self.work.rate(seconds)).filter(|rate| rate.is_finite() && *rate > 0.0)
    }

    /// The trials that gave a time.
    fn measured(&self) -> Vec<Measured> {
        let trials = self.history.trials.iter().enumerate();
        let known = trials.filter(|(_, trial)| trial.point < self.points.len());
        known
            .filter_map(|(place, trial)| {
                let rate = self.rate(trial.seconds?)?;
                Some(Measured { number: place + 1, point: trial.point, rate })
            })
            .collect()
    }
}

/// A trial that gave a time.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// Its place among all trials, from 1.
    number: usize,
    point: usize,
    /// Operations or bytes, in billions a second.
    rate: f64,
}

/// The page.
pub fn page(heading: &str, sections: &[Section]) -> String {
    let heading = escape(heading);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Polaris: {heading}</title>\n<style>\n{SHEET}{STYLE}</style>\n</head>\n<body>\n\
         <h1>{heading}</h1>\n"
    );
    for section in sections {
        let measured = section.measured();
        let _ = writeln!(html, "<section>\n<h2>{}</h2>", escape(&section.title));
        html.push_str(&figures(section, measured.len()));
        html.push_str(&search_curve(section, &measured));
        html.push_str(&parameters(section, &measured));
        html.push_str(&predictions(section));
        html.push_str("</section>\n");
    }
    if sections.is_empty() {
        html.push_str("<p>Nothing was tuned.</p>\n");
    }
    html.push_str("</body>\n</html>\n");
    html
}

/// The outcome in words.
fn figures(section: &Section, measured: usize) -> String {
    let (default, best) =
        (section.rate(section.default_seconds), section.rate(section.best_seconds));
    let unit = section.work.unit();
    let speed = match (default, best) {
        (Some(default), Some(best)) => format!(
            "Default {default:.1} {unit}, best {best:.1} {unit}, speed-up {:.2}.",
            best / default
        ),
        _ => "The best was not compared with the default.".to_owned(),
    };
    let tried = section.history.trials.len();
    let evaluations = format!(
        "{} of {}, {}.",
        counted(tried, "evaluation", "evaluations"),
        counted(section.points.len(), "valid configuration", "valid configurations"),
        failed(section.failures, tried - measured)
    );
    let config = match section.config {
        Some(config) => {
            format!("Configuration: <code>{}</code>", escape(&config_text(config)))
        }
        None if default.is_some() => "Configuration: the default, as nothing is faster.".to_owned(),
        None => "Configuration: not decided.".to_owned(),
    };
    format!("<p>{speed} {evaluations}<br>{config}</p>\n")
}

fn failed(failures: &[(Failure, usize)], all: usize) -> String {
    let here: usize = failures.iter().map(|(_, count)| count).sum();
    let mut reasons: Vec<String> =
        failures.iter().map(|(kind, count)| format!("{count} {}", in_words(*kind))).collect();
    // Only this run knows the reasons; the history knows of all failures.
    if all > here {
        reasons.push(format!("{} in earlier runs", all - here));
    }
    match all.max(here) {
        0 => "none failed".to_owned(),
        all => format!("{all} failed ({})", reasons.join(", ")),
    }
}

/// What became of a configuration that failed.
pub fn in_words(failure: Failure) -> &'static str {
    match failure {
        Failure::Build => "not built",
        Failure::Timeout => "out of time",
        Failure::Crash => "crashed",
        Failure::Wrong => "with wrong results",
        Failure::Run => "refused by the driver",
    }
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn search_curve(section: &Section, measured: &[Measured]) -> String {
    if measured.is_empty() {
        return paragraph("The search is not shown: no configuration could be measured.");
    }
    let last = section.history.trials.len();
    let trials = measured.iter().map(|trial| (trial.number as f64, trial.rate));
    let mut series = vec![
        Series { name: "each trial".into(), points: trials.collect(), style: Style::Dots },
        Series {
            name: "the best so far".into(),
            points: best_so_far(measured, last),
            style: Style::Stroke,
        },
    ];
    if let Some(default) = section.rate(section.default_seconds) {
        let end = last.max(FEWEST_TICKS) as f64;
        series.push(Series {
            name: format!("the default, {} {}", short(default), section.work.unit()),
            points: vec![(1.0, default), (end, default)],
            style: Style::Limit,
        });
    }
    let plot = Plot {
        title: "The search".into(),
        x_label: "evaluation",
        y_label: section.work.unit(),
        scale: Scale::Linear,
        series,
    };
    let caption = "The speed of each configuration in the order of the trials, without those that \
                   failed; the default was measured at the end, in turns with the best.";
    figure(&plot.svg(), caption)
}

/// The best rises in steps: between two trials nothing is found.
fn best_so_far(measured: &[Measured], last: usize) -> Vec<(f64, f64)> {
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for trial in measured {
        let number = trial.number as f64;
        match steps.last() {
            Some(&(_, best)) if best >= trial.rate => {}
            Some(&(_, best)) => steps.extend([(number, best), (number, trial.rate)]),
            None => steps.push((number, trial.rate)),
        }
    }
    steps.extend(steps.last().map(|&(_, best)| (last as f64, best)));
    steps
}

/// Which parameters matter, and a map of the two that matter most.
fn parameters(section: &Section, measured: &[Measured]) -> String {
    let absent = "The importance of the parameters is not shown, nor a map of two of them";
    if measured.len() < FEWEST {
        let few = counted(measured.len(), "configuration was", "configurations were");
        return paragraph(&format!(
            "{absent}: {few} measured, and fewer than {FEWEST} say too little."
        ));
    }
    let (points, unit) = (section.points, section.work.unit());
    let ranked = importance::ranked(points, measured);
    if ranked.iter().all(|(_, share)| *share == 0.0) {
        return paragraph(&format!("{absent}: none changed the measured times."));
    }
    let caption = "How much of the differences between the measured times each parameter explains \
                   to a forest of regression trees; parameters with a single value are left out.";
    let mut html = figure(&importance::bars(points, &ranked), caption);
    match ranked[..] {
        [(first, _), (second, _), ..] => {
            let caption = "The best of all configurations that were measured with these values of \
                           the two most important parameters: brighter is faster, and an empty \
                           cell was not measured.";
            let map = HeatMap::new(points, measured, [first, second], unit);
            html.push_str(&figure(&map.svg(), caption));
        }
        _ => html.push_str(&paragraph(
            "A map of two parameters is not shown: only one has more than one value.",
        )),
    }
    html
}

fn predictions(section: &Section) -> String {
    let pairs = section.predicted.iter().filter_map(|&(predicted, measured)| {
        Some((section.rate(measured)?, section.rate(predicted)?))
    });
    let pairs: Vec<(f64, f64)> = pairs.collect();
    if pairs.is_empty() {
        return paragraph("Predictions are not shown: no model was tested on these measurements.");
    }
    let (low, high) = pairs.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &(a, b)| {
        (low.min(a).min(b), high.max(a).max(b))
    });
    // Within a decade powers of ten would leave hardly a tick.
    let scale = if high > 10.0 * low { Scale::Logarithmic } else { Scale::Linear };
    let plot = Plot {
        title: format!("Predicted and measured {}", section.work.unit()),
        x_label: "measured",
        y_label: "predicted",
        scale,
        series: vec![
            Series {
                name: "predicted as measured".into(),
                points: vec![(low, low), (high, high)],
                style: Style::Limit,
            },
            Series { name: "configurations".into(), points: pairs, style: Style::Dots },
        ],
    };
    let caption = "Each configuration as a model predicts it that has not seen its time: the \
                   farther above the line, the more the model promises in vain.";
    figure(&plot.svg(), caption)
}

fn figure(svg: &str, caption: &str) -> String {
    format!("<figure>\n{svg}<figcaption>{}</figcaption>\n</figure>\n", escape(caption))
}

fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}
