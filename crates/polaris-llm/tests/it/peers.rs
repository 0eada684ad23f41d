//! Logits beside those of llama.cpp, for models that its test tool writes: `bench/llm/README.md` says how to make the
//! folder that `POLARIS_LLAMA_MODELS` names.

use std::path::{Path, PathBuf};

use polaris_llm::{CacheType, Engine, EngineOptions, Error, LoadOptions, Model, Precision, Wanted};

use crate::common::devices;

/// The logits of a file that `bench/llm/logits.cpp` wrote.
pub fn read_logits(path: &Path) -> (usize, usize, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap();
    let number = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let values =
        bytes[8..].chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
    (number(0), number(4), values.collect())
}

/// Tokens of a file.
fn read_tokens(path: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(path).unwrap();
    text.split_whitespace().map(|token| token.parse().unwrap()).collect()
}

/// The norm of the difference by the norm of what is expected.
pub fn relative_error(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |x: f32| f64::from(x) * f64::from(x);
    // Some models have no logits for some tokens.
    let differing = found.iter().zip(expected).filter(|(a, b)| a != b);
    let difference: f64 = differing.map(|(a, b)| square(a - b)).sum();
    let norm: f64 = expected.iter().filter(|x| x.is_finite()).map(|&x| square(x)).sum();
    (difference / norm).sqrt()
}

fn engine(model: &Model, context: usize, precision: Precision) -> Result<Engine, Error> {
    let options =
        EngineOptions { context, batch: 17, cache: CacheType::F32, precision, sequences: 1 };
    Engine::new(model, &options)
}

/// Half of the tokens as a prompt, the others one by one, as the peer did.
pub fn logits(model: &Model, tokens: &[u32]) -> Result<Vec<f32>, Error> {
    logits_in(model, tokens, Precision::Full)
}

fn logits_in(model: &Model, tokens: &[u32], precision: Precision) -> Result<Vec<f32>, Error> {
    let mut engine = engine(model, tokens.len(), precision)?;
    let (prompt, rest) = tokens.split_at(tokens.len() / 2);
    let mut all = engine.feed(0, prompt, Wanted::All, &|| false)?.to_vec();
    for &token in rest {
        all.extend(engine.feed(0, &[token], Wanted::Last, &|| false)?);
    }
    Ok(all)
}

/// A model, and what is expected of it.
pub struct Peer {
    /// A file or a folder.
    pub model: PathBuf,
    /// Rows of logits.
    pub rows: PathBuf,
    /// The context that the model is loaded for.
    pub context: usize,
}

impl Peer {
    /// A file beside the rows.
    fn beside(&self, name: &str) -> PathBuf {
        self.rows.with_file_name(name)
    }
}

/// The files with an ending, in the folder that a variable names, whose names contain what another says.
pub fn files(folder: &str, filter: &str, ending: &str) -> Vec<PathBuf> {
    let Some(path) = std::env::var_os(folder) else {
        eprintln!("SKIPPED: {folder} names no folder with models");
        return Vec::new();
    };
    let filter = std::env::var(filter).unwrap_or_default();
    let mut files: Vec<_> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .filter(|path| path.to_string_lossy().contains(&filter))
        .collect();
    files.sort();
    files
}

/// The models of llama.cpp beside which there is a file with an ending.
fn models(ending: &str) -> Vec<Peer> {
    let mut files = files("POLARIS_LLAMA_MODELS", "POLARIS_LLAMA_FILTER", ending);
    // llama.cpp leaves out the epsilon of Qwen2-VL, and the network of a mixture of Refact.
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !["qwen2vl-dense", "refact-moe"].iter().any(|left_out| name.starts_with(left_out))
    });
    // The peer rounds contexts up, which decides between factors of frequencies.
    let peer = |rows: PathBuf| Peer { model: rows.with_extension("gguf"), rows, context: 256 };
    files.into_iter().map(peer).collect()
}

/// How many rows of logits can be compared: the peer may attend to chosen positions, of which Polaris takes all; but for
/// MiniMax, whose attention it computes as Polaris does.
fn comparable(model: &Model, rows: usize) -> usize {
    match model.config().chosen_positions {
        Some(chosen) if !model.architecture().name.starts_with("minimax") => chosen.min(rows),
        _ => rows,
    }
}

/// Compares each model on each device; `compare` is given the expected rows, and says what it found, or nothing if there
/// is nothing to compare.
pub fn compare_all(
    peers: &[Peer],
    compare: impl Fn(&Model, &Peer, usize, &[f32]) -> Result<Option<String>, String>,
) {
    let (mut right, mut wrong) = (0, Vec::new());
    let (mut unsupported, mut left_out) = (Vec::new(), Vec::new());
    for device in devices() {
        for peer in peers {
            let name = peer.rows.file_stem().unwrap().to_string_lossy().into_owned();
            let (_, words, expected) = read_logits(&peer.rows);
            let options = LoadOptions { context: peer.context };
            let result = match Model::open(&peer.model, &device, &options) {
                Ok(model) => compare(&model, peer, words, &expected),
                Err(Error::UnknownArchitecture { .. }) => {
                    unsupported.push(name);
                    continue;
                }
                Err(error) => Err(error.to_string()),
            };
            let device = device.id().to_string();
            let (Ok(Some(found)) | Err(found)) = &result else {
                left_out.push(name);
                continue;
            };
            println!("{device:10} {name:24} {found}");
            match result {
                Ok(_) => right += 1,
                Err(found) => wrong.push(format!("{name} on {device}: {found}")),
            }
        }
    }
    println!("{right} right, {} wrong", wrong.len());
    println!("unsupported: {}", unsupported.join(" "));
    println!("not comparable: {}", left_out.join(" "));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Relative errors of the prompt and of single tokens, which must be small.
pub fn compare_logits(
    model: &Model,
    peer: &Peer,
    words: usize,
    expected: &[f32],
) -> Result<Option<String>, String> {
    let tokens = read_tokens(&peer.beside("tokens.txt"));
    let found = logits(model, &tokens).map_err(|error| error.to_string())?;
    assert_eq!(found.len(), tokens.len() * words);
    assert_eq!(found.len(), expected.len());
    let rows = comparable(model, tokens.len());
    let half = (tokens.len() / 2).min(rows);
    let of = |from: usize, to: usize| {
        let range = from * words..to * words;
        relative_error(&found[range.clone()], &expected[range])
    };
    let (prompt, single) = (of(0, half), if half < rows { of(half, rows) } else { 0.0 });
    let rows = if rows < tokens.len() { format!(", first {rows} rows") } else { String::new() };
    let result = format!("{prompt:.1e} {single:.1e}{rows}");
    if prompt.max(single) <= 2e-3 { Ok(Some(result)) } else { Err(result) }
}

#[test]
fn logits_are_those_of_llama_cpp() {
    compare_all(&models("logits"), compare_logits);
}

/// The median of the relative errors of rows: a row for which another expert is chosen counts no more than others.
fn median_error(found: &[f32], expected: &[f32], words: usize) -> f64 {
    let rows = found.chunks_exact(words).zip(expected.chunks_exact(words));
    let mut errors: Vec<f64> = rows.map(|(a, b)| relative_error(a, b)).collect();
    errors.sort_by(f64::total_cmp);
    errors[errors.len() / 2]
}

/// With activations rounded to int8, logits are as near to those of the weights as llama.cpp's, which rounds them too: an
/// error of at most one and a half times its own.
#[test]
fn rounded_activations_cost_no_more_than_in_llama_cpp() {
    compare_all(&models("rounded"), |model, peer, words, rounded| {
        let tokens = read_tokens(&peer.beside("tokens.txt"));
        let (_, _, exact) = read_logits(&peer.rows.with_extension("logits"));
        let found =
            logits_in(model, &tokens, Precision::Int8).map_err(|error| error.to_string())?;
        assert_eq!(found.len(), tokens.len() * words);
        let error = |a: &[f32], b: &[f32]| median_error(a, b, words);
        let (ours, theirs, apart) =
            (error(&found, &exact), error(rounded, &exact), error(&found, rounded));
        let result = format!("{ours:.1e}, of the peer {theirs:.1e}, apart {apart:.1e}");
        if ours <= 1.5 * theirs { Ok(Some(result)) } else { Err(result) }
    });
}

fn largest(row: &[f32]) -> usize {
    // The first of equal ones, as everywhere.
    (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap()
}

/// The most probable token 64 times. Where another one is chosen, its logit must be within rounding of the largest.
#[test]
fn greedy_continuations_are_those_of_llama_cpp() {
    compare_all(&models("greedy"), |model, peer, words, expected| {
        let prompt = read_tokens(&peer.beside("prompt.txt"));
        let rows = expected.chunks_exact(words);
        let count = comparable(model, prompt.len() + rows.len()).saturating_sub(prompt.len());
        if count == 0 || !model.config().causal {
            return Ok(None);
        }
        let run = || -> Result<(usize, Option<(usize, f32)>), Error> {
            let mut engine = engine(model, prompt.len() + rows.len(), Precision::Full)?;
            let (mut next, mut equal, mut first) = (prompt.clone(), 0, None);
            for (step, row) in rows.clone().take(count).enumerate() {
                let found = largest(engine.feed(0, &next, Wanted::Last, &|| false)?);
                let wanted = largest(row);
                let size = row.iter().filter(|x| x.is_finite()).fold(0.0f32, |m, x| m.max(x.abs()));
                let gap = (row[wanted] - row[found]) / size;
                equal += usize::from(found == wanted);
                if found != wanted && first.is_none_or(|(_, before)| gap > before) {
                    first = Some((step, gap));
                }
                next = vec![wanted as u32];
            }
            Ok((equal, first))
        };
        let (equal, first) = run().map_err(|error| error.to_string())?;
        let result = format!("{equal} of {count} equal");
        match first {
            None => Ok(Some(result)),
            Some((step, gap)) => {
                let result = format!("{result}, widest gap {gap:.1e} at token {step}");
                if gap <= 1e-4 { Ok(Some(result)) } else { Err(result) }
            }
        }
    });
}
