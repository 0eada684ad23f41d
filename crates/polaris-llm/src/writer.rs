//! Text from rows of logits: the sampler draws a token, the grammar masks, the decoder gives whole characters, stop
//! strings and tokens end it.

use std::ops::ControlFlow;

use polaris_sample::{Matcher, Sampler, StopDetector};
use polaris_tokenizer::{Stream, Tokenizer};

use crate::Result;
use crate::generate::{Finish, GenerateOptions, Generated};

/// What turns rows of logits into text, and ends it.
pub(crate) struct Writer<'a> {
    pub options: &'a GenerateOptions,
    pub tokenizer: &'a Tokenizer,
    pub sampler: Sampler,
    pub matcher: Option<Matcher>,
    pub stops: StopDetector,
    pub decoder: Stream,
    /// The most tokens.
    pub most: usize,
}

impl Writer<'_> {
    /// Draws a token from logits and appends it. Returns why the text ends, if it does.
    pub fn write(
        &mut self,
        logits: &[f32],
        result: &mut Generated,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Option<Finish>> {
        let token = match &mut self.matcher {
            Some(matcher) => self.sampler.sample_masked(logits, matcher.allowed()?)?,
            None => self.sampler.sample(logits)?,
        };
        self.sampler.accept(token)?;
        // A grammar that has ended allows nothing more.
        let is_stop = self.tokenizer.is_stop(token);
        let ends = is_stop && (!self.options.ignore_end || self.matcher.is_some());
        if ends || self.options.stop_tokens.contains(&token) {
            return Ok(Some(Finish::End));
        }
        if let Some(matcher) = &mut self.matcher {
            matcher.accept_token(token)?;
        }
        result.tokens.push(token);
        let (text, stopped) = self.stops.push(&self.decoder.push(token));
        result.text.push_str(text);
        let flow = if text.is_empty() { ControlFlow::Continue(()) } else { on_text(text) };
        if stopped.is_some() {
            return Ok(Some(Finish::StopString));
        }
        if flow.is_break() {
            return Ok(Some(Finish::Stopped));
        }
        Ok((result.tokens.len() >= self.most).then_some(Finish::Length))
    }

    /// Appends what was held back, in case a stop string or a character had gone on.
    pub fn finish(
        mut self,
        result: &mut Generated,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) {
        let rest = self.stops.push(&self.decoder.finish()).0.to_owned() + self.stops.finish();
        if !rest.is_empty() {
            result.text.push_str(&rest);
            let _ = on_text(&rest);
        }
    }
}
