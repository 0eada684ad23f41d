//! The arguments of turning text into vectors.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use polaris::models::embed::Pooling;

use super::{ModeName, PassChoice};

/// Options of `embed`.
#[derive(Debug, Args)]
pub struct Embed {
    /// A folder with model.onnx, onnx/model.onnx or model.safetensors, and tokenizer.json; or such a file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// A text with one sentence a line, plain or gzip-compressed; - for stdin
    #[arg(value_name = "INPUT", default_value = "-")]
    pub input: PathBuf,

    /// The file to write, .npy or .jsonl; - for JSON lines on stdout
    #[arg(short, long, value_name = "OUT", default_value = "-")]
    pub output: PathBuf,

    /// What to write, if the file's name does not say it
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<FormatName>,

    /// The model's tokenizer.json, if it does not lie beside the model
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,

    /// How the vectors of tokens become one; otherwise as the model's files say, or their mean
    #[arg(long, value_name = "HOW")]
    pub pooling: Option<PoolingName>,

    /// Give vectors the length 1, whatever the model's files say
    #[arg(long, conflicts_with = "no_normalise")]
    pub normalise: bool,

    /// Leave vectors as long as they are; otherwise as the model's files say, or of length 1
    #[arg(long)]
    pub no_normalise: bool,

    /// Sentences in a batch; otherwise a number that suits their length
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub batch: Option<u16>,

    /// Cut sentences after so many tokens; otherwise as the model's files say
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,

    /// Where to run: on the CPU, on an OpenCL device, or on a GPU if there is one
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub mode: ModeName,

    #[command(flatten)]
    pub passes: PassChoice,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// A NumPy array, a row for each line
    Npy,
    /// A JSON object for each line
    Jsonl,
}

/// How the vectors of tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PoolingName {
    /// Their mean
    Mean,
    /// That of the first token
    Cls,
    /// The largest number in each place
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
    /// Whether vectors get the length 1, if the user says it.
    pub fn normalised(&self) -> Option<bool> {
        match (self.normalise, self.no_normalise) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// The file to write, if not stdout, and what to write.
    ///
    /// # Errors
    /// In words, if the options contradict each other.
    pub fn destination(&self, json: bool) -> Result<(Option<&Path>, FormatName), String> {
        if self.output == Path::new("-") {
            return match self.format {
                Some(FormatName::Npy) => {
                    Err("NPY begins with the number of rows, so it needs a file: -o OUT.npy".into())
                }
                _ if json => {
                    Err("with --json stdout is for the summary; name a file: -o OUT.jsonl".into())
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
            format!("`{name}` ends neither in .npy nor in .jsonl; say what to write with --format")
        })?;
        Ok((Some(&self.output), format))
    }
}
