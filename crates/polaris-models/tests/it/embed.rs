//! Text to vectors with a tiny encoder, compared with its forward pass in plain loops.

use std::io::{self, Cursor};
use std::path::Path;

use crate::tiny::{HIDDEN, Tiny, write_tokenizer};
use polaris_data::Lines;
use polaris_graph::Mode;
use polaris_models::Error;
use polaris_models::embed::{Embedder, Listener, Options, Pooling, Summary};
use polaris_runtime::{Runtime, RuntimeOptions};
use tempfile::TempDir;

fn runtime() -> Runtime {
    let threads = Some(2);
    Runtime::discover(&RuntimeOptions { threads, ..RuntimeOptions::default() }).unwrap()
}

fn on_cpu() -> Options {
    let run = polaris_graph::Options { mode: Mode::Cpu, ..polaris_graph::Options::default() };
    Options { run, ..Options::default() }
}

fn open(folder: &Path, options: Options) -> Result<Embedder, Error> {
    Embedder::open(&runtime(), folder, &options)
}

/// A folder with a model of safetensors.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    Tiny::new("bert").write_safetensors(folder.path(), "");
    write_tokenizer(folder.path());
    folder
}

/// Of lengths that share a batch with padding, and of one that does not.
const TEXTS: [&str; 5] =
    ["a", "the cat", "every word here", "xyz xyz", "a quick brown fox jumps over dogs"];

/// Means, first tokens and largest numbers of the reference's vectors.
fn expected(tiny: &Tiny, text: &str, pooling: Pooling) -> Vec<f64> {
    let tokens = tiny.forward(&Tiny::ids(text));
    let at = |i: usize| {
        let column = tokens.iter().map(|token| token[i]);
        match pooling {
            Pooling::Mean => column.sum::<f64>() / tokens.len() as f64,
            Pooling::Cls => tokens[0][i],
            Pooling::Max => column.fold(f64::NEG_INFINITY, f64::max),
        }
    };
    (0..HIDDEN).map(at).collect()
}

#[track_caller]
fn close(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < 2e-5, "{found} {expected}");
    }
}

#[test]
fn encoders_of_weights_compute_what_plain_loops_do() {
    for (family, prefix) in [("bert", ""), ("bert", "bert."), ("roberta", "roberta.")] {
        let folder = tempfile::tempdir().unwrap();
        let tiny = Tiny::new(family);
        tiny.write_safetensors(folder.path(), prefix);
        write_tokenizer(folder.path());
        for pooling in [Pooling::Mean, Pooling::Cls, Pooling::Max] {
            let (pooling_option, normalise) = (Some(pooling), Some(false));
            let options = Options { pooling: pooling_option, normalise, ..on_cpu() };
            let embedder = open(folder.path(), options).unwrap();
            assert_eq!((embedder.dimension(), embedder.device().as_str()), (HIDDEN, "cpu"));
            let vectors = embedder.embed(&TEXTS).unwrap();
            for (vector, text) in vectors.iter().zip(TEXTS) {
                close(vector, &expected(&tiny, text, pooling));
            }
        }
    }
}

#[test]
fn onnx_gives_the_same_and_vectors_have_length_one() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = Tiny::new("bert");
    tiny.write_onnx(folder.path());
    write_tokenizer(folder.path());
    for path in [folder.path().to_owned(), folder.path().join("model.onnx")] {
        let vectors = open(&path, on_cpu()).unwrap().embed(&TEXTS).unwrap();
        for (vector, text) in vectors.iter().zip(TEXTS) {
            let mut wanted = expected(&tiny, text, Pooling::Mean);
            let length = wanted.iter().map(|x| x * x).sum::<f64>().sqrt();
            wanted.iter_mut().for_each(|x| *x /= length);
            close(vector, &wanted);
        }
    }
}

#[test]
fn long_texts_are_cut() {
    let folder = folder();
    let long = "a ".repeat(500);
    let options = Options { max_tokens: Some(6), ..on_cpu() };
    let vectors = open(folder.path(), options).unwrap().embed(&[long.trim(), "a a a a"]).unwrap();
    vectors[0].iter().zip(&vectors[1]).for_each(|(a, b)| assert!((a - b).abs() < 1e-6));
    // The table of positions has 40 rows.
    assert_eq!(open(folder.path(), on_cpu()).unwrap().max_tokens(), 40);
    open(folder.path(), on_cpu()).unwrap().embed(&[long.as_str()]).unwrap();
    let refused = open(folder.path(), Options { max_tokens: Some(41), ..on_cpu() }).unwrap_err();
    assert!(refused.to_string().contains("positions for 40 tokens"), "{refused}");
}

/// Keeps what it gets, and stops at a line.
#[derive(Default)]
struct Keep {
    lines: Vec<Result<Vec<f32>, String>>,
    done: usize,
    bytes: u64,
    stop_after: Option<usize>,
    full_after: Option<usize>,
}

impl Listener for Keep {
    fn line(&mut self, number: u64, vector: Result<&[f32], &str>) -> io::Result<()> {
        if self.full_after.is_some_and(|most| self.lines.len() >= most) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.lines.push(vector.map(<[f32]>::to_vec).map_err(str::to_owned));
        assert_eq!(self.lines.len() as u64, number);
        Ok(())
    }

    fn advance(&mut self, lines: usize, bytes: u64) -> bool {
        self.done += lines;
        self.bytes += bytes;
        self.stop_after.is_none_or(|most| self.done < most)
    }
}

#[test]
fn streams_keep_the_order_of_lines_and_go_on_after_bad_ones() {
    let folder = folder();
    let embedder = open(folder.path(), on_cpu()).unwrap();
    let mut text = Vec::new();
    // More than one window.
    for line in 0..5000 {
        match line {
            7 => text.extend_from_slice(b"\r\n"),
            4500 => text.extend_from_slice(b"ab\xffcd\n"),
            _ => text.extend_from_slice(format!("{}\n", TEXTS[line % 5]).as_bytes()),
        }
    }
    let mut keep = Keep::default();
    let summary = embedder.stream(Lines::new(Cursor::new(text.clone())), &mut keep).unwrap();
    let tokens: usize = (0..5000)
        .filter(|line| ![7, 4500].contains(line))
        .map(|line| Tiny::ids(TEXTS[line % 5]).len())
        .sum();
    assert_eq!(summary, Summary { lines: 5000, skipped: 2, tokens: tokens as u64 });
    assert_eq!((keep.done, keep.bytes), (5000, text.len() as u64));
    let vectors = embedder.embed(&TEXTS).unwrap();
    for (line, found) in keep.lines.iter().enumerate() {
        match (line, found) {
            (7, Err(why)) => assert!(why.contains("empty"), "{why}"),
            (4500, Err(why)) => assert!(why.contains("UTF-8"), "{why}"),
            (line, Ok(vector)) => {
                let wanted: Vec<f64> = vectors[line % 5].iter().map(|&x| f64::from(x)).collect();
                close(vector, &wanted);
            }
            other => panic!("{other:?}"),
        }
    }
    let mut keep = Keep { stop_after: Some(100), ..Keep::default() };
    let stopped = embedder.stream(Lines::new(Cursor::new(text.clone())), &mut keep);
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    let mut keep = Keep { full_after: Some(100), ..Keep::default() };
    let full = embedder.stream(Lines::new(Cursor::new(text)), &mut keep);
    assert!(matches!(full, Err(Error::Writing { .. })), "{full:?}");
    assert_eq!(keep.lines.len(), 100);
    let none = embedder.stream(Lines::new(io::empty()), &mut Keep::default()).unwrap();
    assert_eq!(none, Summary::default());
}

#[test]
fn what_is_missing_or_broken_is_said() {
    let without = |name: &str| {
        let folder = folder();
        std::fs::remove_file(folder.path().join(name)).unwrap();
        open(folder.path(), on_cpu()).unwrap_err().to_string()
    };
    assert!(without("tokenizer.json").contains("no tokenizer.json"));
    assert!(without("config.json").contains("no config.json"));
    assert!(without("model.safetensors").contains("no model.onnx"));
    let with = |name: &str, bytes: &[u8]| {
        let folder = folder();
        std::fs::write(folder.path().join(name), bytes).unwrap();
        open(folder.path(), on_cpu()).unwrap_err().to_string()
    };
    assert!(with("config.json", br#"{"model_type": "t5"}"#).contains("`t5`"));
    assert!(with("config.json", br#"{"model_type": "bert"}"#).contains("of an encoder"));
    assert!(with("model.safetensors", b"damaged").contains("not a complete safetensors file"));
    assert!(with("tokenizer.json", b"{}").contains("tokenizer.json"));
    let wrong = folder();
    let config = std::fs::read_to_string(wrong.path().join("config.json")).unwrap();
    let change = |from: &str, to: &str| with("config.json", config.replace(from, to).as_bytes());
    assert!(change("\"intermediate_size\":20", "\"intermediate_size\":21").contains("[21, 12]"));
    assert!(
        change("\"num_hidden_layers\":2", "\"num_hidden_layers\":3").contains("encoder.layer.2")
    );
    assert!(change("\"num_attention_heads\":3", "\"num_attention_heads\":5").contains("multiple"));
    assert!(change("\"num_attention_heads\":3", "\"num_attention_heads\":0").contains("is 0"));
    assert!(change("absolute", "relative_key").contains("relative_key"));
    assert!(change("\"hidden_act\":\"gelu\"", "\"hidden_act\":\"what\"").contains("`what`"));
}
