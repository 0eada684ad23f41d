//! JSON values whose objects keep their order, which decides the order of properties.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use crate::{Error, Result};

/// The most bytes of a schema.
const LONGEST_TEXT: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn read(text: &str) -> Result<Self> {
        if text.len() > LONGEST_TEXT {
            return Err(Error::limit("bytes of a JSON schema", LONGEST_TEXT));
        }
        serde_json::from_str(text).map_err(|error| {
            let at = format!("line {}, column {}", error.line(), error.column());
            let text = error.to_string();
            let why = text.rsplit_once(" at line").map_or(&*text, |(why, _)| why);
            Error::Schema { at, why: why.into() }
        })
    }

    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Self::Object(entries) => {
                entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// What kind of value it is, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// Whether both are the same value: numbers by value, objects in any order.
    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a == b || a.as_f64() == b.as_f64(),
            (Self::Array(a), Self::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
            }
            (Self::Object(a), Self::Object(_)) => {
                let same = |(key, value): &(String, Json)| {
                    other.get(key).is_some_and(|found| found.equals(value))
                };
                matches!(other, Self::Object(b) if a.len() == b.len()) && a.iter().all(same)
            }
            _ => self == other,
        }
    }
}

/// The value as JSON without spaces.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::String(text) => f.write_str(&quoted(text)),
            Self::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Object(entries) => {
                f.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{}:{value}", quoted(key))?;
                }
                f.write_str("}")
            }
        }
    }
}

/// A text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("every text should have a JSON string")
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> std::result::Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> std::result::Result<Json, E> {
        Number::from_f64(value).map(Json::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Json, E> {
        Ok(Json::String(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(item) = items.next_element()? {
            values.push(item);
        }
        Ok(Json::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<Json, A::Error> {
        let mut values: Vec<(String, Json)> = Vec::new();
        let mut seen = HashSet::new();
        while let Some((key, value)) = entries.next_entry::<String, Json>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom("an object has the same key twice"));
            }
            values.push((key, value));
        }
        Ok(Json::Object(values))
    }
}
