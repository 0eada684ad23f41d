//! What a template is rendered with.

use crate::clock::DateTime;
use crate::error::{Error, Result};
use crate::message::Message;
use crate::value::Value;

/// Messages and everything else that a template may ask for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    /// The messages, the oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may call, as JSON schemas of the chat API of OpenAI.
    pub tools: Vec<Value>,
    /// Whether the text ends where the model's answer begins.
    pub add_generation_prompt: bool,
    /// The text of the token that begins a sequence (`bos_token`). Templates write it themselves, so do not add the
    /// token again.
    pub bos: String,
    /// The text of the token that ends a sequence (`eos_token`).
    pub eos: String,
    /// Other variables, such as `enable_thinking`, in place of those of the same name.
    pub variables: Vec<(String, Value)>,
    /// The date for `strftime_now`. Without one the function is not defined; most templates then use a fixed date.
    pub now: Option<DateTime>,
}

impl Conversation {
    /// A conversation whose text ends where the model's answer begins.
    pub fn new(messages: Vec<Message>) -> Self {
        Self { messages, add_generation_prompt: true, ..Self::default() }
    }

    /// The messages and tools of a request to the chat API of OpenAI: JSON with `messages` and perhaps `tools`, or the
    /// list of messages alone. Other fields of the request are not read.
    pub fn from_json(json: &str) -> Result<Self> {
        let value = Value::from_json(json)?;
        let (messages, tools) = match value {
            Value::List(messages) => (messages, Value::None),
            Value::Map(fields) => {
                let (mut messages, mut tools) = (Value::None, Value::None);
                for (name, value) in fields {
                    match name.as_str() {
                        "messages" => messages = value,
                        "tools" => tools = value,
                        _ => {}
                    }
                }
                let Value::List(messages) = messages else {
                    return Err(Error::message("conversation", "its `messages` are not a list"));
                };
                (messages, tools)
            }
            _ => return Err(Error::message("conversation", "it is neither a list nor an object")),
        };
        let messages = messages.into_iter().map(Message::from_value).collect::<Result<_>>()?;
        let mut conversation = Self::new(messages);
        conversation.tools = match tools {
            Value::None => Vec::new(),
            Value::List(tools) if tools.iter().all(|tool| matches!(tool, Value::Map(_))) => tools,
            _ => {
                return Err(Error::message(
                    "conversation",
                    "its `tools` are not a list of objects",
                ));
            }
        };
        Ok(conversation)
    }

    /// The conversation with another variable.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// All variables of the template; of equal names the last one counts. `tools` and `documents` are always defined,
    /// as in Hugging Face Transformers.
    pub(crate) fn all_variables(&self) -> Vec<(String, Value)> {
        let tools = if self.tools.is_empty() { Value::None } else { self.tools.clone().into() };
        let messages = Value::List(self.messages.iter().map(Message::value).collect());
        let mut variables = vec![
            ("messages".to_owned(), messages),
            ("tools".to_owned(), tools),
            ("documents".to_owned(), Value::None),
            ("add_generation_prompt".to_owned(), self.add_generation_prompt.into()),
            ("bos_token".to_owned(), self.bos.as_str().into()),
            ("eos_token".to_owned(), self.eos.as_str().into()),
        ];
        variables.extend(self.variables.iter().cloned());
        variables
    }

    /// The same conversation in the forms that templates expect where they fail for maps as arguments of tool calls or
    /// for messages without content; only those that differ from it.
    pub(crate) fn other_forms(&self) -> impl Iterator<Item = Self> {
        [(true, false), (false, true), (true, true)].into_iter().filter_map(|(text, empty)| {
            let mut copy = self.clone();
            let (mut written, mut filled) = (!text, !empty);
            for message in &mut copy.messages {
                written |= text && message.write_arguments();
                filled |= empty && message.fill_content();
            }
            (written && filled).then_some(copy)
        })
    }
}
