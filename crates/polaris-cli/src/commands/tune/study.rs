//! `polaris tune study`: evaluates strategies and predictors on stored measurements.

use polaris_tuner::{Study, StudyOptions, study};
use serde::Serialize;

use crate::arguments::{Global, TuneStudy};
use crate::exit;
use crate::output::{self, Table, print_line};
use crate::session::Session;

pub fn run(global: Global, options: &TuneStudy) -> anyhow::Result<u8> {
    let json = global.json;
    let session = Session::new(global)?;
    let devices = session.chosen.clone();
    let chosen = StudyOptions { devices, seeds: options.seeds, folds: options.folds };
    let studies = study(&session.runtime, &chosen)?;
    if json {
        #[derive(Serialize)]
        struct Studies {
            studies: Vec<Study>,
        }
        output::print_json("polaris.tune.study/1", &Studies { studies })?;
        return Ok(exit::OK);
    }
    for study in &studies {
        print(study)?;
    }
    Ok(exit::OK)
}

fn print(study: &Study) -> anyhow::Result<()> {
    print_line(&format!("{}: strategies replayed on exhaustively measured shapes", study.device))?;
    let mut table = Table::new(&[
        "shape",
        "strategy",
        ">space",
        ">evaluations to 5%",
        ">share",
        ">best after 15%",
    ]);
    for one in &study.replays {
        let shape: Vec<String> = one.shape.iter().map(u64::to_string).collect();
        let needed = one.evaluations_to_within_5_percent;
        table.row(vec![
            shape.join("x"),
            one.strategy.to_owned(),
            one.space.to_string(),
            needed.map_or("-".to_owned(), |needed| needed.to_string()),
            needed
                .map_or("-".to_owned(), |n| format!("{:.1}%", 100.0 * n as f64 / one.space as f64)),
            format!("{:.3}", one.best_by_optimum),
        ]);
    }
    table.print()?;
    print_line("\nmodels, cross-validated on held-out shapes")?;
    let mut table = Table::new(&[
        "model",
        ">samples",
        ">shapes",
        ">R2 of log",
        ">Spearman",
        ">regret@1",
        ">regret@5",
        ">regret@10",
        ">bytes",
        ">us",
    ]);
    for one in &study.predictors {
        table.row(vec![
            one.model.to_owned(),
            one.samples.to_string(),
            one.shapes.to_string(),
            format!("{:.3}", one.r2_log),
            format!("{:.3}", one.spearman),
            format!("{:.1}%", 100.0 * one.regret_at_1),
            format!("{:.1}%", 100.0 * one.regret_at_5),
            format!("{:.1}%", 100.0 * one.regret_at_10),
            one.bytes.to_string(),
            format!("{:.1}", one.predict_us),
        ]);
    }
    table.print()
}
