//! The vocabularies and vectors of llama.cpp's repository: `models/ggml-vocab-*.gguf` with `.inp` and `.out`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use polaris_gguf::Gguf;
use polaris_tokenizer::{Special, Tokenizer, pre_tokenize};

/// The folder `models` of a llama.cpp checkout.
fn models() -> Option<PathBuf> {
    let folder =
        std::env::var_os("POLARIS_LLAMA_CPP").map(|root| PathBuf::from(root).join("models"));
    if folder.is_none() {
        let required = std::env::var("POLARIS_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|name| name == "llama.cpp");
        assert!(
            !is_required,
            "POLARIS_REQUIRE names llama.cpp; set POLARIS_LLAMA_CPP to a checkout"
        );
        println!("skipped: POLARIS_LLAMA_CPP is not set to a checkout of llama.cpp");
    }
    folder
}

fn open(path: &Path) -> Tokenizer {
    let gguf = Gguf::open(path, |path| polaris_files::read(path, 1 << 30).map(Into::into)).unwrap();
    Tokenizer::from_gguf(gguf.metadata())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The texts and their tokens.
fn vectors(path: &str) -> Vec<(String, Vec<u32>)> {
    let texts = fs::read_to_string(format!("{path}.inp")).unwrap();
    let tokens = fs::read_to_string(format!("{path}.out")).unwrap();
    let texts = texts.split("\n__ggml_vocab_test__\n").map(str::to_owned);
    let tokens = tokens.lines().map(|line| {
        line.split_whitespace().map(|id| id.parse().expect("vectors should be ids")).collect()
    });
    texts.zip(tokens).collect()
}

#[test]
fn every_vocabulary_gives_its_vectors() {
    let Some(folder) = models() else { return };
    let mut wrong = Vec::new();
    let mut vocabularies = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "gguf") {
            continue;
        }
        let tokenizer = open(&path);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let path = path.to_string_lossy();
        if !fs::exists(format!("{path}.inp")).unwrap() {
            println!("{name}: read, without vectors");
            continue;
        }
        vocabularies += 1;
        let vectors = vectors(&path);
        println!("{name}: {} vectors", vectors.len());
        assert!(vectors.len() >= 40, "{name}");
        for (text, wanted) in vectors {
            match tokenizer.encode(&text, Special::Plain) {
                Ok(found) if found == wanted => {}
                found => {
                    wrong.push(format!("{name}: {text:?}\n  found  {found:?}\n  wanted {wanted:?}"))
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(vocabularies >= 10, "{vocabularies}");
}

/// Without a vocabulary the tokens of a word are unknown; but they are the same wherever the word is. So the tokens of
/// words are derived from texts of one word, then from texts in which one word is left, and so on. A cut too many
/// contradicts what was derived before, or leaves a word without a token; a missing cut mostly does not.
#[test]
fn vectors_without_a_vocabulary_agree_with_the_split() {
    let Some(folder) = models() else { return };
    for (file, pre) in [
        ("llama-bpe", "llama-bpe"),
        ("qwen2", "qwen2"),
        ("qwen35", "qwen35"),
        ("command-r", "command-r"),
    ] {
        let path = folder.join(format!("ggml-vocab-{file}.gguf"));
        let vectors = vectors(&path.to_string_lossy());
        let split: Vec<(Vec<&str>, &[u32])> = vectors
            .iter()
            .map(|(text, tokens)| (pre_tokenize(pre, text).unwrap(), tokens.as_slice()))
            .collect();
        let mut known: HashMap<&str, &[u32]> = HashMap::new();
        let mut explained = vec![false; split.len()];
        let mut before = usize::MAX;
        while before != known.len() {
            before = known.len();
            for (number, (words, tokens)) in split.iter().enumerate() {
                let (mut words, mut tokens) = (words.as_slice(), *tokens);
                // A byte is a token at worst.
                assert!(words.len() <= tokens.len(), "{file}: {words:?} {tokens:?}");
                while let Some(first) = words.first().and_then(|word| known.get(word)) {
                    tokens = tokens
                        .strip_prefix(*first)
                        .unwrap_or_else(|| panic!("{file}: {words:?} {tokens:?}"));
                    words = &words[1..];
                }
                while let Some(last) = words.last().and_then(|word| known.get(word)) {
                    tokens = tokens
                        .strip_suffix(*last)
                        .unwrap_or_else(|| panic!("{file}: {words:?} {tokens:?}"));
                    words = &words[..words.len() - 1];
                }
                match words {
                    [] => assert!(tokens.is_empty(), "{file}: {tokens:?} are left"),
                    [word] => drop(known.insert(word, tokens)),
                    // As many tokens as words: one for each.
                    words if words.len() == tokens.len() => {
                        for (word, token) in words.iter().zip(tokens.chunks(1)) {
                            assert!(
                                known.insert(word, token).is_none_or(|other| other == token),
                                "{file}: {word:?}"
                            );
                        }
                    }
                    _ => continue,
                }
                explained[number] = true;
            }
        }
        let count = explained.iter().filter(|explained| **explained).count();
        println!(
            "{file}: {} words derived, {count} of {} vectors explained",
            known.len(),
            vectors.len()
        );
        assert!(count * 3 > vectors.len() * 2, "{file}: {count} of {}", vectors.len());
    }
}
