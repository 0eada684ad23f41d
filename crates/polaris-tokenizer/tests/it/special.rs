//! Special tokens: in text, around it, and at its end; and tokens that come one by one.

use std::ops::Range;

use polaris_tokenizer::{Kind, Special, Tokenizer};

use crate::made::{Made, alphabet};

const SPECIALS: [(&str, i32); 7] = [
    ("<|im_start|>", 3),
    ("<|im_end|>", 1),
    ("<|im|>", 3),
    ("<tool>", 4),
    ("<tool>s", 4),
    ("<unk>", 2),
    ("<|endoftext|>", 3),
];

fn made() -> Made {
    let mut tokens = alphabet();
    let mut types = vec![1i32; 256];
    tokens.extend(SPECIALS.map(|special| special.0.to_owned()));
    types.extend(SPECIALS.map(|special| special.1));
    Made::new("gpt2")
        .with("pre", "qwen2")
        .with("tokens", &tokens[..])
        .with("token_type", &types[..])
        .with("merges", &[""; 0][..])
}

fn encode(tokenizer: &Tokenizer, text: &str, special: Special) -> Vec<u32> {
    tokenizer.encode(text, special).unwrap()
}

#[test]
fn control_tokens_are_recognised_only_where_that_is_asked_for() {
    let tokenizer = made().read().unwrap();
    let text = "<|im_start|>a<|im_end|>";
    assert_eq!(encode(&tokenizer, text, Special::Parse), [256, 97, 257]);
    let plain = encode(&tokenizer, text, Special::Plain);
    assert_eq!(plain, text.bytes().map(u32::from).collect::<Vec<_>>());
    assert_eq!(tokenizer.decode(&[256, 97, 257], Special::Parse), text);
    assert_eq!(tokenizer.decode(&[256, 97, 257], Special::Plain), "a");
}

#[test]
fn user_defined_tokens_are_always_recognised_the_longest_first() {
    let tokenizer = made().read().unwrap();
    for special in [Special::Parse, Special::Plain] {
        assert_eq!(encode(&tokenizer, "<tool>b<tool>s<tool", special)[..3], [259, 98, 260]);
        assert_eq!(encode(&tokenizer, "<tool>b<tool>s<tool", special).len(), 8);
    }
    assert_eq!(tokenizer.decode(&[259], Special::Plain), "<tool>");
}

#[test]
fn kinds_ids_and_pieces() {
    let tokenizer = made().read().unwrap();
    assert_eq!(tokenizer.vocabulary_size(), 263);
    // Known as the end of a turn, whatever the file says.
    assert_eq!(tokenizer.kind(257), Some(Kind::Control));
    assert_eq!(tokenizer.kind(97), Some(Kind::Normal));
    assert_eq!(tokenizer.kind(263), None);
    assert_eq!(tokenizer.token_id("<|im_end|>"), Some(257));
    assert_eq!(tokenizer.token_id(" "), Some(32));
    assert_eq!(tokenizer.token_id("no"), None);
    assert_eq!(tokenizer.piece(0xe9), Some(&[0xe9][..]));
    assert_eq!(tokenizer.piece(263), None);
    let pieces: Vec<&[u8]> = tokenizer.pieces().collect();
    assert_eq!(pieces.len(), 263);
    assert_eq!(pieces[10], b"\n");
    assert_eq!(pieces[259], b"<tool>");
}

#[test]
fn stops_are_those_of_the_file_and_the_known_ones() {
    let tokenizer = made().with("eos_token_id", 3u32).with("eom_token_id", 4u32).read().unwrap();
    assert_eq!(tokenizer.stops().collect::<Vec<_>>(), [3, 4, 257, 262]);
    assert!(tokenizer.is_stop(257) && !tokenizer.is_stop(256) && !tokenizer.is_stop(u32::MAX));
}

#[test]
fn text_begins_and_ends_as_the_file_says() {
    let ids = |made: Made| {
        let tokenizer =
            made.with("bos_token_id", 262u32).with("eos_token_id", 257u32).read().unwrap();
        (tokenizer.framed(&[97]), tokenizer.framed(&[262, 97, 257]))
    };
    assert_eq!(ids(made()), (vec![97], vec![262, 97, 257]));
    let both = made().with("add_bos_token", true).with("add_eos_token", true);
    assert_eq!(ids(both), (vec![262, 97, 257], vec![262, 97, 257]));
}

#[test]
fn phi_3_drops_white_space_behind_special_tokens() {
    let tokenizer = made().general_name("Phi-3-mini").read().unwrap();
    assert_eq!(encode(&tokenizer, "<|im_end|> \na", Special::Parse), [257, 97]);
    assert_eq!(encode(&tokenizer, "<|endoftext|> a", Special::Parse), [262, 32, 97]);
    let other = made().general_name("Phi-4").read().unwrap();
    assert_eq!(encode(&other, "<|im_end|> a", Special::Parse), [257, 32, 97]);
}

#[test]
fn a_stream_holds_back_what_is_not_whole() {
    let tokenizer = made().read().unwrap();
    let push = |bytes: &[u8]| {
        let mut stream = tokenizer.stream(Special::Plain);
        let mut texts: Vec<String> = bytes.iter().map(|&byte| stream.push(byte.into())).collect();
        texts.push(stream.finish());
        texts
    };
    assert_eq!(push("a\u{1f600}b".as_bytes()), ["a", "", "", "", "\u{1f600}", "b", ""]);
    // Bytes that begin no character, and a character that does not end.
    assert_eq!(push(&[0xff, 0x61]), ["\u{fffd}", "a", ""]);
    assert_eq!(push(&[0xe4, 0xb8, 0x61]), ["", "", "\u{fffd}a", ""]);
    assert_eq!(push(&[0xe4, 0xe4, 0xb8, 0xad]), ["", "\u{fffd}", "", "\u{4e2d}", ""]);
    assert_eq!(push(&[0xf0, 0x9f]), ["", "", "\u{fffd}"]);
    let mut stream = tokenizer.stream(Special::Parse);
    assert_eq!(stream.push(256), "<|im_start|>");
    assert_eq!(stream.push(9999), "");
}

/// Text of users within a prompt: control tokens are neither found in it nor where they reach into it.
#[test]
#[allow(clippy::single_range_in_vec_init, reason = "these are lists of ranges")]
fn plain_parts_of_a_prompt_are_text() {
    let tokenizer = made().read().unwrap();
    let text = "<|im_start|>a<|im_end|>b<tool><|im_end|>";
    let bytes = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
    let encode = |plain: &[Range<usize>]| tokenizer.encode_prompt(text, plain).unwrap();
    assert_eq!(encode(&[]), [256, 97, 257, 98, 259, 257]);
    // "a<|im_end|>b<tool>": user-defined tokens stay.
    let inside = [&[256][..], &bytes("a<|im_end|>b"), &[259, 257]].concat();
    assert_eq!(encode(&[12..30]), inside);
    // One byte is enough, at either end.
    assert_eq!(encode(&[13..14, 23..24]), inside);
    assert_eq!(encode(&[22..23]), inside);
    assert_eq!(encode(&[12..13, 23..24]), [256, 97, 257, 98, 259, 257]);
    assert_eq!(encode(&[0..text.len()]), tokenizer.encode(text, Special::Plain).unwrap());
    // Part of the token is the template's, part the user's: "<|im" + "|>".
    let text = "<|im|>";
    assert_eq!(tokenizer.encode_prompt(text, &[]).unwrap(), [258]);
    assert_eq!(tokenizer.encode_prompt(text, &[4..6]).unwrap(), bytes(text));
    assert_eq!(tokenizer.encode_prompt(text, &[6..6]).unwrap(), [258]);
}

/// Where no special token reaches into a plain part, the tokens are those of the whole text, wherever the parts begin.
#[test]
fn plain_parts_do_not_change_ordinary_text() {
    let mut tokens = alphabet();
    tokens.extend(SPECIALS.map(|special| special.0.to_owned()));
    tokens.extend(["ab", "\u{120}a", "\u{120}ab"].map(str::to_owned));
    let mut types = vec![1i32; tokens.len()];
    for (place, special) in SPECIALS.iter().enumerate() {
        types[256 + place] = special.1;
    }
    let merges = ["a b", "\u{120} a", "\u{120} ab"];
    let tokenizer = Made::new("gpt2")
        .with("pre", "qwen2")
        .with("tokens", &tokens[..])
        .with("token_type", &types[..])
        .with("merges", &merges[..])
        .read()
        .unwrap();
    let text = "<|im_start|>user\n ab ab<tool>abab  a<|im_end|>\n";
    let whole = tokenizer.encode(text, Special::Parse).unwrap();
    for start in 12..=36 {
        for end in start..=36 {
            let plain = [Range { start, end }];
            assert_eq!(tokenizer.encode_prompt(text, &plain).unwrap(), whole, "{plain:?}");
        }
    }
}
