//! Byte-pair encoding: trained here, written, read back.

use polaris_data::{Bpe, Bytes, Dataset, TextDataset, Tokenizer, text, train_bpe};
use proptest::prelude::*;

#[test]
fn training_shortens_the_text_and_the_file_brings_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let whole = text().unwrap();
    let part = &whole[..100_000];
    let bpe = train_bpe(part, 512, &path).unwrap();
    assert_eq!(bpe.vocabulary(), 512);
    let tokens = bpe.encode(part).unwrap();
    assert!(tokens.len() * 2 < part.len(), "{} tokens", tokens.len());
    assert!(tokens.iter().all(|&t| t < 512));
    assert_eq!(bpe.decode(&tokens), part);
    let read = Bpe::from_file(&path).unwrap();
    assert_eq!(read.vocabulary(), 512);
    assert_eq!(read.encode(part).unwrap(), tokens);
    assert_eq!(read.decode(&tokens), part);
    // Nothing else is left behind, and training again learns the same.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(Bpe::train(part, 512).unwrap().to_json().unwrap(), read.to_json().unwrap());
    let data = TextDataset::from_text(part, &read, 64, None).unwrap();
    assert_eq!(data.len(), (tokens.len() - 1) / 64);
}

#[test]
fn too_few_tokens_and_too_little_text() {
    assert!(Bpe::train("abc", 255).unwrap_err().to_string().contains("at least 256"));
    assert!(Bpe::train("abc", usize::MAX).is_err());
    let tiny = Bpe::train("", 1000).unwrap();
    assert_eq!(tiny.vocabulary(), 256);
    assert_eq!(tiny.decode(&tiny.encode("ab ä").unwrap()), "ab ä");
    assert!(tiny.encode("").unwrap().is_empty());
    let _ = tiny.decode(&[u32::MAX, 0]);
    let folder = tempfile::tempdir().unwrap();
    assert!(tiny.save(folder.path().join("missing/tokenizer.json")).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn any_text_comes_back(text in ".{0,80}") {
        prop_assert_eq!(Bytes.decode(&Bytes.encode(&text).unwrap()), text.as_str());
        let bpe = Bpe::train("the cat and the hat and the rat", 270).unwrap();
        prop_assert_eq!(bpe.decode(&bpe.encode(&text).unwrap()), text);
    }
}
