//! Imported models on the command line: what they take, where their time goes, where they run.

use std::fs;

use crate::common::Home;
use crate::models;
use serde_json::Value;

/// A small classifier of `f32[batch, 2, 8, 8]` in a file.
fn classifier(home: &Home) -> String {
    let path = home.path("classifier.onnx");
    fs::write(&path, models::classifier()).unwrap();
    path.display().to_string()
}

#[track_caller]
fn is_positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0 && number.is_finite())
}

#[test]
fn bench_model_gives_times_in_order_and_memory() {
    let home = Home::new();
    let model = classifier(&home);
    let arguments = format!("bench model {model} --mode cpu --threads 1 --runs 9 --json");
    let bench = home.run(&arguments).exits_with(0).json();
    assert_eq!(bench["schema"], "polaris.bench.model/1");
    assert_eq!((&bench["mode"], &bench["device"]), (&"cpu".into(), &"cpu".into()));
    assert_eq!((&bench["threads"], &bench["runs"]), (&1.into(), &9.into()));
    let time = |field: &str| bench[field].as_f64().unwrap();
    assert!(0.0 < time("min_ms") && time("min_ms") <= time("median_ms"));
    assert!(time("median_ms") <= time("p90_ms"));
    assert!((time("runs_per_second") * time("median_ms") / 1e3 - 1.0).abs() < 1e-9);
    assert!(is_positive(&bench["load_ms"]) && is_positive(&bench["first_ms"]));
    assert!(bench["peak_device_bytes"].is_null() && bench.get("profile").is_none());
    home.run(&format!("bench model {model} --mode cpu --runs 0")).exits_with(2);
}

#[test]
fn a_profile_is_printed_written_as_a_trace_and_remembered() {
    let home = Home::new();
    let model = classifier(&home);
    let trace = home.path("trace.json");
    let arguments = format!(
        "run {model} --mode cpu --random-inputs --repeat 3 --profile {} --json",
        trace.display()
    );
    let run = home.run(&arguments).exits_with(0).json();
    let rows = run["profile"]["rows"].as_array().unwrap();
    assert_eq!(run["profile"]["runs"], 3);
    assert!(!rows.is_empty());
    for row in rows {
        assert!(is_positive(&row["seconds"]) && is_positive(&row["predicted_seconds"]), "{row:#}");
        assert_eq!(row["side"], "cpu");
    }
    let trace: Value = serde_json::from_str(&fs::read_to_string(&trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let complete: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(complete.len(), rows.len());
    // One after another on one track, as viewers expect them.
    let mut end = 0.0;
    for event in complete {
        assert!(event["ts"].as_f64().unwrap() >= end - 1e-3, "{event:#}");
        end = event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap();
        assert!(event["args"]["flops"].is_u64() && event["tid"] == 0);
    }
    assert!(events.iter().any(|event| event["name"] == "thread_name"));
    let costs = fs::read_dir(home.cache().join("costs")).unwrap();
    let files: Vec<_> = costs.map(|entry| entry.unwrap().path()).collect();
    assert!(files.iter().any(|path| path.extension().is_some_and(|end| end == "json")));
    // A damaged file is replaced with a word.
    for file in files {
        fs::write(file, "{ damaged").unwrap();
    }
    let arguments = arguments.replace(" --json", "");
    home.run(&arguments).exits_with(0).says(&[
        "is damaged",
        "convolution",
        "a run without profiling",
    ]);
    let again = home.run(&arguments).exits_with(0);
    assert_eq!(again.notes_with("damaged"), 0, "{again:#?}");
}

#[test]
fn hybrid_shows_what_it_expects_and_measures_once() {
    let home = Home::with_shared_cache();
    let model = classifier(&home);
    if !home.has_opencl() {
        return;
    }
    let _ = fs::remove_dir_all(home.cache().join("costs"));
    let arguments = format!("plan {model} --mode hybrid --no-first-check");
    home.run(&arguments).exits_with(0).says(&["are measured on", "expected: cpu", "chosen: "]);
    let again = home.run(&format!("{arguments} --json")).exits_with(0);
    assert_eq!(again.notes_with("measured"), 0, "{again:#?}");
    let plan = again.json();
    for field in ["cpu", "gpu", "hybrid"] {
        assert!(is_positive(&plan["prediction"][field]), "{plan:#}");
    }
    let chosen = plan["prediction"]["chosen"].as_str().unwrap();
    assert!(["cpu", "gpu", "hybrid"].contains(&chosen));
    for row in plan["instructions"].as_array().unwrap() {
        assert!(is_positive(&row["predicted_us"]), "{row:#}");
    }
    let run = format!("run {model} --mode hybrid --random-inputs --no-first-check --json");
    let hybrid = home.run(&run).exits_with(0).json();
    assert_eq!(hybrid["device"], "cpu+opencl:0");
    let cpu = home.run(&run.replace("hybrid", "cpu")).exits_with(0).json();
    let mean = |run: &Value| run["outputs"][0]["mean"].as_f64().unwrap();
    assert!((mean(&hybrid) - mean(&cpu)).abs() <= 1e-5 * mean(&cpu).abs().max(1.0));
}

#[test]
fn a_mode_and_a_device_that_contradict_each_other_are_a_mistake_of_usage() {
    let home = Home::new();
    let model = classifier(&home);
    let run = |options: &str| home.run(&format!("run {model} --random-inputs --json {options}"));
    for options in ["--mode gpu --device cpu", "--mode hybrid --device cpu"] {
        let answer = run(options).exits_with(2);
        assert!(answer.stderr.contains("does not run on cpu"), "{}", answer.stderr);
    }
    let answer = run("--device cpu").exits_with(0).json();
    assert_eq!(answer["device"], "cpu");
    if !home.has_opencl() {
        return;
    }
    let answer = run("--mode cpu --device opencl:0").exits_with(2);
    assert!(answer.stderr.contains("does not run on opencl:0"), "{}", answer.stderr);
    // The CPU is always there beside a device.
    for options in ["--mode gpu --device cpu --device opencl:0", "--device opencl:0"] {
        assert_eq!(run(options).exits_with(0).json()["device"], "opencl:0");
    }
}
