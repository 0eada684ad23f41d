//! Training as a user has it: what comes out, what is refused, and what a sudden end leaves behind.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{self, Home};
use polaris::nn::tensors_file;
use polaris::nn::train::{Checkpoint, RunFolder};
use polaris::{Runtime, RuntimeOptions};

/// A small network on the digits, with a checkpoint every few steps.
const SMALL: &str = "--set model.channels=[4] --set model.hidden=[16] --set model.pool_after=[1] \
                     --set train.checkpoint_every=5 --set train.epochs=6 --set train.batch=32 \
                     --set optim.lr=0.02 --set data.rotate=0";

fn train(out: &Path) -> String {
    format!("train digits --out {} {SMALL}", out.display())
}

/// The tensors of a file, bit by bit.
fn tensors(path: &Path) -> BTreeMap<String, Vec<u64>> {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let (tensors, _) = tensors_file::read(path, runtime.cpu())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect();
    tensors.into_iter().map(|(name, tensor)| (name, bits(tensor.to_f64().unwrap()))).collect()
}

#[test]
fn a_training_leaves_model_log_and_report_and_can_be_tested() {
    let home = Home::with_shared_cache();
    let out = home.path("run");
    let answer = home.run(&format!("{} --json", train(&out)));
    let found = answer.json();
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    assert_eq!(
        (&found["schema"], &found["ended"]),
        (&"polaris.train/1".into(), &"finished".into())
    );
    assert!(found["evaluation"]["accuracy"].as_f64().unwrap() > 0.8, "{found}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<svg") && !page.contains("http"), "the page stands alone");
    let log = fs::read_to_string(out.join("log.jsonl")).unwrap();
    let steps = log.lines().filter(|line| line.contains("\"event\":\"step\"")).count();
    assert_eq!(steps as u64, found["steps"].as_u64().unwrap());
    assert_eq!(Checkpoint::list(&out.join("checkpoints")).len(), 3);

    let tested = home.run(&format!("eval {} --json", out.display())).json();
    assert_eq!(tested["accuracy"], found["evaluation"]["accuracy"]);
    assert_eq!(tested["confusion"].as_array().unwrap().len(), 10);

    let file = out.join("model.onnx");
    let export = |to: &Path| format!("export {} --out {} --json", out.display(), to.display());
    let exported = home.run(&export(&file)).exits_with(0).json();
    assert_eq!(exported["schema"], "polaris.export/1");
    assert_eq!(exported["bytes"], fs::metadata(&file).unwrap().len());
    assert_eq!(exported["input"]["shape"], serde_json::json!(["batch", 1, 8, 8]));
    assert_eq!(exported["output"]["shape"], serde_json::json!(["batch", 10]));
    for taken in [out.clone(), out.join("model.safetensors")] {
        home.run(&export(&taken)).exits_with(3);
    }
    let tested_again = home.run(&format!("eval {} --json", out.display())).json();
    assert_eq!(tested_again, tested);

    // Nothing is overwritten without being asked.
    let again = home.run(&train(&out));
    assert_eq!(again.code, Some(3));
    assert!(
        again.stderr.contains("--resume") && again.stderr.contains("--out"),
        "{}",
        again.stderr
    );
    let other = home.run(&format!("{} --resume --set model.hidden=[17]", train(&out)));
    assert!(other.stderr.contains("another training: `model.hidden` differ"), "{}", other.stderr);
    fs::remove_dir_all(out.join("checkpoints")).unwrap();
    let again = home.run(&train(&out));
    assert!(again.stderr.contains("has a training already"), "{}", again.stderr);
}

#[test]
fn a_language_model_is_trained_exported_and_talked_to() {
    let home = Home::new();
    let (out, gguf) = (home.path("run"), home.path("mine.gguf"));
    let sizes = "--set model.layers=1 --set model.width=32 --set model.heads=2 --set model.kv_heads=1 \
                 --set model.feed_forward=64 --set data.vocabulary=300 --set data.context=32";
    let train = format!(
        "train tiny --device cpu --set train.steps=3 {sizes} --out {} --json",
        out.display()
    );
    let trained = home.run(&train).exits_with(0).json();
    assert_eq!(trained["steps"], 3);
    home.run(&format!("generate {} --device cpu -n 3", out.display())).exits_with(0);
    let export = format!("export {} --out {}", out.display(), gguf.display());
    let exported = home.run(&format!("{export} --type q8_0 --json")).exits_with(0).json();
    assert_eq!(exported["schema"], "polaris.export.gguf/1");
    assert_eq!(exported["bytes"], fs::metadata(&gguf).unwrap().len());
    let fields = ["type", "tensors", "vocabulary", "context"].map(|field| &exported[field]);
    assert_eq!(fields, [&"Q8_0".into(), &11.into(), &300.into(), &32.into()]);
    home.run(&export).exits_with(0).says(&["matrices in F16", "300 tokens"]);
    let info =
        home.run(&format!("info {} --device cpu --json", gguf.display())).exits_with(0).json();
    assert_eq!((&info["architecture"], &info["name"]), (&"llama".into(), &"mine".into()));
    home.run(&format!("generate {} --device cpu -p the -n 3", gguf.display())).exits_with(0);
    let onnx = format!("export {} --out {}", out.display(), home.path("mine.onnx").display());
    home.run(&onnx).exits_with(0).says(&["bytes of ONNX"]);
    home.run(&format!("{onnx} --type f16")).exits_with(2).says(&["--type", ".gguf"]);
    home.run(&format!("{export} --type q4_k")).exits_with(2).says(&["q8_0"]);
    home.run("train tiny --set model.kv_heads=3 --device cpu")
        .exits_with(3)
        .says(&["divisor of 4"]);
}

#[test]
fn whatever_kills_a_training_it_ends_with_the_same_bits() {
    let home = Home::with_shared_cache();
    let (whole, cut) = (home.path("whole"), home.path("cut"));
    let train = |out: &Path| format!("{} --set train.epochs=60", train(out));
    assert_eq!(home.run(&train(&whole)).code, Some(0));
    let last = |out: &Path| Checkpoint::list(&out.join("checkpoints")).pop();
    let expected = tensors(&last(&whole).unwrap());
    assert!(expected.keys().any(|name| name.starts_with("optimizer.")));
    let mut kills = 0;
    for attempt in 0u64..40 {
        let resume = if last(&cut).is_some() { " --resume" } else { "" };
        let mut child = home.command(&format!("{}{resume}", train(&cut))).spawn().unwrap();
        // Anywhere: before the first step, between checkpoints, while one is written.
        let moment = Duration::from_millis(40 + attempt * 7919 % 300);
        let begin = Instant::now();
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if kills < 10 && begin.elapsed() > moment {
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
                break None;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        for checkpoint in Checkpoint::list(&cut.join("checkpoints")) {
            assert_eq!(tensors(&checkpoint).len(), expected.len());
        }
        if let Some(status) = ended {
            assert!(status.success());
            break;
        }
    }
    assert_eq!(kills, 10, "the training was too short to be killed so often");
    assert!(tensors(&last(&cut).unwrap()) == expected, "the weights differ after {kills} kills");
    // Nor is anything said twice about a step.
    let log = fs::read_to_string(cut.join("log.jsonl")).unwrap();
    let steps: Vec<&str> = log.lines().filter(|line| line.contains("\"event\":\"step\"")).collect();
    assert_eq!(steps.len(), 60 * 1438usize.div_ceil(32));
}

#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let home = Home::with_shared_cache();
    let out = home.path("run");
    let arguments = format!("{} --set train.epochs=1000", train(&out));
    let child = home.command(&arguments).spawn().unwrap();
    let begin = Instant::now();
    while Checkpoint::list(&out.join("checkpoints")).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60), "no checkpoint came");
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let answer = common::Answer::from(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{}", answer.stderr);
    assert!(answer.stdout.contains("--resume"), "{}", answer.stdout);
    let saved = Checkpoint::list(&out.join("checkpoints")).pop().unwrap();
    assert!(answer.stdout.contains(&saved.display().to_string()), "{}", answer.stdout);
    // What it says works, and only so much may be changed.
    let hint = format!("train {0}/config.toml --out {0} --resume", out.display());
    assert!(answer.stdout.replace('\'', "").contains(&hint), "{}", answer.stdout);
    let other = home.run(&format!("{hint} --set train.seed=5"));
    assert!(other.stderr.contains("`train.seed` differ"), "{}", other.stderr);
    let answer = home.run(&format!("{hint} --set train.epochs=1"));
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
}

#[test]
fn classes_of_other_data_are_those_of_the_model() {
    let home = Home::with_shared_cache();
    let rows = |names: [&str; 2]| -> String {
        (0..80).map(|i| format!("{},{}\n", i % 2, names[i % 2])).collect()
    };
    fs::write(home.path("a.csv"), format!("x,kind\n{}", rows(["cat", "dog"]))).unwrap();
    fs::write(home.path("b.csv"), "x,kind\n1,dog\n1,dog\n0,dog\n1,dog\n").unwrap();
    fs::write(home.path("c.csv"), "x,kind\n1,ant\n").unwrap();
    let config = home.path("a.toml");
    let text = "[model]\nkind = \"mlp\"\n[data]\nsource = \"csv\"\npath = \"a.csv\"\n\
                [optim]\nlr = 0.01\n[train]\nepochs = 40\n";
    fs::write(&config, text).unwrap();
    let out = home.path("out");
    let answer = home.run(&format!("train {} --out {}", config.display(), out.display()));
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let test = |name: &str| {
        let path = home.path(name);
        home.run(&format!("eval {} --all --set data.path={} --json", out.display(), path.display()))
    };
    let found = test("b.csv").json();
    assert_eq!((&found["examples"], &found["accuracy"]), (&4.into(), &0.75.into()), "{found}");
    assert_eq!(found["confusion"].to_string(), "[[0,0],[1,3]]");
    let unknown = test("c.csv");
    assert!(unknown.stderr.contains("ant"), "{}", unknown.stderr);
}

#[test]
fn early_stopping_is_the_same_after_a_resumption() {
    let home = Home::with_shared_cache();
    let out = home.path("run");
    // A rate of almost nothing: no evaluation is better than the first.
    let arguments = format!(
        "{} --set optim.lr=1e-30 --set train.patience=2 --set train.epochs=50 --json",
        train(&out)
    );
    let first = home.run(&arguments).json();
    assert_eq!(first["ended"], "no progress any more", "{first}");
    let again = home.run(&format!("{arguments} --resume")).json();
    assert_eq!((&again["ended"], &again["steps"]), (&first["ended"], &first["steps"]));
}

#[test]
fn a_loss_that_is_no_number_ends_it_with_step_and_layer() {
    let home = Home::with_shared_cache();
    let out = home.path("run");
    let far = "--set optim.kind=sgd --set optim.lr=1e38 --set schedule.warmup=0";
    let answer = home.run(&format!("{} {far}", train(&out)));
    assert_eq!(answer.code, Some(3));
    assert!(
        answer.stderr.contains("at step 1;") || answer.stderr.contains("at step 2;"),
        "{}",
        answer.stderr
    );
    assert!(
        answer.stderr.contains('`') && answer.stderr.contains("not finite"),
        "{}",
        answer.stderr
    );
}

#[test]
fn too_little_memory_is_told_with_a_batch_that_fits() {
    let home = Home::with_shared_cache();
    let small = "--set model.batch_norm=false --set train.batch=1024 --memory-limit cpu=3MiB";
    let answer = home.run(&format!("{} {small}", train(&home.path("run"))));
    assert_eq!(answer.code, Some(3));
    let message = &answer.stderr;
    assert!(message.contains("a batch of 1024 does not fit"), "{message}");
    assert!(message.contains("live, largest first"), "{message}");
    let fits = message.split("--set train.batch=").nth(1).expect(message);
    let fits: String = fits.chars().take_while(char::is_ascii_digit).collect();
    // It really does.
    let small = format!("--set train.batch={fits} --set train.epochs=1");
    let small = format!("{small} --set model.batch_norm=false --memory-limit cpu=3MiB");
    let answer = home.run(&format!("{} {small}", train(&home.path("smaller"))));
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
}

#[test]
fn a_full_disk_leaves_the_last_checkpoint() {
    let home = Home::with_shared_cache();
    let out = home.path("run");
    assert_eq!(home.run(&format!("{} --set train.epochs=1", train(&out))).code, Some(0));
    let before = Checkpoint::list(&out.join("checkpoints"));
    let wanted = tensors(before.last().unwrap());
    // Files may not grow beyond some blocks: as on a full disk, a write fails in the middle.
    let polaris = home.command(&format!("{} --resume", train(&out)));
    let words: Vec<_> = polaris.get_args().map(|word| word.to_string_lossy()).collect();
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec {} {}",
        env!("CARGO_BIN_EXE_polaris"),
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
    );
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script);
    shell.env("POLARIS_CACHE_DIR", home.cache()).env("POLARIS_DATA_DIR", home.data());
    let answer = common::Answer::of(&mut shell);
    assert_eq!(answer.code, Some(3), "{}", answer.stderr);
    assert_eq!(Checkpoint::list(&out.join("checkpoints")), before);
    assert_eq!(tensors(before.last().unwrap()), wanted);
}

#[test]
fn data_and_configurations_are_refused_with_file_line_and_reason() {
    let home = Home::with_shared_cache();
    let config = home.path("mine.toml");
    let table = home.path("table.csv");
    let write = |data: &str, rest: &str| {
        let text = format!(
            "[model]\nkind = \"mlp\"\n[data]\nsource = \"csv\"\npath = \"table.csv\"\n{data}\n{rest}"
        );
        fs::write(&config, text).unwrap();
    };
    let run =
        || home.run(&format!("train {} --out {}", config.display(), home.path("out").display()));
    fs::write(&table, "a,b,kind\n1,2,x\n3,4,y\n5,six,x\n").unwrap();
    for (data, rest, parts) in [
        ("target = \"knd\"", "", &["table.csv", "knd", "kind"][..]),
        ("target = \"kind\"", "", &["table.csv", "4", "six"][..]),
        (
            "target = \"kind\"",
            "[train]\nepoch = 3",
            &["mine.toml", "epoch", "did you mean `epochs`"][..],
        ),
        ("target = \"kind\"\npath = \"none.csv\"", "", &["mine.toml"][..]),
        ("target = \"kind\"", "[optim]\nlr = \"fast\"", &["mine.toml", "[optim]"][..]),
    ] {
        write(data, rest);
        let answer = run();
        assert_eq!(answer.code, Some(3), "{}", answer.stderr);
        for part in parts {
            assert!(answer.stderr.contains(part), "{part}: {}", answer.stderr);
        }
        assert!(!home.path("out").exists(), "nothing should have been written");
    }
    // What is right is learned.
    let rows: String =
        (0..60).map(|i| format!("{},{},{}\n", i % 7, i % 2, ["x", "y"][i % 2])).collect();
    fs::write(&table, format!("a,b,kind\n{rows}")).unwrap();
    write("target = \"kind\"", "[optim]\nlr = 0.01\n[train]\nepochs = 30");
    let answer = run();
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    assert!(answer.stdout.contains("100.00 % right"), "{}", answer.stdout);
}

#[test]
fn a_small_gpt_learns_to_repeat_and_writes() {
    let home = Home::with_shared_cache();
    let text = home.path("text.txt");
    fs::write(&text, "the cat sat on the mat. ".repeat(200)).unwrap();
    let config = home.path("gpt.toml");
    fs::write(
        &config,
        "[model]\nkind = \"gpt\"\nlayers = 1\nwidth = 32\nheads = 2\n[data]\nsource = \"text\"\n\
         path = \"text.txt\"\ncontext = 35\n[optim]\nlr = 0.01\n[train]\nepochs = 40\nbatch = 16\n",
    )
    .unwrap();
    let out = home.path("out");
    let answer = home.run(&format!("train {} --out {}", config.display(), out.display()));
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let written = home
        .run(&format!("generate {} --prompt the --tokens 40 --temperature 0 --json", out.display()))
        .json();
    let text =
        format!("{}{}", written["prompt"].as_str().unwrap(), written["text"].as_str().unwrap());
    assert!("the cat sat on the mat. ".repeat(4).contains(&text), "{text}");
    let none = home.run("generate nowhere");
    assert_eq!(none.code, Some(3));
    assert!(none.stderr.contains("there is no model"), "{}", none.stderr);
}

#[test]
fn two_trainings_do_not_write_to_one_folder() {
    let home = Home::with_shared_cache();
    let out = home.path("run");
    let held = RunFolder::open(&out).unwrap();
    let answer = home.run(&train(&out)).exits_with(3);
    assert!(answer.stderr.contains("run: another training is writing"), "{}", answer.stderr);
    assert!(!out.join("config.toml").exists());
    drop(held);
    home.run(&format!("{} --set train.epochs=1", train(&out))).exits_with(0);
}

#[test]
fn a_training_that_was_killed_before_its_first_checkpoint_begins_again() {
    let home = Home::with_shared_cache();
    let out = home.path("run");
    // As it is when it is killed in the first steps.
    drop(RunFolder::open(&out).unwrap());
    fs::write(out.join("config.toml"), "").unwrap();
    fs::write(out.join("log.jsonl"), "{\"event\":\"step\",\"step\":1}\n{\"ev").unwrap();
    let train = format!("{} --set train.epochs=1", train(&out));
    let answer = home.run(&format!("{train} --resume")).exits_with(3);
    assert!(answer.stderr.contains("leave --resume out"), "{}", answer.stderr);
    home.run(&train).exits_with(0);
    let log = fs::read_to_string(out.join("log.jsonl")).unwrap();
    assert_eq!(log.matches("\"step\":1,").count(), 1, "{log}");
    // What no training made is not overwritten.
    let mine = home.path("mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("model.safetensors"), "mine").unwrap();
    home.run(&format!("train digits --out {}", mine.display())).exits_with(3);
    assert_eq!(fs::read_dir(&mine).unwrap().count(), 1);
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_is_used() {
    let home = Home::with_shared_cache();
    let out = home.path("run");
    home.run(&format!("{} --set train.epochs=1", train(&out))).exits_with(0);
    let checkpoints = Checkpoint::list(&out.join("checkpoints"));
    let [.., before, newest] = &checkpoints[..] else { panic!("{checkpoints:?}") };
    let mut bytes = fs::read(newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(newest, bytes).unwrap();
    let answer = home.run(&format!("{} --set train.epochs=2 --resume", train(&out))).exits_with(0);
    let newest = newest.display().to_string();
    assert_eq!(answer.notes_with(&newest), 1, "{}", answer.stderr);
    assert!(answer.stderr.contains("it is damaged"), "{}", answer.stderr);
    let going_on = format!("going on from {}", before.display());
    assert!(answer.stdout.contains(&going_on), "{}", answer.stdout);
}

#[test]
fn mistakes_of_the_command_line_end_with_2() {
    let home = Home::with_shared_cache();
    let out = home.path("run");
    for (change, part) in [
        ("optim", "optim.lr=1e-3"),
        ("optm.lr=1", "did you mean `optim`"),
        ("optim.lrr=1", "did you mean `lr`"),
        ("train.batch=0", "train.batch must be at least 1"),
        ("data.path=a.csv", "data.path is set, and data.source = \"digits\" does not use it"),
    ] {
        let answer = home.run(&format!("{} --set {change}", train(&out)));
        answer.exits_with(2).says(&[part]);
    }
    assert!(!out.exists());
}

#[cfg(unix)]
#[test]
fn special_files_are_refused_at_once() {
    let home = Home::with_shared_cache();
    let (fifo, config) = (home.path("fifo"), home.path("a.toml"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    home.run(&format!("train {}", fifo.display())).exits_with(3).says(&["fifo", "a FIFO"]);
    home.run("train /dev/zero").exits_with(3).says(&["/dev/zero", "a device"]);
    for source in ["csv", "npz", "text"] {
        let model = if source == "text" { "gpt" } else { "mlp" };
        let text = format!(
            "[model]\nkind = \"{model}\"\n[data]\nsource = \"{source}\"\npath = \"fifo\"\n"
        );
        fs::write(&config, text).unwrap();
        let answer =
            home.run(&format!("train {} --out {}", config.display(), home.path("out").display()));
        answer.exits_with(3).says(&["fifo", "a FIFO"]);
    }
    home.run(&format!("eval {}", fifo.display())).exits_with(3).says(&["a FIFO"]);
}

#[test]
fn names_from_files_do_not_reach_the_terminal_as_they_are() {
    let home = Home::with_shared_cache();
    let rows: String =
        (0..40).map(|i| format!("{},{}\n", i % 2, ["cat", "\u{1b}[31mdog"][i % 2])).collect();
    fs::write(home.path("a.csv"), format!("x\u{1b}]0;title\u{7},kind\n{rows}")).unwrap();
    let config = home.path("a.toml");
    let write = |target: &str| {
        let text = format!(
            "[model]\nkind = \"mlp\"\n[data]\nsource = \"csv\"\npath = \"a.csv\"\n{target}[train]\nepochs = 1\n"
        );
        fs::write(&config, text).unwrap();
    };
    let out = home.path("out");
    let train = format!("train {} --out {}", config.display(), out.display());
    write("target = \"y\"\n");
    let answer = home.run(&train).exits_with(3);
    assert!(answer.stderr.contains("\\u{1b}]0;title\\u{7}"), "{}", answer.stderr);
    assert!(!answer.text().contains('\u{1b}'), "{}", answer.stderr);
    write("");
    home.run(&train).exits_with(0);
    let answer = home.run(&format!("eval {}", out.display())).exits_with(0);
    assert!(answer.stdout.contains("\\u{1b}[31mdog") && !answer.text().contains('\u{1b}'));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(!page.contains('\u{1b}'));
    let answer = home.run("no-such-\u{1b}[31m-command").exits_with(2);
    assert!(!answer.text().contains('\u{1b}'), "{}", answer.stderr);
}
