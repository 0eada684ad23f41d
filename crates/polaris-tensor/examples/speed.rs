//! Runs operations for `bench/torch/speed.py` to time beside PyTorch. Lines come in: `case NAME BATCH`
//! prepares one and answers `ready` or what is wrong; `run N` runs it N times and answers the seconds.

use std::io::{BufRead, Write};
use std::time::Instant;

use polaris_core::DType;
use polaris_ops::attention::{Attention, attention, attention_gradient};
use polaris_ops::conv::{
    Convolution, convolution, convolution_input_gradient, convolution_weight_gradient,
};
use polaris_ops::indexing::{take, take_gradient};
use polaris_ops::norm::{layer_norm, layer_norm_gradient};
use polaris_ops::softmax::{softmax, softmax_gradient};
use polaris_ops::{Array, Unary, copy, elementwise};
use polaris_runtime::{DeviceId, DeviceRef, Runtime, RuntimeOptions};
use polaris_tensor::{Result, Tensor};

/// One call of an operation; its result is dropped.
type Call = Box<dyn FnMut() -> polaris_ops::Result<()>>;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let id: DeviceId = std::env::args().nth(1).as_deref().unwrap_or("cpu").parse()?;
    let runtime = Runtime::discover(&RuntimeOptions::default())?;
    let device = runtime.devices().iter().find(|device| device.id() == id);
    let device = device.ok_or_else(|| format!("there is no device {id}"))?;
    let mut call: Option<Call> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match (words.as_slice(), &mut call) {
            (["case", name, batch], _) => match case(device, name, batch.parse()?) {
                Ok(prepared) => {
                    call = prepared;
                    if call.is_some() { "ready".to_owned() } else { "no such case".to_owned() }
                }
                Err(error) => error.to_string(),
            },
            (["run", count], Some(call)) => {
                let begin = Instant::now();
                for _ in 0..count.parse()? {
                    call()?;
                }
                device.queue().finish()?;
                begin.elapsed().as_secs_f64().to_string()
            }
            _ => "not a request".to_owned(),
        };
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn case(device: &DeviceRef, name: &str, batch: usize) -> Result<Option<Call>> {
    let random = |dims: &[usize], seed: u64| -> Result<Array> {
        Ok(Tensor::randn(device, dims, DType::F32, seed)?.array().clone())
    };
    let (what, part) = name.rsplit_once('.').unwrap_or((name, ""));
    let part = part.to_owned();
    Ok(Some(match what {
        "conv3x3" | "conv1x1" | "depthwise" => {
            let ([inputs, outputs], size, kernel, groups) = match what {
                "conv3x3" => ([64, 64], 56, 3, 1),
                "conv1x1" => ([256, 64], 56, 1, 1),
                _ => ([32, 32], 112, 3, 32),
            };
            let problem =
                Convolution { padding: [kernel / 2; 2], groups, ..Convolution::default() };
            let x = random(&[batch, inputs, size, size], 1)?;
            let weight = random(&[outputs, inputs / groups, kernel, kernel], 2)?;
            let g = random(&[batch, outputs, size, size], 3)?;
            Box::new(move || {
                match part.as_str() {
                    "forward" => convolution(&x, &weight, None, &problem),
                    "input" => convolution_input_gradient(&g, &weight, x.shape(), &problem),
                    _ => convolution_weight_gradient(&x, &g, weight.shape(), &problem),
                }
                .map(drop)
            })
        }
        "softmax" => {
            let (x, g) = (random(&[4096 * batch, 1024], 1)?, random(&[4096 * batch, 1024], 2)?);
            let y = softmax(&x, 1)?;
            Box::new(move || match part.as_str() {
                "forward" => softmax(&x, 1).map(drop),
                _ => softmax_gradient(&y, &g, 1).map(drop),
            })
        }
        "layer_norm" => {
            let (x, g) = (random(&[4096 * batch, 768], 1)?, random(&[4096 * batch, 768], 2)?);
            let (weight, bias) = (random(&[768], 3)?, random(&[768], 4)?);
            Box::new(move || match part.as_str() {
                "forward" => layer_norm(&x, Some(&weight), Some(&bias), 1e-5).map(drop),
                _ => layer_norm_gradient(&x, &g, Some(&weight), 1e-5).map(drop),
            })
        }
        "attention" => {
            let dims = [batch, 8, 512, 64];
            let [q, k, v, g] = [1, 2, 3, 4].map(|seed| random(&dims, seed));
            let (q, k, v, g) = (q?, k?, v?, g?);
            let problem = Attention { causal: true, ..Attention::default() };
            let attended = attention(&problem, &q, &k, &v, None)?;
            Box::new(move || match part.as_str() {
                "forward" => attention(&problem, &q, &k, &v, None).map(drop),
                _ => attention_gradient(&problem, &q, &k, &v, None, &attended, &g).map(drop),
            })
        }
        "embedding" => {
            let table = random(&[50_000, 768], 1)?;
            let numbers = Tensor::uniform(device, &[8192 * batch], DType::F32, (0.0, 49_999.0), 2)?;
            let tokens = copy::cast(numbers.array(), DType::I64)?;
            let g = random(&[8192 * batch, 768], 3)?;
            Box::new(move || match part.as_str() {
                "forward" => take(&table, 0, &tokens).map(drop),
                _ => take_gradient(&g, 0, &tokens, table.shape()).map(drop),
            })
        }
        "gelu" => {
            let x = random(&[batch << 24], 1)?;
            Box::new(move || elementwise::unary(Unary::GeluErf, &x).map(drop))
        }
        "copy" => {
            let x = random(&[batch << 24], 1)?;
            let y = Array::empty(device, DType::F32, *x.shape())?;
            Box::new(move || copy::into(&x, &y))
        }
        _ => return Ok(None),
    }))
}
