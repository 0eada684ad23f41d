//! Speculative decoding: several tokens are proposed cheaply and verified by the model in one batch.
//!
//! The model computes the logits after the last token and after each proposal at once, which reads the weights once
//! instead of once for each token. The ordinary sampler then draws a token from the first row; if it is the one that
//! was proposed, the next row is what the model would have computed next, and so on. At the first difference the drawn
//! token is the output, and the rest of the batch is truncated from the cache.
//!
//! Each output token is drawn by the same sampler, with the same state and random numbers, from the logits of the same
//! tokens as without speculation. So the output is the same for every seed, and its distribution exactly that of
//! ordinary sampling, whatever is proposed: penalties, DRY, mirostat, grammars and stop strings included. What remains
//! are the rounding differences between kernels for one token and kernels for several. With activations in int8 they are
//! as large as a step of int8, so that a text may part from the one without speculation where two tokens are near.

mod draft;
mod ngram;
mod pace;

use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::{Error, Result};
use draft::Draft;
use ngram::Ngrams;
pub(crate) use pace::Costs;
use pace::{Pace, Step};

/// The most tokens that are proposed at once: with the token before them they are a batch of 16, the most for which
/// kernels of OpenCL devices unpack weights in registers.
pub const MOST_PROPOSED: usize = 15;

/// Where proposals come from. The distribution of the output does not depend on it, only the speed does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Speculation {
    /// Nothing is proposed.
    #[default]
    Off,
    /// What followed the last tokens where they occurred before, in the prompt or in the output (prompt look-up).
    /// Recurrent models, whose states cannot be truncated, decode without it, with a warning.
    Ngram(ProposalLength),
    /// What a smaller model holds most probable; [`Engine::set_draft`] sets it.
    Draft(ProposalLength),
}

/// How many tokens are proposed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalLength {
    /// As many as pay off by what was measured, at most so many.
    UpTo(usize),
    /// Always so many, whether they pay off or not.
    Fixed(usize),
}

impl Default for ProposalLength {
    fn default() -> Self {
        Self::UpTo(MOST_PROPOSED)
    }
}

impl ProposalLength {
    fn check(self) -> Result<()> {
        let (Self::UpTo(tokens) | Self::Fixed(tokens)) = self;
        match (1..=MOST_PROPOSED).contains(&tokens) {
            true => Ok(()),
            false => Err(Error::Argument {
                what: format!("proposals of {tokens} tokens; accepted are 1 to {MOST_PROPOSED}"),
            }),
        }
    }
}

#[derive(Debug)]
enum Proposer<'a> {
    Ngrams(Ngrams),
    Draft(Draft<'a>),
}

/// Proposes tokens, and learns from what became of them.
#[derive(Debug)]
pub(crate) struct Speculator<'a> {
    /// `None` if nothing is proposed.
    proposer: Option<Proposer<'a>>,
    length: ProposalLength,
    pace: Pace,
    /// The tokens of prompt and output.
    history: Vec<u32>,
    proposal: Vec<u32>,
    /// What kind of proposal it is, for [`Pace`].
    kind: usize,
    /// The token that would have been proposed if it had paid off. Whether it is the next one costs nothing to know.
    unproposed: Option<u32>,
    proposal_time: Duration,
    pub proposed: usize,
    pub accepted: usize,
}

impl<'a> Speculator<'a> {
    /// A speculator for a generation on `target`, after a prompt.
    pub fn new(
        speculation: Speculation,
        target: &Engine,
        draft: Option<&'a mut Engine>,
        sequence: usize,
        prompt: &[u32],
    ) -> Result<Self> {
        let (proposer, length) = match speculation {
            Speculation::Off => (None, ProposalLength::default()),
            Speculation::Ngram(length) if target.model().config().is_recurrent() => {
                log::warn!(
                    "the model is recurrent: its states cannot be truncated; nothing is proposed"
                );
                (None, length)
            }
            Speculation::Ngram(length) => (Some(Proposer::Ngrams(Ngrams::default())), length),
            Speculation::Draft(length) => {
                let what = "speculation with a draft model, and no draft model is set";
                let draft = draft.ok_or_else(|| Error::Argument { what: what.to_owned() })?;
                (Some(Proposer::Draft(Draft::new(draft, sequence, target.model()))), length)
            }
        };
        length.check()?;
        let pace = Pace::new(match proposer {
            Some(Proposer::Draft(_)) => &draft::CHANCES,
            _ => &ngram::CHANCES,
        });
        let mut speculator = Self {
            proposer,
            length,
            pace,
            history: Vec::new(),
            proposal: Vec::new(),
            kind: 0,
            unproposed: None,
            proposal_time: Duration::ZERO,
            proposed: 0,
            accepted: 0,
        };
        prompt.iter().for_each(|&token| speculator.push(token));
        Ok(speculator)
    }

    /// Gives the draft model the prompt, which is part of the time of the prompt.
    pub fn begin(&mut self, is_cancelled: &dyn Fn() -> bool) -> Result<()> {
        match &mut self.proposer {
            Some(Proposer::Draft(draft)) => draft.begin(&self.history, is_cancelled),
            _ => Ok(()),
        }
    }

    /// Adds a token to the history.
    pub fn push(&mut self, token: u32) {
        let Some(proposer) = &mut self.proposer else { return };
        if let Some(expected) = self.unproposed.take() {
            self.pace.observe(self.kind, expected == token);
        }
        self.history.push(token);
        if let Proposer::Ngrams(ngrams) = proposer {
            ngrams.push(&self.history);
        }
    }

    /// Tokens that may follow the history; at most `room`, and none if they would not pay off.
    pub fn propose(
        &mut self,
        room: usize,
        costs: &Costs,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<&[u32]> {
        self.proposal.clear();
        self.unproposed = None;
        self.proposal_time = Duration::ZERO;
        match &mut self.proposer {
            None => {}
            Some(Proposer::Ngrams(ngrams)) => {
                if let Some(found) = ngrams.find(&self.history) {
                    self.kind = found.kind();
                    let count = match self.length {
                        ProposalLength::Fixed(count) => count.min(room),
                        ProposalLength::UpTo(most) => {
                            self.pace.length(self.kind, most.min(room), costs)
                        }
                    };
                    found.propose(&self.history, count.max(1), &mut self.proposal);
                    if count == 0 {
                        self.unproposed = self.proposal.pop();
                    }
                }
            }
            Some(Proposer::Draft(draft)) => {
                let room = room.min(draft.room(&self.history));
                let count = match self.length {
                    ProposalLength::Fixed(count) => count.min(room),
                    ProposalLength::UpTo(most) => self.pace.length(0, most.min(room), costs),
                };
                if count == 0 {
                    self.pace.hope(0);
                } else {
                    let begin = Instant::now();
                    draft.propose(&self.history, count, &mut self.proposal, is_cancelled)?;
                    self.proposal_time = begin.elapsed();
                }
            }
        }
        Ok(&self.proposal)
    }

    /// Takes a proposal back that was not verified.
    pub fn withdraw(&mut self) {
        self.proposal.clear();
    }

    /// Learns from a batch: how many of its proposals were accepted, whether the next one was refused or the text ended
    /// before that was known, and how long the model took.
    pub fn settle(&mut self, accepted: usize, ended: bool, time: Duration, costs: &mut Costs) {
        if self.proposer.is_none() {
            return;
        }
        let proposed = self.proposal.len();
        self.proposed += proposed;
        self.accepted += accepted;
        (0..accepted).for_each(|_| self.pace.observe(self.kind, true));
        if accepted < proposed && !ended {
            self.pace.observe(self.kind, false);
        }
        let step = Step {
            proposed,
            accepted,
            seconds: time.as_secs_f64(),
            proposing: self.proposal_time.as_secs_f64(),
        };
        self.pace.settle(step, costs);
    }
}
