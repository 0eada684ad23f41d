//! A conversation with a model: the template writes the prompt, the cache keeps what was said before.

use std::ops::ControlFlow;

use polaris_chat::{Conversation, DateTime, Message, Template};
use polaris_tokenizer::Special;

use crate::engine::Engine;
use crate::generate::{GenerateOptions, Generated, Prompt};
use crate::{Error, Result};

/// A chat: messages and the engine that answers them.
#[derive(Debug)]
pub struct Chat {
    engine: Engine,
    template: Template,
    conversation: Conversation,
    end_of_turn: Option<String>,
    truncates: bool,
}

impl Chat {
    /// A chat with the model's own template. If it cannot be used, a warning says why, and the messages are written in
    /// ChatML.
    ///
    /// # Errors
    /// If the model has no tokenizer.
    pub fn new(engine: Engine) -> Result<Self> {
        engine.require_causal()?;
        let tokenizer = engine.model().require_tokenizer()?;
        let text = |id: Option<u32>| {
            let piece = id.and_then(|id| tokenizer.piece(id)).unwrap_or_default();
            String::from_utf8_lossy(piece).into_owned()
        };
        let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
        let instead = |why: String| {
            log::warn!("{why}; ChatML is used instead");
            Template::chatml()
        };
        let template = match engine.model().template().map(Template::parse) {
            Some(Ok(template)) => template,
            Some(Err(error)) => {
                instead(format!("the model's chat template cannot be used ({error})"))
            }
            None => instead("the model has no chat template".to_owned()),
        };
        let end_of_turn = template.end_of_turn(&bos, &eos);
        let conversation = Conversation { bos, eos, ..Conversation::new(Vec::new()) };
        Ok(Self { engine, template, conversation, end_of_turn, truncates: false })
    }

    /// Sets the date that templates may ask for, in seconds since 1970.
    pub fn set_time(&mut self, seconds: i64) {
        self.conversation.now = Some(DateTime::from_unix(seconds));
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Message] {
        &self.conversation.messages
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Sets the first message, which tells the model what it is; an empty text removes it.
    pub fn set_system(&mut self, text: &str) {
        let messages = &mut self.conversation.messages;
        if messages.first().is_some_and(|first| first.role() == "system") {
            messages.remove(0);
        }
        if !text.is_empty() {
            messages.insert(0, Message::system(text));
        }
    }

    /// Whether the oldest turns are dropped from a conversation that does not fit the context any more. Without it, such
    /// a conversation is an error.
    pub fn set_truncates(&mut self, truncates: bool) {
        self.truncates = truncates;
    }

    /// Forgets all messages but the system's.
    pub fn reset(&mut self) {
        self.conversation.messages.retain(|message| message.role() == "system");
    }

    /// The text of the conversation as the model is given it.
    ///
    /// # Errors
    /// If the template refuses it.
    pub fn prompt(&self) -> Result<String> {
        Ok(self.template.render(&self.conversation)?)
    }

    /// The tokens of the conversation as the model is given them. The template's special tokens are tokens; what was said
    /// is text, whatever it looks like.
    ///
    /// # Errors
    /// If the template refuses the conversation, or the vocabulary has no token for a part of it.
    pub fn prompt_tokens(&self) -> Result<Vec<u32>> {
        let tokenizer = self.engine.model().require_tokenizer()?;
        let rendered = self.template.render_marked(&self.conversation)?;
        let encoded = tokenizer.encode_prompt(&rendered.text, &rendered.content)?;
        let starts = encoded.starts_with(tokenizer.begin());
        Ok(if starts { encoded } else { [tokenizer.begin(), &encoded].concat() })
    }

    /// Says something and returns the answer, which `on_text` is given while it is written. What was stopped stays in
    /// the conversation as far as it went; after an error the conversation is as before.
    ///
    /// # Errors
    /// If the template refuses the conversation, it does not fit the context, or the device fails.
    pub fn ask(
        &mut self,
        text: &str,
        options: &GenerateOptions,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Generated> {
        let before = self.conversation.messages.clone();
        self.conversation.messages.push(Message::user(text));
        let answered = self.answer(options, on_text, is_cancelled);
        match &answered {
            Ok(generated) => {
                self.conversation.messages.push(Message::assistant(generated.text.trim()));
            }
            Err(_) => self.conversation.messages = before,
        }
        answered
    }

    /// The tokens of the conversation, after its oldest turns were dropped until there is room for an answer: for what the
    /// caller asks for, or a quarter of the context, and half of it at most.
    fn truncated(&mut self, most: Option<usize>) -> Result<(Vec<u32>, usize)> {
        let context = self.engine.context();
        let room = most.unwrap_or(context / 4).min(context / 2);
        let mut dropped = 0;
        loop {
            let tokens = self.prompt_tokens()?;
            let fits = tokens.len() + room <= context;
            match if fits || !self.truncates { 0 } else { self.drop_turn() } {
                0 => return Ok((tokens, dropped)),
                messages => dropped += messages,
            }
        }
    }

    /// Drops the oldest message of the user and what follows it, but for the last one; says how many messages that were.
    fn drop_turn(&mut self) -> usize {
        let messages = &mut self.conversation.messages;
        let first = usize::from(messages.first().is_some_and(|first| first.role() == "system"));
        let is_turn = |message: &Message| message.role() == "user";
        match messages.iter().skip(first + 1).position(is_turn) {
            Some(length) => messages.drain(first..=first + length).count(),
            None => 0,
        }
    }

    fn answer(
        &mut self,
        options: &GenerateOptions,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Generated> {
        let (tokens, dropped_messages) = self.truncated(options.max_tokens)?;
        if tokens.len() >= self.engine.context() {
            return Err(Error::ContextFull {
                tokens: tokens.len() + 1,
                context: self.engine.context(),
            });
        }
        let model = self.engine.model().clone();
        let tokenizer = model.require_tokenizer()?;
        let mut options = options.clone();
        if let Some(end) = &self.end_of_turn {
            // A single token may be one that is not shown, so that its text is never seen.
            match tokenizer.encode(end, Special::Parse)?[..] {
                [token] => options.stop_tokens.push(token),
                _ => options.stop.push(end.clone()),
            }
        }
        let prompt = Prompt { sequence: 0, tokens: &tokens };
        let generated = self.engine.generate(prompt, &options, on_text, is_cancelled)?;
        Ok(Generated { dropped_messages, ..generated })
    }
}
