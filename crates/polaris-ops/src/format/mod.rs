//! Storage formats of arrays: dense, in quantised blocks, or in panels.
//!
//! A new block format is a type in `polaris-blocks`, a file next to `q8_0.cl` with its OpenCL source, and a line in
//! `block.rs`.

mod block;
mod encode;
mod multiply;

use polaris_core::DType;

pub(crate) use block::{BlockRows, Elements, Stored, read_block_rows, read_blocks};
pub use encode::{encode_best, encode_by_importance};
pub(crate) use multiply::{MOST_VECTORS, MULTIPLY, Share};
pub use polaris_blocks::Block;
pub(crate) use polaris_blocks::{Blocks, with_block_type};

use crate::{Error, Result};

/// How the elements of an array are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// As they are, where the layout says.
    Dense,
    /// In blocks of elements that share what they are scaled by, as files of quantised models have them.
    /// Layouts count elements, and blocks follow one another in memory: rows begin at blocks.
    Block(Block),
    /// In the order in which the micro-kernels of this CPU read them.
    Panels(Panels),
}

/// A weight in panels: which operation reads it, and what its elements were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Panels {
    /// What it is for.
    pub role: Role,
    /// The type of its elements.
    pub dtype: DType,
}

/// What a weight is to the operation that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The second factor of products.
    MatMul {
        /// The type of the first factor.
        left: DType,
    },
    /// The kernels of convolutions; of `i8` those of quantised ones.
    Convolution {
        /// The groups of channels.
        groups: usize,
    },
}

impl Panels {
    /// Panels are taken whole.
    pub(crate) fn no_view(self) -> Error {
        let what =
            "a weight in panels has no views; make the view before it is prepared".to_owned();
        Error::InvalidParameter { op: self.role.op(), what }
    }
}

impl Role {
    /// The operation.
    pub(crate) const fn op(self) -> &'static str {
        match self {
            Self::MatMul { .. } => "matmul",
            Self::Convolution { .. } => "convolution",
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dense => f.write_str("dense"),
            Self::Block(block) => f.write_str(block.lower_name()),
            Self::Panels(Panels { role: Role::MatMul { left }, .. }) => {
                write!(f, "panels for {left}")
            }
            Self::Panels(Panels { role: Role::Convolution { groups }, .. }) => {
                write!(f, "panels of {groups}")
            }
        }
    }
}

/// Refuses an array that is not dense.
pub(crate) fn check_dense(op: &'static str, format: Format) -> Result<()> {
    match format {
        Format::Dense => Ok(()),
        other => Err(Error::UnsupportedFormat { op, format: other }),
    }
}
