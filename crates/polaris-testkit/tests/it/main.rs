//! Operations on every device: one binary, so that tests share devices and built programs.

mod axes;
mod batch_norm;
mod block_cache;
mod blocks;
mod conv;
mod coverage;
mod cross_entropy;
mod empty;
mod fused;
mod indexing;
mod language;
mod matmul;
mod norm;
mod operations;
mod pool;
mod reductions;
mod softmax;
mod tuned_kernels;

/// Whether the longest tests run in full (`cargo xtask test --long`). Drivers take up to seconds for a program, and
/// arbitrary cases need hundreds: otherwise a few of them run on OpenCL devices, and [`coverage`] runs every third
/// kernel once.
fn in_full() -> bool {
    std::env::var_os("POLARIS_TEST_LONG").is_some_and(|value| value == "1")
}
