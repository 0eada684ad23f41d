//! Metadata that contradicts itself: an error that says what is wrong, never a panic.

use polaris_core::ErrorKind;
use polaris_core::random::SplitMix64;
use polaris_gguf::Gguf;
use polaris_tokenizer::{Special, Tokenizer};
use proptest::prelude::*;

use crate::made::{Made, below, line};

const NO_MERGES: &[&str] = &[];

fn bpe(tokens: &[&str], merges: &[&str]) -> Made {
    Made::new("gpt2").with("tokens", tokens).with("merges", merges)
}

fn spm(tokens: &[&str], scores: &[f32]) -> Made {
    Made::new("llama").with("tokens", tokens).with("scores", scores)
}

#[track_caller]
fn refused(made: Made, wanted: &str) {
    let error = made.read().unwrap_err();
    assert!(error.to_string().contains(wanted), "{error}");
    assert!(matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::Unsupported), "{error}");
}

#[test]
fn what_is_missing_or_of_another_type() {
    refused(Made::default(), "`tokenizer.ggml.model` is missing");
    refused(Made::new("gpt2"), "`tokenizer.ggml.tokens` is missing");
    refused(Made::new("gpt2").with("tokens", "a"), "`tokenizer.ggml.tokens` is");
    refused(Made::new("gpt2").with("tokens", &[1u32][..]), "expected is a string");
    refused(Made::new("gpt2").with("tokens", &["a"][..]), "`tokenizer.ggml.merges` is missing");
    refused(Made::new("llama").with("tokens", &["a"][..]), "`tokenizer.ggml.scores` is missing");
    refused(bpe(&["a"], NO_MERGES).with("add_bos_token", 1u32), "expected is a bool");
    refused(bpe(&["a"], NO_MERGES).with("token_type", &["a"][..]), "`tokenizer.ggml.token_type`");
    refused(Made::new("plamo2"), "`plamo2`; supported are gpt2");
    refused(bpe(&["a"], NO_MERGES).with("pre", "nonsense"), "`nonsense`; supported are");
    refused(bpe(&["a"], NO_MERGES).with("add_eos_token", "x"), "expected is a bool");
}

#[test]
fn vocabularies() {
    refused(bpe(&[], NO_MERGES), "it has 0 tokens");
    refused(bpe(&["a", "b", "a"], NO_MERGES), "tokens 0 and 2 are the same text");
    refused(
        bpe(&["a"], NO_MERGES).with("token_type", &[1i32, 1][..]),
        "2 token types for 1 tokens",
    );
    refused(bpe(&["a"], NO_MERGES).with("token_type", &[9i32][..]), "type of token 0 is 9");
    refused(bpe(&["a"], NO_MERGES).with("token_type", &[6i32][..]), "expected is <0x00> to <0xFF>");
}

/// The text of a token whose length is narrowed when it is copied.
#[test]
fn cve_2025_49847_lengths_of_tokens() {
    let long = "a".repeat(10 << 20);
    refused(bpe(&["b", &long], NO_MERGES), "token 1 has 10485760 bytes; at most 16384");
}

/// Numbers of tokens that are compared with the wrong sign, and ids that the vocabulary does not have.
#[test]
fn cve_2025_52566_numbers_of_tokens() {
    for key in ["bos", "eos", "eot", "eom", "unknown", "seperator"] {
        for id in [1, 1 << 31, u32::MAX] {
            let made = bpe(&["a"], NO_MERGES).with(&format!("{key}_token_id"), id);
            refused(made, &format!("is {id}; the vocabulary has 1 tokens"));
        }
    }
    refused(bpe(&["a"], NO_MERGES).with("eos_token_id", -1i32), "expected is a u32");
    // A text with more tokens than any buffer that was made for a few.
    let tokenizer = bpe(&["a"], NO_MERGES).read().unwrap();
    let many = 3_000_000;
    assert_eq!(tokenizer.encode(&"a".repeat(many), Special::Plain).unwrap().len(), many);
    for id in [1, 1 << 31, u32::MAX] {
        assert_eq!((tokenizer.piece(id), tokenizer.is_stop(id)), (None, false));
    }
}

#[test]
fn merges() {
    for merge in ["a c", "c a", "a b", "ab", "", " ", "a", "a ", " a", "a  b", "a b b"] {
        refused(bpe(&["a", "b"], &[merge]), "merge 0 is");
    }
    // A merge that is there twice has the rank of the first.
    let tokenizer = bpe(&["a", "b", "ab", "ba"], &["b a", "a b", "b a"]).read().unwrap();
    assert_eq!(tokenizer.encode("aba", Special::Plain).unwrap(), [0, 3]);
}

#[test]
fn scores() {
    refused(spm(&["a", "b"], &[0.0]), "1 scores for 2 tokens");
    refused(spm(&["a"], &[0.0, 1.0]), "2 scores for 1 tokens");
    refused(spm(&["a", "b"], &[0.0, f32::NAN]), "score of token 1 is not a number");
    let infinite =
        spm(&["a", "b", "ab", "\u{2581}"], &[f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0]);
    assert_eq!(infinite.read().unwrap().encode("ab", Special::Plain).unwrap(), [3, 2]);
    let integers =
        Made::new("llama").with("tokens", &["a", "\u{2581}"][..]).with("scores", &[1i32, 2][..]);
    assert_eq!(integers.read().unwrap().encode("a", Special::Plain).unwrap(), [1, 0]);
}

#[test]
fn empty_texts_fill_up_a_vocabulary() {
    let tokenizer = bpe(&["a", "", ""], NO_MERGES).read().unwrap();
    assert_eq!(tokenizer.encode("aa", Special::Parse).unwrap(), [0, 0]);
    assert_eq!(tokenizer.piece(2), Some(&[][..]));
}

#[test]
fn special_tokens_that_are_no_text_are_never_found() {
    // The format allows strings that are not UTF-8; the writer does not, so the byte is put there afterwards.
    let mut writer = polaris_gguf::Writer::new();
    writer.set("tokenizer.ggml.model", "gpt2").unwrap();
    writer.set("tokenizer.ggml.tokens", &["a", "<|QQ|>"][..]).unwrap();
    writer.set("tokenizer.ggml.token_type", &[1i32, 3][..]).unwrap();
    writer.set("tokenizer.ggml.merges", NO_MERGES).unwrap();
    let mut bytes = writer.into_bytes().unwrap();
    let at = bytes.windows(2).position(|two| two == b"QQ").unwrap();
    bytes[at] = 0xc3;
    let gguf = Gguf::from_bytes(bytes.into()).unwrap();
    let tokenizer = Tokenizer::from_gguf(gguf.metadata()).unwrap();
    assert_eq!(tokenizer.encode("aa", Special::Parse).unwrap(), [0, 0]);
    assert_eq!(tokenizer.decode(&[1], Special::Parse), "<|\u{fffd}Q|>");
}

/// Texts of tokens and merges, some of which fit together.
fn texts(random: &mut SplitMix64, longest: u64) -> Vec<String> {
    const PARTS: [&str; 10] =
        ["a", "b", " ", "\u{120}", "\u{2581}", "<0x41>", "</s>", "\u{e9}", "", "ab"];
    let text = |random: &mut SplitMix64| {
        (0..below(random, 4)).map(|_| PARTS[below(random, 10) as usize]).collect::<String>()
    };
    (0..below(random, longest)).map(|_| text(random)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn random_metadata_is_read_or_refused(seed in any::<u64>()) {
        let mut random = SplitMix64::new(seed);
        let random = &mut random;
        let models = ["gpt2", "llama", "bert", "gemma4"];
        let mut tokens = texts(random, 12);
        if below(random, 4) > 0 {
            tokens.sort();
            tokens.dedup();
        }
        let count = tokens.len() as u64 + below(random, 8) / 7;
        let types: Vec<i32> = (0..count).map(|_| below(random, 7) as i32).collect();
        let scores: Vec<f32> = (0..count).map(|_| f32::from_bits(random.bits() as u32)).collect();
        let merges = texts(random, 3);
        let mut made = Made::new(models[below(random, 4) as usize])
            .with("tokens", &tokens[..])
            .with("merges", &merges[..])
            .with("scores", &scores[..])
            .with("unknown_token_id", below(random, 6) as u32)
            .with("bos_token_id", below(random, 6) as u32);
        if below(random, 2) == 0 {
            made = made.with("token_type", &types[..]);
        }
        let tokenizer = made.read();
        let text = line(random) + "a b </s>ab\u{e9}";
        if let Ok(tokenizer) = tokenizer {
            for special in [Special::Parse, Special::Plain] {
                if let Ok(ids) = tokenizer.encode(&text, special) {
                    prop_assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocabulary_size()));
                    tokenizer.decode(&ids, special);
                }
            }
        }
    }
}
