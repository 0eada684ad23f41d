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
