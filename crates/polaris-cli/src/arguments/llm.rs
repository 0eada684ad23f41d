//! The arguments of `polaris chat`, `perplexity`, `tokenize` and `bench llm`, and those that language models share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use polaris::llm::{
    CacheType, EngineOptions, MOST_PROPOSED, ProposalLength, SampleOptions, Speculation,
};

use super::ModeName;

/// How a language model is loaded and run.
#[derive(Debug, Clone, Args)]
pub struct EngineChoice {
    /// Keep room for this many tokens of prompt and answer [default: the model's context, at most 4096]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub context: Option<u32>,

    /// Compute up to this many tokens of a prompt at once
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub batch: u32,

    /// Store cached keys and values in this type
    #[arg(long, value_name = "TYPE", default_value = "f16")]
    pub cache_type: CacheTypeName,

    /// Run on the CPU, on an OpenCL device (`--device` chooses one), or on a GPU if there is one
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub mode: ModeName,
}

/// The type of cached keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CacheTypeName {
    /// Half precision
    F16,
    /// Single precision
    F32,
}

impl EngineChoice {
    /// The options of the library.
    pub fn options(&self) -> EngineOptions {
        EngineOptions {
            context: self.context.map_or(0, |context| context as usize),
            batch: self.batch as usize,
            cache: match self.cache_type {
                CacheTypeName::F16 => CacheType::F16,
                CacheTypeName::F32 => CacheType::F32,
            },
            ..EngineOptions::default()
        }
    }
}

/// How tokens are chosen. Defaults are those that the model's file names, or else llama.cpp's, and so is the order.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingChoice {
    /// Divide logits by this temperature: below 1 is more certain, above 1 more varied, 0 takes the most probable token
    /// [default: the model's, or 0.8]
    #[arg(long, value_name = "T")]
    pub temperature: Option<f32>,

    /// Sample from the K most probable tokens; 0 or -1 for all [default: the model's, or 40]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub top_k: Option<i32>,

    /// Sample from the most probable tokens that together have this probability; 1 for all [default: the model's, or 0.95]
    #[arg(long, value_name = "P")]
    pub top_p: Option<f32>,

    /// Leave out tokens less probable than this part of the most probable one; 0 for none [default: the model's, or 0.05]
    #[arg(long, value_name = "P")]
    pub min_p: Option<f32>,

    /// Sample from tokens of typical surprise that together have this probability; 1 for all
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    pub typical: f32,

    /// Leave out logits further than this many standard deviations below the largest; 0 for none
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub top_n_sigma: f32,

    /// Leave out the most probable tokens with this probability (XTC); 0 for never [default: the model's, or 0]
    #[arg(long, value_name = "P")]
    pub xtc_probability: Option<f32>,

    /// Count tokens above this probability as most probable for XTC [default: the model's, or 0.1]
    #[arg(long, value_name = "P")]
    pub xtc_threshold: Option<f32>,

    /// Divide the logits of recent tokens by this; 1 for no penalty [default: the model's, or 1]
    #[arg(long, value_name = "X")]
    pub repeat_penalty: Option<f32>,

    /// Subtract this from a token's logit for each time it is recent
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    pub frequency_penalty: f32,

    /// Subtract this from a token's logit if it is recent
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    pub presence_penalty: f32,

    /// Count this many last tokens as recent; -1 for the whole context [default: the model's, or 64]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub repeat_last: Option<i32>,

    /// Penalise tokens that continue a repetition by this much (DRY); 0 for not at all
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    pub dry_multiplier: f32,

    /// Replace the truncating samplers by mirostat 1 or 2; 0 for neither [default: the model's, or 0]
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u8).range(0..=2))]
    pub mirostat: Option<u8>,

    /// Aim at this surprise, in bits, with mirostat [default: the model's, or 5]
    #[arg(long, value_name = "X")]
    pub mirostat_tau: Option<f32>,

    /// Seed the random numbers: the same seed gives the same text [default: 0]
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Add to the logit of a token id, as in 15043=-100 (-inf forbids it); may be repeated
    #[arg(long, value_name = "ID=BIAS", value_parser = logit_bias)]
    pub logit_bias: Vec<(u32, f32)>,
}

fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let pair = text.split_once('=');
    let pair = pair.and_then(|(id, bias)| Some((id.parse().ok()?, bias.parse().ok()?)));
    pair.ok_or_else(|| "expected a token id, `=` and a number".to_owned())
}

impl SamplingChoice {
    /// The options of the library; `model` has those that the user does not give.
    pub fn options(&self, model: &SampleOptions) -> SampleOptions {
        use polaris::llm::Mirostat;
        SampleOptions {
            seed: self.seed,
            logit_bias: self.logit_bias.clone(),
            penalty_last_n: self.repeat_last.unwrap_or(model.penalty_last_n),
            penalty_repeat: self.repeat_penalty.unwrap_or(model.penalty_repeat),
            penalty_frequency: self.frequency_penalty,
            penalty_presence: self.presence_penalty,
            dry_multiplier: self.dry_multiplier,
            top_n_sigma: self.top_n_sigma,
            top_k: self.top_k.unwrap_or(model.top_k),
            typical_p: self.typical,
            top_p: self.top_p.unwrap_or(model.top_p),
            min_p: self.min_p.unwrap_or(model.min_p),
            xtc_probability: self.xtc_probability.unwrap_or(model.xtc_probability),
            xtc_threshold: self.xtc_threshold.unwrap_or(model.xtc_threshold),
            temperature: self.temperature.unwrap_or(model.temperature),
            mirostat: match self.mirostat {
                Some(1) => Mirostat::V1,
                Some(2) => Mirostat::V2,
                Some(_) => Mirostat::Off,
                None => model.mirostat,
            },
            mirostat_tau: self.mirostat_tau.unwrap_or(model.mirostat_tau),
            ..model.clone()
        }
    }
}

/// What text must look like.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Constraints")]
pub struct Constraint {
    /// Generate text that this GBNF grammar accepts
    #[arg(long, value_name = "FILE", conflicts_with = "json_schema")]
    pub grammar: Option<PathBuf>,

    /// Generate JSON that this JSON schema accepts
    #[arg(long, value_name = "FILE")]
    pub json_schema: Option<PathBuf>,
}

/// Whether tokens are proposed and verified several at a time.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Speculation")]
pub struct SpeculationChoice {
    /// Propose tokens and verify several at once: faster where text repeats, with the same distribution of texts
    #[arg(long, value_name = "SOURCE", default_value = "off", conflicts_with = "draft")]
    pub speculate: SpeculateName,

    /// Propose what this smaller model of the same vocabulary holds most probable: a GGUF file or a folder of Hugging Face
    #[arg(long, value_name = "MODEL")]
    pub draft: Option<PathBuf>,

    /// Propose at most this many tokens of the draft model at once; fewer, if measurements say that more do not pay off
    #[arg(long, value_name = "N", default_value_t = 7, requires = "draft", value_parser = clap::value_parser!(u8).range(1..=MOST_PROPOSED as i64))]
    pub draft_tokens: u8,
}

/// What proposes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SpeculateName {
    /// Nothing
    Off,
    /// The text itself: what followed its last tokens where they occurred before
    Ngram,
}

impl SpeculationChoice {
    /// The options of the library; the engine needs the draft model.
    pub fn options(&self) -> Speculation {
        match (&self.draft, self.speculate) {
            (Some(_), _) => Speculation::Draft(ProposalLength::UpTo(self.draft_tokens.into())),
            (None, SpeculateName::Ngram) => Speculation::Ngram(ProposalLength::default()),
            (None, SpeculateName::Off) => Speculation::Off,
        }
    }
}

/// Options of `chat`.
#[derive(Debug, Args)]
pub struct Chat {
    /// A GGUF file (any part of one that was split), a folder of Hugging Face, or tiny, the toy that is built in
    #[arg(value_name = "MODEL", default_value = "tiny")]
    pub model: PathBuf,

    /// Tell the model what it is, before the first message
    #[arg(short, long, value_name = "TEXT")]
    pub system: Option<String>,

    /// Generate at most this many tokens for an answer [default: what is left of the context]
    #[arg(short = 'n', long, value_name = "N")]
    pub tokens: Option<usize>,

    /// Drop the oldest turns of a conversation that leaves no room for an answer in the context
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

/// Options of `perplexity`.
#[derive(Debug, Args)]
pub struct Perplexity {
    /// A GGUF file (any part of one that was split), or a folder of Hugging Face
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// The text to score, UTF-8
    #[arg(value_name = "FILE")]
    pub text: PathBuf,

    /// Score windows of this many tokens, of which the second half counts
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..))]
    pub window: u32,

    /// Score at most this many windows [default: the whole text]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub windows: Option<u32>,

    /// Also compare the probabilities with those of this model: KL divergence and agreement of the top token
    #[arg(long, value_name = "MODEL")]
    pub base: Option<PathBuf>,

    #[command(flatten)]
    pub engine: EngineChoice,
}

/// Options of `tokenize`.
#[derive(Debug, Args)]
pub struct Tokenize {
    /// A GGUF file, or a folder with tokenizer.json
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// The text; - reads it from stdin
    #[arg(value_name = "TEXT", default_value = "-")]
    pub text: String,

    /// Recognise the texts of special tokens, such as <|im_end|>
    #[arg(long)]
    pub special: bool,

    /// Leave out the tokens that the model wants before and behind a text, such as BOS
    #[arg(long)]
    pub bare: bool,
}

/// Options of `bench llm`.
#[derive(Debug, Args)]
pub struct BenchLlm {
    /// A GGUF file (any part of one that was split), or a folder of Hugging Face
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Measure prompts of this many tokens; several with commas, 0 for none
    #[arg(short, long, value_name = "N", default_value = "512", value_delimiter = ',')]
    pub prompt: Vec<u32>,

    /// Measure the generation of this many tokens; several with commas, 0 for none
    #[arg(short = 'n', long, value_name = "N", default_value = "128", value_delimiter = ',')]
    pub tokens: Vec<u32>,

    /// Repeat every measurement this often
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,

    /// Measure after a text of this many tokens, whose own time does not count
    #[arg(short = 'd', long, value_name = "N", default_value_t = 0)]
    pub depth: u32,

    /// Say where the time goes, in one more run of each measurement
    #[arg(long)]
    pub profile: bool,

    #[command(flatten)]
    pub engine: EngineChoice,
}
