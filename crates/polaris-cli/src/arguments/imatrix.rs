//! Arguments of `imatrix`.

use std::path::PathBuf;

use clap::Args;

/// Options of `imatrix`.
#[derive(Debug, Args)]
pub struct Imatrix {
    /// A GGUF file (any part of one that was split), or a folder of Hugging Face; best in f32, f16 or bf16
    #[arg(value_name = "MODEL", required_unless_present = "merge", conflicts_with = "merge")]
    pub model: Option<PathBuf>,

    /// The text to compute, UTF-8: some hundred kilobytes of what the model is for
    #[arg(value_name = "FILE", required_unless_present = "merge")]
    pub text: Option<PathBuf>,

    /// The file to write
    #[arg(long, short = 'o', value_name = "FILE")]
    pub out: PathBuf,

    /// Compute windows of this many tokens
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub window: u32,

    /// Compute at most this many windows [default: the whole text]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub windows: Option<u32>,

    /// Write the file after every this many windows, too
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub save_every: u32,

    /// Go on from the file, if it is there: with the same text and window
    #[arg(long, conflicts_with = "merge")]
    pub resume: bool,

    /// Add up files that were made with the same model, in place of computing a text; may be repeated
    #[arg(long, value_name = "FILE")]
    pub merge: Vec<PathBuf>,
}
