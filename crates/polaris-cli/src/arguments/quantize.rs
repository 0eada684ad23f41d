//! Arguments of `quantize`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use polaris::gguf::TensorType;
use polaris::optimize::{Override, Recipe};

/// Options of `quantize`.
#[derive(Debug, Args)]
pub struct Quantize {
    /// A GGUF file (any part of one that was split) in f32, f16 or bf16
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// The file to write
    #[arg(long, short = 'o', value_name = "FILE", required_unless_present = "dry_run")]
    pub out: Option<PathBuf>,

    /// The mixture of formats, named as in llama.cpp
    #[arg(
        long,
        value_name = "NAME",
        default_value = "Q4_K_M",
        ignore_case = true,
        value_parser = PossibleValuesParser::new(Recipe::ALL.map(Recipe::name)).map(|name| recipe(&name))
    )]
    pub r#type: Recipe,

    /// Give tensors with this in their names a type of their own, as in ffn_down=Q6_K; may be repeated, the last one that
    /// fits counts
    #[arg(long, value_name = "PART=TYPE", value_parser = parse_override)]
    pub tensor: Vec<Override>,

    /// Accept tensors that are quantised already; they lose more than the printed error says
    #[arg(long)]
    pub requantize: bool,

    /// Print what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,

    /// How levels are chosen: each by itself, or by what a text shows that they do to outputs
    #[arg(long, value_enum, default_value = "nearest", requires_if("gptq", "calibrate"))]
    pub method: MethodName,

    #[command(flatten)]
    pub calibration: Calibration,
}

/// How levels are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// Each level is the nearest to its weight
    Nearest,
    /// Later columns make up for what earlier ones miss (GPTQ, then descent); needs --calibrate
    Gptq,
}

/// Options of methods that look at activations.
#[derive(Debug, Args)]
#[command(next_help_heading = "Calibration")]
pub struct Calibration {
    /// The text that activations come from, UTF-8: some hundred kilobytes of what the model is for
    #[arg(long, value_name = "FILE")]
    pub calibrate: Option<PathBuf>,

    /// Compute windows of this many tokens
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub window: u32,

    /// Compute at most this many windows [default: the whole text]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub windows: Option<u32>,

    /// The folder that keeps what is done until the file is whole; a run that was stopped goes on there [default: the
    /// name of the file and .work]
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,

    /// Memory for the Hessians that are collected at once, 4 bytes times the square of the columns each; with less the
    /// text is computed several times
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = parse_size)]
    pub hessian_memory: u64,

    /// Decide columns in the order of their inputs' mean squares (act-order), with scales that are chosen before
    #[arg(long)]
    pub act_order: bool,

    /// What is added to the diagonal of a Hessian, as a part of its mean: from 0 to 1
    #[arg(long, value_name = "PART", default_value_t = 0.01)]
    pub damping: f64,

    /// The most sweeps of coordinate descent after GPTQ; 0 for none
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub sweeps: u32,
}

fn parse_size(text: &str) -> Result<u64, String> {
    polaris::runtime::parse_bytes(text).ok_or_else(|| "expected a size, as in 2GiB".to_owned())
}

/// The recipe of a name that clap has checked.
fn recipe(name: &str) -> Recipe {
    let is = |recipe: &Recipe| recipe.name().eq_ignore_ascii_case(name);
    Recipe::ALL.into_iter().find(is).expect("the name should be one of those that are possible")
}

fn parse_override(text: &str) -> Result<Override, String> {
    let (pattern, name) = text
        .split_once('=')
        .ok_or("expected a part of a name, = and a type, as in ffn_down=Q6_K")?;
    let is = |ty: &TensorType| ty.name().eq_ignore_ascii_case(name);
    let ty = TensorType::ALL.into_iter().find(is).ok_or_else(|| {
        let names = TensorType::ALL.map(TensorType::name);
        format!("{name:?} is no type; there are {}", names.join(", "))
    })?;
    if pattern.is_empty() {
        return Err("the part of the name is empty".to_owned());
    }
    Ok(Override { pattern: pattern.to_owned(), ty })
}
