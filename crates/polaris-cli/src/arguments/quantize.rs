//! Arguments of `quantize`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use polaris::gguf::TensorType;
use polaris::optimize::{Override, Recipe};

/// Options of `quantize`.
#[derive(Debug, Args)]
pub struct Quantize {
    /// A GGUF file (any part of one that was split) in f32, f16 or bf16, or an ONNX file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// The file to write
    #[arg(long, short = 'o', value_name = "FILE", required_unless_present = "dry_run")]
    pub out: Option<PathBuf>,

    /// GGUF: the mixture of formats, named as in llama.cpp [default: Q4_K_M]
    #[arg(
        long,
        value_name = "NAME",
        ignore_case = true,
        value_parser = PossibleValuesParser::new(Recipe::ALL.map(Recipe::name)).map(|name| recipe(&name))
    )]
    pub r#type: Option<Recipe>,

    /// GGUF: give tensors with this in their names a type of their own, as in ffn_down=Q6_K; may be repeated, the last one that
    /// fits counts
    #[arg(long, value_name = "PART=TYPE", value_parser = parse_override)]
    pub tensor: Vec<Override>,

    /// GGUF: choose the format of each tensor so that all take at most this, as in 4GB, and the model loses least
    ///
    /// What a tensor loses is measured with the text of --calibrate: the divergence of the predictions if it alone has few
    /// bits. The size is that of all tensors; tensors of --tensor keep their types.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "calibrate", conflicts_with_all = ["type", "loss"])]
    pub size: Option<u64>,

    /// GGUF: choose the format of each tensor so that the perplexity is predicted to rise by at most this, as in 0.5%, and the file
    /// is smallest
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, requires = "calibrate", conflicts_with = "type")]
    pub loss: Option<f64>,

    /// GGUF: choose the format of each tensor so that the model makes at least so many times as many tokens a second as now, as in
    /// 2x, and loses least
    ///
    /// What tensors take in each format is measured on this machine: on the CPU with --threads, or on the device of --device.
    /// With --size both hold.
    #[arg(long, value_name = "TIMES", value_parser = parse_times, requires = "calibrate", conflicts_with_all = ["type", "loss"])]
    pub speed: Option<f64>,

    /// GGUF: let errors count by the importance of columns, from this file: `polaris imatrix` makes it, or llama-imatrix
    #[arg(long, value_name = "FILE")]
    pub imatrix: Option<PathBuf>,

    /// GGUF: accept tensors that are quantised already; they lose more than the printed error says
    #[arg(long)]
    pub requantize: bool,

    /// Print what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Write a self-contained HTML report, with the speed before and after
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Do this as well; may be repeated for ONNX models
    #[arg(long, value_name = "NAME")]
    pub method: Vec<MethodName>,

    #[command(flatten)]
    pub text: TextChoice,

    #[command(flatten)]
    pub calibration: Calibrate,
}

/// Options of `quantize` for ONNX models.
#[derive(Debug, Args)]
#[command(next_help_heading = "ONNX models")]
pub struct Calibrate {
    /// Calibrate with these samples: a folder of images (or of one for each class), NPY, NPZ, CSV, IDX, or `digits`
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,

    /// Calibrate with the first of them, so many [default: 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub samples: Option<u64>,

    /// Choose the ranges of activations in this way [default: percentile]
    #[arg(long, value_name = "HOW")]
    pub calibration: Option<CalibrationName>,

    /// Keep this share of the values with `--calibration percentile`, in percent [default: 99.99]
    #[arg(long, value_name = "P")]
    pub percent: Option<f64>,

    /// The type of activations [default: u8]
    #[arg(long, value_name = "TYPE")]
    pub activations: Option<ActivationName>,

    /// The integers of weights; activations of products and convolutions are bytes [default: int8]
    #[arg(long, value_name = "TYPE")]
    pub weights: Option<WeightName>,

    /// Give so many consecutive weights of products a scale of their own, as in 32, and leave their activations as they are;
    /// those of convolutions share one for each channel in any case
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub group: Option<u32>,

    /// Leave layers as they are that have this in their names; may be repeated
    #[arg(long, value_name = "PART")]
    pub exclude: Vec<String>,

    /// Add to the histograms in this file, and keep them there: to go on after Ctrl-C, or with other samples
    #[arg(long, value_name = "FILE")]
    pub histograms: Option<PathBuf>,
}

/// How ranges of activations are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CalibrationName {
    /// From the smallest to the largest value
    Minmax,
    /// All but a few values, by `--percent`
    Percentile,
    /// The least divergence of the distribution (KL)
    Entropy,
    /// The least expected squared error
    Mse,
}

/// The type of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WeightName {
    /// Signed bytes
    Int8,
    /// Integers of four bits, two in a byte
    Int4,
}

/// The type of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ActivationName {
    /// Unsigned bytes with a zero point
    U8,
    /// Signed bytes, symmetric where there are negative values
    I8,
}

/// What may be done besides rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// Later weights make up for what earlier ones miss (GPTQ, then descent); of GGUF files this needs `--calibrate`
    Gptq,
    /// ONNX: scales for which a few errors are large and most are small, without samples (HQQ)
    Hqq,
    /// ONNX: even out the channels of layers that follow one another
    Equalize,
    /// ONNX: move what a few channels of normalisations have too much of into the weights behind them (SmoothQuant)
    Smooth,
    /// ONNX: take what rounded weights move results by out of the biases
    BiasCorrection,
    /// ONNX: search the range of each channel's weights for the least squared error
    WeightSearch,
}

impl Quantize {
    /// The options that were given and are for GGUF files.
    pub fn of_gguf(&self) -> Vec<&'static str> {
        let given = [
            ("--type", self.r#type.is_some()),
            ("--tensor", !self.tensor.is_empty()),
            ("--requantize", self.requantize),
            ("--size", self.size.is_some()),
            ("--loss", self.loss.is_some()),
            ("--speed", self.speed.is_some()),
            ("--imatrix", self.imatrix.is_some()),
            ("--calibrate", self.text.calibrate.is_some()),
            ("--window", self.text.window.is_some()),
            ("--windows", self.text.windows.is_some()),
            ("--resume", self.text.resume.is_some()),
        ];
        let given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
        given.chain(self.of_mixtures()).collect()
    }

    /// Whether levels are chosen by GPTQ.
    pub fn wants_gptq(&self) -> bool {
        self.method.contains(&MethodName::Gptq)
    }

    /// The options that were given and say how GPTQ works.
    pub fn of_gptq(&self) -> Vec<&'static str> {
        let text = &self.text;
        let given = [
            ("--window", text.window.is_some()),
            ("--windows", text.windows.is_some()),
            ("--resume", text.resume.is_some()),
            ("--hessian-memory", text.hessian_memory.is_some()),
            ("--act-order", text.act_order),
            ("--damping", text.damping.is_some()),
            ("--sweeps", text.sweeps.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }

    /// The options that were given and say how a mixture is chosen.
    pub fn of_mixtures(&self) -> Vec<&'static str> {
        let given = [
            ("--probe-windows", self.text.probe_windows.is_some()),
            ("--sensitivities", self.text.sensitivities.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }

    /// The options that were given and say nothing without samples.
    pub fn of_samples(&self) -> Vec<&'static str> {
        let own = &self.calibration;
        let given = [
            ("--html", self.html.is_some()),
            ("--samples", own.samples.is_some()),
            ("--histograms", own.histograms.is_some()),
            ("--calibration", own.calibration.is_some()),
            ("--activations", own.activations.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }

    /// The options that were given and are for ONNX files.
    pub fn of_onnx(&self) -> Vec<&'static str> {
        let own = &self.calibration;
        let given = [
            ("--data", own.data.is_some()),
            ("--samples", own.samples.is_some()),
            ("--calibration", own.calibration.is_some()),
            ("--percent", own.percent.is_some()),
            ("--activations", own.activations.is_some()),
            ("--weights", own.weights.is_some()),
            ("--group", own.group.is_some()),
            ("--method", self.method.iter().any(|&method| method != MethodName::Gptq)),
            ("--exclude", !own.exclude.is_empty()),
            ("--histograms", own.histograms.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

/// Options of `quantize` for language models that compute a text.
#[derive(Debug, Args)]
#[command(next_help_heading = "Language models that compute a text")]
pub struct TextChoice {
    /// The text that `--method gptq`, `--size`, `--loss` and `--speed` look at, UTF-8: some hundred kilobytes of what the model is for
    #[arg(long, value_name = "FILE")]
    pub calibrate: Option<PathBuf>,

    /// Run this many windows of 256 tokens for each measurement of what a tensor loses, and for the score of the file
    /// [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub probe_windows: Option<u32>,

    /// Keep measurements in this file: another budget needs no new ones, and what was stopped goes on
    #[arg(long, value_name = "FILE", requires = "calibrate")]
    pub sensitivities: Option<PathBuf>,

    /// GPTQ: compute windows of this many tokens [default: 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub window: Option<u32>,

    /// GPTQ: compute at most this many windows [default: the whole text]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub windows: Option<u32>,

    /// GPTQ: the folder that keeps what is done until the file is whole; a run that was stopped goes on there [default: the
    /// name of the file and .work]
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,

    /// GPTQ: memory for the Hessians that are collected at once, 4 bytes times the square of the columns each; with less
    /// the text is computed several times [default: 2GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub hessian_memory: Option<u64>,

    /// GPTQ: decide columns in the order of their inputs' mean squares (act-order), with scales that are chosen before
    #[arg(long)]
    pub act_order: bool,

    /// GPTQ: what is added to the diagonal of a Hessian, as a part of its mean, from 0 to 1 [default: 0.01]
    #[arg(long, value_name = "PART")]
    pub damping: Option<f64>,

    /// GPTQ: the most sweeps of coordinate descent afterwards; 0 for none [default: 10]
    #[arg(long, value_name = "N")]
    pub sweeps: Option<u32>,
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

/// How many times as fast, with or without an x behind it.
fn parse_times(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix(['x', 'X']).unwrap_or(text).trim().parse::<f64>();
    let found = number.ok().filter(|times| times.is_finite() && *times > 0.0);
    found.ok_or_else(|| "expected a number above 0, as in 2x".to_owned())
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
