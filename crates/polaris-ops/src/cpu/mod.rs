//! Common parts of the CPU implementations: elements in blocks, and code for each instruction set.

pub mod blocks;
pub(crate) mod fetch;
pub(crate) mod int8;
pub mod map;
pub mod math;
pub mod simd;
pub mod vectors;
