//! Vocabularies and texts that the tests make.

use polaris_core::random::SplitMix64;
use polaris_gguf::{Gguf, ToMetadata, Writer};
use polaris_tokenizer::{Result, Tokenizer};

/// The metadata of a tokenizer, key by key, without the prefix `tokenizer.ggml.`.
#[derive(Default)]
pub struct Made(Writer<'static>);

impl Made {
    pub fn new(model: &str) -> Self {
        Self(Writer::new()).with("model", model)
    }

    pub fn with(mut self, key: &str, value: impl ToMetadata) -> Self {
        self.0.set(&format!("tokenizer.ggml.{key}"), value).unwrap();
        self
    }

    pub fn general_name(mut self, name: &str) -> Self {
        self.0.set("general.name", name).unwrap();
        self
    }

    pub fn read(self) -> Result<Tokenizer> {
        let gguf = Gguf::from_bytes(self.0.into_bytes().unwrap().into()).unwrap();
        Tokenizer::from_gguf(gguf.metadata())
    }
}

/// The characters that stand for the bytes, in the order of the bytes.
pub fn alphabet() -> Vec<String> {
    let is_itself = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut others = 0x100..;
    let letter = |byte| if is_itself(byte) { byte } else { others.next().unwrap() };
    (0..256).map(letter).map(|code| char::from_u32(code).unwrap().to_string()).collect()
}

/// A random number below another.
pub fn below(random: &mut SplitMix64, limit: u64) -> u64 {
    random.bits() % limit
}

/// Texts of the kinds that pre-tokenizers tell apart: code, words of several scripts, emoji, digits, runs of white
/// space, marks without letters.
pub fn line(random: &mut SplitMix64) -> String {
    const PARTS: &[&str] = &[
        "the",
        "The",
        "HELLO",
        "helloWorld",
        "don't",
        "I'LL",
        "we've",
        "'s",
        "'",
        "\u{fc}ber",
        "\u{c4}pfel",
        "\u{1c5}x",
        "\u{43d}\u{435}\u{449}\u{43e}",
        "\u{4e2d}\u{6587}",
        "\u{3072}\u{30ab}",
        "\u{d55c}\u{ae00}",
        "\u{e20}\u{e32}\u{e29}\u{e32}",
        "\u{928}\u{92e}\u{938}\u{94d}\u{924}\u{947}",
        "e\u{301}",
        "\u{301}",
        "\u{2c6}",
        "\u{1f600}",
        "\u{1f468}\u{200d}\u{1f469}",
        "0",
        "42",
        "123",
        "1234567",
        "3.14",
        "\u{bd}",
        "\u{2167}",
        "\u{664}\u{662}",
        "x1y22",
        "+",
        "==",
        "!=",
        "...",
        "//",
        "/*",
        "*/",
        "{",
        "}",
        "();",
        "#!",
        "$x",
        "a_b",
        "<|end|>",
        "\u{ff0c}",
        "\u{3002}",
        "\u{2026}",
        "\u{2014}",
        "\u{201c}",
        " ",
        "  ",
        "   ",
        "        ",
        "\t",
        "\n",
        "\r\n",
        "\n\n",
        " \n ",
        "\u{a0}",
        "\u{3000}",
        "\u{2581}",
        "\u{0}",
        "\u{feff}",
        "(",
        "|",
        "?",
        ",",
        "`",
        "~",
        "^",
    ];
    let count = below(random, 14) as usize;
    let part = |random: &mut SplitMix64| match below(random, 12) {
        0 => {
            let code =
                below(random, 0x1_0000) as u32 + if below(random, 8) == 0 { 0x1_0000 } else { 0 };
            char::from_u32(code).map(String::from).unwrap_or_default()
        }
        1..=3 => " ".to_owned(),
        _ => PARTS[below(random, PARTS.len() as u64) as usize].to_owned(),
    };
    (0..count).map(|_| part(random)).collect()
}
