//! Importance matrices: what is collected, and files of both formats.

use std::collections::BTreeMap;

use bytes::Bytes;
use polaris_core::ErrorKind;
use polaris_gguf::{Gguf, TensorType, Writer, quantize};
use polaris_llm::{Engine, EngineOptions, Observation, Observe, Precision, Wanted};
use polaris_optimize::{CalibrationText, ColumnSums, Error, Importance};

use crate::runtime;
use crate::tiny::{Tiny, WIDTH, WORDS};

const WINDOW: usize = 12;

fn engine(tiny: Tiny) -> Engine {
    let model = tiny.model(runtime().cpu());
    let options =
        EngineOptions { context: WINDOW, precision: Precision::Full, ..EngineOptions::default() };
    Engine::new(&model, &options).unwrap()
}

fn tokens(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| (i * 37 + 11 + i * i * 13) % WORDS as u32).collect()
}

fn text(tokens: &[u32], windows: Option<usize>) -> CalibrationText<'_> {
    CalibrationText { name: "text.txt", tokens, first: Some(7), windows }
}

fn collect(importance: &mut Importance, text: &CalibrationText<'_>) -> Result<(), Error> {
    let mut engine = engine(Tiny { experts: 4, ..Tiny::LLAMA });
    importance.collect(&mut engine, text, &mut |_| Ok(()), &|| false)
}

fn sums(importance: &Importance) -> BTreeMap<String, ColumnSums> {
    importance.tensors().map(|(name, sums)| (name.to_owned(), sums.clone())).collect()
}

/// The same sums, but for their rounding to `f32`.
fn assert_near(found: &Importance, expected: &Importance) {
    let (found, expected) = (sums(found), sums(expected));
    assert!(found.keys().eq(expected.keys()));
    for (name, expected) in expected {
        assert_eq!(found[&name].rows, expected.rows, "{name}");
        for (a, b) in found[&name].squares.iter().zip(&expected.squares) {
            assert!((a - b).abs() <= 1e-6 * b.abs(), "{name}: {a}, {b}");
        }
    }
}

/// A row, and the matrices that it is multiplied with.
type Row = (Vec<f32>, Vec<u32>);

/// Rows in the order in which they are seen.
#[derive(Default)]
struct Rows(BTreeMap<String, Vec<Row>>);

impl Observe for Rows {
    fn observe(&mut self, seen: &Observation<'_>) {
        let rows = self.0.entry(seen.name.to_owned()).or_default();
        rows.extend(seen.pairs().map(|(row, chosen)| (row.to_vec(), chosen.to_vec())));
    }
}

#[test]
fn sums_are_those_of_the_rows_of_each_expert() {
    let tokens = tokens(2 * WINDOW + 5);
    let mut found = Importance::new(WINDOW);
    collect(&mut found, &text(&tokens, None)).unwrap();
    assert_eq!(
        (found.windows, found.window, &found.texts[..]),
        (2, WINDOW, &["text.txt".to_owned()][..])
    );
    let mut engine = engine(Tiny { experts: 4, ..Tiny::LLAMA });
    let mut rows = Rows::default();
    for window in tokens.chunks_exact(WINDOW) {
        let window = [&[7], &window[1..]].concat();
        engine.truncate(0, 0);
        engine.feed_observed(0, &window, Wanted::All, &mut rows, &|| false).unwrap();
    }
    let found_sums = sums(&found);
    assert!(found_sums.keys().eq(rows.0.keys()) && found_sums.contains_key("output.weight"));
    for (name, rows) in &rows.0 {
        let columns = rows[0].0.len();
        let matrices = if name.contains("_exps") { 4 } else { 1 };
        let mean = found.of(name, matrices, columns).unwrap().unwrap();
        for matrix in 0..matrices {
            let own: Vec<_> =
                rows.iter().filter(|(_, chosen)| chosen.contains(&(matrix as u32))).collect();
            assert_eq!(found_sums[name].rows[matrix], own.len() as u64, "{name}");
            for column in 0..columns {
                let square: f64 = own.iter().map(|(row, _)| f64::from(row[column]).powi(2)).sum();
                let expected = if own.is_empty() { 1.0 } else { square / own.len() as f64 };
                let found = f64::from(mean[matrix * columns + column]);
                assert!(
                    (found - expected).abs() <= 1e-5 * expected.max(1e-9),
                    "{name}: {found}, {expected}"
                );
            }
        }
    }
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let tokens = tokens(5 * WINDOW);
    let mut whole = Importance::new(WINDOW);
    collect(&mut whole, &text(&tokens, None)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part.gguf");
    // Stopped in the middle of the third window: nothing of it counts.
    let mut part = Importance::new(WINDOW);
    let mut engine = engine(Tiny { experts: 4, ..Tiny::LLAMA });
    let asked = std::cell::Cell::new(0);
    let steps = engine.describe(WINDOW).unwrap().len();
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 2 * steps + steps / 2
    };
    let error =
        part.collect(&mut engine, &text(&tokens, None), &mut |_| Ok(()), &stop).unwrap_err();
    assert_eq!((error.kind(), part.windows), (ErrorKind::Cancelled, 2));
    part.write(&path).unwrap();
    let mut resumed = Importance::read(&path).unwrap();
    collect(&mut resumed, &text(&tokens, None)).unwrap();
    assert_eq!((resumed.windows, &resumed.texts), (5, &whole.texts));
    assert_near(&resumed, &whole);
    // There is nothing left to do, and another text is refused.
    let before = resumed.clone();
    collect(&mut resumed, &text(&tokens, None)).unwrap();
    assert_eq!(resumed, before);
    let other = text(&tokens[1..], None);
    assert!(matches!(collect(&mut resumed, &other), Err(Error::OtherRun { windows: 5, .. })));
    assert_eq!(resumed, before);
    // A part of the windows may be asked for first.
    let mut two = Importance::new(WINDOW);
    collect(&mut two, &text(&tokens, Some(2))).unwrap();
    assert_near(&two, &part);
    collect(&mut two, &text(&tokens, None)).unwrap();
    assert_near(&two, &whole);
}

#[test]
fn what_cannot_be_collected_is_an_error() {
    let tokens = tokens(2 * WINDOW);
    let mut importance = Importance::new(WINDOW + 1);
    let error = collect(&mut importance, &text(&tokens, None)).unwrap_err();
    assert!(matches!(error, Error::Window { window: 13, context: WINDOW }), "{error}");
    let mut importance = Importance::new(WINDOW);
    let error = collect(&mut importance, &text(&tokens[..5], None)).unwrap_err();
    assert!(matches!(error, Error::ShortText { tokens: 5, .. }), "{error}");
    // A weight that is no number gives activations that are none.
    let mut source = Tiny::LLAMA.source();
    let norm = source.tensors.get_mut("blk.1.ffn_norm.weight").unwrap();
    norm.parts = vec![Bytes::from(f32::NAN.to_le_bytes().repeat(WIDTH))];
    let model = polaris_llm::Model::load(&source, runtime().cpu(), &Default::default(), |_| Ok(()))
        .unwrap();
    let options = EngineOptions { context: WINDOW, ..EngineOptions::default() };
    let mut engine = Engine::new(&model, &options).unwrap();
    let error = importance
        .collect(&mut engine, &text(&tokens, None), &mut |_| Ok(()), &|| false)
        .unwrap_err();
    assert!(
        matches!(&error, Error::Activations { tensor, .. } if tensor.starts_with("blk.1.ffn_")),
        "{error}"
    );
    assert_eq!((importance.windows, importance.tensors().len()), (0, 0));
}

/// Files of both formats, and their sums.
#[test]
fn files_of_both_formats_say_the_same() {
    let tokens = tokens(3 * WINDOW);
    let mut importance = Importance::new(WINDOW);
    collect(&mut importance, &text(&tokens, Some(1))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [new, old] = ["a.gguf", "a.dat"].map(|name| folder.path().join(name));
    importance.write(&new).unwrap();
    importance.write(&old).unwrap();
    assert!(!std::fs::read(&old).unwrap().starts_with(b"GGUF"));
    let [new, old] = [&new, &old].map(|path| Importance::read(path).unwrap());
    assert_near(&new, &importance);
    assert_eq!((new.windows, new.window, &new.texts), (1, WINDOW, &importance.texts));
    assert_eq!((old.windows, &old.texts), (1, &importance.texts));
    assert!(importance.unseen() > 0, "one window reaches some experts alone");
    for (name, sums) in importance.tensors() {
        let matrices = sums.rows.len();
        let columns = sums.squares.len() / matrices;
        let [a, b, c] =
            [&importance, &new, &old].map(|one| one.of(name, matrices, columns).unwrap().unwrap());
        for ((a, b), c) in a.iter().zip(&b).zip(&c) {
            assert!(
                (a - b).abs() <= 1e-6 * a && (a - c).abs() <= 1e-6 * a,
                "{name}: {a}, {b}, {c}"
            );
        }
        let error = importance.of(name, matrices, columns + 1).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(&(columns + 1).to_string()), "{error}");
    }
    assert!(importance.of("blk.9.attn_q.weight", 1, 5).unwrap().is_none());
    // Two halves are the whole; one number for all matrices is as good as one for each.
    let mut whole = Importance::new(WINDOW);
    collect(&mut whole, &text(&tokens[..2 * WINDOW], None)).unwrap();
    let mut second = Importance::new(WINDOW);
    collect(&mut second, &text(&tokens[WINDOW..2 * WINDOW], None)).unwrap();
    let mut both = Importance::default();
    both.merge(&importance).unwrap();
    both.merge(&second).unwrap();
    assert_near(&both, &whole);
    assert_eq!((both.windows, both.texts.len()), (2, 2));
    both.merge(&old).unwrap();
    let mut other = Importance::new(5);
    let mut engine = engine(Tiny { experts: 3, ..Tiny::LLAMA });
    other.collect(&mut engine, &text(&tokens, None), &mut |_| Ok(()), &|| false).unwrap();
    let error = both.merge(&other).unwrap_err();
    assert!(matches!(&error, Error::Unlike { .. }), "{error}");
}

/// A file of the newer format with these tensors.
fn file(tensors: &[(&str, &[f32])], kind: &str) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.set("general.type", kind).unwrap();
    for (name, values) in tensors {
        let bytes = quantize(TensorType::F32, values).unwrap();
        writer.tensor(name, &[values.len()], TensorType::F32, bytes).unwrap();
    }
    writer.into_bytes().unwrap()
}

/// A file of the older format with one tensor.
fn legacy(name: &[u8], calls: i32, count: i32, values: &[f32]) -> Vec<u8> {
    let mut bytes = 1i32.to_le_bytes().to_vec();
    bytes.extend((name.len() as i32).to_le_bytes());
    bytes.extend(name);
    bytes.extend(calls.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    bytes
}

#[test]
fn hostile_files_are_refused_with_a_reason() {
    let refuse = |bytes: Vec<u8>, word: &str| {
        let error = Importance::from_bytes(bytes.into()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert!(matches!(error.kind(), ErrorKind::InvalidData), "{error}");
    };
    refuse(file(&[("a", &[1.0])], "model"), "type `model`");
    refuse(file(&[("a", &[1.0])], "imatrix"), "in_sum2");
    refuse(file(&[("a.in_sum2", &[1.0])], "imatrix"), "both");
    for (sums, counts, word) in [
        (&[1.0, f32::NAN][..], &[1.0][..], "NaN"),
        (&[1.0, -2.0], &[1.0], "-2"),
        (&[1.0, f32::INFINITY], &[1.0], "inf"),
        (&[1.0, 2.0], &[-1.0], "-1"),
        (&[1.0, 2.0], &[f32::NAN], "NaN"),
        (&[1.0, 2.0, 3.0], &[1.0, 1.0], "3 sums and 2 counts"),
    ] {
        refuse(file(&[("a.in_sum2", sums), ("a.counts", counts)], "imatrix"), word);
    }
    let good =
        [legacy(b"a", 3, 2, &[1.0, 2.0]), 3i32.to_le_bytes().to_vec(), vec![1, 0, 0, 0, b't']]
            .concat();
    assert_eq!(Importance::from_bytes(good.clone().into()).unwrap().texts, ["t"]);
    for length in 0..good.len() {
        let result = Importance::from_bytes(Bytes::copy_from_slice(&good[..length]));
        // What follows the tensors may be missing.
        let is_whole = [legacy(b"a", 3, 2, &[1.0, 2.0]).len(), good.len() - 5].contains(&length);
        assert_eq!(result.is_ok(), is_whole, "{length}");
    }
    refuse([good, vec![0]].concat(), "follow its end");
    refuse(legacy(b"a", 3, i32::MAX, &[1.0]), "8589934588 bytes");
    refuse(legacy(b"a", 3, -1, &[1.0]), "-1");
    refuse(legacy(b"a", 3, 0, &[]), "no values");
    refuse(legacy(b"\xff", 3, 1, &[1.0]), "UTF-8");
    refuse(legacy(b"a", 3, 1, &[f32::NAN]), "NaN");
    refuse(0i32.to_le_bytes().to_vec(), "no tensors");
    let twice = legacy(b"a", 3, 1, &[1.0]);
    refuse([&2i32.to_le_bytes(), &twice[4..], &twice[4..]].concat(), "twice");
    // Without metadata it is read as llama.cpp reads it.
    let plain = file(&[("a.in_sum2", &[2.0, 6.0]), ("a.counts", &[2.0])], "imatrix");
    let plain = Importance::from_bytes(plain.into()).unwrap();
    assert_eq!(plain.of("a", 1, 2).unwrap().unwrap(), [1.0, 3.0]);
    assert_eq!(plain.of("a", 2, 1).unwrap().unwrap(), [1.0, 3.0]);
    // Names of files and of tensors are in errors.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.dat");
    std::fs::write(&path, "not an importance matrix").unwrap();
    let error = Importance::read(&path).unwrap_err().to_string();
    assert!(error.contains("bad.dat"), "{error}");
    assert!(Importance::read(&folder.path().join("missing")).is_err());
}

/// As llama.cpp's tools read it: general.type, the keys of chunks, and pairs of tensors.
#[test]
fn a_file_has_what_others_look_for() {
    let mut importance = Importance::new(WINDOW);
    collect(&mut importance, &text(&tokens(2 * WINDOW), None)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    importance.write(&path).unwrap();
    let gguf = Gguf::from_bytes(std::fs::read(&path).unwrap().into()).unwrap();
    let metadata = gguf.metadata();
    assert_eq!(metadata.require::<&str>("general.type").unwrap(), "imatrix");
    assert_eq!(metadata.list::<&str>("imatrix.datasets").unwrap().unwrap(), ["text.txt"]);
    assert_eq!(metadata.require::<u32>("imatrix.chunk_count").unwrap(), 2);
    assert_eq!(metadata.require::<u32>("imatrix.chunk_size").unwrap(), WINDOW as u32);
    let sums = gguf.tensor("blk.0.ffn_up_exps.weight.in_sum2").unwrap();
    assert_eq!((sums.shape().dims(), sums.ty()), (&[4, WIDTH][..], TensorType::F32));
    let counts = gguf.tensor("blk.0.ffn_up_exps.weight.counts").unwrap();
    assert_eq!(counts.shape().dims(), &[4, 1]);
    let all: f32 = counts.to_f32().unwrap().iter().sum();
    assert_eq!(all, (2 * 2 * WINDOW) as f32);
}
