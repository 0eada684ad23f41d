//! Language models: decoders from GGUF files and folders of Hugging Face, on the CPU and on OpenCL devices.
//!
//! [`Model`] is a loaded file or folder. [`Engine`] runs it: tokens in, logits out, with a cache of keys and values that keeps
//! what sequences have in common. A model is a [plan](Engine::describe) of operations that `polaris-ops` has; what
//! architectures differ in is data ([`architecture`]).

#![forbid(unsafe_code)]

pub mod angles;
pub mod architecture;
mod cache;
mod cache_type;
mod chat;
mod config;
mod engine;
mod error;
mod form;
mod generate;
mod huggingface;
mod inputs;
mod latent;
mod model;
mod observe;
mod own;
mod perplexity;
mod plan;
mod profile;
mod recurrence;
mod sampling;
mod source;
mod speculate;
mod weights;
mod writer;

pub use cache_type::CacheType;
pub use chat::Chat;
pub use config::{Config, Grove, Latent, Layer, Mixture};
pub use engine::{Engine, EngineOptions, Wanted};
pub use error::{Error, Result};
pub use form::{Elements, Form, Rows};
pub use generate::{Finish, GenerateOptions, Generated, Prompt};
pub use model::{LoadOptions, Model};
pub use observe::{Observation, Observe};
pub use perplexity::{Divergence, Perplexity, PerplexityOptions, kl_divergence};
pub use plan::Plan;
pub use profile::{StepTime, TimedStep};
pub use recurrence::Recurrence;
pub use source::Source;
pub use speculate::{MOST_PROPOSED, ProposalLength, Speculation};
pub use weights::SourceTensor;

pub use polaris_chat::Message;
pub use polaris_ops::matmul::Precision;
pub use polaris_sample::{Error as SampleError, Grammar, Mirostat, Options as SampleOptions};
pub use polaris_tokenizer::{Special, Tokenizer};
