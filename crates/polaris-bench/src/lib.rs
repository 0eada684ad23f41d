//! Benchmarks: matmuls against other libraries, memory, launches, the choice of kernels, modes and models.
//!
//! Each benchmark is a function from plain options to plain results, which serialize as the documents of
//! `polaris bench --json`. Where work stands is told to a [`Progress`](polaris_core::Progress), and a
//! [`CancellationToken`](polaris_core::CancellationToken) ends it with
//! [`polaris_runtime::Error::Interrupted`].
//!
//! ```
//! use polaris_bench::gemm::{self, Dims, GemmOptions};
//! use polaris_runtime::{DeviceId, Runtime, RuntimeOptions};
//!
//! let mut runtime = Runtime::discover(&RuntimeOptions { opencl: false, ..RuntimeOptions::default() })?;
//! let options = GemmOptions {
//!     devices: vec![DeviceId::Cpu],
//!     sizes: vec![Dims::square(32)],
//!     seconds: 0.0,
//!     own_threads: true,
//!     ..GemmOptions::default()
//! };
//! let results = gemm::run(&mut runtime, &options, &mut ())?;
//! assert!(results.results[0].gflops > 0.0);
//! # Ok::<(), polaris_bench::Error>(())
//! ```

#![forbid(unsafe_code)]

mod date;
pub mod digits;
mod error;
pub mod gemm;
pub mod launch;
pub mod memory;
pub mod model;
pub mod modes;
pub mod select;
pub mod timing;

pub use date::{iso_8601, now};
pub use error::{Error, Result};
