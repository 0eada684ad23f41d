//! Logits beside those of llama.cpp, for models that its test tool writes: `bench/llm/README.md` says how to make the
//! folder that `POLARIS_LLAMA_MODELS` names.

use std::path::Path;

use polaris_llm::{CacheType, Engine, EngineOptions, Error, LoadOptions, Model, Wanted};

use crate::common::devices;

/// The logits of a file that `bench/llm/logits.cpp` wrote.
pub fn read_logits(path: &Path) -> (usize, usize, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap();
    let number = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let values =
        bytes[8..].chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
    (number(0), number(4), values.collect())
}

/// The tokens that all models of a folder are given.
pub fn tokens_of(folder: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(folder.join("tokens.txt")).unwrap();
    text.split_whitespace().map(|token| token.parse().unwrap()).collect()
}

/// The norm of the difference by the norm of what is expected.
pub fn relative_error(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |x: f32| f64::from(x) * f64::from(x);
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| square(a - b)).sum();
    let norm: f64 = expected.iter().map(|&x| square(x)).sum();
    (difference / norm).sqrt()
}

/// Half of the tokens as a prompt, the others one by one, as the peer did.
pub fn logits(model: &Model, tokens: &[u32]) -> Result<Vec<f32>, Error> {
    let options = EngineOptions {
        context: tokens.len(),
        batch: 17,
        cache: CacheType::F32,
        ..EngineOptions::default()
    };
    let mut engine = Engine::new(model, &options)?;
    let (prompt, rest) = tokens.split_at(tokens.len() / 2);
    let mut all = engine.feed(0, prompt, Wanted::All, &|| false)?.to_vec();
    for &token in rest {
        all.extend(engine.feed(0, &[token], Wanted::Last, &|| false)?);
    }
    Ok(all)
}

#[test]
fn logits_are_those_of_llama_cpp() {
    let Some(folder) = std::env::var_os("POLARIS_LLAMA_MODELS") else {
        eprintln!("SKIPPED: POLARIS_LLAMA_MODELS names no folder with models of llama.cpp");
        return;
    };
    let folder = Path::new(&folder);
    let filter = std::env::var("POLARIS_LLAMA_FILTER").unwrap_or_default();
    let tokens = tokens_of(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "gguf"))
        .filter(|path| path.to_string_lossy().contains(&filter))
        .collect();
    files.sort();
    // llama.cpp leaves out the epsilon of Qwen2-VL, and the network of a mixture of Refact.
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !["qwen2vl-dense", "refact-moe"].iter().any(|left_out| name.starts_with(left_out))
    });
    let mut wrong = Vec::new();
    // The peer rounds contexts up, which decides between factors of frequencies.
    let context = tokens.len().next_multiple_of(256);
    let (mut right, mut unsupported, mut sparse) = (0, Vec::new(), Vec::new());
    for device in devices() {
        for path in &files {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let (count, words, expected) = read_logits(&path.with_extension("logits"));
            assert_eq!(count, tokens.len());
            let found = Model::open(path, &device, &LoadOptions { context }).and_then(|model| {
                // The peer attends to chosen positions; but for MiniMax, as its attention is computed here.
                let chosen = model.config().chosen_positions.unwrap_or(usize::MAX);
                let is_sparse = chosen < tokens.len() && !name.starts_with("minimax");
                if is_sparse { Ok(None) } else { logits(&model, &tokens).map(Some) }
            });
            let found = match found {
                Ok(Some(found)) => found,
                Ok(None) => {
                    sparse.push(name);
                    continue;
                }
                Err(Error::UnknownArchitecture { .. }) => {
                    unsupported.push(name);
                    continue;
                }
                Err(error) => {
                    wrong.push(format!("{name}: {error}"));
                    continue;
                }
            };
            assert_eq!(found.len(), count * words, "{name}");
            let error = relative_error(&found, &expected);
            println!("{:10} {name:24} {error:.1e}", device.id().to_string());
            match error <= 2e-3 {
                true => right += 1,
                false => wrong.push(format!("{name}: relative error {error:.1e}")),
            }
        }
    }
    println!("{right} right, {} wrong, {} unsupported", wrong.len(), unsupported.len());
    println!("unsupported: {}", unsupported.join(" "));
    println!("not compared, as the peer attends to chosen positions: {}", sparse.join(" "));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
