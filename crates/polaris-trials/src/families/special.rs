//! Things that are not files, in the place of every file that a command takes.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use prost::Message;

use super::encoded;
use super::training::npz;
use crate::decoders;
use crate::fixtures::{
    Encoder, TABLE, configuration, configuration_of_trained, of_this_run, text, toml,
};
use crate::formats;
use crate::judge::Kind;
use crate::models;
use crate::process::Call;
use crate::trial::Trial;

/// What stands in the file's place. `good` is what belongs there: the command must succeed then, or the other
/// kinds would show nothing.
const KINDS: [&str; 13] = [
    "good",
    "fifo",
    "zero",
    "full",
    "null",
    "folder",
    "socket",
    "dangling",
    "circle",
    "unreadable",
    "empty",
    "missing",
    "terminal",
];

/// The places: the name of the file, and the command that takes it.
const PLACES: &[(&str, &str)] = &[
    ("model.onnx", "run model.onnx --mode cpu --random-inputs"),
    ("model.onnx", "info model.onnx"),
    ("model.onnx", "plan model.onnx --mode cpu"),
    ("model.onnx", "bench model model.onnx --mode cpu --runs 1"),
    ("x.npy", "run model.onnx --mode cpu --input x=x.npy"),
    ("image.png", "run convolutions.onnx --mode cpu --image image.png"),
    ("labels.txt", "run model.onnx --mode cpu --random-inputs --labels labels.txt"),
    ("out", "run model.onnx --mode cpu --random-inputs --output-dir out"),
    ("trace.json", "run model.onnx --mode cpu --random-inputs --profile trace.json"),
    ("plan.html", "plan model.onnx --mode cpu --html plan.html"),
    ("weights.bin", "run external.onnx --mode cpu --random-inputs"),
    ("tests/one/model.onnx", "onnx-test tests"),
    ("tests", "onnx-test tests"),
    ("tests/one/test_data_set_0/input_0.pb", "onnx-test tests"),
    ("config.toml", "train config.toml --out run"),
    ("table.csv", "train config.toml --out run"),
    ("run", "train config.toml --out run"),
    ("run/log.jsonl", "train config.toml --out run --resume"),
    ("run/checkpoints", "train config.toml --out run --resume"),
    ("run/checkpoints/step-00000002.safetensors", "train config.toml --out run --resume"),
    ("run/config.toml", "train config.toml --out run --resume"),
    ("run/model.safetensors", "eval run"),
    ("run/model.safetensors", "generate run --tokens 3"),
    ("run", "eval run"),
    ("out.onnx", "export run --out out.onnx"),
    ("data.npz", "train npz.toml --out other"),
    ("images.idx", "train idx.toml --out other"),
    ("labels.idx", "train idx.toml --out other"),
    ("pictures", "train images.toml --out other"),
    ("pictures/cat/1.png", "train images.toml --out other"),
    ("text.txt", "train text.toml --out other"),
    ("bpe.json", "train text.toml --out other --set data.tokenizer=bpe.json"),
    ("encoder", "embed encoder lines.txt --mode cpu -o out.npy"),
    ("encoder/config.json", "embed encoder lines.txt --mode cpu -o out.npy"),
    ("encoder/tokenizer.json", "embed encoder lines.txt --mode cpu -o out.npy"),
    ("encoder/model.safetensors", "embed encoder lines.txt --mode cpu -o out.npy"),
    ("encoder/modules.json", "embed encoder lines.txt --mode cpu -o out.npy"),
    ("encoder/1_Pooling/config.json", "embed encoder lines.txt --mode cpu -o out.npy"),
    ("encoder/sentence_bert_config.json", "embed encoder lines.txt --mode cpu -o out.npy"),
    ("encoder/tokenizer_config.json", "embed encoder lines.txt --mode cpu -o out.npy"),
    ("lines.txt", "embed encoder lines.txt --mode cpu -o out.npy"),
    ("tok.json", "embed encoder lines.txt --mode cpu -o out.npy --tokenizer tok.json"),
    ("out.npy", "embed encoder lines.txt --mode cpu -o out.npy"),
    ("out.jsonl", "embed encoder lines.txt --mode cpu -o out.jsonl"),
    ("tuned.jsonl", "tune --import tuned.jsonl"),
    ("tuned.jsonl", "tune --export tuned.jsonl"),
    ("../data/tuning", "tune --list"),
    ("../data/tuning/cpu.jsonl", "tune --list"),
    ("../data/machine.json", "devices"),
    ("../data/machine.lock", "devices --measure --device cpu"),
    ("../data", "devices"),
    ("../cache", "run model.onnx --mode cpu --random-inputs"),
    ("../cache/costs", "run model.onnx --mode cpu --random-inputs --profile trace.json"),
    ("../cache/packed", "run model.onnx --mode cpu --random-inputs"),
    ("../cache/programs", "cache"),
    ("../cache", "cache"),
    ("../cache/packed", "cache --clear"),
    ("vendors", "devices"),
    ("vendors/a.icd", "devices"),
    ("model.gguf", "info model.gguf --mode cpu"),
    ("model.gguf", "plan model.gguf --mode cpu"),
    ("model.gguf", "tokenize model.gguf abc"),
    ("model.gguf", "generate model.gguf --mode cpu -n 2 -p abc"),
    ("model.gguf", "chat model.gguf --mode cpu -n 2"),
    ("part-00001-of-00002.gguf", "generate part-00002-of-00002.gguf --mode cpu -n 2 -p abc"),
    ("part-00002-of-00002.gguf", "generate part-00001-of-00002.gguf --mode cpu -n 2 -p abc"),
    ("lines.txt", "perplexity model.gguf lines.txt --mode cpu --window 4"),
    ("model.gguf", "perplexity model.gguf lines.txt --mode cpu --window 4"),
    ("base.gguf", "perplexity model.gguf lines.txt --mode cpu --window 4 --base base.gguf"),
    ("any.gbnf", "generate model.gguf --mode cpu -n 2 -p abc --grammar any.gbnf"),
    ("any.json", "generate model.gguf --mode cpu -n 2 -p abc --json-schema any.json"),
    ("saved.json", "chat model.gguf --mode cpu -n 2"),
    ("page.html", "bench gemm --device cpu --sizes 16 --seconds 0 --report page.html"),
    ("saved", "bench gemm --device cpu --sizes 16 --seconds 0 --save saved"),
];

pub fn run(trial: &mut Trial<'_>) -> Result<()> {
    // Every combination once before any comes again; the seed decides where it begins.
    let total = (PLACES.len() * KINDS.len()) as u64;
    let number = (trial.index.wrapping_mul(97).wrapping_add(trial.settings.seed) % total) as usize;
    let (name, command) = PLACES[number / KINDS.len()];
    let kind = KINDS[number % KINDS.len()];
    trial.about = format!("{name} is {kind}");
    surroundings(trial, command)?;
    if kind != "good" {
        put(trial, name, kind)?;
    }
    let mut call = Call::new(command.split_whitespace());
    if command.starts_with("chat") {
        call.input = Some(trial.write("stdin", "hello\n/save saved.json\n")?);
    }
    if name.starts_with("vendors") {
        let folder = trial.path("vendors");
        call = call.env("POLARIS_OPENCL", "on").env("OCL_ICD_VENDORS", folder);
        call.limits.address_kib = 32 << 20;
    }
    let ended = trial.run(call)?;
    if kind == "good" && !ended.succeeded() && !ended.hung {
        trial.fault(Kind::Broken, format!("{command}: fails with good files"), ended.stderr_text());
    }
    Ok(())
}

/// The files that the commands need, all of them good.
fn surroundings(trial: &Trial<'_>, command: &str) -> Result<()> {
    for sample in models::all() {
        let name = match sample.name {
            "mlp" => "model.onnx",
            "convolutions" => "convolutions.onnx",
            "external" => "external.onnx",
            _ => continue,
        };
        trial.write(name, encoded(&sample))?;
        for (name, data) in &sample.files {
            trial.write(name, data)?;
        }
    }
    write_test(trial)?;
    trial.write("x.npy", formats::npy("<f4", &[1, 8], &formats::floats(8)))?;
    trial.write("image.png", formats::image(8, 8, image::ImageFormat::Png))?;
    trial.write("labels.txt", "a\nb\nc\n")?;
    trial.write("lines.txt", "a cat\nsleeps\n")?;
    trial.write("tuned.jsonl", "")?;
    if command.contains(".gguf") {
        let file = decoders::ALL[0].file();
        trial.write("model.gguf", file.bytes())?;
        trial.write("base.gguf", decoders::ALL[2].file().bytes())?;
        for (number, part) in decoders::split(&file).iter().enumerate() {
            trial.write(format!("part-0000{}-of-00002.gguf", number + 1), part.bytes())?;
        }
        trial.write("any.gbnf", "root ::= [a-z]+\n")?;
        trial.write("any.json", "{}")?;
    }
    if command.starts_with("embed") {
        Encoder::new().write(trial, "encoder")?;
        trial.write("tok.json", Encoder::new().tokenizer.to_string())?;
    }
    if command.starts_with("train") {
        let document = match command.ends_with("--resume") {
            true => configuration_of_trained(trial.settings, "csv"),
            false => configuration("csv"),
        };
        trial.write("config.toml", toml(&document))?;
        trial.write("table.csv", TABLE)?;
        trial.write("text.txt", text())?;
        trial.write("bpe.json", Encoder::new().tokenizer.to_string())?;
        trial.write("data.npz", npz(None))?;
        for source in ["npz", "idx", "images", "text"] {
            trial.write(format!("{source}.toml"), toml(&configuration(source)))?;
        }
        let pixels = vec![7; 360];
        trial.write("images.idx", formats::idx(8, &[10, 6, 6], &pixels))?;
        trial.write("labels.idx", formats::idx(8, &[10], &[0, 1, 0, 1, 0, 1, 0, 1, 0, 1]))?;
        for index in 0..8 {
            let class = if index < 4 { "cat" } else { "dog" };
            let file = formats::image(6, 6, image::ImageFormat::Png);
            trial.write(format!("pictures/{class}/{index}.png"), file)?;
        }
    }
    if command.contains(" run") || command.contains("run/") {
        let trained = trial.settings.fixtures.trained(trial.settings)?;
        let files = if command.starts_with("generate") { &trained.text } else { &trained.table };
        if !command.ends_with("--out run") {
            for (name, bytes) in files {
                trial.write(name, of_this_run(trial.settings, bytes.clone()))?;
            }
        }
    }
    Ok(())
}

/// Test data in the layout of the standard.
fn write_test(trial: &Trial<'_>) -> Result<()> {
    use models::{F32, constant, graph, model, node, value};
    let ends = ["x", "y"].map(|name| vec![value(name, F32, &[2])]);
    let [inputs, outputs] = ends;
    let relu = model(17, graph(vec![node("Relu", "x", "y", vec![])], vec![], inputs, outputs));
    trial.write("tests/one/model.onnx", relu.encode_to_vec())?;
    for (name, file) in [("x", "input_0.pb"), ("y", "output_0.pb")] {
        let tensor = constant(name, &[2], &[1.0, 2.0]).encode_to_vec();
        trial.write(format!("tests/one/test_data_set_0/{file}"), tensor)?;
    }
    Ok(())
}

/// Puts something in a file's place.
fn put(trial: &Trial<'_>, name: &str, kind: &str) -> Result<()> {
    let path = trial.path(name);
    if path.is_dir() {
        std::fs::remove_dir_all(&path)?;
    } else if path.symlink_metadata().is_ok() {
        std::fs::remove_file(&path)?;
    }
    if let Some(parent) = path.parent() {
        trial.settings.make_folder(parent)?;
    }
    let link = |to: &Path| std::os::unix::fs::symlink(to, &path);
    match kind {
        "fifo" => {
            let status = Command::new("mkfifo").arg(&path).status().context("mkfifo")?;
            anyhow::ensure!(status.success(), "mkfifo {}: {status}", path.display());
        }
        "zero" => link(Path::new("/dev/zero"))?,
        "full" => link(Path::new("/dev/full"))?,
        "null" => link(Path::new("/dev/null"))?,
        "terminal" => link(Path::new("/dev/tty"))?,
        "folder" => std::fs::create_dir(&path)?,
        "socket" => bind(&path)?,
        "dangling" => link(Path::new("nowhere"))?,
        "circle" => link(path.file_name().map(Path::new).unwrap_or(&path))?,
        "unreadable" => {
            std::fs::write(&path, b"secret")?;
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000))?;
        }
        "empty" => std::fs::write(&path, b"")?,
        _ => return Ok(()),
    }
    trial.settings.hand_over(&path)
}

/// A socket's name may have some hundred bytes: it is bound near and moved.
fn bind(path: &Path) -> Result<()> {
    let near = tempfile::Builder::new().prefix("s").tempdir()?;
    let short = near.path().join("s");
    UnixListener::bind(&short)?;
    if std::fs::rename(&short, path).is_err() {
        UnixListener::bind(path)?;
    }
    Ok(())
}
