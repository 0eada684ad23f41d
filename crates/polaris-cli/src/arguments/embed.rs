//! The arguments of `polaris embed`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use polaris::models::embed::Pooling;

use super::{ModeName, PassChoice};

/// Options of `embed`.
#[derive(Debug, Args)]
pub struct Embed {
    /// The model: a folder with model.onnx, onnx/model.onnx or model.safetensors, and tokenizer.json; or such a file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// The text to read, one sentence per line, plain or gzip-compressed; - is stdin
    #[arg(value_name = "INPUT", default_value = "-")]
    pub input: PathBuf,

    /// Write the vectors to this .npy or .jsonl file; - writes JSON lines to stdout
    #[arg(short, long, value_name = "OUT", default_value = "-")]
    pub output: PathBuf,

    /// Write this format; npy needs a file [default: by the file's extension]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<FormatName>,

    /// Read the tokenizer from this tokenizer.json [default: next to the model]
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,

    /// Pool token vectors this way [default: as the model's files say, otherwise mean]
    #[arg(long, value_name = "HOW")]
    pub pooling: Option<PoolingName>,

    /// Normalise vectors to length 1 [default: as the model's files say, otherwise normalise]
    #[arg(long, conflicts_with = "no_normalise")]
    pub normalise: bool,

    /// Do not normalise vectors, whatever the model's files say
    #[arg(long)]
    pub no_normalise: bool,

    /// Put this many lines into a batch [default: depends on their length]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub batch: Option<u16>,

    /// Truncate lines to this many tokens [default: as the model's files say]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,

    /// Run on the CPU, on an OpenCL device (`--device` chooses one), or on a GPU if there is one
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub mode: ModeName,

    #[command(flatten)]
    pub passes: PassChoice,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// A NumPy array with a row for each line
    Npy,
    /// A JSON object for each line
    Jsonl,
}

/// How token vectors are pooled into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PoolingName {
    /// The mean of all tokens
    Mean,
    /// The first token
    Cls,
    /// The elementwise maximum
    Max,
}

impl From<PoolingName> for Pooling {
    fn from(name: PoolingName) -> Self {
        match name {
            PoolingName::Mean => Self::Mean,
            PoolingName::Cls => Self::Cls,
            PoolingName::Max => Self::Max,
        }
    }
}

impl Embed {
    /// Whether to normalise vectors, if the user says so.
    pub fn normalised(&self) -> Option<bool> {
        match (self.normalise, self.no_normalise) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// The file to write (`None` for stdout) and its format.
    ///
    /// # Errors
    /// If the options contradict each other.
    pub fn destination(&self, json: bool) -> Result<(Option<&Path>, FormatName), String> {
        if self.output == Path::new("-") {
            return match self.format {
                Some(FormatName::Npy) => {
                    Err("--format npy needs a file, since its header holds the number of rows: add -o OUT.npy".into())
                }
                _ if json => {
                    Err("with --json stdout is for the summary, so vectors need a file: add -o OUT.jsonl".into())
                }
                _ => Ok((None, FormatName::Jsonl)),
            };
        }
        let extension = self.output.extension().and_then(|extension| extension.to_str());
        let named = match extension {
            Some("npy") => Some(FormatName::Npy),
            Some("jsonl" | "ndjson") => Some(FormatName::Jsonl),
            _ => None,
        };
        let format = self.format.or(named).ok_or_else(|| {
            let name = self.output.display();
            format!("`{name}` ends neither in .npy nor in .jsonl; choose a format with --format npy or --format jsonl")
        })?;
        Ok((Some(&self.output), format))
    }
}
