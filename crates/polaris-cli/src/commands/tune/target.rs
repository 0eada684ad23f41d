//! `polaris tune gemm --target`: tuning for a card that is not installed. Everything here is a prediction.

use polaris_tuner::{TargetOptions, TargetOutcome, TargetRow, config_text, predict_for_target};
use serde::Serialize;

use crate::arguments::{Global, TuneGemm};
use crate::output::{self, Shown, Table, print_line, say};
use crate::{exit, interrupt};

pub fn run(global: &Global, options: &TuneGemm, target: &str) -> anyhow::Result<u8> {
    let chosen = TargetOptions {
        target: target.to_owned(),
        problems: options.problems(),
        strategy: options.search.strategy.clone(),
        seed: options.search.seed,
        budget: options.search.budget,
        cancellation: interrupt::token(),
    };
    let outcome = predict_for_target(&chosen, &mut Shown::new())?;
    if let Some(path) = &options.output {
        outcome.save(path)?;
        say!("note: wrote the predictions to {}", path.display());
    }
    print(global, &outcome)?;
    Ok(if interrupt::requested() { exit::INTERRUPTED } else { exit::OK })
}

fn print(global: &Global, outcome: &TargetOutcome) -> anyhow::Result<()> {
    if global.json {
        #[derive(Serialize)]
        struct All<'a> {
            results: &'a [TargetRow],
            geometric_mean: f64,
        }
        let geometric_mean = outcome.geometric_mean();
        let all = All { results: &outcome.rows, geometric_mean };
        return output::print_json("polaris.tune/1", &all);
    }
    print_line(&format!(
        "predicted for an {} with a peak of {:.0} GFLOPS, from its machine code; nothing was measured",
        outcome.card.name,
        outcome.card.peak() / 1e9
    ))?;
    let mut table = Table::new(&[
        "shape",
        ">default",
        ">best",
        ">of peak",
        "bound by",
        ">registers",
        ">waves",
        ">candidates",
        "configuration",
    ]);
    for row in &outcome.rows {
        let shape: Vec<String> = row.shape.iter().map(u64::to_string).collect();
        table.row(vec![
            shape.join("x"),
            format!("{:.0}", row.default_gflops),
            format!("{:.0}", row.best_gflops),
            format!("{:.0}%", 100.0 * row.share_of_peak),
            row.bound.to_owned(),
            row.vgprs.to_string(),
            format!("{:.2}", row.waves_per_simd),
            format!("{} ({} failed)", row.evaluations, row.failed),
            row.config.as_ref().map_or("default".to_owned(), config_text),
        ]);
    }
    table.print()
}
