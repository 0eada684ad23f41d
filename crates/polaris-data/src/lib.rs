//! Data sets on disk, turned into batches for training. It knows nothing of tensors or devices:
//! what leaves this crate are plain vectors of numbers with their dimensions.
//!
//! A [`Dataset`] gives examples by index, a [`Loader`] turns a list of indices into shuffled,
//! augmented batches on a background thread. Everything random depends on a seed, an epoch and an
//! index alone, so that a training run that is resumed sees what it would have seen.
//!
//! ```
//! use std::sync::Arc;
//! use polaris_data::{Augment, Loader, LoaderOptions, digits, stratified_split};
//!
//! # fn main() -> polaris_data::Result<()> {
//! let digits = Arc::new(digits()?);
//! let mut parts = stratified_split(&*digits, &[0.8, 0.2], 1)?;
//! let (test, train) = (parts.remove(1), parts.remove(0));
//! let options = LoaderOptions {
//!     batch: 64,
//!     shuffle: true,
//!     augment: vec![Augment::Shift { pixels: 1 }],
//!     ..LoaderOptions::default()
//! };
//! let train = Loader::new(digits.clone(), train, options)?;
//! for batch in train.epoch(0, 0) {
//!     let batch = batch?;
//!     assert_eq!(batch.input_dims[1..], [1, 8, 8]);
//! }
//! # assert_eq!(test.len(), 359);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod array;
mod augment;
mod binary;
#[cfg(feature = "text")]
mod bpe;
#[cfg(feature = "text")]
mod bpe_train;
mod bundled;
mod classes;
mod dataset;
mod dialogs;
mod error;
mod files;
mod idx;
#[cfg(feature = "image")]
mod images;
mod lines;
mod loader;
mod memory;
mod names;
mod npy;
mod npy_header;
mod npy_plain;
mod npy_rows;
mod npy_slices;
mod random;
#[cfg(feature = "text")]
mod sentences;
mod split;
mod table;
mod text;
#[cfg(feature = "text")]
mod tokenizer_guard;
mod tokens;

pub use array::{ArrayDataset, ArrayOptions, Target};
pub use augment::Augment;
#[cfg(feature = "text")]
pub use bpe::{Bpe, read_tokenizer, train_bpe};
pub use bundled::{digits, text};
pub use dataset::{Batch, Dataset, Kind, Spec, Values};
pub use dialogs::{DIALOG_TOKENS, dialogs};
pub use error::{Error, Result};
#[cfg(feature = "image")]
pub use images::{ImageFolder, ImageOptions, read_image};
pub use lines::{Line, LineFault, Lines};
pub use loader::{Batches, Loader, LoaderOptions};
pub use names::nearest as nearest_name;
pub use npy::{NpyArray, read_npy, read_npz};
pub use npy_plain::{PlainNpy, npy_file};
pub use npy_rows::NpyRows;
pub use npy_slices::NpySlices;
pub use polaris_files::{AtomicFile, remove_unfinished, write_atomic};
pub use random::Random;
#[cfg(feature = "text")]
pub use sentences::{Sentence, SentenceTokenizer};
pub use split::{sequential_split, stratified_split};
pub use table::CsvOptions;
pub use text::{TextDataset, read_text};
pub use tokens::{Bytes, Tokenizer};
