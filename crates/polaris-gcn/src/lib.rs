//! Predicts the cost of a kernel on a GCN card, without the card.
//!
//! Clang compiles OpenCL C for AMD's GCN chips on any machine ([`Toolchain`]). Its assembly says what
//! a kernel uses ([`assembly`]) and what its loops are made of ([`loops`]); a model of the
//! architecture follows from these how long a matmul will take ([`model`]).
//!
//! ```no_run
//! use polaris_gcn::{Access, TiledProduct, Toolchain, card, model, read};
//!
//! # fn main() -> polaris_gcn::Result<()> {
//! let (text, options) = ("the program", ["-cl-mad-enable".to_owned()]);
//! let toolchain = Toolchain::find(None, card::RX_580.target)?;
//! let compiled = toolchain.compile("tiled.cl", text, &options)?;
//! let code = read(&compiled.assembly)?;
//! let product = TiledProduct {
//!     m: 4096,
//!     n: 4096,
//!     k: 4096,
//!     tile_m: 128,
//!     tile_n: 128,
//!     tile_k: 8,
//!     threads: 256,
//!     rows: 8,
//!     columns: 8,
//!     access: Access::default(),
//! };
//! let prediction = model::predict(&card::RX_580, &code, &product)?;
//! println!("{:.0} GFLOPS, bound by {}", prediction.gflops, prediction.bound.name());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod assembly;
pub mod card;
mod error;
mod flow;
pub mod instruction;
mod kernel;
pub mod loops;
mod memory;
pub mod model;
mod places;
mod prediction;
mod process;
mod product;
pub mod toolchain;
mod units;
mod walk;

pub use assembly::parse_kernels;
pub use card::Card;
pub use error::{Error, Result};
pub use instruction::Instruction;
pub use kernel::Kernel;
pub use loops::{Loop, Mix, Nest};
pub use model::predict;
pub use prediction::{Bound, Parts, Prediction};
pub use product::{Access, TiledProduct};
pub use toolchain::{Compiled, Toolchain};

/// A kernel's machine code, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// What it uses.
    pub kernel: Kernel,
    /// Its loops.
    pub nest: Nest,
}

/// Reads the assembly of a program with one kernel.
///
/// # Errors
/// [`Error::Kernels`] if it has none or several, [`Error::Assembly`] if it is not what clang writes.
pub fn read(assembly: &str) -> Result<Code> {
    let mut codes = read_all(assembly)?;
    match codes.len() {
        1 => Ok(codes.remove(0)),
        found => Err(Error::Kernels { found }),
    }
}

/// Reads the assembly of a program, kernel by kernel.
///
/// # Errors
/// [`Error::Assembly`] if it is not what clang writes.
pub fn read_all(assembly: &str) -> Result<Vec<Code>> {
    let kernels = parse_kernels(assembly)?;
    kernels
        .into_iter()
        .map(|kernel| Ok(Code { nest: Nest::of(assembly, &kernel.name)?, kernel }))
        .collect()
}
