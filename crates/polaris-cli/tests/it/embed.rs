//! `polaris embed` with a tiny encoder: both formats, bad lines, mistakes, and Ctrl-C.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::common::{Answer, Home};
use crate::tiny::{HIDDEN, Tiny, write_tokenizer};
use serde_json::Value;

/// A home with a model in a folder `model`, as ONNX, and a text.
fn home(text: &[u8]) -> Home {
    let home = Home::with_shared_cache();
    let folder = home.path("model");
    fs::create_dir_all(&folder).unwrap();
    Tiny::new("bert").write_onnx(&folder);
    write_tokenizer(&folder);
    fs::write(home.path("text.txt"), text).unwrap();
    home
}

/// Runs it in the home's folder.
fn run(home: &Home, arguments: &str) -> Answer {
    let mut command = home.command(&format!("embed --mode cpu --threads 2 {arguments}"));
    Answer::of(command.current_dir(home.path("")))
}

/// The rows of an NPY file.
fn rows(path: &Path) -> Vec<Vec<f32>> {
    let file = polaris::data::PlainNpy::read(path).unwrap();
    assert_eq!((file.code, file.dims[1]), ("f4", HIDDEN));
    let values: Vec<f32> = file
        .bytes
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
        .collect();
    let rows: Vec<Vec<f32>> = values.chunks_exact(HIDDEN).map(<[f32]>::to_vec).collect();
    assert_eq!(rows.len(), file.dims[0]);
    rows
}

/// The lines of JSON: number, vector, error.
fn records(text: &str) -> Vec<(u64, Option<Vec<f32>>, Option<String>)> {
    let read = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        let numbers = |list: &Vec<Value>| list.iter().map(|x| x.as_f64().unwrap() as f32).collect();
        let error = record.get("error").map(|error| error.as_str().unwrap().to_owned());
        (record["line"].as_u64().unwrap(), record["embedding"].as_array().map(numbers), error)
    };
    text.lines().map(read).collect()
}

fn files(home: &Home) -> Vec<String> {
    let names = fs::read_dir(home.path("")).unwrap();
    let mut names: Vec<String> =
        names.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !["cache", "data"].contains(&name.as_str()));
    names.sort();
    names
}

#[test]
fn rows_belong_to_lines_in_both_formats() {
    let home = home(b"the cat\r\n\nab\xff\nevery word here\n a b c\nlast");
    let summary = run(&home, "model text.txt -o out.npy --json").exits_with(1);
    assert_eq!(summary.notes_with("skipped line 2: it is empty"), 1);
    assert_eq!(summary.notes_with("skipped line 3: it is not UTF-8: byte 3"), 1);
    let summary = summary.json();
    assert_eq!(summary["schema"], "polaris.embed/1");
    for (field, value) in
        [("lines", 6), ("skipped", 2), ("dimension", HIDDEN as u64), ("tokens", 8 + 15 + 5 + 6)]
    {
        assert_eq!(summary[field], value, "{field}");
    }
    assert_eq!((&summary["device"], &summary["format"]), (&"cpu".into(), &"npy".into()));
    assert!(summary["sentences_per_second"].as_f64().unwrap() > 0.0);
    let vectors = rows(&home.path("out.npy"));
    assert_eq!(vectors.len(), 6);
    assert_eq!((&vectors[1], &vectors[2]), (&vec![0.0; HIDDEN], &vec![0.0; HIDDEN]));
    for line in [0, 3, 4, 5] {
        let length: f32 = vectors[line].iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }
    // The same as JSON, in a file and on stdout.
    run(&home, "model text.txt -o out.jsonl").exits_with(1).says(&["6 lines", "2 skipped"]);
    let printed = run(&home, "model text.txt").exits_with(1);
    let text = fs::read_to_string(home.path("out.jsonl")).unwrap();
    assert_eq!(printed.stdout, text);
    let records = records(&text);
    assert!(records.iter().map(|record| record.0).eq(1..=6));
    for (record, row) in records.iter().zip(&vectors) {
        match &record.1 {
            Some(vector) => assert_eq!((vector, &record.2), (row, &None)),
            None => assert!(record.2.is_some() && row.iter().all(|&x| x == 0.0)),
        }
    }
    assert_eq!(files(&home), ["model", "out.jsonl", "out.npy", "text.txt"]);
}

#[test]
fn stdin_files_and_options() {
    let home = home(b"the cat\na dog\n");
    run(&home, "model text.txt -o file.npy --no-normalise --pooling cls").exits_with(0);
    let mut command = home.command(
        "embed --mode cpu model/model.onnx -o stdin.npy --no-normalise --pooling cls --batch 1",
    );
    let text = fs::File::open(home.path("text.txt")).unwrap();
    Answer::of(command.current_dir(home.path("")).stdin(text)).exits_with(0);
    for (one, other) in rows(&home.path("file.npy")).iter().zip(rows(&home.path("stdin.npy"))) {
        one.iter().zip(other).for_each(|(a, b)| assert!((a - b).abs() < 1e-5));
    }
    // A text without lines has no rows, and vectors of the same length.
    fs::write(home.path("text.txt"), b"").unwrap();
    run(&home, "model text.txt -o empty.npy").exits_with(0);
    assert!(rows(&home.path("empty.npy")).is_empty());
    // Of many bad lines some are named.
    fs::write(home.path("text.txt"), "\n".repeat(1000)).unwrap();
    let answer = run(&home, "model text.txt -o many.npy").exits_with(1);
    assert_eq!(answer.notes_with(": it is empty"), 24);
    assert_eq!(answer.notes_with("skipped 976 more lines"), 1);
    assert_eq!(rows(&home.path("many.npy")).len(), 1000);
}

#[test]
fn mistakes_are_said_and_leave_nothing() {
    let home = home(b"the cat\n");
    run(&home, "model text.txt --format npy").exits_with(2).says(&["-o OUT.npy"]);
    run(&home, "model text.txt --json").exits_with(2).says(&["-o OUT.jsonl"]);
    run(&home, "model text.txt -o out.txt").exits_with(2).says(&["--format"]);
    run(&home, "model text.txt --normalise --no-normalise").exits_with(2);
    run(&home, "model missing.txt -o out.npy").exits_with(3).says(&["missing.txt"]);
    run(&home, "missing text.txt -o out.npy").exits_with(3).says(&["No such file"]);
    run(&home, "model text.txt -o missing/out.npy").exits_with(3).says(&["cannot write"]);
    run(&home, "model text.txt -o text.txt --format jsonl").exits_with(3).says(&["the input text"]);
    run(&home, "model text.txt -o out.npy --max-tokens 2").exits_with(3).says(&["begin and end"]);
    let moved = home.path("elsewhere.json");
    fs::rename(home.path("model/tokenizer.json"), moved).unwrap();
    let missing = run(&home, "model text.txt -o out.npy --json").exits_with(3).json();
    assert!(missing["error"].as_str().unwrap().contains("--tokenizer FILE"), "{missing}");
    assert_eq!(files(&home), ["elsewhere.json", "model", "text.txt"]);
    run(&home, "model text.txt -o out.npy --tokenizer elsewhere.json").exits_with(0);
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_the_old_file_and_no_part_of_a_new_one() {
    let home = home(b"");
    fs::write(home.path("out.npy"), b"old").unwrap();
    let mut command = home.command("embed --mode cpu model -o out.npy");
    // More than a window, and then nothing more, though the pipe stays open.
    let mut child = command.current_dir(home.path("")).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all("the cat\n".repeat(4200).as_bytes()).unwrap();
    let begin = std::time::Instant::now();
    while !files(&home).iter().any(|name| name.starts_with(".writing-")) {
        assert!(begin.elapsed().as_secs() < 60, "nothing was begun");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let answer = Answer::from(child.wait_with_output().unwrap());
    drop(stdin);
    answer.exits_with(130).says(&["stopped by the user"]);
    assert_eq!(files(&home), ["model", "out.npy", "text.txt"]);
    assert_eq!(fs::read(home.path("out.npy")).unwrap(), b"old");
}

#[cfg(unix)]
#[test]
fn a_limit_on_file_sizes_leaves_the_old_file_and_no_part_of_a_new_one() {
    let home = home("the cat\n".repeat(2000).as_bytes());
    fs::write(home.path("out.npy"), b"old").unwrap();
    let polaris = home.command("embed --mode cpu --threads 2 model text.txt -o out.npy");
    let words: Vec<_> = polaris.get_args().map(|word| word.to_string_lossy()).collect();
    let mut shell = std::process::Command::new("sh");
    let program = env!("CARGO_BIN_EXE_polaris");
    shell.arg("-c").arg(format!("ulimit -f 16; exec '{program}' {}", words.join(" ")));
    shell.env("POLARIS_CACHE_DIR", home.cache()).env("POLARIS_DATA_DIR", home.data());
    Answer::of(shell.current_dir(home.path(""))).exits_with(3).says(&[
        "cannot write",
        "out.npy",
        "ulimit -f",
    ]);
    assert_eq!(files(&home), ["model", "out.npy", "text.txt"]);
    assert_eq!(fs::read(home.path("out.npy")).unwrap(), b"old");
}

#[cfg(unix)]
#[test]
fn special_files_are_refused_at_once() {
    let home = home(b"the cat\n");
    let made = std::process::Command::new("mkfifo").arg(home.path("fifo")).status().unwrap();
    assert!(made.success());
    run(&home, "model fifo -o out.npy").exits_with(3).says(&["fifo", "a FIFO", "stdin"]);
    run(&home, "model /dev/zero -o out.npy").exits_with(3).says(&["/dev/zero", "a device"]);
    run(&home, "model text.txt -o out.npy --tokenizer fifo").exits_with(3).says(&["a FIFO"]);
    for name in ["model/modules.json", "model/config.json"] {
        fs::rename(home.path("fifo"), home.path(name)).unwrap();
        run(&home, "model text.txt -o out.npy").exits_with(3).says(&[name, "a FIFO"]);
        fs::rename(home.path(name), home.path("fifo")).unwrap();
    }
}

#[test]
fn a_tokenizer_that_contradicts_itself_is_one_error() {
    let home = home("the cat\n".repeat(50).as_bytes());
    let path = home.path("model/tokenizer.json");
    let text = fs::read_to_string(&path).unwrap();
    // The template names a token that the file does not describe.
    let broken =
        text.replace("\"SpecialToken\":{\"id\":\"[SEP]\"", "\"SpecialToken\":{\"id\":\"[END]\"");
    assert_ne!(broken, text);
    fs::write(&path, broken).unwrap();
    let answer = run(&home, "model text.txt -o out.npy").exits_with(3);
    assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
    assert_eq!(answer.notes_with("contradicts itself"), 1);
    assert_eq!(answer.notes_with("panicked"), 0);
}

#[test]
fn a_dimension_that_a_model_does_not_have_is_wrong_usage() {
    let home = home(b"");
    let model = home.path("model/model.onnx");
    for command in ["info", "plan", "run --random-inputs"] {
        let answer = home.run(&format!("{command} {} --mode cpu --dim nothing=3", model.display()));
        answer.exits_with(2).says(&["`nothing`", "it has batch, tokens", "--dim"]);
    }
}
