//! Templates carried out: a small interpreter with Python's meaning of values, whose every step and byte is counted.

mod access;
mod arguments;
mod calls;
mod content;
mod expressions;
mod filters;
mod format;
mod heap;
mod interpreter;
mod json;
mod methods;
mod numbers;
mod object;
mod operators;
mod sequences;
mod show;
mod strings;
mod tests;

pub(crate) use heap::Limits;
pub(crate) use interpreter::render;
pub(crate) use json::text as json_text;

/// Whether Python's `str.isspace` counts the character as whitespace: those of Unicode and four separators.
pub(crate) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}
