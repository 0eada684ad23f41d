//! What the steps of GPTQ take for matrices of some width: `cargo run --release -p polaris-optimize --example gptq_speed --
//! [COLUMNS] [ROWS]`, with random weights and inputs.

use std::time::Instant;

use polaris_blocks::Block;
use polaris_core::random::SplitMix64;
use polaris_optimize::BlockGptq;
use polaris_optimize::hessian::{Factor, FactorOptions, Hessian};
use polaris_runtime::{Runtime, RuntimeOptions};

/// Inputs of a calibration.
const INPUTS: usize = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let columns = numbers.first().copied().unwrap_or(4096);
    let rows = numbers.get(1).copied().unwrap_or(1024);
    let runtime =
        Runtime::discover(&RuntimeOptions { opencl: false, ..RuntimeOptions::default() })?;
    let device = runtime.cpu();
    let mut random = SplitMix64::new(1);
    let mut draw = |count: usize| -> Vec<f32> {
        (0..count).map(|_| (random.unit() + random.unit() - 1.0) as f32).collect()
    };
    // Neighbours depend on each other.
    let mut inputs = draw(INPUTS * columns);
    for row in inputs.chunks_mut(columns) {
        for at in 1..columns {
            row[at] += 0.8 * row[at - 1];
        }
    }
    let weights = draw(rows * columns);
    let took = |what: &str, begin: Instant| {
        println!("{what}: {:.2} s", begin.elapsed().as_secs_f64());
    };
    let begin = Instant::now();
    let mut hessian = Hessian::new(device, columns)?;
    hessian.add(&inputs)?;
    took(&format!("{INPUTS} inputs of {columns} columns"), begin);
    let options = FactorOptions::default();
    let begin = Instant::now();
    Factor::new(&hessian, &options)?;
    took("factor", begin);
    for sweeps in [0, 10] {
        let method = BlockGptq::new(&hessian, &options, sweeps)?;
        let begin = Instant::now();
        let encoded = method.encode(&weights, Block::Q4_K, &|| false)?;
        took(&format!("{rows} rows in Q4_K, {sweeps} sweeps of descent"), begin);
        let part = |cost: f64| (cost / encoded.costs.outputs).sqrt();
        println!(
            "  {:.4} of outputs, {:.4} by rounding",
            part(encoded.costs.error),
            part(encoded.costs.nearest)
        );
    }
    Ok(())
}
