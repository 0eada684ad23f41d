//! What can be wrong with weights that are to be encoded.

use polaris_core::f16;

use crate::Block;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why weights cannot be encoded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are not as many weights as the blocks have.
    #[error(
        "{block}: {weights} weights do not fill {bytes} bytes; {} weights take {} bytes",
        block.elements(),
        block.bytes()
    )]
    Length {
        /// The format.
        block: Block,
        /// The weights that were given.
        weights: usize,
        /// The bytes there is room for.
        bytes: usize,
    },
    /// A weight that is infinite or NaN.
    #[error("{block}: weight {at} is {value}; weights must be finite")]
    NotFinite {
        /// The format.
        block: Block,
        /// The place of the weight.
        at: usize,
        /// The weight.
        value: f32,
    },
    /// Importance of other weights.
    #[error("{block}: {weights} weights and the importance of {found}; each needs its own")]
    ImportanceLength {
        /// The format.
        block: Block,
        /// The weights that were given.
        weights: usize,
        /// How many have an importance.
        found: usize,
    },
    /// An importance that squared errors cannot count by.
    #[error("{block}: weight {at} has the importance {value}; it must be finite and not negative")]
    Importance {
        /// The format.
        block: Block,
        /// The place of the weight.
        at: usize,
        /// Its importance.
        value: f32,
    },
    /// Weights so large that their scale is beyond half precision.
    #[error("{block}: in the block of weights {first} to {last}: {refusal}")]
    Scale {
        /// The format.
        block: Block,
        /// The first weight of the block.
        first: usize,
        /// The last weight of the block.
        last: usize,
        /// The scale.
        refusal: Refusal,
    },
}

/// A scale or minimum of a block that half precision cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the {what} {value} is beyond half precision, which ends at {}", f16::MAX)]
pub struct Refusal {
    /// Which number of the block.
    pub what: &'static str,
    /// Its value.
    pub value: f32,
}
