//! The arguments of `polaris train` and of commands that use trained models.

use std::path::PathBuf;

use super::{Constraint, EngineChoice, SamplingChoice};
use clap::Args;

/// Options of `train`.
#[derive(Debug, Args)]
pub struct Train {
    /// The configuration: a TOML file, or one of the built-in ones, digits and text
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,

    /// Override a value of the configuration, as in optim.lr=1e-3; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Write checkpoints, log, model and report to this folder [default: runs/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Continue from the newest intact checkpoint of the folder
    ///
    /// Without it a folder that holds a run is not touched, unless that run ended before its first checkpoint: then it
    /// starts again.
    #[arg(long)]
    pub resume: bool,
}

/// Options of `eval`.
#[derive(Debug, Args)]
pub struct Eval {
    /// A model file, or the folder of a training run
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Override a value of its configuration, as in data.path=other.csv; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Evaluate on all data instead of the validation split, for example on another file
    #[arg(long)]
    pub all: bool,
}

/// Options of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// A model file, or the folder of a training run
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Write this file; an existing file is replaced
    #[arg(long, value_name = "FILE.onnx")]
    pub out: PathBuf,
}

/// Options of `generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// A GGUF file, a folder of Hugging Face, a model file of `polaris train`, or the folder of a training run
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Start with this text
    #[arg(short, long, default_value = "\n", value_name = "TEXT")]
    pub prompt: String,

    /// Append at most this many tokens [default: 300]
    #[arg(short = 'n', long, value_name = "N")]
    pub tokens: Option<usize>,

    /// End the text before this one; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,

    /// Go on where the model would end
    #[arg(long)]
    pub ignore_end: bool,

    /// Recognise the texts of special tokens in the prompt, such as <|im_end|>
    #[arg(long)]
    pub special: bool,

    /// Leave out the beginning of a prompt that is longer than the context
    #[arg(long)]
    pub truncate: bool,

    #[command(flatten)]
    pub engine: EngineChoice,

    #[command(flatten)]
    pub sampling: SamplingChoice,

    #[command(flatten)]
    pub constraint: Constraint,
}
