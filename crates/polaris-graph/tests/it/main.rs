//! Sessions against the interpreter: one binary, since each links everything.

mod conformance;
mod empty;
mod fusion;
mod passes;
mod quantized;
mod residency;
mod runs;
mod session;
mod weights_in_blocks;

#[path = "../models/mod.rs"]
mod models;
