//! The results of searches as self-contained HTML: for each problem its figures, the course of the search, the
//! importance of the parameters, and the quality of the predictions.

mod importance;
#[cfg(test)]
mod tests;

use polaris_report::{LinePlot, Page, Series, Style, short};
use polaris_tune::{Failure, History, Points};

use crate::protocol::Config;
use crate::results::config_text;
use crate::subject::Work;

/// Fewer measured configurations say too little about the parameters.
const FEWEST: usize = 20;

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
    /// None for what is not a time.
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
pub fn page(heading: &str, sections: &[Section]) -> Page {
    let mut page = Page::new(heading);
    for section in sections {
        let measured = section.measured();
        page = figures(page.section(&section.title), section, measured.len());
        page = search_curve(page, section, &measured);
        page = parameters(page, section, &measured);
        page = predictions(page, section);
    }
    if sections.is_empty() {
        page = page.text("Nothing was tuned.");
    }
    page
}

/// The outcome as text.
fn figures(page: Page, section: &Section, measured: usize) -> Page {
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
        Some(config) => format!("Configuration: {}", config_text(config)),
        None if default.is_some() => {
            "Configuration: the default, since nothing is faster.".to_owned()
        }
        None => "Configuration: not decided.".to_owned(),
    };
    page.text(&format!("{speed} {evaluations}")).text(&config)
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
        Failure::Timeout => "timed out",
        Failure::Crash => "crashed",
        Failure::Wrong => "with wrong results",
        Failure::Run => "rejected by the driver",
    }
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn search_curve(page: Page, section: &Section, measured: &[Measured]) -> Page {
    if measured.is_empty() {
        return page.text("There is no search to show: no configuration could be measured.");
    }
    let last = section.history.trials.len();
    let trials = measured.iter().map(|trial| (trial.number as f64, trial.rate));
    let mut series = vec![
        Series { name: "each evaluation".into(), points: trials.collect(), style: Style::Dots },
        Series {
            name: "best so far".into(),
            points: best_so_far(measured, last),
            style: Style::Line,
        },
    ];
    if let Some(default) = section.rate(section.default_seconds) {
        let end = last as f64;
        series.push(Series {
            name: format!("default, {} {}", short(default), section.work.unit()),
            points: vec![(1.0, default), (end, default)],
            style: Style::Limit,
        });
    }
    let plot = LinePlot {
        title: "The search".into(),
        x_label: "evaluation".into(),
        y_label: section.work.unit().into(),
        series,
        from_zero: true,
        ..LinePlot::default()
    };
    let caption = "The speed of each configuration in the order of evaluation, without failed ones. The default \
                   was measured at the end, in turns with the best.";
    page.lines(&plot).text(caption)
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
fn parameters(page: Page, section: &Section, measured: &[Measured]) -> Page {
    let absent = "The importance of the parameters and the map of two of them are not shown";
    if measured.len() < FEWEST {
        let few = counted(measured.len(), "configuration was", "configurations were");
        return page.text(&format!("{absent}: {few} measured, and at least {FEWEST} are needed."));
    }
    let (points, unit) = (section.points, section.work.unit());
    let ranked = importance::ranked(points, measured);
    if ranked.iter().all(|(_, share)| *share == 0.0) {
        return page.text(&format!("{absent}: none changed the measured times."));
    }
    let caption = "The share of the variation in measured times that each parameter explains in a random forest; \
                   parameters with a single value are omitted.";
    let page = page.bars(&importance::bars(points, &ranked)).text(caption);
    match ranked[..] {
        [(first, _), (second, _), ..] => {
            let caption = "The best measured configuration for each pair of values of the two most important \
                           parameters. Brighter is faster; an empty cell was not measured.";
            let map = importance::map(points, measured, [first, second], unit);
            page.heat_map(&map).text(caption)
        }
        _ => page.text("There is no map of two parameters: only one has more than one value."),
    }
}

fn predictions(page: Page, section: &Section) -> Page {
    let pairs = section.predicted.iter().filter_map(|&(predicted, measured)| {
        Some((section.rate(measured)?, section.rate(predicted)?))
    });
    let pairs: Vec<(f64, f64)> = pairs.collect();
    if pairs.is_empty() {
        return page
            .text("There are no predictions: no model was evaluated on these measurements.");
    }
    let (low, high) = pairs.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &(a, b)| {
        (low.min(a).min(b), high.max(a).max(b))
    });
    // Within a decade powers of ten would leave hardly a tick.
    let log = high > 10.0 * low;
    let plot = LinePlot {
        title: format!("Predicted and measured {}", section.work.unit()),
        x_label: "measured".into(),
        y_label: "predicted".into(),
        log_x: log,
        log_y: log,
        series: vec![
            Series {
                name: "perfect prediction".into(),
                points: vec![(low, low), (high, high)],
                style: Style::Limit,
            },
            Series { name: "configurations".into(), points: pairs, style: Style::Dots },
        ],
        ..LinePlot::default()
    };
    let caption = "Each configuration as predicted by a model that was not trained on it. Points above the line \
                   are slower than predicted.";
    page.lines(&plot).text(caption)
}
