//! The commands, a file each.

pub mod bench_gemm;
pub mod bench_launch;
pub mod bench_memory;
pub mod bench_modes;
pub mod bench_select;
pub mod cache;
pub mod check;
pub mod compare;
mod compare_llm;
pub mod completions;
pub mod devices;
pub mod embed;
pub mod eval;
pub mod export;
pub mod generate;
pub mod imatrix;
pub mod llm;
pub mod model;
pub mod quantize;
pub mod quickstart;
pub mod train;
pub mod tune;
