//! Runs a model again and again, by several threads at once, and says what that costs in memory.
//!
//! `cargo run --release -p polaris-graph --example endurance -- MODEL RUNS THREADS cpu|gpu [NAME=LENGTH...]`

use std::error::Error;
use std::time::Instant;

use polaris_graph::{Mode, Options, Session};
use polaris_onnx::{Dim, Tensor, Type};
use polaris_runtime::{Runtime, RuntimeOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, runs, threads, mode, lengths @ ..] = &arguments[..] else {
        return Err("MODEL RUNS THREADS cpu|gpu [NAME=LENGTH...]".into());
    };
    let (runs, threads): (usize, usize) = (runs.parse()?, threads.parse()?);
    let mode = if mode == "gpu" { Mode::Gpu } else { Mode::Cpu };
    let runtime = Runtime::discover(&RuntimeOptions::default())?;
    let session = Session::open(&runtime, model.as_ref(), &Options { mode, ..Options::default() })?;
    let length = |dim: &Dim| match dim {
        Dim::Known(length) => *length,
        Dim::Named(name) => (lengths.iter())
            .find_map(|given| given.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            .unwrap_or(1),
        Dim::Unknown => 1,
    };
    let inputs = (session.inputs().into_iter())
        .map(|(_, ty)| match ty {
            Some(Type::Tensor(element, Some(dims))) => {
                let shape: Vec<usize> = dims.iter().map(length).collect();
                let count: usize = shape.iter().product();
                let values: Vec<f64> =
                    (0..count).map(|index| (index * 7 % 11) as f64 / 11.0).collect();
                Ok(Tensor::from_f64(*element, &shape, &values)?)
            }
            _ => Err("an input without a shape".into()),
        })
        .collect::<Result<Vec<Tensor>, Box<dyn Error>>>()?;
    let first = session.run_tensors(inputs.clone())?;
    // Each thread has memory of its own, which its first run allocates.
    let together = |runs: usize| {
        std::thread::scope(|scope| {
            let work = || {
                (0..runs)
                    .all(|_| session.run_tensors(inputs.clone()).is_ok_and(|found| found == first))
            };
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            handles.into_iter().all(|handle| handle.join().unwrap_or(false))
        })
    };
    let mut same = together(2);
    let device = session.device();
    let allocator = device.allocator();
    let (allocations, resident) = (allocator.driver_allocations(), memory("VmRSS"));
    let start = Instant::now();
    same &= together(runs / threads);
    println!("{runs} runs by {threads} threads: {:.1} s", start.elapsed().as_secs_f64());
    println!("all results the same bits: {same}");
    println!(
        "blocks allocated before {allocations}, during {}",
        allocator.driver_allocations() - allocations
    );
    println!("device memory {:.1} MiB", allocator.memory_use().used as f64 / 1048576.0);
    let kib = |value: u64| value as f64 / 1024.0;
    println!(
        "resident before {:.1} MiB, after {:.1}, most {:.1}",
        kib(resident),
        kib(memory("VmRSS")),
        kib(memory("VmHWM"))
    );
    Ok(())
}

/// A line of the process' status, in KiB; 0 where there is none.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = status.lines().find(|other| other.starts_with(line));
    found.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}
