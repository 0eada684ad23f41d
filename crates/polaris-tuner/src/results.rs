//! What searches found, for the terminal, for programs and as a page.

use std::path::Path;

use anyhow::Context;
use polaris::DeviceId;
use polaris_tune::{Failure, Points, ProblemKey};
use serde::Serialize;

use super::protocol::Config;
use super::report::{Section, page};
use super::search::{Found, failures_text};
use super::subject::Work;
use crate::commands::bench_gemm::save::replace_file;
use crate::output::{self, Table, print_line, say};

/// What a search found for one problem.
pub struct Tuned {
    pub device: DeviceId,
    pub problem: ProblemKey,
    pub strategy: String,
    pub work: Work,
    pub points: Points,
    /// Predicted and measured seconds, by a model that saw no measurement of this problem.
    pub predicted: Vec<(f64, f64)>,
    pub found: Found,
}

/// Everything that was found.
#[derive(Default)]
pub struct Results {
    all: Vec<Tuned>,
}

/// One problem of the results.
#[derive(Debug, Serialize)]
struct Row<'a> {
    device: String,
    operation: &'a str,
    shape: &'a [u64],
    dtype: &'a str,
    layout: &'a str,
    strategy: &'a str,
    /// Valid configurations.
    space: usize,
    /// Of this run, and those that were known from earlier ones.
    evaluations: usize,
    resumed: usize,
    failed: usize,
    failures: &'a [(Failure, usize)],
    /// Where operations are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    default_gflops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_gflops: Option<f64>,
    /// Where bytes are.
    #[serde(skip_serializing_if = "Option::is_none")]
    default_gbs: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_gbs: Option<f64>,
    speedup: f64,
    drift: f64,
    /// None where the default is as good.
    config: &'a Option<Config>,
    interrupted: bool,
}

impl Tuned {
    fn row(&self) -> Row<'_> {
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

    fn speedup(&self) -> f64 {
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

impl Results {
    pub fn add(&mut self, tuned: Tuned) {
        self.all.push(tuned);
    }

    /// Whether the user stopped the last search.
    pub fn interrupted(&self) -> bool {
        self.all.last().is_some_and(|tuned| tuned.found.interrupted)
    }

    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        let logs: f64 = self.all.iter().map(|tuned| tuned.speedup().ln()).sum();
        let geometric_mean = (logs / self.all.len().max(1) as f64).exp();
        let rows: Vec<Row> = self.all.iter().map(Tuned::row).collect();
        if json {
            #[derive(Serialize)]
            struct All<'a> {
                results: Vec<Row<'a>>,
                geometric_mean: f64,
            }
            return output::print_json("polaris.tune/1", &All { results: rows, geometric_mean });
        }
        let headings = [
            "device",
            "shape",
            "type",
            ">default",
            ">best",
            ">speed-up",
            ">evaluations",
            "failed",
            "configuration",
        ];
        let mut table = Table::new(&headings);
        for (tuned, row) in self.all.iter().zip(&rows) {
            let rate = |of_operations: Option<f64>, of_bytes: Option<f64>| {
                let rate = of_operations.or(of_bytes).unwrap_or_default();
                format!("{rate:.1} {}", tuned.work.unit())
            };
            table.row(vec![
                row.device.clone(),
                format!("{} {}", shape_text(&tuned.problem), row.layout),
                row.dtype.to_owned(),
                rate(row.default_gflops, row.default_gbs),
                rate(row.best_gflops, row.best_gbs),
                format!("{:.2}", row.speedup),
                format!("{} + {}", row.resumed, row.evaluations),
                failures_text(row.failures),
                row.config.as_ref().map_or("the default".to_owned(), config_text),
            ]);
        }
        print_line("default and best measured in turns; evaluations: known + new")?;
        table.print()?;
        print_line(&format!("  geometric mean of speed-ups: {geometric_mean:.3}"))
    }

    pub fn write_report(&self, path: &Path) -> anyhow::Result<()> {
        let sections: Vec<Section> = self.all.iter().map(Tuned::section).collect();
        let text = page("What tuning found", &sections);
        replace_file(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        say!("note: the report is in {}", path.display());
        Ok(())
    }
}

pub fn config_text(config: &Config) -> String {
    let parts: Vec<String> = config.iter().map(|(name, value)| format!("{name}={value}")).collect();
    parts.join(" ")
}

pub fn shape_text(problem: &ProblemKey) -> String {
    let sizes: Vec<String> = problem.shape.iter().map(u64::to_string).collect();
    sizes.join("x")
}
