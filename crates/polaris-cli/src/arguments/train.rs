//! The arguments of `polaris train` and of commands that use trained models.

use std::path::PathBuf;

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
    /// A model file, or the folder of a training run
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Start with this text
    #[arg(long, default_value = "\n", value_name = "TEXT")]
    pub prompt: String,

    /// Append this many tokens
    #[arg(long, default_value_t = 300, value_name = "N")]
    pub tokens: usize,

    /// Sample with this temperature: below 1 sharpens the distribution, above 1 flattens it, 0 is greedy
    #[arg(long, default_value_t = 0.8, value_name = "T", value_parser = temperature)]
    pub temperature: f64,

    /// Sample from the K most probable tokens; 0 samples from all
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub top_k: usize,

    /// Seed the sampling
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    pub seed: u64,
}

fn temperature(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected a number that is at least 0".to_owned())
}
