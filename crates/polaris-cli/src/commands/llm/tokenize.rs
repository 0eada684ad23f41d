//! `polaris tokenize`: the tokens of a text.

use std::io::Read;

use anyhow::Context;
use polaris::llm::{Special, Tokenizer};
use serde::Serialize;

use crate::arguments::{Global, Tokenize};
use crate::output::Table;
use crate::{exit, output};

/// The most bytes of text from stdin.
const LARGEST_TEXT: u64 = 1 << 30;

#[derive(Serialize)]
struct Result {
    count: usize,
    tokens: Vec<Token>,
}

#[derive(Serialize)]
struct Token {
    id: u32,
    /// Bytes that are no whole characters appear as U+FFFD.
    text: String,
}

pub fn run(global: &Global, options: &Tokenize) -> anyhow::Result<u8> {
    let tokenizer = match options.model.is_dir() {
        // No more than tokenizer.json has to be there.
        true => Tokenizer::open_folder(&options.model)?,
        false => Tokenizer::from_gguf(&super::source(&options.model)?.metadata)?,
    };
    let text = match options.text.as_str() {
        "-" => {
            let mut text = String::new();
            let stdin = std::io::stdin().lock();
            stdin.take(LARGEST_TEXT).read_to_string(&mut text).context("cannot read stdin")?;
            text
        }
        text => text.to_owned(),
    };
    let special = if options.special { Special::Parse } else { Special::Plain };
    let mut ids = tokenizer.encode(&text, special)?;
    if !options.bare {
        ids = tokenizer.framed(&ids);
    }
    let token = |&id: &u32| Token {
        id,
        text: String::from_utf8_lossy(tokenizer.piece(id).unwrap_or_default()).into_owned(),
    };
    let result = Result { count: ids.len(), tokens: ids.iter().map(token).collect() };
    if global.json {
        output::print_json("polaris.tokenize/1", &result)?;
        return Ok(exit::OK);
    }
    let mut table = Table::new(&[">id", "text"]);
    for token in &result.tokens {
        table.row(vec![token.id.to_string(), format!("{:?}", token.text)]);
    }
    table.print()?;
    Ok(exit::OK)
}
