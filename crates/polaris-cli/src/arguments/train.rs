//! The arguments of `polaris train` and of commands that use trained models.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use polaris::nn::export::TensorType;

use super::{Constraint, EngineChoice, SamplingChoice, SpeculationChoice};

/// Options of `train`.
#[derive(Debug, Args)]
pub struct Train {
    /// The configuration: a TOML file, or one of the built-in ones, digits, text, llama and tiny
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

    /// Evaluate this ONNX file that was exported from it, as `polaris run` runs it, in the model's place
    #[arg(long, value_name = "FILE")]
    pub exported: Option<PathBuf>,
}

/// Options of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// A model file, or the folder of a training run
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Write this file: GGUF if its name ends in .gguf, ONNX otherwise; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,

    /// Store the matrices of a GGUF file in this type [default: f16; q4_0 or q8_0 if trained with groups of 32]
    #[arg(long, value_name = "TYPE")]
    pub r#type: Option<WeightType>,

    /// Round the weights of a model that was trained without, as in quantize.weights=4; may be repeated
    ///
    /// Only values of [quantize] that concern weights. Training with them gives better models; docs/training.md tells how.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// The type of the matrices in a GGUF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WeightType {
    /// Single precision
    F32,
    /// Half precision
    F16,
    /// The upper half of single precision
    Bf16,
    /// 8 bits, blocks of 32 with a scale
    #[value(name = "q8_0")]
    Q8_0,
    /// 5 bits, blocks of 32 with a scale
    #[value(name = "q5_0")]
    Q5_0,
    /// 4 bits, blocks of 32 with a scale
    #[value(name = "q4_0")]
    Q4_0,
}

impl WeightType {
    /// The type of the library.
    pub fn tensor_type(self) -> TensorType {
        match self {
            Self::F32 => TensorType::F32,
            Self::F16 => TensorType::F16,
            Self::Bf16 => TensorType::BF16,
            Self::Q8_0 => TensorType::Q8_0,
            Self::Q5_0 => TensorType::Q5_0,
            Self::Q4_0 => TensorType::Q4_0,
        }
    }
}

/// Options of `generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// A GGUF file, a folder of Hugging Face, a model file of `polaris train`, the folder of a training run, or tiny
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

    #[command(flatten)]
    pub speculation: SpeculationChoice,
}
