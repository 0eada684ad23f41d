//! Little memory, small files, few descriptors, many threads.

use anyhow::Result;

use super::{encoded, write_model};
use crate::decoders;
use crate::fixtures::{Encoder, TABLE, configuration, toml};
use crate::models;
use crate::process::Call;
use crate::trial::Trial;

const COMMANDS: [&str; 10] = [
    "run model.onnx --mode cpu --random-inputs --output-dir out",
    "info model.onnx",
    "plan model.onnx --mode cpu --html plan.html",
    "train config.toml --out run",
    "embed encoder lines.txt --mode cpu -o out.npy",
    "devices",
    "generate model.gguf --mode cpu -n 8 -p abc",
    "chat model.gguf --mode cpu -n 4",
    "info model.gguf --mode cpu",
    "train digits --out digits --set train.steps=1 --set train.epochs=0",
];

pub fn run(trial: &mut Trial<'_>) -> Result<()> {
    let samples = models::all();
    let sample = trial.random.pick(&samples).clone();
    write_model(trial, &sample, &encoded(&sample))?;
    trial.write("config.toml", toml(&configuration("csv")))?;
    trial.write("table.csv", TABLE)?;
    trial.write("lines.txt", "a cat\nsleeps\n".repeat(200))?;
    trial.make_folder("out")?;
    let limit = trial.random.below(7);
    // Thousands of threads on a few processors may take any time for real work.
    let commands = if matches!(limit, 4 | 5) { &COMMANDS[..9] } else { &COMMANDS[..] };
    let command = *trial.random.pick(commands);
    if command.starts_with("embed") {
        Encoder::new().write(trial, "encoder")?;
    }
    let input = trial.write("stdin", "hello\nand?\n")?;
    if command.contains("model.gguf") {
        let decoder = *trial.random.pick(&decoders::ALL);
        trial.write("model.gguf", decoder.file().bytes())?;
    }
    let random = &mut trial.random;
    let mut arguments = command.to_owned();
    let mut call = Call::new(Vec::<String>::new());
    let about = match limit {
        0 | 1 => {
            // With less, the C library itself gives up before it can say why.
            let sizes = [64, 80, 96, 128, 160, 192, 256, 512];
            call.limits.address_kib = (*random.pick(&sizes) + random.below(16) as u64) << 10;
            "address space".to_owned()
        }
        2 => {
            call.limits.file_blocks = *random.pick(&[0, 1, 2, 8, 64]);
            "file size".to_owned()
        }
        3 => {
            call.limits.files = *random.pick(&[3, 4, 5, 6, 8, 12, 20]);
            "open files".to_owned()
        }
        4 => {
            let threads = *random.pick(&["0", "1", "3", "64", "1024", "4096", "4097", "-1"]);
            arguments.push_str(&format!(" --threads {threads}"));
            "threads".to_owned()
        }
        5 => {
            arguments.push_str(&format!(" --threads {}", random.pick(&[64, 512, 4096])));
            call.limits.address_kib = *random.pick(&[256, 512, 1024, 2048]) << 10;
            "threads in little address space".to_owned()
        }
        _ => {
            let limit =
                *random.pick(&["0", "1", "4KiB", "64KiB", "1MiB", "1e9", "9999999PiB", "-1"]);
            arguments.push_str(&format!(" --memory-limit cpu={limit}"));
            "memory limit".to_owned()
        }
    };
    call.input = Some(input);
    call.arguments = arguments.split_whitespace().map(Into::into).collect();
    trial.about = about;
    trial.run(call)?;
    Ok(())
}
