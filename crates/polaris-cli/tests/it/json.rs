//! `--json`: one document on stdout, with a schema and the fields that programs rely on.

use crate::common::Home;
use serde_json::Value;

#[track_caller]
fn is_positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0 && number.is_finite())
}

/// The rows of a benchmark.
#[track_caller]
fn rows(document: &Value) -> &[Value] {
    document["results"].as_array().expect("a list of results")
}

#[test]
fn bench_memory_gives_rates_beside_their_baselines() {
    let arguments = "bench memory --size 1MiB --device cpu --json";
    let bench = Home::new().run(arguments).exits_with(0).json();
    assert_eq!(bench["schema"], "polaris.bench.memory/1");
    assert_eq!(bench["bytes"], 1 << 20);
    let names: Vec<&str> = rows(&bench).iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["copy", "add", "sum"]);
    for row in rows(&bench) {
        assert_eq!(row["device"], "cpu");
        assert!(!row["baseline"].as_str().unwrap().is_empty());
        for field in ["gbs", "baseline_gbs", "ratio", "memcpy_gbs"] {
            assert!(is_positive(&row[field]), "{field} in {row:#}");
        }
        let ratio = row["gbs"].as_f64().unwrap() / row["baseline_gbs"].as_f64().unwrap();
        assert!((row["ratio"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-9, "{row:#}");
    }
}

#[test]
fn bench_memory_on_opencl_compares_with_the_devices_own_copy() {
    let home = Home::with_shared_cache();
    if !home.has_opencl() {
        return;
    }
    let arguments = "bench memory --size 1MiB --device opencl:0 --json --no-first-check";
    let bench = home.run(arguments).exits_with(0).json();
    assert_eq!(rows(&bench).len(), 3);
    for row in rows(&bench) {
        assert_eq!(row["device"], "opencl:0");
        assert_eq!(row["baseline"], "device's own copy");
        assert!(is_positive(&row["gbs"]) && is_positive(&row["ratio"]), "{row:#}");
        assert!(row["memcpy_gbs"].is_null());
    }
}

#[test]
fn bench_launch_gives_microseconds_and_on_opencl_what_is_added_to_a_bare_enqueue() {
    let home = Home::with_shared_cache();
    let bench = home.run("bench launch --device cpu --json").exits_with(0).json();
    assert_eq!(bench["schema"], "polaris.bench.launch/1");
    assert!(is_positive(&bench["elements"]));
    assert_eq!(rows(&bench).len(), 2);
    for row in rows(&bench) {
        assert_eq!(row["device"], "cpu");
        assert!(is_positive(&row["us"]), "{row:#}");
        assert!(row["baseline_us"].is_null() && row["added_us"].is_null(), "{row:#}");
    }
    if home.has_opencl() {
        let arguments = "bench launch --device opencl:0 --json --no-first-check";
        let bench = home.run(arguments).exits_with(0).json();
        assert_eq!(rows(&bench).len(), 3);
        for row in rows(&bench) {
            assert!(is_positive(&row["us"]) && is_positive(&row["baseline_us"]), "{row:#}");
            assert!(row["added_us"].is_number(), "{row:#}");
        }
    }
}

#[test]
fn cache_counts_programs_and_clears_them() {
    let home = Home::new();
    let empty = home.run("cache --json").exits_with(0).json();
    assert_eq!(empty["schema"], "polaris.cache/1");
    assert_eq!(empty["folder"], home.cache().join("programs").to_str().unwrap());
    assert_eq!((&empty["programs"], &empty["bytes"]), (&0.into(), &0.into()));
    // Weights and costs are counted and removed as well.
    for (folder, name) in [("packed", "0.pack"), ("costs", "cpu.json")] {
        std::fs::create_dir_all(home.cache().join(folder)).unwrap();
        std::fs::write(home.cache().join(folder).join(name), [0; 7]).unwrap();
        let filled = home.run("cache --json").exits_with(0).json();
        assert_eq!((&filled[folder]["files"], &filled[folder]["bytes"]), (&1.into(), &7.into()));
    }
    let cleared = home.run("cache --clear --json").exits_with(0).json();
    assert_eq!(cleared["removed"], 2);
    assert_eq!((&cleared["packed"]["files"], &cleared["costs"]["files"]), (&0.into(), &0.into()));
    // Looking at a device builds the programs that probe it.
    if !home.has_opencl() {
        return;
    }
    let filled = home.run("cache --json").exits_with(0).json();
    assert!(is_positive(&filled["programs"]) && is_positive(&filled["bytes"]), "{filled:#}");
    let cleared = home.run("cache --clear --json").exits_with(0).json();
    assert_eq!(cleared["removed"], filled["programs"]);
    assert_eq!((&cleared["programs"], &cleared["bytes"]), (&0.into(), &0.into()));
}

#[test]
fn quickstart_holds_the_machine_and_its_check() {
    let home = Home::new();
    let start = home.run("quickstart --json --device cpu").exits_with(0).json();
    assert_eq!(start["schema"], "polaris.quickstart/1");
    assert_eq!(start["check"]["ok"], true);
    assert_eq!(start["check"]["devices"].as_array().unwrap().len(), 1);
    assert_eq!(start["check"]["devices"][0]["device"], "cpu");
    assert!(!start["machine"]["hardware"]["cpu"]["name"].as_str().unwrap().is_empty());
    let cpu = &start["machine"]["devices"][0];
    assert_eq!(cpu["id"], "cpu");
    assert_eq!(cpu["profile"]["check"]["status"], "passed");
    for field in ["fp32_gflops", "memory_gbs", "launch_us"] {
        assert!(is_positive(&cpu["profile"]["measured"][field]), "{field} in {cpu:#}");
    }
    let products = start["matmul"].as_array().unwrap();
    assert_eq!(products.iter().map(|row| row["n"].as_u64().unwrap()).next(), Some(512));
    assert!(products.len() == 3 && is_positive(&products[0]["gflops"]), "{products:#?}");
    let digits = &start["digits"][0];
    assert_eq!((&digits["device"], &digits["digits"]), (&"cpu".into(), &359.into()));
    assert!(digits["right"].as_u64().unwrap() > 340, "{digits:#}");
    let pictures = start["pictures"].as_array().unwrap();
    assert_eq!(pictures.len(), 4);
    let rows = pictures[0]["rows"].as_array().unwrap();
    assert!(rows.len() == 8 && rows.iter().all(|row| row.as_str().unwrap().len() == 16));
    assert_eq!((&start["modes"]["ok"], &start["modes"]["quick"]), (&true.into(), &true.into()));
    assert_eq!(start["modes"]["results"].as_array().unwrap().len(), 8);
    assert!(home.profile().exists());
}

/// Programs are written by that page.
#[test]
fn every_schema_is_documented() {
    fn collect(folder: &std::path::Path, schemas: &mut std::collections::BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, schemas);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let literals = text.split('"').filter(|part| part.starts_with("polaris."));
            let versioned = literals.filter(|part| {
                part.split_once('/').is_some_and(|(_, version)| version.parse::<u32>().is_ok())
            });
            schemas.extend(versioned.map(str::to_owned));
        }
    }
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut schemas = std::collections::BTreeSet::new();
    collect(&crates.join("src"), &mut schemas);
    assert!(schemas.len() > 20 && schemas.contains("polaris.bench.modes/1"), "{schemas:?}");
    let page = std::fs::read_to_string(crates.join("../../docs/json.md")).unwrap();
    for schema in schemas {
        assert!(page.contains(&format!("`{schema}`")), "docs/json.md does not list {schema}");
        // What lies in files is described with what prints it.
        if schema != "polaris.gemm-results/1" {
            assert!(page.contains(&format!("\n## {schema}\n")), "no section on {schema}");
        }
    }
}

#[test]
fn completions_and_failures_are_documents_too() {
    let home = Home::new();
    let script = home.run("completions fish --json").exits_with(0).json();
    assert_eq!(script["schema"], "polaris.completions/1");
    assert_eq!(script["shell"], "fish");
    assert!(script["script"].as_str().unwrap().contains("polaris"));
    let failure = home.run("devices --device opencl:9 --json").exits_with(2).json();
    assert_eq!(failure["schema"], "polaris.error/1");
    assert_eq!(failure["exit_code"], 2);
    assert!(failure["error"].as_str().unwrap().contains("opencl:9"));
}
