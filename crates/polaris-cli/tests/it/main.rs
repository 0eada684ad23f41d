//! The `polaris` command as its users meet it: one binary, since each links everything.

mod bench_gemm;
mod check;
mod common;
mod devices;
mod embed;
mod imatrix;
mod interrupt;
mod json;
mod llm;
mod model;
mod modes;
mod quantize;
mod quantize_onnx;
mod quantized_training;
mod rusticl;
mod train;
mod tune;

#[path = "../../../polaris-graph/tests/models/mod.rs"]
mod models;
#[path = "../../../polaris-models/tests/tiny/mod.rs"]
mod tiny;
#[path = "../../../polaris-llm/tests/it/tiny.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod tiny_llm;
