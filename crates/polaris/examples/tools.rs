//! Looks at the machine, checks a device, times a product and tunes one, as a library:
//! `cargo run --release --example tools`.

use std::time::Duration;

use polaris::bench::gemm::{self, Dims, GemmOptions};
use polaris::check::{Level, check_device};
use polaris::tuner::{Budget, TuneOptions, problems, tune};
use polaris::{Runtime, RuntimeOptions};

fn main() -> polaris::Result<()> {
    let mut runtime = Runtime::discover(&RuntimeOptions::default())?;
    println!("{}: {}", runtime.hardware().cpu.name, runtime.advice().reason);

    let report = check_device(runtime.cpu(), &Level::Quick.into(), &|| false, &mut |_| {});
    println!(
        "check of the CPU: {} kernels, {} wrong",
        report.kernels_run,
        report.failures().count()
    );

    let sizes = vec![Dims::square(128)];
    let options = GemmOptions { sizes, seconds: 0.05, ..GemmOptions::default() };
    for product in gemm::run(&mut runtime, &options, &mut ())?.results {
        println!("{}: {:.1} GFLOPS", product.device, product.gflops);
    }

    let options = TuneOptions {
        problems: problems::squares(&[64]),
        budget: Budget::Time(Duration::from_secs(2)),
        ..TuneOptions::default()
    };
    match tune(&runtime, &options, &mut ()) {
        Ok(outcome) => {
            for one in &outcome.tuned {
                println!("{}: {:.2} times as fast as before", one.device, one.speedup());
            }
        }
        Err(error) => println!("nothing to tune: {error}"),
    }
    Ok(())
}
