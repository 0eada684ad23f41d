//! Text from a model: prompt in, tokens one after the other, until something ends it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polaris_sample::{Grammar, Matcher, Options, Pieces, Sampler, StopDetector};
use polaris_tokenizer::{Kind, Special};

use crate::engine::{Engine, Wanted};
use crate::{Error, Result};

/// How text is generated.
#[derive(Debug, Clone, Default)]
pub struct GenerateOptions {
    /// How tokens are chosen.
    pub sampling: Options,
    /// The most tokens; the rest of the context without it.
    pub max_tokens: Option<usize>,
    /// Texts that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// Tokens that end the answer, beside those that the model names.
    pub stop_tokens: Vec<u32>,
    /// What the text must look like.
    pub grammar: Option<Grammar>,
    /// Whether tokens that end an answer do not end it.
    pub ignore_end: bool,
}

/// Why text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model said so.
    End,
    /// One of the stop strings.
    StopString,
    /// The most tokens were generated.
    Length,
    /// The context is full.
    ContextFull,
    /// The caller stopped it.
    Stopped,
}

impl Finish {
    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::StopString => "stop-string",
            Self::Length => "length",
            Self::ContextFull => "context-full",
            Self::Stopped => "stopped",
        }
    }
}

/// What was generated, and how fast.
#[derive(Debug, Clone)]
pub struct Generated {
    /// The text.
    pub text: String,
    /// The tokens, without one that ended it.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those of them that were in the cache.
    pub reused_tokens: usize,
    /// Messages of a chat that were dropped, since they did not fit the context any more.
    pub dropped_messages: usize,
    /// The time until the prompt was computed.
    pub prompt_time: Duration,
    /// The time after that.
    pub time: Duration,
}

impl Generated {
    /// Computed tokens of the prompt in a second.
    pub fn prompt_rate(&self) -> f64 {
        rate(self.prompt_tokens - self.reused_tokens, self.prompt_time)
    }

    /// Generated tokens in a second.
    pub fn rate(&self) -> f64 {
        rate(self.tokens.len(), self.time)
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}

/// What is generated from; sequences are independent of each other.
#[derive(Debug, Clone, Copy)]
pub struct Prompt<'a> {
    /// The sequence, whose cache keeps what the prompt has in common with it.
    pub sequence: usize,
    /// The tokens.
    pub tokens: &'a [u32],
}

impl Engine {
    /// Generates text after a prompt. `on_text` is given text as soon as it is whole, and may stop it; a stopped
    /// generation is a result, not an error.
    ///
    /// # Errors
    /// If the options make no sense, the prompt does not fit the context, or the device fails.
    pub fn generate(
        &mut self,
        prompt: Prompt<'_>,
        options: &GenerateOptions,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Generated> {
        self.require_causal()?;
        if prompt.tokens.is_empty() {
            return Err(Error::Argument { what: "the prompt has no tokens".to_owned() });
        }
        let Prompt { sequence, tokens: prompt } = prompt;
        if prompt.len() > self.context() {
            return Err(Error::ContextFull { tokens: prompt.len(), context: self.context() });
        }
        let model = self.model().clone();
        let tokenizer = model.require_tokenizer()?;
        let sampling = options.sampling.for_context(self.context());
        let mut sampler = Sampler::new(&sampling, model.vocabulary())?;
        let mut matcher = match &options.grammar {
            Some(grammar) => Some(Matcher::new(grammar, self.pieces()?)?),
            None => None,
        };
        let mut stops = StopDetector::new(&options.stop)?;
        let mut decoder = tokenizer.stream(Special::Plain);
        let start = Instant::now();
        let reused_tokens = self.reuse(sequence, prompt);
        for &token in prompt {
            sampler.accept(token)?;
        }
        let mut result = Generated {
            text: String::new(),
            tokens: Vec::new(),
            finish: Finish::Length,
            prompt_tokens: prompt.len(),
            reused_tokens,
            dropped_messages: 0,
            prompt_time: Duration::ZERO,
            time: Duration::ZERO,
        };
        let most = options.max_tokens.unwrap_or(usize::MAX);
        let mut next = prompt[reused_tokens..].to_vec();
        loop {
            let logits = match self.feed(sequence, &next, Wanted::Last, is_cancelled) {
                Ok(logits) => logits,
                // Other sequences have taken the rest of the cache.
                Err(Error::ContextFull { .. }) if !result.tokens.is_empty() => {
                    result.finish = Finish::ContextFull;
                    break;
                }
                Err(Error::Cancelled) => {
                    result.finish = Finish::Stopped;
                    break;
                }
                Err(error) => return Err(error),
            };
            if result.prompt_time.is_zero() {
                result.prompt_time = start.elapsed();
            }
            if result.tokens.len() >= most {
                break;
            }
            let token = match &mut matcher {
                Some(matcher) => sampler.sample_masked(logits, matcher.allowed()?)?,
                None => sampler.sample(logits)?,
            };
            sampler.accept(token)?;
            // A grammar that has ended allows nothing more.
            let ends = tokenizer.is_stop(token) && (!options.ignore_end || matcher.is_some());
            if ends || options.stop_tokens.contains(&token) {
                result.finish = Finish::End;
                break;
            }
            if let Some(matcher) = &mut matcher {
                matcher.accept_token(token)?;
            }
            result.tokens.push(token);
            let (text, stopped) = stops.push(&decoder.push(token));
            result.text.push_str(text);
            let flow = if text.is_empty() { ControlFlow::Continue(()) } else { on_text(text) };
            if stopped.is_some() {
                result.finish = Finish::StopString;
                break;
            }
            if flow.is_break() {
                result.finish = Finish::Stopped;
                break;
            }
            if result.tokens.len() >= most {
                break;
            }
            if self.tokens(sequence).len() >= self.context() {
                result.finish = Finish::ContextFull;
                break;
            }
            next.clear();
            next.push(token);
        }
        if result.finish != Finish::StopString {
            let rest = stops.push(&decoder.finish()).0.to_owned() + stops.finish();
            if !rest.is_empty() {
                result.text.push_str(&rest);
                let _ = on_text(&rest);
            }
        }
        result.time = start.elapsed() - result.prompt_time;
        Ok(result)
    }

    /// The bytes of all tokens, for grammars; made once.
    fn pieces(&mut self) -> Result<Arc<Pieces>> {
        if let Some(pieces) = &self.pieces {
            return Ok(Arc::clone(pieces));
        }
        let model = self.model().clone();
        let tokenizer = model.require_tokenizer()?;
        let stops: Vec<u32> =
            (0..model.vocabulary() as u32).filter(|&token| tokenizer.is_stop(token)).collect();
        let bytes: Vec<Vec<u8>> = (0..model.vocabulary() as u32)
            .map(|token| match tokenizer.kind(token) {
                Some(kind) if !kind.is_hidden() && kind != Kind::Unused => {
                    tokenizer.piece(token).map(<[u8]>::to_vec).unwrap_or_default()
                }
                _ => Vec::new(),
            })
            .collect();
        let pieces = Arc::new(Pieces::new(&bytes, &stops)?);
        self.pieces = Some(Arc::clone(&pieces));
        Ok(pieces)
    }
}
