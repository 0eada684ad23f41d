//! Benchmarks as a library: plain options in, plain results out, ended by a token.

use polaris_bench::gemm::{self, Dims, GemmOptions, Numbers};
use polaris_bench::{launch, memory};
use polaris_core::{CancellationToken, Progress};
use polaris_runtime::machine::Paths;
use polaris_runtime::{DeviceId, Runtime, RuntimeOptions};

/// The CPU with one thread, and no files.
fn cpu() -> Runtime {
    let options = RuntimeOptions {
        opencl: false,
        threads: Some(1),
        paths: Paths { cache: None, data: None },
        ..RuntimeOptions::default()
    };
    Runtime::discover(&options).expect("the CPU is always there")
}

#[derive(Default)]
struct Heard(Vec<String>);

impl Progress for Heard {
    fn begin(&mut self, title: &str, steps: usize) {
        self.0.push(format!("{title}: {steps}"));
    }

    fn note(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

#[test]
fn products_are_measured_and_what_does_not_fit_is_named() {
    let mut runtime = cpu();
    let options = GemmOptions {
        sizes: vec![Dims { m: 5, n: 7, k: 3 }, Dims::square(2_000_000_000)],
        numbers: vec![Numbers::I8],
        seconds: 0.0,
        own_threads: true,
        command: "a test".into(),
        ..GemmOptions::default()
    };
    let mut heard = Heard::default();
    let results = gemm::run(&mut runtime, &options, &mut heard).unwrap();
    assert_eq!((results.results.len(), results.skipped.len()), (1, 1));
    assert_eq!(results.results[0].error, Some(0.0));
    assert_eq!(heard.0[0], "matmul on cpu: 2");
    assert!(heard.0[1].contains("is skipped"), "{:?}", heard.0);
    let page = gemm::page(&runtime, &results).render();
    assert!(page.contains("a test") && page.contains("<svg"), "{page}");
}

#[test]
fn a_token_ends_a_benchmark_with_an_error_that_says_so() {
    let runtime = cpu();
    let cancellation = CancellationToken::new();
    cancellation.cancel();
    let is_interrupted = |error: polaris_bench::Error| {
        matches!(error.runtime(), Some(polaris_runtime::Error::Interrupted))
    };
    let error = launch::run(&runtime, &[DeviceId::Cpu], &cancellation).unwrap_err();
    assert!(is_interrupted(error));
    let options = memory::MemoryOptions { bytes: 4096, cancellation, ..Default::default() };
    assert!(is_interrupted(memory::run(&runtime, &options).unwrap_err()));
}
