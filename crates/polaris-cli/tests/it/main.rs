//! The `polaris` command as its users meet it: one binary, since each links everything.

mod bench_gemm;
mod check;
mod common;
mod devices;
mod embed;
mod interrupt;
mod json;
mod model;
mod modes;
mod rusticl;
mod train;
mod tune;

#[path = "../../../polaris-graph/tests/models/mod.rs"]
mod models;
#[path = "../../../polaris-models/tests/tiny/mod.rs"]
mod tiny;
