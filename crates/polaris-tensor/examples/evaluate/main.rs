//! Evaluates operations for others to compare with: requests come in as lines of JSON, results and
//! gradients go out the same way. `bench/torch/differential.py` asks it and PyTorch the same.
//!
//! A request: `{"operation": "softmax", "device": "cpu", "inputs": [{"dtype": "f32", "shape": [2],
//! "values": [1, 2]}], "options": {"axis": 0}, "seed": {...} or null}`, where the seed is the
//! gradient to begin the backward pass with.

mod operations;

use std::io::{BufRead, Write};

use polaris_core::DType;
use polaris_runtime::{DeviceId, Runtime, RuntimeOptions};
use polaris_tensor::{Result, Tensor};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Request {
    operation: String,
    device: String,
    inputs: Vec<Values>,
    options: serde_json::Value,
    seed: Option<Values>,
}

/// A tensor as text.
#[derive(Serialize, Deserialize)]
struct Values {
    dtype: String,
    shape: Vec<usize>,
    values: Vec<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Results { output: Values, gradients: Vec<Option<Values>> },
    Error(String),
}

fn main() -> std::io::Result<()> {
    let runtime = Runtime::discover(&RuntimeOptions::default()).map_err(std::io::Error::other)?;
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(request) => answer(&runtime, &request).unwrap_or_else(Answer::Error),
            Err(error) => Answer::Error(format!("not a request: {error}")),
        };
        writeln!(output, "{}", serde_json::to_string(&answer)?)?;
        output.flush()?;
    }
    Ok(())
}

fn answer(runtime: &Runtime, request: &Request) -> std::result::Result<Answer, String> {
    let id: DeviceId = request.device.parse().map_err(|error| format!("{error}"))?;
    let device = runtime.devices().iter().find(|device| device.id() == id);
    let device = device.ok_or_else(|| format!("there is no device {id}"))?;
    let read = |values: &Values| -> Result<Tensor> {
        let dtype: DType = values.dtype.parse()?;
        Tensor::from_slice(runtime.cpu(), &values.shape, &values.values)?
            .to_dtype(dtype)?
            .to_device(device)
    };
    let work = || -> Result<Answer> {
        let mut inputs = Vec::new();
        for values in &request.inputs {
            let input = read(values)?;
            let differentiable = input.dtype().is_float() && request.seed.is_some();
            inputs.push(if differentiable { input.requires_grad()? } else { input });
        }
        let output = operations::evaluate(&request.operation, &inputs, &request.options)?;
        if let Some(seed) = &request.seed {
            output.backward_with(&read(seed)?)?;
        }
        let gradient = |input: &Tensor| input.grad().as_ref().map(write).transpose();
        let gradients = inputs.iter().map(gradient).collect::<Result<_>>()?;
        Ok(Answer::Results { output: write(&output)?, gradients })
    };
    work().map_err(|error| error.to_string())
}

fn write(tensor: &Tensor) -> Result<Values> {
    Ok(Values {
        dtype: tensor.dtype().name().to_owned(),
        shape: tensor.dims().to_vec(),
        values: tensor.to_f64()?,
    })
}
