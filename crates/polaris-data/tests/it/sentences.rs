//! BERT's way of reading a text, by a vocabulary small enough to do it by hand.

use polaris_data::SentenceTokenizer;
use serde_json::{Value, json};

/// Word pieces, numbered in this order; `##` marks those that go on with a word.
const PIECES: [&str; 16] = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "the", "cafe", "!", ",", "中",
    "国", "##s", "cat", "run",
];

fn file(padding: Value, truncation: Value) -> String {
    let vocabulary: serde_json::Map<String, Value> =
        PIECES.iter().enumerate().map(|(id, piece)| ((*piece).to_owned(), json!(id))).collect();
    let special = |id: usize| {
        json!({ "id": id, "content": PIECES[id], "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true })
    };
    let token = |id: usize| json!({ "id": PIECES[id], "ids": [id], "tokens": [PIECES[id]] });
    json!({
        "version": "1.0", "truncation": truncation, "padding": padding,
        "added_tokens": [special(0), special(1), special(2), special(3)],
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                        "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "[CLS]", "type_id": 0 } },
                       { "Sequence": { "id": "A", "type_id": 0 } },
                       { "SpecialToken": { "id": "[SEP]", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "[CLS]": token(2), "[SEP]": token(3) } },
        "decoder": null,
        "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                   "max_input_chars_per_word": 20, "vocab": vocabulary },
    })
    .to_string()
}

fn plain() -> SentenceTokenizer {
    SentenceTokenizer::from_json(file(Value::Null, Value::Null).as_bytes()).unwrap()
}

#[test]
fn pieces_are_the_longest_that_fit() {
    let tokenizer = plain();
    assert_eq!((tokenizer.vocabulary(), tokenizer.padding(), tokenizer.limit()), (16, 0, None));
    for (text, expected) in [
        ("", vec![2, 3]),
        ("the", vec![2, 7, 3]),
        ("unaffable", vec![2, 4, 5, 6, 3]),
        ("The CATS run!", vec![2, 7, 14, 13, 15, 9, 3]),
        // Accents go, points stand for themselves.
        ("Café,café", vec![2, 8, 10, 8, 3]),
        // A piece that is missing makes all of its word unknown, and so do too many letters.
        ("unx the", vec![2, 1, 7, 3]),
        ("catscatscatscatscatscats the", vec![2, 1, 7, 3]),
        // Each of these letters is a word.
        ("中国cat", vec![2, 11, 12, 14, 3]),
        ("🎉", vec![2, 1, 3]),
        ("the\u{0}\tcat", vec![2, 7, 14, 3]),
        ("[SEP] cat", vec![2, 3, 14, 3]),
    ] {
        let sentence = tokenizer.encode(text).unwrap();
        assert_eq!(sentence.ids, expected, "{text:?}");
        assert_eq!(sentence.types, vec![0; expected.len()]);
    }
}

#[test]
fn texts_are_cut_between_their_ends_and_never_padded() {
    let padding = json!({ "strategy": { "Fixed": 8 }, "direction": "Right", "pad_to_multiple_of": null,
                          "pad_id": 5, "pad_type_id": 0, "pad_token": "[PAD]" });
    let truncation =
        json!({ "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0 });
    let mut tokenizer = SentenceTokenizer::from_json(file(padding, truncation).as_bytes()).unwrap();
    assert_eq!((tokenizer.padding(), tokenizer.limit()), (5, Some(4)));
    assert_eq!(tokenizer.encode("the cat cat cat").unwrap().ids, [2, 7, 14, 3]);
    assert_eq!(tokenizer.encode("the").unwrap().ids, [2, 7, 3]);
    tokenizer.set_limit(5).unwrap();
    assert_eq!(tokenizer.encode("the cat cat cat").unwrap().ids, [2, 7, 14, 14, 3]);
    for limit in [0, 1, 2] {
        let message = tokenizer.set_limit(limit).unwrap_err().to_string();
        assert!(message.contains("2 tokens begin and end"), "{message}");
    }
}

#[test]
fn what_is_no_tokenizer_is_refused() {
    for text in ["", "{}", "[1, 2", "{\"model\": 3}", "\u{0}"] {
        assert!(SentenceTokenizer::from_json(text.as_bytes()).is_err(), "{text:?}");
    }
    let error = SentenceTokenizer::from_file("missing/tokenizer.json").unwrap_err().to_string();
    assert!(error.contains("missing"), "{error}");
}
