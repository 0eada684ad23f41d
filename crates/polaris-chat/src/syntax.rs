//! Templates as trees: the lexer, the parser and what they make.

pub(crate) mod ast;
mod expressions;
mod lexer;
mod literal;
mod statements;

pub(crate) use statements::parse;
