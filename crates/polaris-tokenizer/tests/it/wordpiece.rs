//! WordPiece, the tokenizer of BERT.

use polaris_tokenizer::Special;

use crate::made::Made;

const TOKENS: [&str; 14] = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "\u{2581}un",
    "aff",
    "able",
    "\u{2581}hello",
    "\u{2581}!",
    "\u{2581}\u{4e2d}",
    "\u{2581}u",
    "n",
    "\u{2581}",
    "\u{2581}H",
];

fn made() -> Made {
    let types: Vec<i32> =
        TOKENS.iter().map(|text| if text.starts_with('[') { 3 } else { 1 }).collect();
    Made::new("bert")
        .with("tokens", &TOKENS[..])
        .with("token_type", &types[..])
        .with("bos_token_id", 2u32)
        .with("unknown_token_id", 1u32)
        .with("seperator_token_id", 3u32)
}

#[test]
fn words_are_the_longest_tokens() {
    let tokenizer = made().read().unwrap();
    let encode = |text: &str| tokenizer.encode(text, Special::Plain).unwrap();
    assert_eq!(encode("unaffable hello!"), [4, 5, 6, 7, 8]);
    assert_eq!(encode("\u{da}N"), [4]);
    assert_eq!(encode("unx hello"), [1, 7]);
    assert_eq!(encode("hello\u{4e2d}hello"), [7, 9, 7]);
    assert_eq!(encode("\t\n"), [0u32; 0]);
    assert_eq!(encode("[SEP]").len(), 3);
    assert_eq!(tokenizer.encode("hello[SEP]", Special::Parse).unwrap(), [7, 3]);
    assert_eq!(tokenizer.framed(&encode("hello")), [2, 7, 3]);
    assert_eq!(tokenizer.decode(&[2, 4, 5, 6, 7, 3], Special::Plain), "unaffable hello");
    // Words of more than a hundred characters are unknown.
    assert_eq!(encode(&"un".repeat(60)), [1]);
    assert_eq!(encode(&"u".repeat(1 << 20)), [1]);
}

#[test]
fn capitals_stay_where_the_file_says_so() {
    let tokenizer = made().with("normalizer.lowercase", false).read().unwrap();
    assert_eq!(tokenizer.encode("H hello", Special::Plain).unwrap(), [13, 7]);
    assert_eq!(tokenizer.encode("\u{fa}n", Special::Plain).unwrap(), [1]);
}

#[test]
fn it_needs_a_token_for_unknown_words() {
    let error = Made::new("bert").with("tokens", &["a"][..]).read().unwrap_err();
    assert!(error.to_string().contains("no token for unknown words"), "{error}");
}
