//! The page about a training: curves, and what was taken for what.

use std::path::Path;

use polaris::nn::tensors_file::write_atomically;
use polaris::nn::train::{Evaluation, Trainer, read_log};
use polaris_report::{ConfusionMatrix, LinePlot, Page, Series};
use serde_json::Value;

use super::in_words;

pub fn write(
    path: &Path,
    folder: &Path,
    trainer: &Trainer,
    config: &str,
    evaluation: Option<&Evaluation>,
) -> anyhow::Result<()> {
    let events = read_log(&folder.join("log.jsonl"))?;
    let (progress, data) = (trainer.progress(), trainer.training_data());
    let seconds: f64 = of(&events, "step").filter_map(|event| event["seconds"].as_f64()).sum();
    let examples: f64 = of(&events, "step").filter_map(|event| event["examples"].as_f64()).sum();
    let mut facts = vec![
        ("parameters", trainer.parameter_count().to_string()),
        ("examples to learn from", data.examples().to_string()),
        (
            "examples to test with",
            trainer.validation_data().map_or(0, |data| data.examples()).to_string(),
        ),
        ("steps", format!("{} of {}", progress.step, trainer.total_steps())),
        (
            "time in steps",
            format!("{seconds:.1} s, {:.0} examples a second", examples / seconds.max(1e-9)),
        ),
    ];
    if let Some(evaluation) = evaluation {
        facts.push(("best model", in_words(evaluation)));
    }
    let mut page = Page::new("Training").facts(&facts).section("Curves").lines(&LinePlot {
        title: "Loss".into(),
        x_label: "step".into(),
        y_label: "loss".into(),
        series: vec![
            series("training", &events, "step", "loss"),
            series("validation", &events, "evaluated", "loss"),
        ],
        marks: progress
            .best
            .map(|(_, step)| (step as f64, "best".to_owned()))
            .into_iter()
            .collect(),
        ..LinePlot::default()
    });
    let accuracy = series("validation", &events, "evaluated", "accuracy");
    if !accuracy.points.is_empty() {
        page = page.lines(&LinePlot {
            title: "Accuracy".into(),
            x_label: "step".into(),
            y_label: "part that is right".into(),
            series: vec![accuracy],
            ..LinePlot::default()
        });
    }
    page = page.lines(&LinePlot {
        title: "Rate".into(),
        x_label: "step".into(),
        y_label: "learning rate".into(),
        series: vec![series("rate", &events, "step", "rate")],
        ..LinePlot::default()
    });
    if let Some(evaluation) = evaluation.filter(|evaluation| !evaluation.confusion.is_empty()) {
        page = page.section("What was taken for what").matrix(&ConfusionMatrix {
            title: "Validation, best model".into(),
            classes: data.classes().to_vec(),
            counts: evaluation.confusion.clone(),
        });
    }
    let page = page.section("Configuration").code(config);
    Ok(write_atomically(path, page.render().as_bytes())?)
}

fn of<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["event"] == kind)
}

fn series(name: &str, events: &[Value], kind: &str, what: &str) -> Series {
    let point = |event: &Value| Some((event["step"].as_f64()?, event[what].as_f64()?));
    Series {
        name: name.into(),
        points: of(events, kind).filter_map(point).collect(),
        ..Series::default()
    }
}
