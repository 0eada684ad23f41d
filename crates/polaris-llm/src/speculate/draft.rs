//! Proposals from a draft model: a smaller model of the same vocabulary, whose most probable tokens are proposed.

use polaris_tokenizer::{Kind, Tokenizer};

use crate::engine::{Engine, Wanted};
use crate::model::Model;
use crate::{Error, Result};

/// The chance of a proposal before anything is known.
pub(super) const CHANCES: [f64; 1] = [0.6];

/// Tokens that the draft model has missed are computed in batches of these sizes, so that it needs few plans.
const BATCHES: [usize; 5] = [16, 8, 4, 2, 1];

/// A draft model during a generation.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    engine: &'a mut Engine,
    sequence: usize,
    /// How many tokens both models have.
    vocabulary: usize,
}

impl Engine {
    /// Sets the engine of a draft model, for [`Speculation::Draft`](crate::Speculation::Draft). It may run on another
    /// device.
    ///
    /// # Errors
    /// If its vocabulary is another one, or if one of the models is recurrent or a diffusion model.
    pub fn set_draft(&mut self, draft: Self) -> Result<()> {
        for (engine, name) in [(&*self, "the model"), (&draft, "the draft model")] {
            engine.require_causal()?;
            if engine.model().config().is_recurrent() {
                let what = format!(
                    "{name} is recurrent: its states cannot be truncated where a proposal is refused; draft models need \
                     models with attention alone"
                );
                return Err(Error::Argument { what });
            }
        }
        require_same_tokens(self.model(), draft.model())?;
        self.draft = Some(Box::new(draft));
        Ok(())
    }
}

impl<'a> Draft<'a> {
    pub fn new(engine: &'a mut Engine, sequence: usize, target: &Model) -> Self {
        // It need not have as many sequences; it then computes again what it has forgotten.
        let sequence = if sequence < engine.sequences() { sequence } else { 0 };
        let vocabulary = target.vocabulary().min(engine.model().vocabulary());
        Self { engine, sequence, vocabulary }
    }

    /// Tokens that it can propose after a text.
    pub fn room(&self, text: &[u32]) -> usize {
        // The last proposal is not computed.
        (self.engine.context() + 1).saturating_sub(text.len())
    }

    /// Computes a prompt, but for its last token.
    pub fn begin(&mut self, prompt: &[u32], is_cancelled: &dyn Fn() -> bool) -> Result<()> {
        if self.room(prompt) == 0 || self.engine.check_tokens(prompt).is_err() {
            return Ok(());
        }
        let known = self.engine.reuse(self.sequence, prompt);
        let rest = &prompt[known..prompt.len() - 1];
        self.engine.feed(self.sequence, rest, Wanted::None, is_cancelled)?;
        Ok(())
    }

    /// Appends so many tokens that may follow a text; `count` is within [`Draft::room`]. None, if the text has a token
    /// that the draft model does not know, or other sequences have taken its cache.
    pub fn propose(
        &mut self,
        text: &[u32],
        count: usize,
        to: &mut Vec<u32>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        match self.extend(text, count, to, is_cancelled) {
            Err(Error::ContextFull { .. }) => Ok(()),
            other => other,
        }
    }

    fn extend(
        &mut self,
        text: &[u32],
        count: usize,
        to: &mut Vec<u32>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let known = self.engine.reuse(self.sequence, text);
        let mut missing = &text[known..];
        if self.engine.check_tokens(missing).is_err() {
            return Ok(());
        }
        while missing.len() > 1 {
            let size = BATCHES.into_iter().find(|&size| size <= missing.len());
            let (now, later) = missing.split_at(size.unwrap_or(1));
            if later.is_empty() {
                break;
            }
            self.engine.feed(self.sequence, now, Wanted::None, is_cancelled)?;
            missing = later;
        }
        loop {
            let logits = self.engine.feed(self.sequence, missing, Wanted::Last, is_cancelled)?;
            to.push(most_probable(&logits[..self.vocabulary.min(logits.len())]));
            if to.len() == count {
                return Ok(());
            }
            missing = &to[to.len() - 1..];
        }
    }
}

/// The first of the largest logits.
fn most_probable(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (token, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = token;
        }
    }
    best as u32
}

/// That the tokens of two models are the same, but for ones that fill up a vocabulary and stand for nothing.
///
/// # Errors
/// If they are not; the error names the first token that differs.
fn require_same_tokens(target: &Model, draft: &Model) -> Result<()> {
    let (ours, theirs) = (target.require_tokenizer()?, draft.require_tokenizer()?);
    let counts = (target.vocabulary() as u32, draft.vocabulary() as u32);
    let piece = |tokenizer: &Tokenizer, count: u32, token: u32| -> Option<Vec<u8>> {
        let is_used = token < count && tokenizer.kind(token) != Some(Kind::Unused);
        tokenizer.piece(token).filter(|_| is_used).map(<[u8]>::to_vec)
    };
    for token in 0..counts.0.max(counts.1) {
        let (our, their) = (piece(ours, counts.0, token), piece(theirs, counts.1, token));
        if our != their {
            let shown = |piece: Option<Vec<u8>>| match piece {
                Some(piece) => {
                    format!("`{}`", polaris_core::printable(&piece.escape_ascii().to_string()))
                }
                None => "nothing".to_owned(),
            };
            let what = format!(
                "the draft model has another vocabulary: its token {token} is {}, that of the model is {}; \
                 give a model of the same family",
                shown(their),
                shown(our)
            );
            return Err(Error::Argument { what });
        }
    }
    Ok(())
}
