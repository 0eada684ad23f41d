//! Trains a model for `bench/torch/parity.py` and `bench/torch/training.py`, and evaluates one for
//! `bench/torch/export.py`. Lines come in, as JSON, and an answer goes out for each:
//!
//! - `{"model": {...}, "input": [..], "outputs": n, "optimizer": "sgd" | "adam" | "adamw", "rate": r,
//!   "momentum": m, "dtype": "f32", "state": "file.safetensors"}` prepares; the state is optional.
//! - `{"text": {"context": n, "batch": n, "validation": f}, "epoch": e, "to": "file.safetensors"}` writes the
//!   batches that `polaris train text` takes in an epoch, or of its validation, where there is no epoch.
//! - `{"save": "file.safetensors"}` writes the model's state.
//! - `{"losses": "batches.safetensors"}` takes a step for each batch `x.N`, `y.N` of the file; answers
//!   with the losses.
//! - `{"outputs": "model.safetensors", "dims": [..], "values": [..]}` answers with what a trained model makes
//!   of one batch.
//! - `{"time": n, "batch": "batches.safetensors"}` takes n steps with the first batch; answers with the
//!   seconds, and the loss at the end; with `"kernels": k`, for a device of OpenCL and a program that was
//!   started with `--kernel-times`, also with the time of its longest k kernels.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use polaris_core::DType;
use polaris_data::Values;
use polaris_nn::models::{Ends, Model};
use polaris_nn::optim::{Adam, Group, Optimizer, Sgd};
use polaris_nn::train::{Config, ModelFile, Task, load_data};
use polaris_nn::{Init, Module, Pass, load_state, parameters, state, tensors_file};
use polaris_runtime::opencl::KernelTime;
use polaris_runtime::{DeviceId, DeviceRef, Runtime, RuntimeOptions};
use polaris_tensor::Tensor;
use serde::Deserialize;
use serde_json::{Value, json};

type Failure = Box<dyn Error>;

#[derive(Deserialize)]
struct Request {
    model: Model,
    input: Vec<usize>,
    outputs: usize,
    optimizer: String,
    rate: f64,
    #[serde(default)]
    momentum: f64,
    #[serde(default)]
    dtype: String,
    state: Option<String>,
    #[serde(default)]
    seed: u64,
}

struct Training {
    model: Box<dyn Module>,
    optimizer: Box<dyn Optimizer>,
    dtype: DType,
}

fn main() -> Result<(), Failure> {
    let id: DeviceId = std::env::args().nth(1).as_deref().unwrap_or("cpu").parse()?;
    let kernel_times = std::env::args().any(|word| word == "--kernel-times");
    let options = RuntimeOptions { kernel_times, ..RuntimeOptions::default() };
    let runtime = Runtime::discover(&options)?;
    let device = runtime.devices().iter().find(|device| device.id() == id);
    let device = device.ok_or_else(|| format!("there is no device {id}"))?;
    let mut training = None;
    for line in std::io::stdin().lock().lines() {
        let answer = answer(device, &mut training, serde_json::from_str(&line?)?);
        let answer = answer.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn answer(
    device: &DeviceRef,
    training: &mut Option<Training>,
    request: Value,
) -> Result<Value, Failure> {
    if request.get("model").is_some() {
        *training = Some(prepare(device, serde_json::from_value(request)?)?);
        return Ok(json!("ready"));
    }
    if request.get("text").is_some() {
        return write_text(device, &request);
    }
    if let Some(path) = request["outputs"].as_str() {
        return outputs(device, Path::new(path), &request);
    }
    let training = training.as_mut().ok_or("no model was prepared")?;
    if let Some(path) = request["save"].as_str() {
        tensors_file::write(
            Path::new(path),
            &state(&*training.model),
            &tensors_file::Metadata::new(),
        )?;
        return Ok(json!("saved"));
    }
    if let Some(path) = request["losses"].as_str() {
        let (batches, _) = tensors_file::read(Path::new(path), device)?;
        let mut losses = Vec::new();
        for step in 0..batches.len() / 2 {
            losses.push(training.step(&batches, step)?.item()?);
        }
        return Ok(json!(losses));
    }
    let steps = request["time"].as_u64().ok_or("not a request")?;
    let path = request["batch"].as_str().ok_or("a batch is missing")?;
    let (batches, _) = tensors_file::read(Path::new(path), device)?;
    let kernels = |most: usize| -> Result<Vec<Value>, Failure> {
        let times =
            device.as_opencl().map_or(Ok(Vec::new()), |device| device.take_kernel_times())?;
        let all: f64 = times.iter().map(|kernel| kernel.time.as_secs_f64()).sum();
        let in_words = |kernel: &KernelTime| {
            let seconds = kernel.time.as_secs_f64();
            let launches = kernel.launches as f64 / steps as f64;
            json!([kernel.name, launches, seconds / steps as f64, seconds / all])
        };
        Ok(times.iter().take(most).map(in_words).collect())
    };
    kernels(0)?;
    let begin = Instant::now();
    let mut loss = None;
    for _ in 0..steps {
        loss = Some(training.step(&batches, 0)?);
    }
    device.queue().finish()?;
    let seconds = begin.elapsed().as_secs_f64();
    let loss = loss.map(|loss| loss.item()).transpose()?;
    let peak = device.allocator().memory_use().peak;
    let kernels = kernels(request["kernels"].as_u64().unwrap_or(0) as usize)?;
    Ok(json!({ "seconds": seconds, "loss": loss, "peak_bytes": peak, "kernels": kernels }))
}

fn write_text(device: &DeviceRef, request: &Value) -> Result<Value, Failure> {
    let number = |name: &str| request["text"][name].as_f64().ok_or(format!("{name} is missing"));
    let config: Config = serde_json::from_value(json!({
        "model": { "kind": "gpt" },
        "data": {
            "source": "sample",
            "context": number("context")? as usize,
            "validation": number("validation")?,
        },
        "train": { "batch": number("batch")? as usize },
    }))?;
    let splits = load_data(&config, None)?;
    let batches = match request["epoch"].as_u64() {
        Some(epoch) => splits.train.epoch(epoch, 0),
        None => splits.validation.ok_or("nothing is kept for validation")?.epoch(0, 0),
    };
    let mut tensors = Vec::new();
    for (number, batch) in batches.enumerate() {
        let batch = batch?;
        let (Values::I64(x), Values::I64(y)) = (&batch.inputs, &batch.targets) else {
            return Err("a text should have tokens".into());
        };
        let tensor = |values, dims| Tensor::from_slice(device, dims, values);
        tensors.push((format!("x.{number}"), tensor(x, &batch.input_dims)?));
        tensors.push((format!("y.{number}"), tensor(y, &batch.target_dims)?));
    }
    let path = request["to"].as_str().ok_or("`to` is missing")?;
    tensors_file::write(Path::new(path), &tensors, &tensors_file::Metadata::new())?;
    Ok(json!(tensors.len() / 2))
}

fn outputs(device: &DeviceRef, path: &Path, request: &Value) -> Result<Value, Failure> {
    let (about, model) = ModelFile::load(path, device)?;
    let dims: Vec<usize> = serde_json::from_value(request["dims"].clone())?;
    let values: Vec<f64> = serde_json::from_value(request["values"].clone())?;
    let x = match about.task {
        Task::Tokens => {
            let tokens: Vec<i64> = values.iter().map(|&value| value as i64).collect();
            Tensor::from_slice(device, &dims, &tokens)?
        }
        _ => {
            let numbers: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            Tensor::from_slice(device, &dims, &numbers)?
        }
    };
    Ok(json!(model.forward(&x, &Pass::evaluation())?.to_f64()?))
}

fn prepare(device: &DeviceRef, request: Request) -> Result<Training, Failure> {
    let dtype = if request.dtype == "f64" { DType::F64 } else { DType::F32 };
    let ends = Ends { input: request.input, outputs: request.outputs };
    let model =
        request.model.build(&ends, &mut Init::new(device, request.seed).with_dtype(dtype))?;
    if let Some(path) = request.state {
        load_state(&*model, &tensors_file::read(Path::new(&path), device)?.0)?;
    }
    let decay = if request.optimizer == "adamw" { 0.01 } else { 0.0 };
    let groups = vec![Group::new(parameters(&*model), request.rate, decay)];
    let optimizer: Box<dyn Optimizer> = match request.optimizer.as_str() {
        "sgd" => Box::new(Sgd::new(groups, request.momentum, false)?),
        "adam" => Box::new(Adam::new(groups, [0.9, 0.999], 1e-8, false)?),
        "adamw" => Box::new(Adam::new(groups, [0.9, 0.999], 1e-8, true)?),
        other => return Err(format!("there is no optimiser `{other}`").into()),
    };
    Ok(Training { model, optimizer, dtype })
}

impl Training {
    fn step(&mut self, batches: &HashMap<String, Tensor>, step: usize) -> Result<Tensor, Failure> {
        let find = |name: String| batches.get(&name).ok_or(format!("there is no `{name}`"));
        let (mut x, y) = (find(format!("x.{step}"))?.clone(), find(format!("y.{step}"))?);
        if x.dtype().is_float() {
            x = x.to_dtype(self.dtype)?;
        }
        let logits = self.model.forward(&x, &Pass::training(step as u64))?;
        let classes = logits.dims()[logits.rank() - 1];
        let logits = logits.reshape(&[logits.elements() / classes, classes])?;
        let loss = logits.cross_entropy_loss(&y.flatten()?, None, Default::default())?;
        loss.backward()?;
        self.optimizer.step()?;
        Ok(loss.detach())
    }
}
