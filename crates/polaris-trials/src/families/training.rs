//! Trainings from hostile configurations and data, and damaged models and checkpoints.

use anyhow::Result;
use serde_json::{Value, json};

use crate::damage::{damage, damage_text};
use crate::fixtures::{TABLE, configuration, configuration_of_trained, of_this_run, text, toml};
use crate::formats;
use crate::json_damage::damage_json;
use crate::models;
use crate::random::{ODD_INTEGERS, Random, odd_string};
use crate::trial::Trial;

const SOURCES: [&str; 5] = ["csv", "npz", "idx", "images", "text"];

pub fn run(trial: &mut Trial<'_>) -> Result<()> {
    trial.may_be_long = true;
    match trial.random.below(10) {
        0..=2 => hostile_configuration(trial),
        3..=5 => hostile_data(trial),
        6..=7 => damaged_model(trial),
        8 => damaged_checkpoint(trial),
        _ => hostile_inputs(trial),
    }
}

fn train(trial: &mut Trial<'_>, configuration: &str, more: &str) -> Result<()> {
    trial.write("config.toml", configuration)?;
    let json = if trial.random.once_in(2) { "--json" } else { "" };
    let ended = trial.polaris(&format!("train config.toml --out run {more} {json}"))?;
    if ended.succeeded() && trial.random.once_in(4) {
        let command =
            *trial.random.pick(&["eval run", "export run --out model.onnx", "generate run"]);
        trial.polaris(command)?;
    }
    Ok(())
}

fn hostile_configuration(trial: &mut Trial<'_>) -> Result<()> {
    let source = *trial.random.pick(&SOURCES);
    write_data(trial, source, None)?;
    let mut document = damage_json(&configuration(source), &mut trial.random);
    let file = match trial.random.below(5) {
        0 => damage_text(&toml(&document), &mut trial.random),
        _ => {
            // Values at the edges of what the keys take.
            let sections = ["model", "data", "optim", "schedule", "train"];
            let section = *trial.random.pick(&sections);
            let names: Vec<String> = document[section]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone())
                .collect();
            if !names.is_empty() && trial.random.once_in(2) {
                let name = trial.random.pick(&names).clone();
                document[section][name] = odd_value(&mut trial.random);
            }
            toml(&document).into_bytes()
        }
    };
    // Trainings without an end are not faults, but each of them takes seconds.
    let bound = match trial.random.once_in(40) {
        true => "",
        false => "--set train.steps=2 --set train.epochs=0",
    };
    train(trial, &String::from_utf8_lossy(&file), bound)
}

fn odd_value(random: &mut Random) -> Value {
    match random.below(6) {
        0 => json!(odd_string(random)),
        1 => json!([*random.pick(&ODD_INTEGERS), 1]),
        2 => json!(*random.pick(&[1e300, -1e300, 1e-320, 0.5, -0.5])),
        3 => json!([]),
        _ => json!(*random.pick(&ODD_INTEGERS)),
    }
}

fn hostile_data(trial: &mut Trial<'_>) -> Result<()> {
    let source = *trial.random.pick(&SOURCES);
    let mut random = trial.random.clone();
    trial.random.next();
    write_data(trial, source, Some(&mut random))?;
    train(trial, &toml(&configuration(source)), "")
}

/// Writes the data that a configuration of this source names, damaged or not.
fn write_data(trial: &Trial<'_>, source: &str, random: Option<&mut Random>) -> Result<()> {
    match source {
        "csv" => {
            let table = random.map_or_else(|| TABLE.into(), |random| damage_text(TABLE, random));
            trial.write("table.csv", table)?;
        }
        "text" => {
            let text = text();
            let text = random.map_or_else(
                || text.clone().into_bytes(),
                |random| match random.below(3) {
                    0 => Vec::new(),
                    1 => text.as_bytes()[..random.below(40)].to_vec(),
                    _ => damage(text.as_bytes(), b"\xff\xfe\0", random),
                },
            );
            trial.write("text.txt", text)?;
        }
        "npz" => {
            trial.write("data.npz", npz(random))?;
        }
        "idx" => write_idx(trial, random)?,
        _ => write_pictures(trial, random)?,
    }
    Ok(())
}

/// Arrays in an archive, damaged or not.
pub fn npz(random: Option<&mut Random>) -> Vec<u8> {
    let inputs = formats::npy("<f4", &[10, 3], &formats::floats(30));
    let targets = formats::npy("<f4", &[10], &formats::floats(10));
    let plain =
        formats::zip(&[("inputs.npy", inputs.clone()), ("targets.npy", targets.clone())], 0);
    let Some(random) = random else { return plain };
    let odd = |random: &mut Random| *random.pick(&ODD_INTEGERS);
    match random.below(5) {
        0 => damage(&plain, &inputs, random),
        1 => {
            let claimed = *random.pick(&[1, 1 << 30, u32::MAX, u32::MAX - 5]);
            formats::zip(&[("inputs.npy", inputs), ("targets.npy", targets)], claimed)
        }
        2 => {
            let shape = [odd(random), odd(random)];
            let inputs = formats::npy("<f4", &shape, &formats::floats(30));
            formats::zip(&[("inputs.npy", inputs), ("targets.npy", targets)], 0)
        }
        3 => {
            let code = *random
                .pick(&["<f2", "<f8", "|O", "<U9", "<c16", "|b1", "<i8", ">f4", "", "<f999"]);
            let inputs = formats::npy(code, &[10, 3], &formats::floats(60));
            formats::zip(&[("inputs.npy", inputs), ("targets.npy", targets)], 0)
        }
        _ => formats::zip(
            &[("inputs.npy", damage(&inputs, &targets, random)), ("targets.npy", targets)],
            0,
        ),
    }
}

fn write_idx(trial: &Trial<'_>, random: Option<&mut Random>) -> Result<()> {
    let pixels: Vec<u8> = (0..360).map(|i| (i * 7) as u8).collect();
    let labels: Vec<u8> = (0..10).map(|i| i % 3).collect();
    let mut images = formats::idx(8, &[10, 6, 6], &pixels);
    let mut labels = formats::idx(8, &[10], &labels);
    if let Some(random) = random {
        match random.below(4) {
            0 => images = damage(&images, &labels, random),
            1 => labels = damage(&labels, &images, random),
            2 => {
                let lengths = [0; 3].map(|_| *random.pick(&ODD_INTEGERS) as u32);
                images = formats::idx(8, &lengths, &pixels);
            }
            _ => {
                let kind = *random.pick(&[0, 7, 9, 0x0b, 0x0c, 0x0d, 0x0e, 255]);
                images = formats::idx(kind, &[10, 6, 6], &pixels);
            }
        }
    }
    trial.write("images.idx", images)?;
    trial.write("labels.idx", labels)?;
    Ok(())
}

/// An image that is damaged, or says that it is huge.
fn hostile_image(random: &mut Random) -> Vec<u8> {
    use image::ImageFormat::{Bmp, Jpeg, Png, Pnm, Tiff, WebP};
    let format = *random.pick(&[Png, Jpeg, Bmp, Tiff, WebP, Pnm]);
    let mut file = formats::image(8, 8, format);
    if format == Png && random.once_in(2) {
        let length =
            |random: &mut Random| *random.pick(&[0, 1, 65_536, 1 << 20, 0x7fff_ffff, u32::MAX]);
        formats::set_png_size(&mut file, length(random), length(random));
        return file;
    }
    damage(&file, &formats::image(3, 5, Jpeg), random)
}

fn write_pictures(trial: &Trial<'_>, random: Option<&mut Random>) -> Result<()> {
    use image::ImageFormat::{Jpeg, Png};
    for class in ["cat", "dog"] {
        for index in 0..4 {
            let (extension, format) = if index == 0 { ("jpg", Jpeg) } else { ("png", Png) };
            let file = formats::image(6 + index, 6, format);
            trial.write(format!("pictures/{class}/{index}.{extension}"), file)?;
        }
    }
    let Some(random) = random else { return Ok(()) };
    match random.below(4) {
        0 => {
            trial.write("pictures/readme.txt", "no picture")?;
            trial.write("pictures/cat/.hidden.png", "no picture")?;
        }
        1 => {
            // Names that are not UTF-8, or that a terminal would obey.
            use std::os::unix::ffi::OsStrExt;
            let odd: [&[u8]; 4] = [b"\xff\xfe", b"a\x1b[31mb", b"new\nline", b" "];
            let name = std::ffi::OsStr::from_bytes(odd[random.below(odd.len())]);
            let file = formats::image(6, 6, Png);
            trial.write(std::path::Path::new("pictures").join(name).join("0.png"), file)?;
        }
        2 => {
            trial.make_folder("pictures/empty")?;
            trial.make_folder("pictures/cat/0.png.d/inner.png")?;
        }
        _ => {
            trial.write("pictures/cat/1.png", hostile_image(random))?;
        }
    }
    Ok(())
}

/// The binary's own model, damaged, in the hands of those that read it.
fn damaged_model(trial: &mut Trial<'_>) -> Result<()> {
    let trained = trial.settings.fixtures.trained(trial.settings)?;
    let is_text = trial.random.once_in(2);
    let files = if is_text { &trained.text } else { &trained.table };
    for (name, bytes) in files {
        let damaged =
            (name == "run/model.safetensors").then(|| damaged_tensors(bytes, &mut trial.random));
        trial.write(name, of_this_run(trial.settings, damaged.unwrap_or_else(|| bytes.clone())))?;
    }
    let data = if is_text { "text.txt" } else { "table.csv" };
    let command = match trial.random.below(4) {
        0 => format!("eval run --set data.path={data}"),
        1 => format!("eval run/model.safetensors --all --json --set data.path={data}"),
        2 => "export run --out model.onnx".to_owned(),
        _ => {
            let tokens = *trial.random.pick(&[0, 5, 20]);
            let top = *trial.random.pick(&["0", "1", "18446744073709551615"]);
            format!("generate run --tokens {tokens} --top-k {top} --temperature 0.5 --prompt a")
        }
    };
    trial.polaris(&command)?;
    Ok(())
}

/// Damage to the bytes of a safetensors file, to its header, or to the words inside the header.
pub fn damaged_tensors(file: &[u8], random: &mut Random) -> Vec<u8> {
    let Some((mut header, data)) = formats::split_safetensors(file) else {
        return damage(file, file, random);
    };
    match random.below(3) {
        0 => damage(file, file, random),
        1 => formats::safetensors(&damage_json(&header, random), data),
        _ => {
            // The model's own description is JSON in a string.
            let words = header["__metadata__"].as_object_mut();
            for value in words.into_iter().flat_map(|words| words.values_mut()) {
                let inner =
                    value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
                if let Some(inner) = inner.filter(Value::is_object) {
                    *value = json!(damage_json(&inner, random).to_string());
                }
            }
            formats::safetensors(&header, data)
        }
    }
}

fn damaged_checkpoint(trial: &mut Trial<'_>) -> Result<()> {
    let trained = trial.settings.fixtures.trained(trial.settings)?;
    let files = if trial.random.once_in(2) { &trained.text } else { &trained.table };
    let target = trial.random.below(files.len());
    for (index, (name, bytes)) in files.iter().enumerate() {
        let damaged = match (index == target, name.ends_with(".safetensors")) {
            (false, _) => bytes.clone(),
            (true, true) => damaged_tensors(bytes, &mut trial.random),
            (true, false) => damage(bytes, bytes, &mut trial.random),
        };
        trial.write(name, of_this_run(trial.settings, damaged))?;
    }
    let source = if files.iter().any(|(name, _)| name == "text.txt") { "text" } else { "csv" };
    let configuration = configuration_of_trained(trial.settings, source);
    train(trial, &toml(&configuration), "--resume --set train.steps=3")
}

/// Damaged inputs of a good model: arrays, images, names of classes.
fn hostile_inputs(trial: &mut Trial<'_>) -> Result<()> {
    let samples = models::all();
    let is_image = trial.random.once_in(2);
    let wanted = if is_image { "convolutions" } else { "mlp" };
    let sample = samples.iter().find(|sample| sample.name == wanted).expect("it should be there");
    super::write_model(trial, sample, &super::encoded(sample))?;
    let random = &mut trial.random;
    let command = if is_image {
        let (image, labels) = (hostile_image(random), damage_text("a\nb\nc", random));
        trial.write("image.png", image)?;
        trial.write("labels.txt", labels)?;
        "run model.onnx --mode cpu --image image.png --labels labels.txt"
    } else {
        let file = match random.below(4) {
            0 => damage(&formats::npy("<f4", &[2, 8], &formats::floats(16)), b"(1,2,3)", random),
            1 => {
                let shape = vec![*random.pick(&ODD_INTEGERS); random.between(1, 3)];
                formats::npy("<f4", &shape, &formats::floats(16))
            }
            2 => {
                let code = *random.pick(&["<f8", "|b1", "<U4", "|O", ">i4"]);
                formats::npy(code, &[2, 8], &[0; 128])
            }
            _ => formats::npy_with(&odd_string(random).replace('x', "(")[..], &[0; 64]),
        };
        trial.write("x.npy", file)?;
        "run model.onnx --mode cpu --input x=x.npy --output-dir out"
    };
    trial.polaris(command)?;
    Ok(())
}
