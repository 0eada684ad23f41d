//! `polaris imatrix`, with a small model of random weights.

use crate::common::Home;
use crate::tiny_llm::Tiny;

#[test]
fn a_calibrated_model_is_quantised_by_importance() {
    let home = Home::new();
    let path = |name: &str| home.path(name).display().to_string();
    let [model, text, whole, part, both, small] =
        ["model.gguf", "text.txt", "whole.gguf", "part.gguf", "both.dat", "small.gguf"].map(path);
    std::fs::write(&model, Tiny { experts: 4, ..Tiny::LLAMA }.bytes()).unwrap();
    std::fs::write(&text, "One, two, three; the stars are where they were. ".repeat(5)).unwrap();
    let run = |options: &str| home.run(&format!("imatrix {options}")).exits_with(0);
    let done = run(&format!("{model} {text} -o {whole} --window 32 --json")).json();
    assert_eq!((&done["schema"], &done["windows"]), (&"polaris.imatrix/1".into(), &7.into()));
    // Three layers of seven matrices and a router, and the output.
    assert_eq!(done["tensors"], 25);
    // A part, and the rest of it.
    run(&format!("{model} {text} -o {part} --window 32 --windows 3 --save-every 2"));
    let three = std::fs::read(&part).unwrap();
    let resumed = run(&format!("{model} {text} -o {part} --window 32 --resume --json")).json();
    assert_eq!(resumed["windows"], 7);
    assert_ne!(std::fs::read(&part).unwrap(), three);
    run(&format!("{model} {text} -o {part} --window 32 --resume")).says(&["7 windows of 32"]);
    let merged = run(&format!("--merge {whole} --merge {part} -o {both} --json")).json();
    assert_eq!((&merged["windows"], &merged["model"]), (&14.into(), &serde_json::Value::Null));
    for imatrix in [&whole, &both] {
        let quantize = format!("quantize {model} -o {small} --type Q4_0 --imatrix {imatrix}");
        home.run(&quantize)
            .exits_with(0)
            .says(&["22 tensors by importance, 1 without", "by importance"]);
        let done = home.run(&format!("{quantize} --json")).exits_with(0).json();
        let tensors = done["tensors"].as_array().unwrap();
        let of = |name: &str| tensors.iter().find(|tensor| tensor["name"] == name).unwrap();
        assert!(of("blk.1.ffn_up_exps.weight")["weighted_error"].as_f64().unwrap() > 0.0);
        assert!(of("token_embd.weight")["weighted_error"].is_null());
    }
}

#[test]
fn mistakes_of_calibration_are_explained() {
    let home = Home::new();
    let path = |name: &str| home.path(name).display().to_string();
    let [model, text, out, bad] = ["model.gguf", "text.txt", "out.gguf", "bad.dat"].map(path);
    std::fs::write(&model, Tiny::LLAMA.bytes()).unwrap();
    std::fs::write(&text, "One, two, three; the stars are where they were. ".repeat(5)).unwrap();
    std::fs::write(&bad, "this is no importance matrix").unwrap();
    let fails = |command: &str, code: i32, word: &str| {
        let failed = home.run(command).exits_with(code);
        assert!(failed.stderr.contains(word), "{failed:#?}");
    };
    fails(&format!("imatrix {model} -o {out}"), 2, "FILE");
    fails(&format!("imatrix {model} {text} -o {out} --merge {bad}"), 2, "--merge");
    fails(&format!("imatrix --merge {bad} -o {out}"), 3, "bad.dat");
    fails(&format!("imatrix {model} {text} -o {out} --window 2000"), 3, "2000");
    fails(&format!("imatrix {model} missing.txt -o {out}"), 3, "missing.txt");
    assert!(!home.path("out.gguf").exists());
    home.run(&format!("imatrix {model} {text} -o {out} --window 32 --windows 1")).exits_with(0);
    let before = std::fs::read(&out).unwrap();
    fails(&format!("imatrix {model} {text} -o {out} --window 16 --resume"), 3, "text.txt");
    assert_eq!(std::fs::read(&out).unwrap(), before);
    let small = home.path("small.gguf").display().to_string();
    fails(&format!("quantize {model} -o {small} --imatrix {model}"), 3, "importance matrix");
    fails(&format!("quantize {model} -o {small} --imatrix {bad}"), 3, "bad.dat");
    assert!(!home.path("small.gguf").exists());
}
