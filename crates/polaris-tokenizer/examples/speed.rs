//! How fast text is encoded, beside the `tokenizers` crate with the same vocabulary and merges:
//! `cargo run --release -p polaris-tokenizer --example speed -- VOCABULARY.gguf TEXT...`
//!
//! The vocabulary must be of the kind `gpt2` with the splitting rules of GPT-2.

use std::path::Path;
use std::time::Instant;

use polaris_gguf::Gguf;
use polaris_tokenizer::{Special, Tokenizer};
use serde_json::{Map, Value, json};

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name a vocabulary and texts")?;
    let mut text = String::new();
    for path in arguments {
        text += &String::from_utf8_lossy(&polaris_files::read(Path::new(&path), 1 << 30)?);
    }
    let gguf =
        Gguf::open(path.as_ref(), |path| polaris_files::read(path, 1 << 30).map(Into::into))?;
    let metadata = gguf.metadata();
    let begin = Instant::now();
    let ours = Tokenizer::from_gguf(metadata)?;
    println!("read in {:.1} ms", begin.elapsed().as_secs_f64() * 1e3);

    let tokens = metadata.list::<&str>("tokenizer.ggml.tokens")?.unwrap_or_default();
    let tokens: Map<String, Value> =
        tokens.into_iter().zip(0..).map(|(text, id)| (text.to_owned(), Value::from(id))).collect();
    let merges = metadata.list::<&str>("tokenizer.ggml.merges")?.unwrap_or_default();
    let json = json!({
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": tokens, "merges": merges},
    });
    let library = polaris_tokenizer::library::read_json(&serde_json::to_vec(&json)?)?;

    let megabytes = text.len() as f64 / 1e6;
    let (mut best_ours, mut best_library) = (f64::MAX, f64::MAX);
    for _ in 0..5 {
        let begin = Instant::now();
        let ids = ours.encode(&text, Special::Plain)?;
        best_ours = best_ours.min(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        let encoding = library.encode_fast(text.as_str(), false)?;
        best_library = best_library.min(begin.elapsed().as_secs_f64());
        if ids != encoding.get_ids() {
            println!("the tokens differ: {} and {}", ids.len(), encoding.len());
        }
    }
    println!(
        "{megabytes:.1} MB: {:.1} MB/s, the tokenizers crate {:.1} MB/s, best of 5 in turns, one thread",
        megabytes / best_ours,
        megabytes / best_library
    );
    Ok(())
}
