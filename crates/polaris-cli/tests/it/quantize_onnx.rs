//! `polaris quantize` of ONNX models, and `polaris compare`, with the digits that are built in.

use std::path::PathBuf;

use crate::common::Home;

fn digits() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits.onnx");
    path.display().to_string()
}

#[test]
fn a_classifier_becomes_int8_and_keeps_its_answers() {
    let home = Home::new();
    let (model, small, page) = (digits(), home.path("int8.onnx"), home.path("int8.html"));
    let planned = home.run(&format!("quantize {model} --dry-run --json")).exits_with(0).json();
    assert!(planned["path"].is_null() && planned["bytes"].is_null());
    assert_eq!(planned["layers"].as_array().unwrap().len(), 2);
    let (small, html) = (small.display(), page.display());
    let done = home
        .run(&format!(
            "quantize {model} --data digits --samples 100 --calibration mse --method bias-correction \
             --method weight-search --method equalize -o {small} --html {html} --json"
        ))
        .exits_with(0)
        .json();
    assert_eq!(
        (&done["schema"], &done["samples"]),
        (&"polaris.quantize.onnx/1".into(), &100.into())
    );
    assert_eq!(done["equalized"], 1);
    for layer in done["layers"].as_array().unwrap() {
        assert_eq!(layer["type"], "int8");
        assert!(layer["sqnr_db"].as_f64().unwrap() > 25.0, "{layer}");
    }
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("Signal-to-noise") && !text.contains("http://"));
    let found = home
        .run(&format!("compare {model} {small} --data digits --samples 400 --json"))
        .exits_with(0)
        .json();
    let classes = &found["outputs"][0]["classes"];
    assert_eq!(classes["rows"], 400);
    assert!(classes["top1_agreement"].as_f64().unwrap() > 0.98, "{found}");
    let [before, after] = [0, 1].map(|at| classes["accuracy"][at].as_f64().unwrap());
    assert!(before > 0.9 && (before - after).abs() < 0.01, "{found}");
    home.run(&format!("compare {model} {model} --data digits --samples 20"))
        .exits_with(0)
        .says(&["no difference", "100.00 %"]);
}

#[test]
fn weights_of_four_bits_keep_answers_with_and_without_samples() {
    let home = Home::new();
    let (model, small) = (digits(), home.path("int4.onnx").display().to_string());
    let quantize = |options: &str| home.run(&format!("quantize {model} -o {small} {options}"));
    let accuracy = || {
        let found =
            home.run(&format!("compare {model} {small} --data digits --samples 400 --json"));
        let found = found.exits_with(0).json();
        let of = |at: usize| found["outputs"][0]["classes"]["accuracy"][at].as_f64().unwrap();
        assert!((of(0) - of(1)).abs() < 0.015, "{found}");
    };
    let searched = "--weights int4 --data digits --samples 100 --method gptq --json";
    let done = quantize(searched).exits_with(0).json();
    for layer in done["layers"].as_array().unwrap() {
        assert_eq!(layer["type"], "int4 weight, int8 activations");
    }
    accuracy();
    // Nothing else is rounded: no samples are needed, and those that are there serve GPTQ alone.
    for method in ["", "--method hqq", "--method gptq --data digits --damping 0.02"] {
        let done = quantize(&format!("--weights int4 --group 32 {method} --json"));
        let done = done.exits_with(0).json();
        assert_eq!(done["layers"][0]["type"], "int4 weight");
        assert_eq!(done["samples"], if method.contains("data") { 512 } else { 0 });
        accuracy();
    }
    let said = |options: &str, what: &[&str]| quantize(options).exits_with(2).says(what);
    said("--weights int4", &["--data"]);
    said("--weights int4 --group 32 --method gptq", &["--data"]);
    said("--weights int4 --group 32 --method smooth", &["--data"]);
    let done = quantize("--data digits --samples 64 --method smooth --json").exits_with(0).json();
    assert_eq!(done["smoothed"], 0);
    said("--weights int4 --group 32 --method gptq --method hqq", &["name one of them"]);
    said("--weights int4 --group 32 --sweeps 3", &["--sweeps is for --method gptq"]);
    said("--window 3", &["--window is not for models in ONNX"]);
}

#[test]
fn histograms_are_kept_and_added_to() {
    let home = Home::new();
    let (model, small, kept) = (digits(), home.path("int8.onnx"), home.path("kept.json"));
    let (small, shown) = (small.display(), kept.display());
    let run = |samples: u32, more: &str| {
        home.run(&format!(
            "quantize {model} --data digits --samples {samples} -o {small} --histograms {shown} --json {more}"
        ))
    };
    run(32, "").exits_with(0);
    let again = run(64, "").exits_with(0);
    assert!(again.stderr.contains("32 samples"), "{again:#?}");
    let grown = std::fs::read(&kept).unwrap();
    assert_eq!(again.json()["samples"], 64);
    std::fs::remove_file(&kept).unwrap();
    run(64, "").exits_with(0);
    assert_eq!(std::fs::read(&kept).unwrap(), grown);
    let other = run(64, "--method equalize").exits_with(3);
    assert!(other.stderr.contains("another model"), "{other:#?}");
    std::fs::write(&kept, "{}").unwrap();
    run(64, "").exits_with(3);
}

#[test]
fn mistakes_are_explained_and_leave_nothing() {
    let home = Home::new();
    let (model, small) = (digits(), home.path("int8.onnx"));
    let shown = small.display();
    let says = |arguments: &str, code: u8, part: &str| {
        let done =
            home.run(&format!("quantize {model} -o {shown} {arguments}")).exits_with(code.into());
        assert!(done.stderr.contains(part), "{arguments}: {done:#?}");
        assert!(!small.exists());
    };
    says("", 2, "--data");
    says("--data digits --type Q4_0", 2, "--type");
    says("--data digits --calibration mse --percent 99", 2, "--percent");
    says("--data digits --percent 20", 3, "20 %");
    says("--data digits --exclude nothing", 3, "nothing");
    says("--data missing.npy", 3, "missing.npy");
    let empty = home.path("empty");
    std::fs::create_dir(&empty).unwrap();
    says(&format!("--data {}", empty.display()), 3, "no samples");
    let rows = home.path("rows.npy");
    let array = |dims: &[usize], value: f32| {
        let count: usize = dims.iter().product();
        let bytes: Vec<u8> = std::iter::repeat_n(value.to_le_bytes(), count).flatten().collect();
        std::fs::write(&rows, polaris_data::npy_file("f4", dims, &bytes)).unwrap();
    };
    let data = format!("--data {}", rows.display());
    array(&[3, 60], 0.5);
    says(&data, 3, "do not fit");
    array(&[0, 64], 0.5);
    says(&data, 3, "no samples");
    array(&[3, 64], 0.5);
    says(&data, 3, "`input` is 0.5 in all");
    says(&data, 3, "--exclude");
    array(&[3, 64], f32::NAN);
    says(&data, 3, "`input` has a value that is not finite");
    let gguf = home.path("model.gguf");
    std::fs::write(&gguf, crate::tiny_llm::Tiny::LLAMA.bytes()).unwrap();
    let done =
        home.run(&format!("quantize {} --data digits -o {shown}", gguf.display())).exits_with(2);
    assert!(done.stderr.contains("--data"), "{done:#?}");
    // Language models are compared on a text, and this is none.
    let done = home.run(&format!("compare {0} {0} --data digits", gguf.display())).exits_with(3);
    assert!(done.stderr.contains("cannot read digits"), "{done:#?}");
}
