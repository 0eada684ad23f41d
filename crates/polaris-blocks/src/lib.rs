//! Block formats of quantised weights, as GGUF files have them: elements in blocks of 32 or 256 that share scales.
//!
//! [`Block`] names the formats and knows their sizes; [`Blocks`] is implemented by a type for each of them, so that
//! kernels can be compiled for one format ([`with_block_type`]). Decoders are plain loops over arrays of fixed size that
//! inline into their callers and vectorise there. All arithmetic is in `f32`, in the order of the Python package `gguf`
//! 0.19, and gives its bits; scales that are infinite or NaN give what IEEE arithmetic makes of them.
//!
//! [`Block::encode_nearest`] rounds elements to the nearest that simple scales allow. For the formats without K and IQ in
//! their names these are the bytes of the Python package. For the others it is no good quantiser: llama.cpp searches
//! better scales.
//!
//! ```
//! use polaris_blocks::Block;
//!
//! let mut block = [0x88; 18]; // every weight is 8, which stands for 0
//! (block[0], block[1]) = (0x00, 0x38); // the scale: 0.5 in half precision
//! block[2] = 0x9f; // 15 as the first weight, 9 as the 17th
//! let mut weights = [0.0; 32];
//! Block::Q4_0.decode(&block, &mut weights);
//! assert_eq!((weights[0], weights[16], weights[1]), (3.5, 0.5, 0.0));
//! ```

#![forbid(unsafe_code)]

mod bits;
mod block;
mod error;
mod grid;
mod k;
mod k_encode;
mod legacy;
mod levels;
mod search;
mod simd;
mod table;

pub use block::{Block, Blocks, MOST_ELEMENTS};
pub use error::{Error, Refusal, Result};
pub use grid::{Step, Values};
pub use k::{Q2_K, Q3_K, Q4_K, Q5_K, Q6_K};
pub use legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub use levels::{CHUNK, Levels, each_i16};
pub use simd::{Plain, Simd};
pub use table::{IQ4_NL, IQ4_XS, MXFP4};
