//! The next token from logits.
//!
//! A [`Sampler`] chooses a token as [`Options`] say: llama.cpp's samplers, with its defaults and in its order. A
//! [`Grammar`], read from GBNF or a JSON schema, constrains the text; a [`Matcher`] follows the text and gives the
//! [`Mask`] of tokens that may come next. A [`StopDetector`] ends the text at stop strings. None of them knows a device,
//! a model or a tokenizer: tokens are numbers, and [`Pieces`] says which bytes they stand for.
//!
//! ```
//! use polaris_sample::{Grammar, Matcher, Options, Pieces, Sampler};
//! use std::sync::Arc;
//!
//! // A vocabulary of single bytes and an end.
//! let mut vocabulary: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
//! vocabulary.push(Vec::new());
//! let pieces = Arc::new(Pieces::new(&vocabulary, &[256])?);
//! let grammar = Grammar::from_json_schema(r#"{"enum": ["red", "green"]}"#)?;
//! let mut matcher = Matcher::new(&grammar, pieces)?;
//! let mut sampler = Sampler::new(&Options::default(), vocabulary.len())?;
//!
//! let logits = vec![0.0; vocabulary.len()];
//! let mut text: Vec<u8> = Vec::new();
//! loop {
//!     let token = sampler.sample_masked(&logits, matcher.allowed()?)?;
//!     sampler.accept(token)?;
//!     matcher.accept_token(token)?;
//!     if token == 256 {
//!         break;
//!     }
//!     text.extend(&vocabulary[token as usize]);
//! }
//! assert!(text == b"\"red\"" || text == b"\"green\"");
//! # Ok::<(), polaris_sample::Error>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod grammar;
mod logprobs;
mod mask;
mod options;
mod sampler;
mod schema;
mod stop;

pub use error::{Error, Result};
pub use grammar::{Grammar, Matcher, Pieces};
pub use logprobs::{LogProbability, log_probability, top_log_probabilities};
pub use mask::Mask;
pub use options::{Mirostat, Options};
pub use sampler::{Candidate, Sampler, breakers};
pub use stop::StopDetector;
