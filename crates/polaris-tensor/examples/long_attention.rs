//! Attention over 16,384 tokens, forward and backward, within 1 GiB on each device: the scores of all
//! pairs alone would take 8 GiB. Takes the names of devices, or runs on all.

use std::time::Instant;

use polaris_core::DType;
use polaris_ops::attention::Attention;
use polaris_runtime::{Runtime, RuntimeOptions};
use polaris_tensor::{Result, Tensor};

const TOKENS: usize = 16_384;
const HEADS: usize = 8;
const DEPTH: usize = 64;

fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let runtime = Runtime::discover(&RuntimeOptions::default())?;
    for device in runtime.devices() {
        let name = device.id().to_string();
        if !wanted.is_empty() && !wanted.contains(&name) {
            continue;
        }
        device.allocator().set_limit(1 << 30);
        let dims = [1, HEADS, TOKENS, DEPTH];
        let random = |seed| Tensor::randn(device, &dims, DType::F32, seed)?.requires_grad();
        let (q, k, v) = (random(1)?, random(2)?, random(3)?);
        let begin = Instant::now();
        let problem = Attention { causal: true, ..Attention::default() };
        let output = q.attention(&k, &v, None, &problem)?;
        device.queue().finish()?;
        let forward = begin.elapsed().as_secs_f64();
        output.backward_with(&Tensor::ones(device, &dims, DType::F32)?)?;
        device.queue().finish()?;
        let backward = begin.elapsed().as_secs_f64() - forward;
        // The first query sees one key, so its output is that key's value.
        let first = output.detach().select(2, 0)?.sub(&v.detach().select(2, 0)?)?;
        let error = first.abs()?.to_f64()?.into_iter().fold(0.0, f64::max);
        let peak = device.allocator().memory_use().peak >> 20;
        println!(
            "{name}: forward {forward:.2} s, backward {backward:.2} s, {peak} MiB, {error:.1e}"
        );
    }
    Ok(())
}
