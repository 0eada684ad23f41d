//! Arguments of `quantize`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
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

    /// Choose the format of each tensor so that all take at most this, as in 4GB, and the model loses least
    ///
    /// What a tensor loses is measured with the text of --calibrate: the divergence of the predictions if it alone has few
    /// bits. The size is that of all tensors; tensors of --tensor keep their types.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "calibrate", conflicts_with_all = ["type", "loss"])]
    pub size: Option<u64>,

    /// Choose the format of each tensor so that the perplexity is predicted to rise by at most this, as in 0.5%, and the file
    /// is smallest
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, requires = "calibrate", conflicts_with = "type")]
    pub loss: Option<f64>,

    /// The text that --size and --loss measure with
    #[arg(long, value_name = "TEXT")]
    pub calibrate: Option<PathBuf>,

    /// Windows of 256 tokens of the text that each measurement runs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub probe_windows: u32,

    /// Keep measurements in this file: another budget needs no new ones, and what was stopped goes on
    #[arg(long, value_name = "FILE", requires = "calibrate")]
    pub sensitivities: Option<PathBuf>,
    /// Let errors count by the importance of columns, from this file: `polaris imatrix` makes it, or llama-imatrix
    #[arg(long, value_name = "FILE")]
    pub imatrix: Option<PathBuf>,

    /// Accept tensors that are quantised already; they lose more than the printed error says
    #[arg(long)]
    pub requantize: bool,

    /// Print what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// The recipe of a name that clap has checked.
fn recipe(name: &str) -> Recipe {
    let is = |recipe: &Recipe| recipe.name().eq_ignore_ascii_case(name);
    Recipe::ALL.into_iter().find(is).expect("the name should be one of those that are possible")
}

fn parse_size(text: &str) -> Result<u64, String> {
    polaris::runtime::parse_bytes(text)
        .ok_or_else(|| "expected a size, as in 4GB or 800MiB".to_owned())
}

/// A percentage above zero, with or without its sign.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let found = number.ok().filter(|percent| percent.is_finite() && *percent > 0.0);
    found.ok_or_else(|| "expected a percentage above 0, as in 0.5%".to_owned())
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
