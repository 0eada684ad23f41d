//! `polaris compare`: two models on the same samples; of language models see `compare_llm.rs`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::bail;
use polaris::graph::Session as Model;
use polaris::models::samples::{self, Samples};
use polaris::onnx::{Dim, Tensor, Type, Value};
use polaris::optimize::onnx::{Comparison, Noise, Output};
use polaris_bench::model::device_name;
use serde::Serialize;

use super::compare_llm;
use super::llm::is_language_model;
use super::model::options as model_options;
use crate::arguments::{Compare, Global, PassChoice};
use crate::exit::Usage;
use crate::output::{self, Table, print_line};
use crate::session::Session;
use crate::{exit, interrupt};

#[derive(Serialize)]
struct Result {
    samples: usize,
    batch: usize,
    models: [Side; 2],
    outputs: Vec<OutputResult>,
}

#[derive(Serialize)]
struct Side {
    path: PathBuf,
    device: String,
    bytes: u64,
    /// Of a batch; none of the first one, which plans.
    median_ms: Option<f64>,
}

#[derive(Serialize)]
struct OutputResult {
    name: String,
    elements: u64,
    /// Null if nothing differs, or the ratio is not finite.
    sqnr_db: Option<f64>,
    /// The same in words.
    #[serde(skip)]
    ratio: String,
    largest_difference: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<ClassResult>,
}

#[derive(Serialize)]
struct ClassResult {
    rows: u64,
    /// From 0 to 1.
    top1_agreement: f64,
    kl_mean: f64,
    kl_largest: f64,
    /// Of both models, from 0 to 1.
    accuracy: Option<[f64; 2]>,
}

pub fn run(global: Global, options: &Compare) -> anyhow::Result<u8> {
    let json = global.json;
    let paths = [&options.first, &options.second];
    match paths.map(|path| is_language_model(path)) {
        [true, true] => return compare_llm::run(global, options),
        [false, false] => {}
        _ => {
            let why = "a language model cannot be compared with an ONNX model; name two of a kind";
            return Err(Usage(why.to_owned()).into());
        }
    }
    let mut session = Session::for_mode(global, options.mode)?;
    let settings = model_options(&mut session, options.mode, &PassChoice::default())?;
    let load = |path: &PathBuf| Model::open(&session.runtime, path, &settings);
    let models = [load(paths[0])?, load(paths[1])?];
    let names = check_same(&models)?;
    let classes = models.iter().find_map(|model| samples::classes(&model.model().metadata));
    let samples = Samples::open(&options.data, &models[0].inputs(), classes.as_deref())?;
    let most =
        options.samples.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let batches = samples.batches(samples.first(most)?, options.batch as usize);
    let mut comparison = Comparison::default();
    let mut times = [Vec::new(), Vec::new()];
    let bar = output::progress(batches.len(), "comparing");
    let whole = batches.first().map_or(0, std::ops::Range::len);
    for (number, range) in batches.iter().enumerate() {
        if interrupt::requested() {
            return Err(polaris::runtime::Error::Interrupted.into());
        }
        let given = samples.read(range.clone())?;
        let mut outputs = [Vec::new(), Vec::new()];
        // The first is the second one every other time, so that neither has the warmer cache.
        for turn in 0..2 {
            let which = (turn + number) % 2;
            let begin = Instant::now();
            outputs[which] = answers(&models[which], &given, &names[which], &names[0])?;
            if number > 0 && range.len() == whole {
                times[which].push(begin.elapsed().as_secs_f64() * 1e3);
            }
        }
        let labels = samples.labels().map(|labels| &labels[range.clone()]);
        comparison.add(&outputs[0], &outputs[1], labels)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let side = |at: usize, times: &mut Vec<f64>| -> anyhow::Result<Side> {
        times.sort_by(f64::total_cmp);
        let path = paths[at].clone();
        let bytes = std::fs::metadata(&path)?.len();
        let median_ms = times.get(times.len() / 2).copied();
        Ok(Side { path, device: device_name(&models[at]), bytes, median_ms })
    };
    let [mut first, mut second] = times;
    let result = Result {
        samples: batches.iter().map(std::ops::Range::len).sum(),
        batch: whole,
        models: [side(0, &mut first)?, side(1, &mut second)?],
        outputs: comparison.outputs.iter().map(describe).collect(),
    };
    match json {
        true => output::print_json("polaris.compare/1", &result)?,
        false => print(&result)?,
    }
    Ok(exit::OK)
}

/// The names of the outputs of both models that are compared with one another: those of the same names, or the only ones.
fn check_same(models: &[Model; 2]) -> anyhow::Result<[Vec<String>; 2]> {
    let in_words = |list: &[(&str, Option<&Type>)]| -> String {
        let one = |(name, ty): &(&str, Option<&Type>)| {
            format!("`{name}` {}", ty.map_or(String::new(), ToString::to_string))
        };
        list.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let [first, second] = models.each_ref().map(Model::inputs);
    let fits = first.len() == second.len()
        && first.iter().zip(&second).all(|(a, b)| a.0 == b.0 && takes_the_same(a.1, b.1));
    if !fits {
        bail!("the models take other inputs: {} and {}", in_words(&first), in_words(&second));
    }
    let [first, second] = models.each_ref().map(Model::outputs);
    let names = [&first, &second]
        .map(|list| -> Vec<String> { list.iter().map(|(name, _)| (*name).to_owned()).collect() });
    let same = names[0].iter().all(|name| names[1].contains(name));
    if names[0].len() != names[1].len() || !same && names[0].len() != 1 {
        bail!("the models have other outputs: {} and {}", in_words(&first), in_words(&second));
    }
    Ok(names)
}

/// Whether two types have values in common: names of lengths may differ.
fn takes_the_same(a: Option<&Type>, b: Option<&Type>) -> bool {
    match (a, b) {
        (Some(Type::Tensor(x, Some(first))), Some(Type::Tensor(y, Some(second)))) => {
            let meet = |(a, b): (&Dim, &Dim)| match (a.known(), b.known()) {
                (Some(a), Some(b)) => a == b,
                _ => true,
            };
            x == y && first.len() == second.len() && first.iter().zip(second).all(meet)
        }
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

/// The outputs of a model, under the names that the first model has for them.
fn answers(
    model: &Model,
    given: &[(String, Tensor)],
    own: &[String],
    names: &[String],
) -> anyhow::Result<Vec<(String, Tensor)>> {
    let given: Vec<(&str, Value)> =
        given.iter().map(|(name, tensor)| (name.as_str(), tensor.clone().into())).collect();
    let outputs = model.run(&given)?;
    let tensor = |(name, value): (String, Value)| {
        let name = if own.len() == 1 { names[0].clone() } else { name };
        Ok((name, value.tensor()?.clone()))
    };
    outputs.into_iter().map(tensor).collect()
}

fn describe(output: &Output) -> OutputResult {
    let share = |of: u64, all: u64| of as f64 / all.max(1) as f64;
    let classes = output.classes.as_ref().map(|classes| ClassResult {
        rows: classes.rows,
        top1_agreement: share(classes.same_top, classes.rows),
        kl_mean: classes.divergence / classes.rows.max(1) as f64,
        kl_largest: classes.largest,
        accuracy: (classes.labelled > 0)
            .then(|| classes.right.map(|right| share(right, classes.labelled))),
    });
    let noise = output.noise;
    OutputResult {
        name: output.name.clone(),
        elements: noise.elements,
        sqnr_db: Some(noise.decibels()).filter(|ratio| ratio.is_finite()),
        ratio: ratio(noise),
        largest_difference: noise.largest,
        classes,
    }
}

fn ratio(noise: Noise) -> String {
    match (noise.largest == 0.0, noise.decibels()) {
        (true, _) => "no difference".to_owned(),
        (_, ratio) if ratio.is_nan() => "SQNR not a number".to_owned(),
        (_, ratio) => format!("SQNR {ratio:.1} dB"),
    }
}

fn print(result: &Result) -> anyhow::Result<()> {
    let file = |path: &Path| path.display().to_string();
    let mut table = Table::new(&["model", ">size", ">time of a batch", "device"]);
    for side in &result.models {
        table.row(vec![
            file(&side.path),
            format!("{:.2} MB", side.bytes as f64 / 1e6),
            side.median_ms.map_or("-".to_owned(), |ms| format!("{ms:.3} ms")),
            side.device.clone(),
        ]);
    }
    table.print()?;
    print_line(&format!("{} samples, {} at a time:", result.samples, result.batch))?;
    for output in &result.outputs {
        let (name, ratio) = (polaris::printable(&output.name), &output.ratio);
        let most = output.largest_difference;
        print_line(&format!("  `{name}`: {ratio}, largest difference {most:.3e}"))?;
        if let Some(classes) = &output.classes {
            let same = 100.0 * classes.top1_agreement;
            print_line(&format!(
                "    the same class in {same:.2} % of {} rows; KL divergence {:.3e} on average, {:.3e} at most",
                classes.rows, classes.kl_mean, classes.kl_largest
            ))?;
            if let Some([first, second]) = classes.accuracy {
                let (first, second) = (100.0 * first, 100.0 * second);
                let points = second - first;
                print_line(&format!(
                    "    accuracy {first:.2} % and {second:.2} % ({points:+.2} points)"
                ))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_the_same_has_no_difference() {
        let of = |first: &[f64], second: &[f64]| {
            let mut noise = Noise::default();
            noise.add(first, second);
            ratio(noise)
        };
        assert_eq!(of(&[1.0, 0.0], &[1.0, 0.0]), "no difference");
        assert_eq!(of(&[0.0, 0.0], &[0.0, 0.0]), "no difference");
        assert_eq!(of(&[1.0, 2.0], &[1.0, f64::NAN]), "SQNR not a number");
        assert_eq!(of(&[0.0, 0.0], &[0.0, 1.0]), "SQNR -inf dB");
        assert_eq!(of(&[3.0, 4.0], &[3.0, 4.5]), "SQNR 20.0 dB");
    }
}
