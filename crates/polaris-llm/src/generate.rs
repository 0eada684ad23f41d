//! Text from a model: prompt in, tokens one after the other, until something ends it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polaris_sample::{Grammar, Matcher, Options, Pieces, Sampler, StopDetector};
use polaris_tokenizer::{Kind, Special};

use crate::engine::{Engine, Wanted};
use crate::speculate::{Speculation, Speculator};
use crate::writer::Writer;
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
    /// Whether several tokens are proposed and verified at once. The distribution of the text is the same without it.
    pub speculation: Speculation,
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
    /// Tokens that speculation proposed.
    pub proposed_tokens: usize,
    /// Those of them that the text went on with.
    pub accepted_tokens: usize,
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
        if prompt.tokens.len() > self.context() {
            let tokens = prompt.tokens.len();
            return Err(Error::ContextFull { tokens, context: self.context() });
        }
        let model = self.model().clone();
        let tokenizer = model.require_tokenizer()?;
        let sampling = options.sampling.for_context(self.context());
        let writer = Writer {
            options,
            tokenizer,
            sampler: Sampler::new(&sampling, model.vocabulary())?,
            matcher: match &options.grammar {
                Some(grammar) => Some(Matcher::new(grammar, self.pieces()?)?),
                None => None,
            },
            stops: StopDetector::new(&options.stop)?,
            decoder: tokenizer.stream(Special::Plain),
            most: options.max_tokens.unwrap_or(usize::MAX),
        };
        // Taken out, so that both engines can be borrowed at once.
        let mut draft = self.draft.take();
        let result = self.write_text(prompt, writer, draft.as_deref_mut(), on_text, is_cancelled);
        self.draft = draft;
        result
    }

    fn write_text(
        &mut self,
        prompt: Prompt<'_>,
        mut writer: Writer<'_>,
        draft: Option<&mut Self>,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Generated> {
        let Prompt { sequence, tokens: prompt } = prompt;
        let start = Instant::now();
        let reused_tokens = self.reuse(sequence, prompt);
        for &token in prompt {
            writer.sampler.accept(token)?;
        }
        let speculation = writer.options.speculation;
        let mut speculator = Speculator::new(speculation, self, draft, sequence, prompt)?;
        let mut result = Generated {
            text: String::new(),
            tokens: Vec::new(),
            finish: Finish::Length,
            prompt_tokens: prompt.len(),
            reused_tokens,
            dropped_messages: 0,
            proposed_tokens: 0,
            accepted_tokens: 0,
            prompt_time: Duration::ZERO,
            time: Duration::ZERO,
        };
        let context = self.context();
        match speculator.begin(is_cancelled) {
            // What is cancelled is noticed again below.
            Ok(()) | Err(Error::Cancelled) => {}
            Err(error) => return Err(error),
        }
        let mut is_prompt = true;
        // What is computed next: tokens of the text, and then proposals of what may follow them.
        let mut next = prompt[reused_tokens..].to_vec();
        let mut proposed = 0;
        result.finish = loop {
            let given = next.len() - proposed;
            let before = self.tokens(sequence).len() + given;
            let wanted = if proposed == 0 { Wanted::Last } else { Wanted::All };
            let begin = Instant::now();
            let logits = match self.feed(sequence, &next, wanted, is_cancelled) {
                Ok(logits) => logits,
                // Other sequences have taken the rest of the cache; a single token may still fit.
                Err(Error::ContextFull { .. }) if proposed > 0 => {
                    speculator.withdraw();
                    next.truncate(given);
                    proposed = 0;
                    continue;
                }
                Err(Error::ContextFull { .. }) if !result.tokens.is_empty() => {
                    break Finish::ContextFull;
                }
                Err(Error::Cancelled) => break Finish::Stopped,
                Err(error) => return Err(error),
            };
            let time = begin.elapsed();
            if is_prompt {
                result.prompt_time = start.elapsed();
            }
            if result.tokens.len() >= writer.most {
                break Finish::Length;
            }
            let mut accepted = 0;
            let mut ended = Ok(None);
            for row in logits.chunks_exact(logits.len() / (1 + proposed)) {
                ended = writer.write(row, &mut result, on_text);
                if matches!(ended, Ok(None)) && before + accepted >= context {
                    ended = Ok(Some(Finish::ContextFull));
                }
                let (Ok(None), Some(&token)) = (&ended, result.tokens.last()) else { break };
                speculator.push(token);
                // The next row is right if it was computed for this token.
                if next.get(given + accepted) != Some(&token) {
                    break;
                }
                accepted += 1;
            }
            let cached = before + accepted;
            if proposed > 0 {
                self.truncate(sequence, cached);
            }
            let ended = ended?;
            if !is_prompt {
                speculator.settle(accepted, ended.is_some(), time, &mut self.costs);
            }
            is_prompt = false;
            if let Some(finish) = ended {
                break finish;
            }
            // The last proposal gives a token too, and all are in the cache.
            let room = (writer.most - result.tokens.len() - 1).min(context - cached - 1);
            next.clear();
            next.extend(result.tokens.last());
            match speculator.propose(room, &self.costs, is_cancelled) {
                Ok(proposal) => next.extend(proposal),
                Err(Error::Cancelled) => break Finish::Stopped,
                Err(error) => return Err(error),
            }
            proposed = next.len() - 1;
        };
        if result.finish != Finish::StopString {
            writer.finish(&mut result, on_text);
        }
        result.proposed_tokens = speculator.proposed;
        result.accepted_tokens = speculator.accepted;
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
