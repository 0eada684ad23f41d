//! Arguments of `compare`.

use std::path::PathBuf;

use clap::Args;

use super::ModeName;

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// The first ONNX file or language model: what the other is compared with
    #[arg(value_name = "A")]
    pub first: PathBuf,

    /// The second one, with the same inputs and outputs or the same tokenizer
    #[arg(value_name = "B")]
    pub second: PathBuf,

    /// Run them on these samples: a folder of images (or of one for each class), NPY, NPZ, CSV, IDX, or `digits`; a text for language
    /// models
    #[arg(long, value_name = "PATH")]
    pub data: PathBuf,

    /// Use the first of them, so many; of a text windows of 512 tokens [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub samples: Option<u64>,

    /// Run so many samples at a time; models may have a fixed number
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,

    /// Run on the CPU, on an OpenCL device, on both, or on a GPU if there is one
    #[arg(long, value_name = "MODE", default_value = "cpu")]
    pub mode: ModeName,
}
