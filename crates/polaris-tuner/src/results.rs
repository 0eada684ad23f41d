//! The results of searches, as data and as a page.

use polaris_report::Page;
use polaris_runtime::DeviceId;
use polaris_tune::{Failure, Points, ProblemKey};
use serde::Serialize;

use crate::page::{Section, in_words, page};
use crate::protocol::Config;
use crate::search::Found;
use crate::subject::Work;

/// What a search found for one problem.
#[derive(Debug, Clone)]
pub struct Tuned {
    /// The device.
    pub device: DeviceId,
    /// The problem.
    pub problem: ProblemKey,
    /// The strategy's name.
    pub strategy: String,
    /// What one run has to do.
    pub work: Work,
    /// Valid configurations.
    pub points: Points,
    /// Predicted and measured seconds, by a model that saw no measurement of this problem.
    pub predicted: Vec<(f64, f64)>,
    /// What the search found.
    pub found: Found,
}

/// Everything that was found.
#[derive(Debug, Clone, Default)]
pub struct TuneOutcome {
    /// Problem after problem, device after device.
    pub tuned: Vec<Tuned>,
}

/// Everything that was found, as plain figures.
#[derive(Debug, Serialize)]
pub struct Summary<'a> {
    /// Each problem.
    pub results: Vec<Row<'a>>,
    /// Of the speed-ups.
    pub geometric_mean: f64,
}

/// One problem of the results.
#[derive(Debug, Serialize)]
pub struct Row<'a> {
    /// The device.
    pub device: String,
    /// The operation.
    pub operation: &'a str,
    /// The problem's sizes.
    pub shape: &'a [u64],
    /// The type.
    pub dtype: &'a str,
    /// The memory layout of the operands.
    pub layout: &'a str,
    /// The strategy's name.
    pub strategy: &'a str,
    /// Valid configurations.
    pub space: usize,
    /// Evaluations of this run.
    pub evaluations: usize,
    /// Those that were known from earlier ones.
    pub resumed: usize,
    /// How many failed in this run.
    pub failed: usize,
    /// The same by kind.
    pub failures: &'a [(Failure, usize)],
    /// Where operations are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_gflops: Option<f64>,
    /// The best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_gflops: Option<f64>,
    /// Where bytes are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_gbs: Option<f64>,
    /// The best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_gbs: Option<f64>,
    /// The best by the default.
    pub speedup: f64,
    /// The slowest re-measurement of the best by its first one.
    pub drift: f64,
    /// None where the default is as good.
    pub config: &'a Option<Config>,
    /// Whether the search was cancelled.
    pub interrupted: bool,
}

impl Tuned {
    /// Its figures.
    pub fn row(&self) -> Row<'_> {
        let found = &self.found;
        let [default, best] = [found.default, found.best].map(|time| self.work.rate(time.seconds));
        let of_operations = matches!(self.work, Work::Operations(_));
        Row {
            device: self.device.to_string(),
            operation: &self.problem.operation,
            shape: &self.problem.shape,
            dtype: &self.problem.dtype,
            layout: &self.problem.layout,
            strategy: &self.strategy,
            space: self.points.len(),
            evaluations: found.evaluations,
            resumed: found.resumed,
            failed: found.failed.iter().map(|(_, count)| count).sum(),
            failures: &found.failed,
            default_gflops: of_operations.then_some(default),
            best_gflops: of_operations.then_some(best),
            default_gbs: (!of_operations).then_some(default),
            best_gbs: (!of_operations).then_some(best),
            speedup: self.speedup(),
            drift: found.drift,
            config: &found.config,
            interrupted: found.interrupted,
        }
    }

    /// The best by the default; 1 where the search was cancelled.
    pub fn speedup(&self) -> f64 {
        let found = &self.found;
        if found.interrupted { 1.0 } else { found.default.seconds / found.best.seconds }
    }

    fn section(&self) -> Section<'_> {
        Section {
            title: format!(
                "{} {} of {} on {}",
                self.problem.operation,
                shape_text(&self.problem),
                self.problem.dtype,
                self.device
            ),
            points: &self.points,
            history: &self.found.history,
            work: self.work,
            default_seconds: self.found.default.seconds,
            best_seconds: self.found.best.seconds,
            config: self.found.config.as_ref(),
            failures: &self.found.failed,
            predicted: self.predicted.clone(),
        }
    }
}

impl TuneOutcome {
    /// Whether the last search was cancelled.
    pub fn interrupted(&self) -> bool {
        self.tuned.last().is_some_and(|tuned| tuned.found.interrupted)
    }

    /// The rows of all problems and the geometric mean of their speed-ups, as `polaris tune --json` prints them.
    pub fn summary(&self) -> Summary<'_> {
        let logs: f64 = self.tuned.iter().map(|tuned| tuned.speedup().ln()).sum();
        let geometric_mean = (logs / self.tuned.len().max(1) as f64).exp();
        Summary { results: self.tuned.iter().map(Tuned::row).collect(), geometric_mean }
    }

    /// A page with the searches, the parameters and the predictions.
    pub fn page(&self) -> Page {
        let sections: Vec<Section> = self.tuned.iter().map(Tuned::section).collect();
        page("Tuning results", &sections)
    }
}

/// A configuration as text.
pub fn config_text(config: &Config) -> String {
    let parts: Vec<String> = config.iter().map(|(name, value)| format!("{name}={value}")).collect();
    parts.join(" ")
}

/// The sizes of a problem as text.
pub fn shape_text(problem: &ProblemKey) -> String {
    let sizes: Vec<String> = problem.shape.iter().map(u64::to_string).collect();
    sizes.join("x")
}

/// How many failed, and why.
pub fn failures_text(failed: &[(Failure, usize)]) -> String {
    let why: Vec<String> =
        failed.iter().map(|&(kind, count)| format!("{count} {}", in_words(kind))).collect();
    if why.is_empty() { "none failed".to_owned() } else { why.join(", ") }
}
