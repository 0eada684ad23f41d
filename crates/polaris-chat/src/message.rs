//! Messages, as applications write them.

use crate::error::{Error, Result};
use crate::run::json_text;
use crate::value::Value;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    fields: Vec<(String, Value)>,
}

impl Message {
    /// A message of a role: `system`, `user`, `assistant`, `tool`, or another one that the template knows.
    pub fn new(role: impl Into<String>, content: impl Into<Value>) -> Self {
        let role = Value::Text(role.into());
        Self { fields: vec![("role".to_owned(), role), ("content".to_owned(), content.into())] }
    }

    /// Instructions for the model.
    pub fn system(content: impl Into<Value>) -> Self {
        Self::new("system", content)
    }

    /// What the user says.
    pub fn user(content: impl Into<Value>) -> Self {
        Self::new("user", content)
    }

    /// What the model has said.
    pub fn assistant(content: impl Into<Value>) -> Self {
        Self::new("assistant", content)
    }

    /// What a tool has returned for the call with this identifier.
    pub fn tool(call: &str, content: impl Into<Value>) -> Self {
        Self::new("tool", content).with("tool_call_id", call)
    }

    /// The message with another field, such as `reasoning_content` or `name`. A field of this name is replaced.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        match self.fields.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.fields.push((name.to_owned(), value)),
        }
        self
    }

    /// The message with the call of a tool: its identifier, the function's name, and the arguments, a map or JSON.
    pub fn with_tool_call(self, id: &str, name: &str, arguments: impl Into<Value>) -> Self {
        let arguments = arguments.into();
        let arguments = parsed(&arguments).unwrap_or(arguments);
        let function = Value::map([("name", name.into()), ("arguments", arguments)]);
        let call = Value::map([
            ("id", Value::from(id)),
            ("type", Value::from("function")),
            ("function", function),
        ]);
        let mut calls = match self.get("tool_calls") {
            Some(Value::List(calls)) => calls.clone(),
            _ => Vec::new(),
        };
        calls.push(call);
        self.with("tool_calls", calls)
    }

    /// A message of the chat API of OpenAI. It needs a `role`; all other fields are kept for the template. The
    /// arguments of tool calls are JSON in a string there; they become maps, which templates expect.
    pub fn from_value(value: Value) -> Result<Self> {
        let Value::Map(mut fields) = value else {
            return Err(Error::message("message", "it is no JSON object"));
        };
        match fields.iter().find(|(name, _)| name == "role").map(|(_, role)| role) {
            Some(Value::Text(_)) => {}
            Some(_) => return Err(Error::message("message", "its `role` is not a string")),
            None => return Err(Error::message("message", "it has no `role`")),
        }
        replace_arguments(&mut fields, parsed);
        Ok(Self { fields })
    }

    /// A field of the message.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Who speaks.
    pub fn role(&self) -> &str {
        self.get("role").and_then(Value::as_text).unwrap_or_default()
    }

    /// Makes the arguments of tool calls that are maps JSON text; whether there were any.
    pub(crate) fn write_arguments(&mut self) -> bool {
        replace_arguments(&mut self.fields, written)
    }

    /// Makes content that is `null` or absent empty text; whether there was such.
    pub(crate) fn fill_content(&mut self) -> bool {
        match self.fields.iter_mut().find(|(name, _)| name == "content") {
            Some((_, content @ Value::None)) => *content = Value::from(""),
            Some(_) => return false,
            None => self.fields.push(("content".to_owned(), Value::from(""))),
        }
        true
    }

    /// The message as a template sees it.
    pub(crate) fn value(&self) -> Value {
        Value::Map(self.fields.clone())
    }
}

/// The functions that a message calls. Three forms are in use: `tool_calls` with the function in a field, or with its
/// name and arguments in the call itself, and the older `function_call`.
fn functions(fields: &mut [(String, Value)]) -> Vec<&mut Value> {
    let mut found = Vec::new();
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("tool_calls", Value::List(calls)) => {
                for call in calls {
                    let is_nested = matches!(call.get("function"), Some(Value::Map(_)));
                    if !is_nested {
                        found.push(call);
                    } else if let Value::Map(fields) = call {
                        let function = fields.iter_mut().find(|(name, _)| name == "function");
                        found.extend(function.map(|(_, function)| function));
                    }
                }
            }
            ("function_call", function) => found.push(function),
            _ => {}
        }
    }
    found
}

/// Replaces the arguments of all calls, where `replaced` gives others; whether there were any.
fn replace_arguments(
    fields: &mut [(String, Value)],
    replaced: impl Fn(&Value) -> Option<Value>,
) -> bool {
    let mut any = false;
    for function in functions(fields) {
        let Value::Map(fields) = function else { continue };
        for (_, arguments) in fields.iter_mut().filter(|(name, _)| name == "arguments") {
            if let Some(new) = replaced(arguments) {
                *arguments = new;
                any = true;
            }
        }
    }
    any
}

/// Arguments as a map, where they are the JSON of one; models also write text that is no JSON, which stays text.
fn parsed(arguments: &Value) -> Option<Value> {
    match Value::from_json(arguments.as_text()?) {
        Ok(map @ Value::Map(_)) => Some(map),
        _ => None,
    }
}

/// Arguments that are a map as the text of its JSON.
fn written(arguments: &Value) -> Option<Value> {
    match arguments {
        Value::Map(_) => json_text(arguments).ok().map(Value::Text),
        _ => None,
    }
}
