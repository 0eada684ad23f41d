//! The families of trials: one for each kind of attack.

mod bytes;
mod embed;
mod fields;
mod gguf;
mod graphs;
mod kills;
mod limits;
mod special;
mod templates;
mod training;

use anyhow::Result;
use prost::Message;

use crate::models::Sample;
use crate::process::Ended;
use crate::trial::Trial;

/// A kind of trials.
pub struct Family {
    pub name: &'static str,
    /// Its share of a run's trials.
    pub weight: u64,
    pub run: fn(&mut Trial<'_>) -> Result<()>,
}

/// All of them. A kill takes a second, and most others some milliseconds.
pub static ALL: [Family; 10] = [
    Family { name: "bytes", weight: 250, run: bytes::run },
    Family { name: "fields", weight: 280, run: fields::run },
    Family { name: "graphs", weight: 150, run: graphs::run },
    Family { name: "training", weight: 120, run: training::run },
    Family { name: "kills", weight: 10, run: kills::run },
    Family { name: "special", weight: 60, run: special::run },
    Family { name: "limits", weight: 30, run: limits::run },
    Family { name: "embed", weight: 100, run: embed::run },
    Family { name: "gguf", weight: 200, run: gguf::run },
    Family { name: "templates", weight: 60, run: templates::run },
];

/// Writes a model, and its files next to it.
fn write_model(trial: &Trial<'_>, sample: &Sample, bytes: &[u8]) -> Result<()> {
    trial.write("model.onnx", bytes)?;
    for (name, data) in &sample.files {
        trial.write(name, data)?;
    }
    Ok(())
}

/// A sample as the bytes of a file.
fn encoded(sample: &Sample) -> Vec<u8> {
    sample.model.encode_to_vec()
}

/// Lets the binary do one of the things that it does with a model.
fn use_model(trial: &mut Trial<'_>) -> Result<Ended> {
    let json = if trial.random.once_in(2) { "--json" } else { "" };
    let passes = if trial.random.once_in(6) { "--no-pass all" } else { "" };
    let seed = trial.random.below(1000);
    let dims = if trial.random.once_in(3) { "--dim d1=3 --dim d2=2" } else { "" };
    let command = match trial.random.below(10) {
        0 => format!("info model.onnx --mode cpu {passes} {json}"),
        1 => format!("plan model.onnx --mode cpu {passes} {json}"),
        2 => format!("plan model.onnx --mode cpu --html plan.html {passes} {json}"),
        3 => format!("run model.onnx --mode cpu --random-inputs --output-dir . {dims} {json}"),
        _ => format!(
            "run model.onnx --mode cpu --random-inputs --seed {seed} {dims} {passes} {json}"
        ),
    };
    trial.polaris(&command)
}
