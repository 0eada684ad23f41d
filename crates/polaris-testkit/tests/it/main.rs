//! Operations on every device: one binary, so that tests share devices and built programs.

mod attention;
mod axes;
mod batch_norm;
mod conv;
mod coverage;
mod cross_entropy;
mod empty;
mod fused;
mod indexing;
mod matmul;
mod norm;
mod operations;
mod pool;
mod reductions;
mod softmax;
mod tuned_kernels;
