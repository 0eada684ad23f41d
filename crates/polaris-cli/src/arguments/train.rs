//! The arguments of training and of using what was trained.

use std::path::PathBuf;

use clap::Args;

/// Options of `train`.
#[derive(Debug, Args)]
pub struct Train {
    /// The configuration: a TOML file, or digits or text, which are built in
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,

    /// Change a value of it, as in optim.lr=1e-3; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// The folder for checkpoints, log, model and report [default: runs/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Go on from the folder's newest checkpoint
    #[arg(long)]
    pub resume: bool,
}

/// Options of `eval`.
#[derive(Debug, Args)]
pub struct Eval {
    /// A model, or the folder of a training
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Change a value of its configuration, as in data.path=other.csv; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Test with all data and not with what was kept for validation: for another file
    #[arg(long)]
    pub all: bool,
}

/// Options of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// A model, or the folder of a training
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// The file to write; one that is there is replaced
    #[arg(long, value_name = "FILE.onnx")]
    pub out: PathBuf,
}

/// Options of `generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// A model, or the folder of a training
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// The beginning of the text
    #[arg(long, default_value = "\n", value_name = "TEXT")]
    pub prompt: String,

    /// Tokens to append
    #[arg(long, default_value_t = 300, value_name = "N")]
    pub tokens: usize,

    /// Below 1 likely tokens become likelier, above 1 less so; 0 takes the likeliest
    #[arg(long, default_value_t = 0.8, value_name = "T", value_parser = temperature)]
    pub temperature: f64,

    /// Choose among so many of the likeliest tokens; 0 for all
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub top_k: usize,

    /// Decides the choices
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    pub seed: u64,
}

fn temperature(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "it must be a number from 0 on".to_owned())
}
