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
    assert_eq!(Bpe::train(part, 512, &[]).unwrap().to_json().unwrap(), read.to_json().unwrap());
    let data = TextDataset::from_text(part, &read, 64, None).unwrap();
    assert_eq!(data.len(), (tokens.len() - 1) / 64);
}

#[test]
fn too_few_tokens_and_too_little_text() {
    assert!(Bpe::train("abc", 255, &[]).unwrap_err().to_string().contains("at least 256"));
    assert!(Bpe::train("abc", usize::MAX, &[]).is_err());
    let error = Bpe::train("abc", 257, &["<a>", "<b>"]).unwrap_err().to_string();
    assert!(error.contains("at least 258"), "{error}");
    let tiny = Bpe::train("", 1000, &[]).unwrap();
    assert_eq!(tiny.vocabulary(), 256);
    assert_eq!(tiny.decode(&tiny.encode("ab ä").unwrap()), "ab ä");
    assert!(tiny.encode("").unwrap().is_empty());
    let _ = tiny.decode(&[u32::MAX, 0]);
    let folder = tempfile::tempdir().unwrap();
    assert!(tiny.save(folder.path().join("missing/tokenizer.json")).is_err());
}

/// The merges of the `tokenizers` crate, for the same text.
#[test]
fn merges_are_those_of_another_trainer() {
    use tokenizers::models::TrainerWrapper;
    use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;
    let whole = text().unwrap();
    for (part, tokens) in
        [(&whole[..60_000], 700), ("aaaa aaa aa a aaaaa abab baba abba\n\n\n  \n aab", 270)]
    {
        let mut trainer = TrainerWrapper::from(
            BpeTrainerBuilder::new()
                .vocab_size(tokens)
                .min_frequency(2)
                .show_progress(false)
                .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
                .build(),
        );
        let mut other = tokenizers::Tokenizer::new(BPE::default());
        let bytes = ByteLevel::default().add_prefix_space(false);
        other.with_pre_tokenizer(Some(bytes)).with_decoder(Some(bytes));
        other.train(&mut trainer, std::iter::once(part)).unwrap();
        let model = |json: &str| -> serde_json::Value {
            serde_json::from_str::<serde_json::Value>(json).unwrap()["model"].take()
        };
        let own = model(&Bpe::train(part, tokens, &[]).unwrap().to_json().unwrap());
        let other = model(&other.to_string(true).unwrap());
        assert_eq!(own["merges"], other["merges"]);
        assert_eq!(own["vocab"], other["vocab"]);
    }
}

#[test]
fn special_texts_are_one_token_each() {
    let special = ["<|end|>", "<|start|>"];
    let text = "<|start|>the cat<|end|><|start|>the cat<|end|>".repeat(3);
    let bpe = Bpe::train(&text, 300, &special).unwrap();
    let count = bpe.vocabulary() as u32;
    let tokens = bpe.encode("<|start|>the cat<|end|>").unwrap();
    assert_eq!((tokens[0], tokens[tokens.len() - 1]), (count - 1, count - 2));
    assert_eq!(tokens.len(), 4, "`the`, ` cat` and two special ones: {tokens:?}");
    assert_eq!(bpe.decode(&tokens), "<|start|>the cat<|end|>");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn any_text_comes_back(text in ".{0,80}") {
        prop_assert_eq!(Bytes.decode(&Bytes.encode(&text).unwrap()), text.as_str());
        let bpe = Bpe::train("the cat and the hat and the rat", 270, &["<end>"]).unwrap();
        prop_assert_eq!(bpe.decode(&bpe.encode(&text).unwrap()), text);
    }
}
