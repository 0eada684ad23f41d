//! Reading GBNF, the grammar notation of llama.cpp.

use std::collections::HashMap;

use super::charset::{CharSet, LAST};
use super::expr::{Expr, Rules};
use crate::error::Shown;
use crate::{Error, Result};

/// The most bytes of a grammar's text.
const LONGEST_TEXT: usize = 1 << 20;
/// The deepest groups.
const DEEPEST: usize = 128;
/// The most repetitions of `{m,n}`.
pub(crate) const MOST_REPETITIONS: u32 = 1 << 16;

/// Reads the rules; `root` becomes the first.
pub(crate) fn read(text: &str) -> Result<Rules> {
    if text.len() > LONGEST_TEXT {
        return Err(Error::limit("bytes of a grammar", LONGEST_TEXT));
    }
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
        rules: Rules::default(),
        ids: HashMap::new(),
        defined: Vec::new(),
        first_use: Vec::new(),
    };
    reader.rule_id("root")?;
    reader.space(true);
    while reader.peek().is_some() {
        reader.rule()?;
    }
    if !reader.defined[0] {
        return Err(reader.error("there is no rule `root`, where texts begin"));
    }
    if let Some(unknown) = reader.defined.iter().position(|defined| !defined) {
        reader.at = reader.first_use[unknown];
        let name = &reader.rules.names[unknown];
        return Err(reader.error(format!("the rule `{}` has no definition", Shown(name))));
    }
    Ok(reader.rules)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    rules: Rules,
    ids: HashMap<String, usize>,
    defined: Vec<bool>,
    first_use: Vec<usize>,
}

impl Reader<'_> {
    fn error(&self, why: impl Into<String>) -> Error {
        let before = &self.text[..self.at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Error::Grammar {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            why: why.into(),
        }
    }

    /// An error that says what is here instead of what is accepted.
    fn expected(&self, what: &str) -> Error {
        match self.peek() {
            Some(found) => {
                let found = found.to_string();
                self.error(format!("`{}` where {what} is expected", Shown(&found)))
            }
            None => self.error(format!("the end of the text where {what} is expected")),
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        Some(character)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.text[self.at..].starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Skips spaces and comments, and line breaks where they end no rule.
    fn space(&mut self, line_breaks: bool) {
        while let Some(character) = self.peek() {
            match character {
                ' ' | '\t' => self.at += 1,
                '\r' | '\n' if line_breaks => self.at += 1,
                '#' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find(['\r', '\n']).unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    fn word(&mut self, accepted: fn(char) -> bool) -> &str {
        let rest = &self.text[self.at..];
        let length = rest.find(|c| !accepted(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn rule_id(&mut self, name: &str) -> Result<usize> {
        if let Some(&id) = self.ids.get(name) {
            return Ok(id);
        }
        let id = self.rules.add(name, Expr::never())?;
        self.ids.insert(name.to_owned(), id);
        self.defined.push(false);
        self.first_use.push(self.at);
        Ok(id)
    }

    fn rule(&mut self) -> Result<()> {
        let start = self.at;
        let name = self.word(is_name).to_owned();
        if name.is_empty() {
            return Err(self.expected("the name of a rule (letters, digits, `-`)"));
        }
        let id = self.rule_id(&name)?;
        if self.defined[id] {
            self.at = start;
            return Err(self.error(format!("the rule `{}` is defined twice", Shown(&name))));
        }
        self.space(false);
        if !self.take("::=") {
            return Err(self.expected("`::=`"));
        }
        self.space(true);
        self.rules.bodies[id] = self.alternatives(false)?;
        self.defined[id] = true;
        if !matches!(self.peek(), None | Some('\r' | '\n')) {
            return Err(self.expected("an item, `|` or the end of the line"));
        }
        self.space(true);
        Ok(())
    }

    fn alternatives(&mut self, nested: bool) -> Result<Expr> {
        let first = self.sequence(nested)?;
        if self.peek() != Some('|') {
            return Ok(first);
        }
        let mut choices = vec![first];
        while self.take("|") {
            self.space(true);
            choices.push(self.sequence(nested)?);
        }
        Ok(Expr::Choice(choices))
    }

    fn sequence(&mut self, nested: bool) -> Result<Expr> {
        let mut items = Vec::new();
        while let Some(character) = self.peek() {
            let item = match character {
                '"' => self.literal()?,
                '[' => self.class()?,
                '.' => {
                    self.at += 1;
                    Expr::Set(CharSet::all())
                }
                '(' => self.group()?,
                '*' | '+' | '?' | '{' => {
                    let (least, most) = self.repetition(nested)?;
                    let Some(item) = items.pop() else {
                        return Err(self.error("there is nothing to repeat before `*+?{`"));
                    };
                    nest(item, least, most).map_err(|why| self.error(why))?
                }
                '<' | '!' => {
                    return Err(self.error("tokens (`<...>`) are not supported in grammars"));
                }
                character if is_name(character) => {
                    let start = self.at;
                    let name = self.word(is_name).to_owned();
                    let end = std::mem::replace(&mut self.at, start);
                    let id = self.rule_id(&name)?;
                    self.at = end;
                    Expr::Rule(id)
                }
                _ => break,
            };
            items.push(item);
            self.space(nested);
        }
        Ok(match items.len() {
            1 => items.remove(0),
            _ => Expr::Sequence(items),
        })
    }

    fn group(&mut self) -> Result<Expr> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Error::limit("nested groups of a grammar", DEEPEST));
        }
        self.space(true);
        let inner = self.alternatives(true)?;
        if !self.take(")") {
            return Err(self.expected("an item, `|` or `)`"));
        }
        self.depth -= 1;
        Ok(inner)
    }

    fn literal(&mut self) -> Result<Expr> {
        self.at += 1;
        let mut text = String::new();
        while !self.take("\"") {
            let start = self.at;
            let code = self.character("`\"`")?;
            let Some(character) = char::from_u32(code) else {
                self.at = start;
                return Err(self.error(format!("U+{code:04X} is not a character")));
            };
            text.push(character);
        }
        Ok(Expr::Text(text))
    }

    fn class(&mut self) -> Result<Expr> {
        let start = self.at;
        self.at += 1;
        let negated = self.take("^");
        let mut ranges = Vec::new();
        while !self.take("]") {
            let low = self.character("`]`")?;
            let mut high = low;
            if self.peek() == Some('-') && !self.text[self.at + 1..].starts_with(']') {
                self.at += 1;
                high = self.character("the end of the range")?;
            }
            if high < low {
                return Err(self.error(format!(
                    "the range U+{low:04X} to U+{high:04X} is empty; the smaller end comes first"
                )));
            }
            ranges.push((low, high));
        }
        let set = CharSet::new(ranges);
        let set = if negated { set.negated() } else { set };
        if set.is_empty() {
            self.at = start;
            return Err(self.error("the class has no character"));
        }
        Ok(Expr::Set(set))
    }

    /// One character of a literal or class, perhaps escaped, as a code point.
    fn character(&mut self, end: &str) -> Result<u32> {
        let start = self.at;
        let Some(character) = self.next() else {
            return Err(self.expected(end));
        };
        if character != '\\' {
            return Ok(character.into());
        }
        match self.next() {
            Some('x') => self.hexadecimal(2),
            Some('u') => self.hexadecimal(4),
            Some('U') => self.hexadecimal(8),
            Some('t') => Ok('\t'.into()),
            Some('r') => Ok('\r'.into()),
            Some('n') => Ok('\n'.into()),
            Some(escaped @ ('\\' | '"' | '[' | ']')) => Ok(escaped.into()),
            _ => {
                self.at = start;
                Err(self.error(
                    "an unknown escape; accepted are \\xNN \\uNNNN \\UNNNNNNNN \\t \\r \\n \\\\ \\\" \\[ \\]",
                ))
            }
        }
    }

    fn hexadecimal(&mut self, digits: usize) -> Result<u32> {
        let mut code = 0u32;
        for _ in 0..digits {
            match self.peek().and_then(|digit| digit.to_digit(16)) {
                Some(digit) => code = code << 4 | digit,
                None => return Err(self.expected(&format!("one of {digits} hexadecimal digits"))),
            }
            self.at += 1;
        }
        if code > LAST {
            return Err(self.error(format!("U+{code:X} is beyond the last code point, U+10FFFF")));
        }
        Ok(code)
    }

    /// `*`, `+`, `?`, `{m}`, `{m,}` or `{m,n}`.
    fn repetition(&mut self, nested: bool) -> Result<(u32, Option<u32>)> {
        match self.next() {
            Some('*') => return Ok((0, None)),
            Some('+') => return Ok((1, None)),
            Some('?') => return Ok((0, Some(1))),
            _ => self.space(nested),
        }
        let least = self.count()?;
        self.space(nested);
        let mut most = Some(least);
        if self.take(",") {
            self.space(nested);
            most = match self.peek() {
                Some('0'..='9') => Some(self.count()?),
                _ => None,
            };
            self.space(nested);
        }
        if !self.take("}") {
            return Err(self.expected("`}`"));
        }
        if most.is_some_and(|most| most < least) {
            return Err(self.error("the repetition ends below where it begins"));
        }
        Ok((least, most))
    }

    fn count(&mut self) -> Result<u32> {
        let digits = self.word(|c| c.is_ascii_digit()).to_owned();
        if digits.is_empty() {
            return Err(self.expected("a number of repetitions"));
        }
        match digits.parse() {
            Ok(count) if count <= MOST_REPETITIONS => Ok(count),
            _ => Err(Error::limit("repetitions", MOST_REPETITIONS as usize)),
        }
    }
}

/// Repeats an item; repetitions of repetitions nest only so deep.
pub(crate) fn nest(
    item: Expr,
    least: u32,
    most: Option<u32>,
) -> std::result::Result<Expr, &'static str> {
    const DEEPEST: usize = 16;
    let mut depth = 0;
    let mut inner = &item;
    while let Expr::Repeat { item, .. } = inner {
        depth += 1;
        inner = item;
    }
    if depth == DEEPEST {
        return Err("more than 16 repetitions follow one another");
    }
    Ok(item.repeat(least, most))
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '-'
}
