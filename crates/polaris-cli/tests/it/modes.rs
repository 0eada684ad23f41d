//! `polaris bench modes`: figures of every mode, whether they agree, and the page.

use crate::common::{Answer, Home};
use serde_json::Value;

const TITLES: [&str; 8] = [
    "Matrix product 512",
    "Matrix product 1024",
    "Matrix product 2048",
    "Embedding look-up",
    "Multi-head attention",
    "Feed-forward network",
    "Tokenization, 10k tokens",
    "Transformer encoder",
];

fn rows(document: &Value) -> &[Value] {
    document["results"].as_array().expect("a list of results")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_cpu_alone_gives_all_workloads_and_a_page_that_stands_alone() {
    let home = Home::new();
    let page = home.path("modes.html");
    let arguments = format!("bench modes --quick --json --device cpu --html {}", page.display());
    let bench = home.run(&arguments).exits_with(0).json();
    assert_eq!(bench["schema"], "polaris.bench.modes/1");
    assert_eq!((&bench["ok"], &bench["quick"]), (&true.into(), &true.into()));
    assert!(bench["device"].is_null());
    assert!(bench["notes"][0].as_str().unwrap().contains("Only the CPU was selected"));
    let titles: Vec<&str> = rows(&bench).iter().map(|row| row["title"].as_str().unwrap()).collect();
    assert_eq!(titles, TITLES);
    assert_eq!(rows(&bench)[0]["flops"], 2 * 512u64.pow(3));
    for row in rows(&bench) {
        assert_eq!(row["modes"].as_array().unwrap().len(), 1, "{row:#}");
        assert!(row["fastest"].is_null(), "{row:#}");
        let entry = &row["modes"][0];
        assert_eq!(entry["mode"], "cpu");
        if entry["measured"].is_null() {
            // A slow machine.
            assert!(entry["left_out"].as_str().unwrap().contains("s per call"), "{row:#}");
            continue;
        }
        let measured = &entry["measured"];
        assert!(number(&measured["ms"]) >= number(&measured["fastest_ms"]), "{row:#}");
        assert!(number(&measured["fastest_ms"]) > 0.0 && number(&measured["samples"]) >= 3.0);
        assert_eq!(row["flops"].is_null(), measured["gflops"].is_null(), "{row:#}");
        if let Some(flops) = row["flops"].as_f64() {
            let expected = flops / number(&measured["ms"]) / 1e6;
            assert!((number(&measured["gflops"]) / expected - 1.0).abs() < 1e-9, "{row:#}");
        }
    }
    for moved in ["embedding", "tokenization"] {
        let row = rows(&bench).iter().find(|row| row["workload"] == moved).unwrap();
        assert!(row["flops"].is_null(), "{row:#}");
    }
    let html = std::fs::read_to_string(page).unwrap();
    for title in TITLES {
        assert!(html.contains(title), "{title}");
    }
    assert!(html.matches("<svg class=\"plot\"").count() >= 3);
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "NaN"] {
        assert!(!html.contains(outside), "{outside} in the page");
    }
}

#[test]
fn modes_agree_and_the_fastest_is_the_one_with_the_least_time() {
    let home = Home::with_shared_cache();
    if !home.has_opencl() {
        return;
    }
    let only = "bench modes --quick --only matmul-512,embedding,tokenization --no-first-check";
    let bench = home.run(&format!("{only} --json")).exits_with(0).json();
    assert_eq!(bench["ok"], true);
    assert_eq!(bench["device"]["id"], "opencl:0");
    let notes = bench["notes"].to_string();
    assert_eq!(bench["device"]["is_the_cpu"] == true, notes.contains("runs on the CPU"));
    assert_eq!(rows(&bench).len(), 3);
    for row in rows(&bench) {
        let modes = row["modes"].as_array().unwrap();
        let names: Vec<&str> = modes.iter().map(|entry| entry["mode"].as_str().unwrap()).collect();
        assert_eq!(names, ["cpu", "gpu", "hybrid"]);
        if row["workload"] == "tokenization" {
            assert!(row["fastest"].is_null());
            for entry in &modes[1..] {
                assert!(entry["left_out"].as_str().unwrap().contains("on the CPU in every mode"));
            }
            continue;
        }
        let figure = |at: usize, name: &str| &modes[at]["measured"][name];
        for at in [1, 2] {
            assert_eq!(*figure(at, "agrees"), true, "{row:#}");
            assert!(number(figure(at, "difference")) < 1e-5, "{row:#}");
            let speedup = number(figure(0, "ms")) / number(figure(at, "ms"));
            assert!((number(figure(at, "speedup")) / speedup - 1.0).abs() < 1e-9, "{row:#}");
        }
        assert_eq!(*figure(1, "wholly_on_device"), true, "{row:#}");
        assert!(number(figure(2, "predicted_ms")) > 0.0, "{row:#}");
        assert!(["cpu", "gpu", "hybrid"].contains(&figure(2, "chosen").as_str().unwrap()));
        let times = [0, 1, 2].map(|at| number(figure(at, "ms")));
        // Both together, unless all is on one side.
        let modes = if *figure(2, "chosen") == "hybrid" { 3 } else { 2 };
        let fastest = (0..modes).min_by(|&a, &b| times[a].total_cmp(&times[b])).unwrap();
        assert_eq!(row["fastest"], names[fastest], "{row:#}");
    }
    let text = home.run(&format!("{only} --device opencl:0")).exits_with(0);
    text.says(&["Matrix product 512", "hybrid", "predicted ms", "* fastest", "opencl:0"]);
}

#[test]
fn without_opencl_there_is_a_word_how_to_get_it() {
    let home = Home::new();
    let mut command = home.command("bench modes --quick --only embedding");
    let answer = Answer::of(command.env("POLARIS_OPENCL", "off")).exits_with(0);
    answer.says(&["only the CPU is measured", "POLARIS_OPENCL=off", "unset it", "Embedding"]);
    home.run("bench modes --only matmul-7").exits_with(2).says(&["matmul-7", "matmul-512"]);
}

/// A device without room is replaced by the CPU, whose time must not pass for the device's.
#[test]
fn a_device_that_fails_has_no_figures() {
    let home = Home::with_shared_cache();
    if !home.has_opencl() {
        return;
    }
    let arguments = "bench modes --quick --only embedding --json --no-first-check \
                     --memory-limit opencl:0=4MiB";
    let bench = home.run(arguments).exits_with(0).json();
    let modes = &rows(&bench)[0]["modes"];
    assert!(!modes[0]["measured"].is_null());
    for at in [1, 2] {
        assert!(modes[at]["measured"].is_null(), "{modes:#}");
        assert!(modes[at]["left_out"].as_str().unwrap().contains("the device failed"), "{modes:#}");
    }
}
