//! `polaris tune`: faults of drivers are recorded and never chosen, nothing that was measured is
//! lost, and a second run goes on where the first one ended.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::{self, Home};
use serde_json::Value;

/// A search that is the same every time, so that programs are built once for all tests.
const SEARCH: &str =
    "tune gemm --device opencl:0 --no-first-check --strategy random --seed 3 --json";

fn records(home: &Home) -> Vec<Value> {
    let folder = home.data().join("tuning");
    let files = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let lines = files.filter(|path| path.extension().is_some_and(|e| e == "jsonl"));
    lines
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>()
        })
        .collect()
}

fn failed_as(records: &[Value], kind: &str) -> Vec<Value> {
    let is_kind = |record: &&Value| record["outcome"]["kind"] == kind;
    records.iter().filter(is_kind).map(|record| record["config"].clone()).collect()
}

/// Searches with a fault on each worker's second candidate; gives the row and what failed so.
fn with_fault(fault: &str, kind: &str, options: &str) {
    let home = Home::with_shared_cache();
    if !home.has_opencl() {
        return;
    }
    let mut command =
        home.command(&format!("{SEARCH} --sizes 64 --budget 3evals --workers 1 {options}"));
    command.env("POLARIS_TUNE_INJECT", format!("{fault}=2"));
    let row = common::Answer::of(&mut command).exits_with(0).json()["results"][0].clone();
    assert_eq!((&row["evaluations"], &row["failed"]), (&3.into(), &1.into()), "{row:#}");
    let records = records(&home);
    assert_eq!(records.len(), 3);
    let failed = failed_as(&records, kind);
    assert_eq!(failed.len(), 1, "{records:#?}");
    assert!(!failed.contains(&row["config"]), "{row:#}");
    assert!(row["best_gflops"].as_f64() >= row["default_gflops"].as_f64().map(|g| 0.9 * g));
}

#[test]
fn a_wrong_result_is_recorded_and_not_chosen() {
    with_fault("wrong", "wrong", "");
}

#[test]
fn a_crash_takes_one_candidate_with_it() {
    with_fault("crash", "crash", "");
}

#[test]
fn a_kernel_that_never_returns_is_given_up() {
    // Long enough for a build on a busy machine.
    with_fault("hang", "timeout", "--patience 25");
}

#[test]
fn killed_at_any_moment_a_search_goes_on_where_it_ended() {
    let home = Home::with_shared_cache();
    if !home.has_opencl() {
        return;
    }
    let mut before = 0;
    // Moments that differ in every run of the test.
    let mut state = std::process::id() as u64;
    for _ in 0..20 {
        let mut search =
            home.command(&format!("{SEARCH} --sizes 48 --budget 100evals")).spawn().unwrap();
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_millis(150 + (state >> 33) % 1000));
        // SIGKILL: nothing can be tidied up.
        search.kill().unwrap();
        search.wait().unwrap();
        let now = records(&home).len();
        assert!(now >= before, "{now} of {before} measurements are left");
        before = now;
    }
    let row = home.run(&format!("{SEARCH} --sizes 48 --budget 1evals")).exits_with(0).json();
    let row = &row["results"][0];
    assert_eq!(row["resumed"].as_u64(), Some(before as u64), "{row:#}");
    // No configuration is measured twice.
    let configs: BTreeSet<String> =
        records(&home).iter().map(|record| record["config"].to_string()).collect();
    // With every program cached the searches may have come to the end of the space.
    let space = row["space"].as_u64().unwrap() as usize;
    assert_eq!(configs.len(), (before + 1).min(space));
}

#[test]
fn two_tuners_at_once_lose_nothing() {
    let home = Home::with_shared_cache();
    if !home.has_opencl() {
        return;
    }
    let tuners = ["56", "72"].map(|size| {
        home.command(&format!("{SEARCH} --sizes {size} --budget 4evals --workers 1"))
            .spawn()
            .unwrap()
    });
    for tuner in tuners {
        assert!(tuner.wait_with_output().unwrap().status.success());
    }
    assert_eq!(records(&home).len(), 8);
    let listed = home.run("tune --list --json").exits_with(0).json();
    assert_eq!(listed["problems"].as_array().unwrap().len(), 2, "{listed:#}");
    let file = home.path("all.jsonl");
    home.run(&format!("tune --export {}", file.display())).exits_with(0);
    let other = Home::with_shared_cache();
    other.run(&format!("tune --import {}", file.display())).exits_with(0);
    assert_eq!(records(&other).len(), 8);
    let explained =
        home.run("tune --explain 56,56,56 --device opencl:0 --json").exits_with(0).json();
    assert_eq!(explained["explained"][0]["measurements"], 4, "{explained:#}");
}

#[test]
fn other_kernels_are_tuned_with_the_same_words() {
    let home = Home::with_shared_cache();
    if !home.has_opencl() {
        return;
    }
    let page = home.path("tuned.html");
    let searches = [
        ("gemv --shapes 1x96x128 --layout columns", "gemv", "best_gflops"),
        ("reduce --shapes 3x5000", "reduce", "best_gbs"),
        ("permute --shapes 2x40x70", "permute", "best_gbs"),
    ];
    for (search, operation, rate) in searches {
        let options = "--device opencl:0 --no-first-check --budget 2evals --json";
        let report = page.display();
        let found = home.run(&format!("tune {search} {options} --report {report}")).exits_with(0);
        let row = &found.json()["results"][0];
        assert_eq!(row["operation"], operation, "{row:#}");
        assert_eq!(row["evaluations"], 2, "{row:#}");
        assert!(row[rate].as_f64().unwrap() > 0.0 && row["failed"] == 0, "{row:#}");
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains("<svg") && text.contains(operation), "{text}");
    }
    let listed = home.run("tune --list --json").exits_with(0).json();
    assert_eq!(listed["problems"].as_array().unwrap().len(), 3, "{listed:#}");
    // What was decided is found again, and says so.
    let chosen = home.run("bench select --device opencl:0 --json").exits_with(0).json();
    let row = &chosen["results"][0];
    assert_eq!(row["measured"], 3, "{row:#}");
    assert_eq!(row["predicted"], 0, "{row:#}");
    assert!(row["first_us"].as_f64().unwrap() > 0.0 && row["later_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_card_that_is_not_there_is_predicted() {
    let home = Home::with_shared_cache();
    let file = home.path("gfx803.json");
    let search = "tune gemm --target gfx803 --sizes 512 --budget 4evals --json";
    let found = home.run(&format!("{search} --output {}", file.display()));
    if found.code == Some(3) && found.stderr.contains("clang-15") {
        common::skip("isa", "there is no clang for gfx803");
        return;
    }
    let row = &found.exits_with(0).json()["results"][0];
    assert_eq!(row["predicted"], true, "{row:#}");
    assert_eq!(row["evaluations"], 4, "{row:#}");
    let share = row["share_of_peak"].as_f64().unwrap();
    assert!((0.01..1.0).contains(&share), "{row:#}");
    assert!(row["best_gflops"].as_f64() >= row["default_gflops"].as_f64(), "{row:#}");
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(saved["choices"][0]["predicted"], true, "{saved:#}");
    // Nothing was measured, so nothing is remembered as if it had been.
    assert!(records(&home).is_empty());
    let unknown = home.run("tune gemm --target gfx0 --sizes 64").exits_with(3);
    assert!(unknown.stderr.contains("gfx803"), "{}", unknown.stderr);
}

#[test]
fn mistakes_are_named() {
    let home = Home::with_shared_cache();
    home.run("tune gemm --budget soon").exits_with(2);
    home.run("tune reduce --shapes 5").exits_with(2);
    home.run("tune gemm --device cpu --no-first-check --sizes 8").exits_with(3);
    home.run("tune gemm --target gfx803 --dtype f16").exits_with(3);
    let mut without_clang = home.command("tune gemm --target gfx803 --sizes 64");
    without_clang.env("PATH", home.path("nowhere"));
    let answer = common::Answer::of(&mut without_clang).exits_with(3);
    assert!(answer.stderr.contains("install") && answer.stderr.contains("clang-15"));
    if !home.has_opencl() {
        return;
    }
    let run = |strategy: &str| {
        let search = "tune gemm --device opencl:0 --no-first-check --sizes 8 --budget 1evals";
        home.run(&format!("{search} --strategy {strategy}")).exits_with(3).stderr
    };
    assert!(run("luck").contains("bayesian"), "the strategies that there are");
    assert!(run("guided").contains("predict"), "there is no predictor yet");
    // A file where the folder should be: nothing can be remembered, and the user is told.
    std::fs::create_dir_all(home.data()).unwrap();
    std::fs::write(home.data().join("tuning"), "").unwrap();
    let refused = home.run(&format!("{SEARCH} --sizes 8 --budget 1evals")).exits_with(3);
    assert!(refused.stderr.contains("POLARIS_DATA_DIR"), "{}", refused.stderr);
}

#[test]
fn measurements_are_moved_with_a_document_and_between_regular_files_only() {
    let home = Home::new();
    let file = home.path("all.jsonl");
    let moved = |what: &str| {
        let arguments = format!("tune --{what} {} --json", file.display());
        home.run(&arguments).exits_with(0).json()
    };
    let exported = moved("export");
    assert_eq!(exported["schema"], "polaris.tune.export/1");
    assert_eq!(exported["file"], file.display().to_string());
    assert_eq!(exported["measurements"], 0);
    std::fs::write(&file, "{\"schema\":\n{\"schema\":99}\n").unwrap();
    let imported = moved("import");
    assert_eq!(imported["schema"], "polaris.tune.import/1");
    let counts = ["added", "already_there", "unreadable", "other_schema"];
    assert_eq!(counts.map(|name| imported[name].as_u64().unwrap()), [0, 0, 1, 1]);
    if cfg!(unix) {
        for what in ["export", "import"] {
            home.run(&format!("tune --{what} /dev/null")).exits_with(3).says(&["a device"]);
        }
    }
}
