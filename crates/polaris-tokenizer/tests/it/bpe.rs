//! Byte-pair encoding over bytes: against the `tokenizers` crate with the same vocabulary, and back again.

use std::sync::OnceLock;

use polaris_core::random::SplitMix64;
use polaris_tokenizer::{Special, Tokenizer};
use proptest::prelude::*;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use crate::made::{Made, alphabet, line};

/// The library's tokenizer, trained on lines of the generator, and ours from its vocabulary and merges.
pub fn both() -> &'static (tokenizers::Tokenizer, Tokenizer) {
    static BOTH: OnceLock<(tokenizers::Tokenizer, Tokenizer)> = OnceLock::new();
    BOTH.get_or_init(|| {
        let mut random = SplitMix64::new(1);
        let lines: Vec<String> = (0..3000).map(|_| line(&mut random)).collect();
        let mut library = tokenizers::Tokenizer::new(BPE::default());
        let bytes = ByteLevel::default().add_prefix_space(false);
        library.with_pre_tokenizer(Some(bytes)).with_decoder(Some(bytes));
        let trainer = BpeTrainerBuilder::new()
            .vocab_size(900)
            .show_progress(false)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build();
        library.train(&mut TrainerWrapper::from(trainer), lines.iter()).unwrap();
        let json: serde_json::Value =
            serde_json::from_str(&library.to_string(false).unwrap()).unwrap();
        let mut tokens: Vec<(String, u64)> = json["model"]["vocab"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(text, id)| (text.clone(), id.as_u64().unwrap()))
            .collect();
        tokens.sort_by_key(|token| token.1);
        let tokens: Vec<String> = tokens.into_iter().map(|token| token.0).collect();
        let merge = |merge: &serde_json::Value| match merge.as_str() {
            Some(text) => text.to_owned(),
            None => format!("{} {}", merge[0].as_str().unwrap(), merge[1].as_str().unwrap()),
        };
        let merges = json["model"]["merges"].as_array().unwrap();
        let merges: Vec<String> = merges.iter().map(merge).collect();
        assert!(merges.len() > 500);
        let ours = Made::new("gpt2")
            .with("pre", "gpt-2")
            .with("tokens", &tokens[..])
            .with("merges", &merges[..])
            .read()
            .unwrap();
        (library, ours)
    })
}

#[test]
fn ten_thousand_lines_are_those_of_the_library() {
    let (library, ours) = both();
    let mut random = SplitMix64::new(2);
    let (mut tokens, mut bytes) = (0, 0);
    for _ in 0..10_000 {
        let text = line(&mut random);
        let wanted = library.encode_fast(text.as_str(), false).unwrap();
        let found = ours.encode(&text, Special::Plain).unwrap();
        assert_eq!(found, wanted.get_ids(), "{text:?}");
        assert_eq!(ours.decode(&found, Special::Plain), text);
        tokens += found.len();
        bytes += text.len();
    }
    // The merges are at work.
    assert!(tokens * 3 < bytes * 2, "{tokens} tokens of {bytes} bytes");
}

#[test]
fn long_words_are_those_of_the_library_and_take_no_quadratic_time() {
    let (library, ours) = both();
    let parts = ["the", "The", "\u{4e2d}\u{6587}", "helloWorld", "xyz"];
    let mut random = SplitMix64::new(3);
    for count in [10, 40, 60, 500] {
        let word: String =
            (0..count).map(|_| parts[random.bits() as usize % parts.len()]).collect();
        let wanted = library.encode_fast(word.as_str(), false).unwrap();
        assert_eq!(ours.encode(&word, Special::Plain).unwrap(), wanted.get_ids());
    }
    let word: String = (0..1 << 18).map(|_| parts[random.bits() as usize % parts.len()]).collect();
    assert!(word.len() > 1 << 20);
    let ids = ours.encode(&word, Special::Plain).unwrap();
    assert!(ids.len() < word.len() / 2);
    assert_eq!(ours.decode(&ids, Special::Plain), word);
}

/// The 256 bytes and a few merges.
fn small(pre: &str) -> Tokenizer {
    let mut tokens = alphabet();
    tokens.extend(["he", "hel", "lo", "hello", "xlo", "\u{120}h"].map(String::from));
    Made::new("gpt2")
        .with("pre", pre)
        .with("tokens", &tokens[..])
        .with("merges", &["h e", "he l", "l o"][..])
        .read()
        .unwrap()
}

#[test]
fn merges_apply_in_their_order() {
    let tokenizer = small("gpt-2");
    // "hello" is a token, but "hel" and "lo" are not merged.
    assert_eq!(tokenizer.encode("hello", Special::Plain).unwrap(), [257, 258]);
    assert_eq!(tokenizer.encode("hell", Special::Plain).unwrap(), [257, 108]);
    assert_eq!(tokenizer.encode(" h", Special::Plain).unwrap(), [32, 104]);
    assert_eq!(tokenizer.encode("", Special::Plain).unwrap(), [0u32; 0]);
}

#[test]
fn some_models_take_words_that_are_tokens_as_they_are() {
    let tokenizer = small("llama-bpe");
    assert_eq!(tokenizer.encode("hello", Special::Plain).unwrap(), [259]);
    assert_eq!(tokenizer.encode("hellohello", Special::Plain).unwrap(), [257, 258, 257, 258]);
    assert_eq!(tokenizer.encode(" h", Special::Plain).unwrap(), [261]);
}

#[test]
fn bytes_without_a_token_are_unknown_or_an_error() {
    let made = || Made::new("gpt2").with("tokens", &["a", "?"][..]).with("merges", &[""; 0][..]);
    let error = made().read().unwrap().encode("ab", Special::Plain).unwrap_err();
    assert!(error.to_string().contains("no token for `b`"), "{error}");
    let unknown = made().with("unknown_token_id", 1u32).read().unwrap();
    assert_eq!(unknown.encode("ab\u{e9}", Special::Plain).unwrap(), [0, 1, 1, 1]);
}

#[test]
fn gemma_merges_characters_and_falls_back_to_bytes() {
    let mut tokens: Vec<String> = (0..256).map(|byte| format!("<0x{byte:02X}>")).collect();
    let texts = ["\u{2581}", "a", "b", "ab", "\u{2581}ab", "\n", "\n\n", "<bos>", "\u{e9}"];
    tokens.extend(texts.map(String::from));
    let mut types = vec![6i32; 256];
    types.extend([1, 1, 1, 1, 1, 1, 1, 3, 1]);
    let tokenizer = Made::new("gemma4")
        .with("tokens", &tokens[..])
        .with("token_type", &types[..])
        .with("merges", &["a b", "\u{2581} ab"][..])
        .with("bos_token_id", 263u32)
        .with("add_bos_token", false)
        .read()
        .unwrap();
    let encode = |text| tokenizer.encode(text, Special::Plain).unwrap();
    assert_eq!(encode("ab ab"), [259, 260]);
    assert_eq!(encode("a\n\nb\u{e9}"), [257, 262, 258, 264]);
    assert_eq!(encode("\u{4e2d}"), [0xe4, 0xb8, 0xad]);
    assert_eq!(tokenizer.begin(), [263]);
    for text in [" ab  ab\n\n\n", "\u{4e2d}\u{e9}a b", ""] {
        assert_eq!(tokenizer.decode(&encode(text), Special::Plain), text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn text_comes_back(text in any::<String>()) {
        let (_, ours) = both();
        for special in [Special::Plain, Special::Parse] {
            let ids = ours.encode(&text, special).unwrap();
            prop_assert_eq!(ours.decode(&ids, special), &*text);
            let mut stream = ours.stream(special);
            let streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
            prop_assert_eq!(streamed + &stream.finish(), &*text);
        }
    }
}
