//! `polaris bench gemm`: figures of matmuls, and the files made of them.

use crate::common::Home;
use serde_json::Value;

#[track_caller]
fn is_positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0 && number.is_finite())
}

#[test]
fn every_case_has_speed_error_and_spread() {
    let arguments = "bench gemm --device cpu --threads 1 --sizes 32 --shapes 1x48x16 \
                     --dtypes f32,f16,i8 --transpose nn,tt --seconds 0 --json";
    let bench = Home::new().run(arguments).exits_with(0).json();
    assert_eq!(bench["schema"], "polaris.bench.gemm/1");
    let rows = bench["results"].as_array().unwrap();
    assert_eq!(rows.len(), 3 * 2 * 2);
    for row in rows {
        assert_eq!((&row["device"], &row["threads"]), (&"cpu".into(), &1.into()));
        assert_eq!(row["variant"], "default");
        for field in ["gflops", "us", "intensity"] {
            assert!(is_positive(&row[field]), "{field} in {row:#}");
        }
        assert!(row["samples"].as_u64().unwrap() >= 5, "{row:#}");
        let allowed = match row["dtype"].as_str().unwrap() {
            "f32" => 1e-6,
            "f16" => 1e-3,
            _ => 0.0,
        };
        assert!(row["error"].as_f64().unwrap() <= allowed, "{row:#}");
        assert!(row["cv"].as_f64().unwrap() >= 0.0);
        assert_eq!(row["roofline_share"].is_null(), row["dtype"] == "i8");
        assert_eq!(row["peers"].as_array().unwrap().len(), 0);
    }
    let shape = ["m", "n", "k"].map(|field| rows[1][field].as_u64().unwrap());
    assert_eq!(shape, [1, 48, 16]);
}

#[test]
fn an_epilogue_is_measured_fused_and_apart() {
    let arguments = "bench gemm --device cpu --sizes 40 --epilogue bias-gelu --seconds 0 --json";
    let bench = Home::new().run(arguments).exits_with(0).json();
    let rows = bench["results"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["variant"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "bias-gelu fused", "bias-gelu separate"]);
    assert!(rows[0]["time_by_plain"].is_null());
    for row in rows {
        assert!(row["error"].as_f64().unwrap() < 1e-6, "{row:#}");
    }
    assert!(is_positive(&rows[1]["time_by_plain"]) && is_positive(&rows[2]["time_by_plain"]));
}

#[test]
fn opencl_variants_and_the_default_agree() {
    let home = Home::with_shared_cache();
    if !home.has_opencl() {
        return;
    }
    let arguments = "bench gemm --device opencl:0 --sizes 24 --variants default,simple --seconds 0 \
                     --json --no-first-check";
    let bench = home.run(arguments).exits_with(0).json();
    let rows = bench["results"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["variant"], "simple");
    for row in rows {
        assert!(row["error"].as_f64().unwrap() < 1e-6, "{row:#}");
        assert!(row["kernel"].as_str().unwrap().starts_with("matmul_f32_"), "{row:#}");
    }
}

#[test]
fn results_become_a_page_and_files() {
    let home = Home::new();
    let (page, folder) = (home.path("gemm.html"), home.path("results"));
    let arguments = format!(
        "bench gemm --device cpu --sweep 16:32:8 --seconds 0 --report {} --save {}",
        page.display(),
        folder.display()
    );
    home.run(&arguments).exits_with(0).says(&["f32", "GFLOPS", "roofline", "wrote the report to"]);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<svg") && html.contains("polaris bench gemm --device cpu --sweep"));
    assert!(!html.contains("http"), "the page should need nothing else");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&files[0]).unwrap()).unwrap();
    assert_eq!(kept["schema"], "polaris.gemm-results/1");
    assert_eq!(kept["runs"][0]["results"].as_array().unwrap().len(), 3);
}

#[test]
fn what_does_not_fit_is_skipped_and_slips_are_answered() {
    let home = Home::new();
    let arguments =
        "bench gemm --device cpu --sizes 2000000000,16 --seconds 0 --json --memory-limit cpu=64MiB";
    let answer = home.run(arguments).exits_with(0);
    assert_eq!(answer.notes_with("is skipped"), 1, "{answer:#?}");
    let bench = answer.json();
    assert_eq!(bench["results"].as_array().unwrap().len(), 1);
    assert_eq!(bench["skipped"][0]["m"], 2_000_000_000);
    for (wrong, word) in [
        ("--sizes 0", "at least 1"),
        ("--sizes 99999999999", "too large"),
        ("--sizes many", "whole number"),
        ("--shapes 1x2", "MxNxK"),
        ("--sweep 9:3:1", "ends before"),
        ("--dtypes f8", "f8"),
        ("--transpose nx", "nx"),
        ("--variants fastest", "hybrid-16"),
        ("--epilogue softmax", "bias-gelu"),
        ("--seconds 9999", "3600 seconds"),
    ] {
        home.run(&format!("bench gemm {wrong}")).exits_with(2).says(&[word]);
    }
}
