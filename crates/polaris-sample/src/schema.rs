//! JSON schemas as grammars of JSON texts.
//!
//! A schema is a conjunction: its own keywords, `$ref` and `allOf` all apply. So everything here works on lists of
//! schemas that apply together ([`Part`]). [`shape`] collects the keywords of such a list, [`emit`] turns them into
//! rules, [`compare`] decides questions about values, such as whether the alternatives of `oneOf` exclude each other.

mod compare;
mod emit;
mod json;
mod number;
mod object;
mod pattern;
mod shape;

use std::collections::HashMap;

use json::Json;

use crate::error::Shown;
use crate::grammar::expr::{Expr, Rules};
use crate::grammar::gbnf;
use crate::{Error, Result};

/// The most keywords that are looked at, since combinations of `allOf` and `anyOf` multiply.
const MOST_WORK: usize = 1 << 22;

/// A schema that applies, perhaps without its alternatives (`anyOf`, `oneOf`), which are then listed separately.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    json: &'a Json,
    bare: bool,
}

impl<'a> Part<'a> {
    fn new(json: &'a Json) -> Self {
        Self { json, bare: false }
    }

    /// Where the schema is in memory: schemas are compared by place.
    fn key(&self) -> (usize, bool) {
        (place(self.json), self.bare)
    }
}

fn place(json: &Json) -> usize {
    std::ptr::from_ref(json) as usize
}

struct Converter<'a> {
    root: &'a Json,
    rules: Rules,
    /// The rule of each list of schemas.
    known: HashMap<Vec<(usize, bool)>, usize>,
    /// Rules that have no body yet. They are not filled where they are used, since schemas may refer to one another in
    /// long chains.
    pending: Vec<(usize, Vec<Part<'a>>)>,
    /// The rule of strings of these lengths.
    strings: HashMap<(u32, Option<u32>), usize>,
    /// The parent and the key of each part of the schema.
    parents: HashMap<usize, (&'a Json, String)>,
    work: usize,
}

/// The rules of a schema; the first is where texts begin.
pub(crate) fn rules(schema: &str) -> Result<Rules> {
    let root = Json::read(schema)?;
    let mut converter = Converter {
        root: &root,
        rules: gbnf::read(include_str!("schema/base.gbnf"))?,
        known: HashMap::new(),
        pending: Vec::new(),
        strings: HashMap::new(),
        parents: HashMap::new(),
        work: 0,
    };
    converter.find_parents();
    let top = converter.rule(&[Part::new(&root)])?;
    while let Some((rule, parts)) = converter.pending.pop() {
        converter.rules.bodies[rule] = converter.body(&parts)?;
    }
    converter.rules.names[0] = "#".into();
    converter.rules.bodies[0] = top;
    Ok(converter.rules)
}

impl<'a> Converter<'a> {
    fn find_parents(&mut self) {
        let mut todo = vec![self.root];
        while let Some(json) = todo.pop() {
            let mut add = |child: &'a Json, key: String| {
                self.parents.insert(place(child), (json, key));
                todo.push(child);
            };
            match json {
                Json::Array(items) => {
                    items.iter().enumerate().for_each(|(index, item)| add(item, index.to_string()));
                }
                Json::Object(entries) => {
                    entries.iter().for_each(|(key, value)| add(value, key.clone()));
                }
                _ => {}
            }
        }
    }

    /// The JSON pointer of a part, or its end if it is long.
    fn pointer(&self, json: &Json) -> String {
        const LONGEST: usize = 160;
        let mut keys = Vec::new();
        let mut length = 0;
        let mut at = place(json);
        while let Some((parent, key)) = self.parents.get(&at) {
            length += key.len() + 1;
            if length > LONGEST {
                keys.push("...".to_owned());
                break;
            }
            keys.push(Shown(key).to_string());
            at = place(parent);
        }
        keys.push("#".into());
        keys.reverse();
        keys.join("/")
    }

    fn invalid(&self, at: &Json, why: impl Into<String>) -> Error {
        Error::Schema { at: self.pointer(at), why: why.into() }
    }

    fn unsupported(&self, at: &Json, what: impl Into<String>) -> Error {
        Error::Unsupported { at: self.pointer(at), what: what.into() }
    }

    fn count_work(&mut self, amount: usize) -> Result<()> {
        self.work += amount;
        if self.work > MOST_WORK {
            return Err(Error::limit("combinations of keywords of a JSON schema", MOST_WORK));
        }
        Ok(())
    }

    /// A rule of `base.gbnf`.
    fn base(&self, name: &str) -> Expr {
        let index = self.rules.names.iter().position(|known| known == name);
        Expr::Rule(index.expect("the base rules should have this one"))
    }

    /// What a `$ref` refers to.
    fn resolve(&self, at: &Json, reference: &Json) -> Result<&'a Json> {
        let Some(text) = reference.as_str() else {
            return Err(self.invalid(at, format!("`$ref` is {}, not a string", reference.kind())));
        };
        let Some(pointer) = text.strip_prefix('#').filter(|p| p.is_empty() || p.starts_with('/'))
        else {
            return Err(self.unsupported(
                at,
                format!("the `$ref` to `{}`; supported are `#` and `#/...`", Shown(text)),
            ));
        };
        let mut found = self.root;
        for key in pointer.split('/').skip(1) {
            let key = percent_decoded(key).replace("~1", "/").replace("~0", "~");
            let next = match found {
                Json::Array(items) => key.parse().ok().and_then(|index: usize| items.get(index)),
                _ => found.get(&key),
            };
            found = next.ok_or_else(|| {
                self.invalid(at, format!("`$ref`: the schema has no `{}`", Shown(text)))
            })?;
        }
        Ok(found)
    }
}

/// A part of a URI fragment with `%NN` decoded.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) if byte == b'%' => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
