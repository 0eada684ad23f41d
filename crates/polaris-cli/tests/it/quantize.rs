//! `polaris quantize`, with a small model of random weights.

use crate::common::Home;
use crate::tiny_llm::Tiny;

#[test]
fn a_model_becomes_smaller_and_still_runs() {
    let home = Home::new();
    let (model, half, small) =
        (home.path("model.gguf"), home.path("half.gguf"), home.path("small.gguf"));
    std::fs::write(&model, Tiny::LLAMA.bytes()).unwrap();
    let (model, half, small) = (model.display(), half.display(), small.display());
    home.run(&format!("quantize {model} -o {half} --type f16")).exits_with(0).says(&["F16", "%"]);
    let planned = home
        .run(&format!("quantize {half} --type Q4_0 --tensor ffn_down=Q8_0 --dry-run --json"))
        .exits_with(0)
        .json();
    assert_eq!(
        (&planned["schema"], &planned["type"]),
        (&"polaris.quantize/1".into(), &"Q4_0".into())
    );
    assert!(planned["path"].is_null() && !home.path("small.gguf").exists());
    let done = home
        .run(&format!("quantize {half} -o {small} --type Q4_0 --tensor ffn_down=Q8_0 --json"))
        .exits_with(0)
        .json();
    assert_eq!(planned["bytes"], done["bytes"]);
    let tensor = |name: &str| {
        let all = done["tensors"].as_array().unwrap();
        all.iter().find(|tensor| tensor["name"] == name).unwrap().clone()
    };
    assert_eq!(tensor("blk.0.ffn_down.weight")["to"], "Q8_0");
    let query = tensor("blk.1.attn_q.weight");
    assert_eq!(query["to"], "Q4_0");
    let error = query["relative_error"].as_f64().unwrap();
    assert!((0.01..0.2).contains(&error), "{error}");
    assert!(tensor("output_norm.weight")["relative_error"].is_null());
    home.run(&format!("generate {small} -p a -n 3 --device cpu")).exits_with(0);
}

#[test]
fn mistakes_are_explained_and_leave_files_alone() {
    let home = Home::new();
    let (model, small) = (home.path("model.gguf"), home.path("small.gguf"));
    std::fs::write(&model, Tiny::LLAMA.bytes()).unwrap();
    let (model, small) = (model.display(), small.display());
    home.run(&format!("quantize {model}")).exits_with(2);
    home.run(&format!("quantize {model} -o {small} --type Q9_Z")).exits_with(2);
    home.run(&format!("quantize {model} -o {small} --tensor ffn_down=Q9")).exits_with(2);
    let itself = home.run(&format!("quantize {model} -o {model}")).exits_with(3);
    assert!(itself.stderr.contains("the model itself"), "{itself:#?}");
    let nothing = home.run(&format!("quantize {model} -o {small} --tensor experts=Q4_0"));
    assert!(nothing.exits_with(3).stderr.contains("no matrix"));
    home.run(&format!("quantize missing.gguf -o {small}")).exits_with(3);
    assert!(!home.path("small.gguf").exists());
    home.run(&format!("quantize {model} -o {small} --type q8_0")).exits_with(0);
    let again = home.run(&format!("quantize {small} -o {model} --type q4_0")).exits_with(3);
    assert!(again.stderr.contains("--requantize"), "{again:#?}");
    assert_eq!(std::fs::read(home.path("model.gguf")).unwrap(), Tiny::LLAMA.bytes());
}

#[test]
fn formats_are_chosen_for_a_size() {
    let home = Home::new();
    let [model, text, found, small] =
        ["model.gguf", "text.txt", "found.json", "small.gguf"].map(|name| home.path(name));
    std::fs::write(&model, Tiny::LLAMA.bytes()).unwrap();
    std::fs::write(&text, "abcabcabd".repeat(60)).unwrap();
    let [model, text, found, small] = [&model, &text, &found, &small].map(|path| path.display());
    let bytes = |json: &serde_json::Value| json["bytes"].as_u64().unwrap();
    let uniform =
        home.run(&format!("quantize {model} --type Q5_1 --dry-run --json")).exits_with(0).json();
    let goal = bytes(&uniform);
    let calibrated = format!("--calibrate {text} --sensitivities {found} --probe-windows 1");
    let mixed = home
        .run(&format!("quantize {model} -o {small} --size {goal} {calibrated} --json"))
        .exits_with(0)
        .json();
    assert!(bytes(&mixed) <= goal && mixed["type"] == "mixed", "{mixed}");
    let curve = mixed["mixture"]["curve"].as_array().unwrap();
    let losses = curve.iter().map(|point| point["predicted_divergence"].as_f64().unwrap());
    assert!(curve.len() > 2 && losses.is_sorted_by(|a, b| a >= b), "{mixed}");
    let file = std::fs::read_to_string(home.path("found.json")).unwrap();
    home.run(&format!("generate {small} -p a -n 3 --device cpu")).exits_with(0);

    // With an importance matrix, which counts for the types that were chosen.
    let matrix = home.path("model.imatrix.gguf");
    let matrix = matrix.display();
    home.run(&format!("imatrix {model} {text} -o {matrix} --window 64 --windows 2")).exits_with(0);
    home.run(&format!("quantize {model} -o {small} --size 1GB --imatrix {matrix} {calibrated}"))
        .exits_with(0)
        .says(&["by importance"]);
    let itself = home.run(&format!("imatrix {model} {text} -o {model}")).exits_with(3);
    assert!(itself.stderr.contains("the model itself"), "{itself:#?}");

    // Another budget measures nothing anew, nor does one that goes on from half of the file.
    home.run(&format!("quantize {model} --dry-run --loss 50% {calibrated}"))
        .exits_with(0)
        .says(&["predicted divergence", "chosen"]);
    assert_eq!(std::fs::read_to_string(home.path("found.json")).unwrap(), file);
    let mut half: serde_json::Value = serde_json::from_str(&file).unwrap();
    half["tensors"].as_array_mut().unwrap().truncate(3);
    std::fs::write(home.path("found.json"), half.to_string()).unwrap();
    home.run(&format!("quantize {model} --dry-run --size {goal} {calibrated}")).exits_with(0);
    assert_eq!(std::fs::read_to_string(home.path("found.json")).unwrap(), file);

    let fails = |options: &str, code: i32, said: &str| {
        let failed = home.run(&format!("quantize {model} --dry-run {options}")).exits_with(code);
        assert!(failed.stderr.contains(said), "{options}: {failed:#?}");
    };
    fails(&format!("--size 100 {calibrated}"), 3, "the least that is possible");
    fails(&format!("--loss 0.0000000001% {calibrated}"), 3, "the least that is possible");
    fails(&format!("--size {goal}"), 2, "--calibrate");
    fails(&format!("--calibrate {text}"), 2, "--method gptq, --size, --loss or --speed");
    fails(&format!("--size {goal} --calibrate {text} --damping 0.5"), 2, "--method gptq");
    fails(&format!("--method gptq --calibrate {text} --imatrix {matrix}"), 2, "leave one");
    fails(&format!("--size 100 {calibrated} --tensor weight=Q8_0"), 3, "the least that");
    fails(&format!("--loss nothing {calibrated}"), 2, "a percentage");
    std::fs::write(home.path("other.txt"), "dcba".repeat(100)).unwrap();
    let other = home.path("other.txt");
    let other =
        format!("--calibrate {} --sensitivities {found} --probe-windows 1", other.display());
    fails(&format!("--size {goal} {other}"), 3, "another model or text");
    std::fs::write(home.path("text.txt"), "ab").unwrap();
    fails(&format!("--size {goal} --calibrate {text}"), 3, "give a longer text");
}

#[test]
fn formats_are_chosen_for_a_speed_and_the_file_is_measured() {
    let home = Home::new();
    let [model, text, found, small, page] =
        ["model.gguf", "text.txt", "found.json", "small.gguf", "page.html"]
            .map(|name| home.path(name));
    std::fs::write(&model, Tiny::LLAMA.bytes()).unwrap();
    // A window to choose by, and one to score with.
    std::fs::write(&text, "abcabcabd".repeat(60)).unwrap();
    let html = |page: &std::path::Path| std::fs::read_to_string(page).unwrap();
    let [model, text, found, small] = [&model, &text, &found, &small].map(|path| path.display());
    let calibrated = format!("--calibrate {text} --sensitivities {found} --probe-windows 1");
    let page_option = format!("--html {}", page.display());
    // So slow that any machine can: what is chosen is what loses least.
    let mixed = home
        .run(&format!(
            "quantize {model} -o {small} --speed 0.001x {calibrated} {page_option} --threads 1 --json"
        ))
        .exits_with(0)
        .json();
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let mixture = &mixed["mixture"];
    assert!(number(&mixture["predicted_tokens_per_second"]) > 0.0, "{mixed}");
    assert!(number(&mixture["source_tokens_per_second"]) > 0.0, "{mixed}");
    let curve = mixture["curve"].as_array().unwrap();
    assert!(curve.iter().all(|point| number(&point["predicted_tokens_per_second"]) > 0.0));
    let measured = &mixed["measured"];
    assert!(number(&measured["tokens_per_second"]) > 0.0, "{mixed}");
    assert!(number(&measured["source_tokens_per_second"]) > 0.0, "{mixed}");
    assert_eq!(measured["score"]["windows"], 1);
    assert!(number(&measured["score"]["divergence"]).is_finite());
    assert!(number(&measured["score"]["source_perplexity"]) > 1.0, "{mixed}");
    let types = mixed["tensors"].as_array().unwrap().iter().filter(|tensor| tensor["to"] == "Q8_0");
    assert!(types.count() > 20, "{mixed}");
    let text = html(&page);
    for said in
        ["Divergence by size", "Divergence by speed", "Sensitivity", "Signal-to-noise", "IQ4_XS"]
    {
        assert!(text.contains(said), "{said}");
    }
    assert!(text.matches("<svg class=\"plot\"").count() >= 4 && !text.contains("http"));

    // Both goals, in words; the page of a plan has no measured figures.
    home.run(&format!(
        "quantize {model} --dry-run --speed 0.001 --size 1GB {calibrated} {page_option}"
    ))
    .exits_with(0)
    .says(&["predicted speed", "of this speed", "(chosen)"]);
    assert!(html(&page).contains("At least 0.001 times the speed was asked for in at most"));
    assert!(!html(&page).contains("measured speed"));
    home.run(&format!("quantize {model} -o {small} --type Q4_0 {page_option}"))
        .exits_with(0)
        .says(&["measured speed"]);
    assert!(html(&page).contains("measured speed"));

    let fails = |options: &str, code: i32, said: &str| {
        let failed = home.run(&format!("quantize {model} --dry-run {options}")).exits_with(code);
        assert!(failed.stderr.contains(said), "{options}: {failed:#?}");
    };
    fails(&format!("--speed 1000000x {calibrated}"), 3, "the fastest mixture is predicted to make");
    fails(&format!("--speed 0.001x --size 100 {calibrated}"), 3, "the least that is possible");
    fails(&format!("--speed fast {calibrated}"), 2, "as in 2x");
    fails(&format!("--speed 2x --loss 1% {calibrated}"), 2, "cannot be used with");
    fails("--speed 2x", 2, "--calibrate");
}

#[test]
fn gptq_takes_a_text_and_says_what_it_gained() {
    let home = Home::new();
    let (model, text, small) =
        (home.path("model.gguf"), home.path("a.txt"), home.path("small.gguf"));
    std::fs::write(&model, Tiny { experts: 2, ..Tiny::LLAMA }.bytes()).unwrap();
    let (model, path, small) = (model.display(), text.display(), small.display());
    let words: String = (0..700u32).map(|i| char::from(b'a' + (i * i % 23) as u8)).collect();
    std::fs::write(&text, words).unwrap();
    let quantize = format!(
        "quantize {model} -o {small} --type F16 --tensor blk.1.=Q8_0 --tensor token_embd=Q8_0 --method gptq"
    );
    home.run(&quantize).exits_with(2);
    let nothing = home.run(&format!("{quantize} --calibrate {model}.none")).exits_with(3);
    assert!(nothing.stderr.contains("cannot read"), "{nothing:#?}");
    let short = home.run(&format!("{quantize} --calibrate {path} --window 701")).exits_with(3);
    assert!(short.stderr.contains("701"), "{short:#?}");
    let wrong = home.run(&format!("{quantize} --calibrate {path} --damping 2")).exits_with(3);
    assert!(wrong.stderr.contains("0 to 1"), "{wrong:#?}");
    assert!(!home.path("small.gguf").exists());
    let done =
        home.run(&format!("{quantize} --calibrate {path} --window 64 --json")).exits_with(0).json();
    assert_eq!(done["method"], "gptq");
    let gptq = |name: &str| {
        let all = done["tensors"].as_array().unwrap();
        all.iter().find(|tensor| tensor["name"] == name).unwrap()["gptq"].clone()
    };
    let down = gptq("blk.1.ffn_down_exps.weight");
    assert_eq!((&down["matrices"], &down["rounded"]), (&2.into(), &0.into()));
    let error = |tensor: &serde_json::Value, key: &str| tensor[key].as_f64().unwrap();
    assert!(error(&down, "output_error") < error(&down, "output_error_nearest"), "{down}");
    assert!(gptq("token_embd.weight")["reason"].as_str().unwrap().contains("looked up"));
    assert!(gptq("blk.0.attn_q.weight").is_null());
    let left = std::fs::read_dir(home.path("small.gguf").parent().unwrap()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".work")), "{left:?}");
    home.run(&format!("generate {small} -p a -n 3 --device cpu")).exits_with(0);
    let told = home
        .run(&format!("{quantize} --calibrate {path} --window 64 --windows 1 --sweeps 0"))
        .exits_with(0);
    assert!(told.stdout.contains("rounded to nearest: token_embd.weight"), "{told:#?}");
}
