//! The lexer: text, tags and the tokens within tags, with Jinja's control of whitespace. `trim_blocks` and
//! `lstrip_blocks` are on, as in Hugging Face Transformers, for which chat templates are written: a line break after a
//! block is dropped, and so is the indentation before one.

use super::literal::{self, Number};
use crate::error::{Error, Result, shown};
use crate::run::is_space;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// Text outside of tags.
    Data(String),
    BeginPrint,
    EndPrint,
    BeginBlock,
    EndBlock,
    Name(String),
    Text(String),
    Int(i128),
    Float(f64),
    Operator(&'static str),
    End,
}

impl Token {
    /// How it is called in messages.
    pub fn describe(&self) -> String {
        match self {
            Self::Data(_) => "text".to_owned(),
            Self::BeginPrint => "`{{`".to_owned(),
            Self::EndPrint => "`}}`".to_owned(),
            Self::BeginBlock => "`{%`".to_owned(),
            Self::EndBlock => "`%}`".to_owned(),
            Self::Name(name) => format!("`{}`", shown(name)),
            Self::Text(_) => "a string".to_owned(),
            Self::Int(_) | Self::Float(_) => "a number".to_owned(),
            Self::Operator(operator) => format!("`{operator}`"),
            Self::End => "the end of the template".to_owned(),
        }
    }
}

/// In bytes. Names are compared in single steps of a running template, so they have to be short.
const LONGEST_NAME: usize = 200;

/// Longer ones first, so that the first that fits is the right one.
const OPERATORS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
    ">", "<", "=", ".", ":", "|", ",", ";",
];

/// The tokens of a template with their lines, the last one is [`Token::End`].
pub(super) fn tokens(source: &str) -> Result<Vec<(Token, u32)>> {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    if source.ends_with('\n') {
        source.pop();
    }
    let mut lexer = Lexer { source: &source, at: 0, line: 1, line_start: true, tokens: Vec::new() };
    lexer.template()?;
    lexer.push(Token::End);
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    line: u32,
    /// Whether what came last ended a line, which decides if whitespace in front of a block is indentation.
    line_start: bool,
    tokens: Vec<(Token, u32)>,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn push(&mut self, token: Token) {
        self.tokens.push((token, self.line));
    }

    fn advance(&mut self, bytes: usize) {
        let passed = &self.source[self.at..self.at + bytes];
        self.line += passed.bytes().filter(|b| *b == b'\n').count() as u32;
        self.line_start = passed.ends_with('\n');
        self.at += bytes;
    }

    fn fail<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Error::syntax(self.line, why))
    }

    fn template(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let tag = rest
                .match_indices('{')
                .map(|(at, _)| at)
                .find(|at| matches!(rest.as_bytes().get(at + 1), Some(b'{' | b'%' | b'#')));
            let Some(tag) = tag else {
                if !rest.is_empty() {
                    self.push(Token::Data(rest.to_owned()));
                    self.advance(rest.len());
                }
                return Ok(());
            };
            let kind = rest.as_bytes()[tag + 1];
            let sign = rest.as_bytes().get(tag + 2).copied().filter(|b| matches!(b, b'-' | b'+'));
            let start = tag + 2 + usize::from(sign.is_some());
            self.data(tag, sign, kind == b'{');
            self.advance(start - tag);
            match kind {
                b'#' => self.comment()?,
                b'{' => self.tag(Token::BeginPrint)?,
                _ => match raw_begin(self.rest()) {
                    Some(length) => {
                        self.advance(length);
                        self.raw()?;
                    }
                    None => self.tag(Token::BeginBlock)?,
                },
            }
        }
    }

    /// The text of so many bytes in front of a tag, without the whitespace that belongs to the tag.
    fn data(&mut self, bytes: usize, sign: Option<u8>, is_print: bool) {
        let text = &self.rest()[..bytes];
        let kept = match sign {
            Some(b'-') => text.trim_end_matches(is_space),
            None if !is_print => {
                let line = text.rfind('\n').map_or(0, |at| at + 1);
                let indentation = text[line..].chars().all(is_space);
                if indentation && (line > 0 || self.line_start) { &text[..line] } else { text }
            }
            _ => text,
        };
        if !kept.is_empty() {
            self.push(Token::Data(kept.to_owned()));
        }
        self.advance(bytes);
    }

    fn comment(&mut self) -> Result<()> {
        let Some(end) = self.rest().find("#}") else {
            return self.fail("a comment that begins here has no `#}`");
        };
        let before = self.rest().as_bytes()[..end].last().copied();
        self.advance(end + 2);
        self.after_tag(before, true);
        Ok(())
    }

    /// Whitespace after a tag: all of it after `-`, one line break after a block without a sign.
    fn after_tag(&mut self, sign: Option<u8>, is_block: bool) {
        let rest = self.rest();
        match sign {
            Some(b'-') => self.advance(rest.len() - rest.trim_start_matches(is_space).len()),
            Some(b'+') => {}
            _ if is_block && rest.starts_with('\n') => self.advance(1),
            _ => {}
        }
    }

    /// The text of `{% raw %}` up to and with its end.
    fn raw(&mut self) -> Result<()> {
        let rest = self.rest();
        for (at, _) in rest.match_indices("{%") {
            let sign = rest.as_bytes().get(at + 2).copied().filter(|b| matches!(b, b'-' | b'+'));
            let inner = &rest[at + 2 + usize::from(sign.is_some())..];
            let Some(end) = inner.trim_start_matches(is_space).strip_prefix("endraw") else {
                continue;
            };
            let end = end.trim_start_matches(is_space);
            let close = end.strip_prefix(['-', '+']).unwrap_or(end);
            if let Some(after) = close.strip_prefix("%}") {
                let close = end.as_bytes().first().copied().filter(|b| *b != b'%');
                self.data(at, sign, false);
                self.advance(rest.len() - after.len() - at);
                self.after_tag(close, true);
                return Ok(());
            }
        }
        self.fail("a raw block that begins here has no `{% endraw %}`")
    }

    /// The tokens of a tag up to and with its end.
    fn tag(&mut self, begin: Token) -> Result<()> {
        let is_block = begin == Token::BeginBlock;
        let (end, end_token) =
            if is_block { ("%}", Token::EndBlock) } else { ("}}", Token::EndPrint) };
        self.push(begin);
        let mut open = Vec::new();
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(is_space);
            self.advance(rest.len() - trimmed.len());
            let rest = trimmed;
            let Some(first) = rest.chars().next() else {
                return self.fail(format!("a tag that begins before has no `{end}`"));
            };
            if open.is_empty() {
                let signed = rest.strip_prefix('-').or(rest.strip_prefix('+').filter(|_| is_block));
                if signed.is_some_and(|rest| rest.starts_with(end)) || rest.starts_with(end) {
                    let sign = signed.filter(|r| r.starts_with(end)).map(|_| rest.as_bytes()[0]);
                    self.push(end_token);
                    self.advance(2 + usize::from(sign.is_some()));
                    self.after_tag(sign, is_block);
                    return Ok(());
                }
            }
            match first {
                '0'..='9' => {
                    let after_dot = self.source[..self.at].ends_with('.');
                    let (number, length) = literal::number(rest, after_dot, self.line)?;
                    self.push(match number {
                        Number::Int(value) => Token::Int(value),
                        Number::Float(value) => Token::Float(value),
                    });
                    self.advance(length);
                }
                '\'' | '"' => {
                    let Some(length) = string_end(rest, first) else {
                        return self.fail("a string that begins here has no end");
                    };
                    let text = literal::unescape(&rest[1..length - 1], self.line)?;
                    self.push(Token::Text(text));
                    self.advance(length);
                }
                _ if first == '_' || first.is_alphabetic() => {
                    let length =
                        rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                    if length > LONGEST_NAME {
                        return self.fail(format!("a name has more than {LONGEST_NAME} bytes"));
                    }
                    self.push(Token::Name(rest[..length].to_owned()));
                    self.advance(length);
                }
                _ => {
                    let Some(operator) = OPERATORS.into_iter().find(|o| rest.starts_with(o)) else {
                        return self
                            .fail(format!("`{}` has no meaning", shown(&first.to_string())));
                    };
                    self.balance(operator, &mut open)?;
                    self.push(Token::Operator(operator));
                    self.advance(operator.len());
                }
            }
        }
    }

    /// Within brackets, `}}` and `%}` are operators.
    fn balance(&self, operator: &str, open: &mut Vec<&'static str>) -> Result<()> {
        match operator {
            "(" => open.push(")"),
            "[" => open.push("]"),
            "{" => open.push("}"),
            ")" | "]" | "}" => match open.pop() {
                Some(expected) if expected == operator => {}
                Some(expected) => {
                    return self.fail(format!("found `{operator}` where `{expected}` is expected"));
                }
                None => return self.fail(format!("`{operator}` closes nothing")),
            },
            _ => {}
        }
        Ok(())
    }
}

/// The length of what follows `{%` if it is the begin of a raw block, with the whitespace that it removes.
fn raw_begin(rest: &str) -> Option<usize> {
    let name = rest.trim_start_matches(is_space).strip_prefix("raw")?.trim_start_matches(is_space);
    let after = match name.strip_prefix("-%}") {
        Some(after) => after.trim_start_matches(is_space),
        None => name.strip_prefix("%}")?,
    };
    Some(rest.len() - after.len())
}

/// The length of the string literal at the start of the text, with both quotes.
fn string_end(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}
