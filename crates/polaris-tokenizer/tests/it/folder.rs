//! Folders of Hugging Face: the tokens of the `tokenizers` crate, and what the other files say.

use std::fs;
use std::path::Path;

use polaris_core::ErrorKind;
use polaris_core::random::SplitMix64;
use polaris_tokenizer::{Error, Kind, Special, Tokenizer};

use crate::bpe::both;
use crate::made::line;

/// A folder with some files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn open(files: &[(&str, &str)]) -> Result<Tokenizer, Error> {
    Tokenizer::open_folder(folder(files).path())
}

/// A SentencePiece-like tokenizer as Llama 2's file describes one, with BOS in its post-processor.
const LLAMA: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
        {"id": 0, "content": "<unk>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
        {"id": 1, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
        {"id": 2, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
        {"id": 9, "content": "<tool>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}
    ],
    "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
    "pre_tokenizer": null,
    "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
        "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "\u2581": 3, "a": 4, "b": 5, "ab": 6, "\u2581a": 7, "<0xC3>": 8, "<tool>": 9, "<0xA9>": 10},
        "merges": ["\u2581 a", "a b"]}
}"#;

#[test]
fn byte_level_tokens_are_those_of_the_library() {
    let (library, ours) = both();
    let read = open(&[("tokenizer.json", &library.to_string(false).unwrap())]).unwrap();
    let mut random = SplitMix64::new(4);
    for _ in 0..1000 {
        let text = line(&mut random);
        let ids = read.encode(&text, Special::Plain).unwrap();
        assert_eq!(ids, library.encode_fast(text.as_str(), false).unwrap().get_ids());
        assert_eq!(read.decode(&ids, Special::Plain), library.decode(&ids, false).unwrap());
        assert_eq!(ids, ours.encode(&text, Special::Plain).unwrap());
    }
    // The pieces are bytes, as those of the same vocabulary in a GGUF file.
    assert!(read.pieces().eq(ours.pieces()));
    assert_eq!((read.bos(), read.eos()), (None, None));
    assert_eq!(read.framed(&[1]), [1]);
}

#[test]
fn sentencepiece_tokens_are_those_of_the_library() {
    let read = open(&[("tokenizer.json", LLAMA)]).unwrap();
    let library = tokenizers::Tokenizer::from_bytes(LLAMA).unwrap();
    for text in ["ab a", " a  b", "b\u{e9}ab", "aaaa b"] {
        let ids = read.encode(text, Special::Plain).unwrap();
        assert_eq!(ids, library.encode_fast(text, false).unwrap().get_ids());
        assert_eq!(read.decode(&ids, Special::Plain), text);
        assert_eq!(library.decode(&ids, false).unwrap(), text);
    }
    assert_eq!(read.begin(), [1]);
    assert_eq!(read.piece(8), Some(&[0xc3][..]));
    assert_eq!(read.piece(7), Some(&b" a"[..]));
    let kinds = [Kind::Control, Kind::Control, Kind::Control, Kind::Normal];
    assert!((0..4).map(|id| read.kind(id).unwrap()).eq(kinds));
    assert_eq!((read.kind(8), read.kind(9)), (Some(Kind::Byte), Some(Kind::UserDefined)));
}

#[test]
fn control_tokens_are_recognised_only_where_that_is_asked_for() {
    let read = open(&[("tokenizer.json", LLAMA)]).unwrap();
    let parsed = read.encode("a</s>", Special::Parse).unwrap();
    assert_eq!(parsed, [7, 2]);
    let plain = read.encode("a</s><tool>", Special::Plain).unwrap();
    assert!(!plain.contains(&2) && plain.contains(&9), "{plain:?}");
    assert_eq!(read.decode(&parsed, Special::Plain), "a");
}

#[test]
fn ids_come_from_the_other_files() {
    let open =
        |files: &[(&str, &str)]| open(&[&[("tokenizer.json", LLAMA)], files].concat()).unwrap();
    let ids = |read: Tokenizer| (read.bos(), read.eos(), read.stops().collect::<Vec<_>>());
    // </s> is known as an end in any case.
    assert_eq!(ids(open(&[])), (None, None, vec![2]));
    let config = ("config.json", r#"{"bos_token_id": 1, "eos_token_id": 4}"#);
    assert_eq!(ids(open(&[config])), (Some(1), Some(4), vec![2, 4]));
    let generation = ("generation_config.json", r#"{"eos_token_id": [5, 6]}"#);
    assert_eq!(ids(open(&[config, generation])), (Some(1), Some(5), vec![2, 5, 6]));
    let tokenizer =
        ("tokenizer_config.json", r#"{"bos_token": {"content": "<s>"}, "eos_token": "<tool>"}"#);
    assert_eq!(ids(open(&[tokenizer])), (Some(1), Some(9), vec![2, 9]));
    let strange =
        ("config.json", r#"{"bos_token_id": 99, "eos_token_id": [-1, "x", 1.5, 4294967296]}"#);
    assert_eq!(ids(open(&[strange])), (None, None, vec![2]));
}

#[test]
fn damaged_folders_are_errors() {
    let error = open(&[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    for json in ["", "{}", "[1, 2", "{\"model\": 3}", "\u{0}"] {
        let error = open(&[("tokenizer.json", json)]).unwrap_err();
        assert!(error.to_string().contains("tokenizer.json"), "{error}");
    }
    let error = open(&[("tokenizer.json", LLAMA), ("config.json", "{")]).unwrap_err();
    assert!(error.to_string().contains("config.json: not valid"), "{error}");
    let gap = LLAMA.replace("\"<0xA9>\": 10", "\"<0xA9>\": 4000000000");
    let error = open(&[("tokenizer.json", &gap)]).unwrap_err();
    assert!(error.to_string().contains("without large gaps"), "{error}");
}

/// What `bench/llm/tokenizer_lines.py` wrote: 10,000 lines, and what the Python package makes of them.
#[test]
fn tokens_and_texts_are_those_of_the_python_package() {
    let Some(folder) = std::env::var_os("POLARIS_TOKENIZERS") else {
        eprintln!("SKIPPED: POLARIS_TOKENIZERS names no folder that tokenizer_lines.py wrote");
        return;
    };
    let folder = Path::new(&folder);
    let read = |path: &Path| -> Vec<serde_json::Value> {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    let lines = read(&folder.join("lines.json"));
    assert!(lines.len() >= 10_000);
    let mut tokenizers = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let tokenizer = Tokenizer::open_folder(&path).unwrap();
        let expected = read(&path.join("ids.json"));
        let texts = path.join("decoded.json");
        let texts = texts.exists().then(|| read(&texts));
        for (number, (line, expected)) in lines.iter().zip(&expected).enumerate() {
            let found = tokenizer.encode(line.as_str().unwrap(), Special::Parse).unwrap();
            let expected: Vec<u32> = serde_json::from_value(expected.clone()).unwrap();
            assert_eq!(found, expected, "{} line {number}", path.display());
            if let Some(texts) = &texts {
                let found = tokenizer.decode(&found, Special::Plain);
                assert_eq!(
                    found,
                    texts[number].as_str().unwrap(),
                    "{} line {number}",
                    path.display()
                );
            }
        }
        println!("{}: {} lines", path.display(), lines.len());
        tokenizers += 1;
    }
    assert!(tokenizers > 0);
}
