//! Grammars as expressions: what GBNF and JSON schemas are read into.

use super::charset::CharSet;
use crate::{Error, Result};

/// The most rules of a grammar.
const MOST_RULES: usize = 1 << 16;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Text(String),
    Set(CharSet),
    /// All in order; empty: the empty text.
    Sequence(Vec<Expr>),
    /// Any of them; empty: no text at all.
    Choice(Vec<Expr>),
    Repeat {
        item: Box<Expr>,
        least: u32,
        /// None: without end.
        most: Option<u32>,
    },
    Rule(usize),
}

impl Expr {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub fn empty() -> Self {
        Self::Sequence(Vec::new())
    }

    pub fn never() -> Self {
        Self::Choice(Vec::new())
    }

    pub fn repeat(self, least: u32, most: Option<u32>) -> Self {
        Self::Repeat { item: Box::new(self), least, most }
    }

    pub fn optional(self) -> Self {
        self.repeat(0, Some(1))
    }
}

/// Named rules; the first is where texts begin.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub names: Vec<String>,
    /// A rule that is used but has no definition yet matches nothing.
    pub bodies: Vec<Expr>,
}

impl Rules {
    pub fn add(&mut self, name: impl Into<String>, body: Expr) -> Result<usize> {
        if self.names.len() == MOST_RULES {
            return Err(Error::limit("rules of a grammar", MOST_RULES));
        }
        self.names.push(name.into());
        self.bodies.push(body);
        Ok(self.names.len() - 1)
    }
}
