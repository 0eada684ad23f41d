//! SentencePiece's byte-pair encoding, against a plain implementation of its definition.

use polaris_core::random::SplitMix64;
use polaris_tokenizer::{Special, Tokenizer};

use crate::made::{Made, below};

const TEXTS: [&str; 22] = [
    "<unk>",
    "<s>",
    "</s>",
    "\u{2581}",
    "a",
    "b",
    "c",
    "d",
    "ab",
    "bc",
    "cd",
    "abc",
    "\u{2581}a",
    "\u{2581}ab",
    "\u{2581}\u{2581}",
    "aa",
    "aaa",
    "dd",
    "\u{e9}",
    "bcd",
    "ca",
    "abcd",
];

/// Tokens and scores; `crossing` has a space behind a letter, so that words cannot be encoded one by one.
fn vocabulary(crossing: bool) -> (Vec<String>, Vec<f32>) {
    let mut tokens: Vec<String> = TEXTS.map(String::from).to_vec();
    if crossing {
        tokens.extend(["a\u{2581}", "d\u{2581}b"].map(String::from));
    }
    let mut random = SplitMix64::new(5);
    let scores = tokens.iter().map(|_| -(below(&mut random, 9) as f32)).collect();
    tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    (tokens, scores)
}

fn made(crossing: bool) -> Made {
    let (tokens, mut scores) = vocabulary(crossing);
    let mut types = vec![1i32; scores.len()];
    types[..3].copy_from_slice(&[2, 3, 3]);
    types.resize(tokens.len(), 6);
    scores.resize(tokens.len(), 0.0);
    Made::new("llama")
        .with("tokens", &tokens[..])
        .with("scores", &scores[..])
        .with("token_type", &types[..])
}

/// The definition: merge the adjacent pair with the best score, the leftmost of equals, until there is none.
fn by_definition(crossing: bool, text: &str) -> Vec<u32> {
    let (tokens, scores) = vocabulary(crossing);
    let find = |text: &str| (3..scores.len()).find(|&id| tokens[id] == text);
    let mut symbols: Vec<String> =
        format!(" {text}").replace(' ', "\u{2581}").chars().map(String::from).collect();
    loop {
        let pairs = symbols.windows(2).enumerate();
        let merges = pairs.filter_map(|(at, two)| Some((at, scores[find(&two.concat())?])));
        let best = merges.reduce(|best, next| if next.1 > best.1 { next } else { best });
        let Some((at, _)) = best else { break };
        let right = symbols.remove(at + 1);
        symbols[at].push_str(&right);
    }
    let ids = |symbol: &String| match find(symbol) {
        Some(id) => vec![id as u32],
        None => symbol.bytes().map(|byte| scores.len() as u32 + u32::from(byte)).collect(),
    };
    symbols.iter().flat_map(ids).collect()
}

fn text(random: &mut SplitMix64, longest: u64) -> String {
    const LETTERS: &[&str] =
        &["a", "b", "c", "d", " ", "  ", "\u{e9}", "\u{4e2d}", "a", "b", "\u{2581}"];
    let count = below(random, longest);
    (0..count).map(|_| LETTERS[below(random, LETTERS.len() as u64) as usize]).collect()
}

#[test]
fn the_best_score_is_merged_first() {
    for crossing in [false, true] {
        let tokenizer = made(crossing).read().unwrap();
        let mut random = SplitMix64::new(11);
        for round in 0..3000 {
            let text = text(&mut random, if round % 10 == 0 { 200 } else { 20 });
            if text.is_empty() {
                continue;
            }
            let found = tokenizer.encode(&text, Special::Plain).unwrap();
            assert_eq!(found, by_definition(crossing, &text), "{text:?}");
            assert_eq!(tokenizer.decode(&found, Special::Plain), text.replace('\u{2581}', " "));
        }
    }
}

#[test]
fn a_long_text_without_spaces_takes_no_quadratic_time() {
    for crossing in [false, true] {
        let tokenizer = made(crossing).read().unwrap();
        let text = "abcdaab".repeat(150_000);
        let ids = tokenizer.encode(&text, Special::Plain).unwrap();
        assert_eq!(tokenizer.decode(&ids, Special::Plain), text);
        assert!(ids.len() < text.len() / 2);
    }
}

fn encode(tokenizer: &Tokenizer, text: &str, special: Special) -> Vec<u32> {
    tokenizer.encode(text, special).unwrap()
}

#[test]
fn a_space_is_put_before_text_and_after_special_tokens() {
    let tokenizer = made(false).read().unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
    assert_eq!(tokenizer.begin(), [1]);
    assert_eq!(tokenizer.end(), [0u32; 0]);
    let (space_a, a) = (12, 4);
    assert_eq!(encode(&tokenizer, "a</s>a", Special::Parse), [space_a, 2, space_a]);
    let without = made(false).with("add_space_prefix", false).read().unwrap();
    assert_eq!(encode(&without, "a</s>a", Special::Parse), [a, 2, a]);
    assert_eq!(tokenizer.decode(&[1, space_a, 2], Special::Plain), "a");
    assert_eq!(tokenizer.decode(&[space_a, 2], Special::Parse), "a</s>");
    assert_eq!(without.decode(&[space_a], Special::Plain), " a");
}

#[test]
fn text_never_becomes_a_control_token_by_merging() {
    // With "s>" and "<s" as tokens, merging would reach "<s>".
    let tokens = ["<unk>", "<s>", "</s>", "<", "s", ">", "s>", "<s"];
    let scores = [0.0f32, 10.0, 0.0, -1.0, -1.0, -1.0, -1.0, -2.0];
    let types = [2i32, 3, 3, 1, 1, 1, 1, 1];
    let tokenizer = Made::new("llama")
        .with("tokens", &tokens[..])
        .with("scores", &scores[..])
        .with("token_type", &types[..])
        .with("add_space_prefix", false)
        .read()
        .unwrap();
    assert_eq!(encode(&tokenizer, "<s>", Special::Plain), [3, 6]);
    assert_eq!(encode(&tokenizer, "<s>", Special::Parse), [1]);
}
