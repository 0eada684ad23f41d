//! Networks that learn with rounded weights and activations, and their exported files.

use std::path::Path;

use crate::common::Home;

/// A small network on the digits, quantised after two epochs.
fn train(out: &Path, quantize: &str) -> String {
    format!(
        "train digits --out {} --set model.channels=[4] --set model.hidden=[16] --set model.pool_after=[1] \
         --set train.epochs=4 --set train.batch=32 --set optim.lr=0.02 --set data.rotate=0 \
         --set quantize.weights=4 --set quantize.after=2 {quantize}",
        out.display()
    )
}

fn accuracy(home: &Home, of: &str) -> f64 {
    home.run(&format!("eval {of} --json")).exits_with(0).json()["accuracy"].as_f64().unwrap()
}

/// Names of the instructions of a model's plan on the CPU.
fn instructions(home: &Home, path: &Path) -> Vec<String> {
    let plan = home.run(&format!("plan {} --mode cpu --json", path.display())).exits_with(0).json();
    let name = |instruction: &serde_json::Value| instruction["name"].as_str().unwrap().to_owned();
    plan["instructions"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn an_exported_network_of_integers_computes_in_integers_and_predicts_the_same() {
    let home = Home::with_shared_cache();
    let (out, file) = (home.path("run"), home.path("int4.onnx"));
    let all = "--set quantize.activations=8 --set quantize.output=8";
    home.run(&train(&out, all)).exits_with(0).says(&["quantisation begins: weights of 4 bits"]);
    let (run, shown) = (out.display(), file.display());
    let exported = home.run(&format!("export {run} --out {shown} --json")).exits_with(0).json();
    assert_eq!(exported["opset"], 21);
    let names = instructions(&home, &file);
    let count = |name: &str| names.iter().filter(|found| *found == name).count();
    assert_eq!((count("quantized_convolution"), count("quantize"), count("dequantize")), (3, 1, 1));
    assert_eq!(count("matmul") + count("convolution") + count("fused_convolution"), 0, "{names:?}");
    let (model, integers) =
        (accuracy(&home, &run.to_string()), accuracy(&home, &format!("{run} --exported {shown}")));
    assert!(model > 0.6, "{model}");
    // A sum between two levels may be rounded to the other one.
    assert!((model - integers).abs() < 0.01, "{model} {integers}");

    // Another precision is another training, and what was rounded is not rounded again.
    home.run(&format!("{} --resume --set quantize.weights=5", train(&out, all)))
        .exits_with(3)
        .says(&["another training: `quantize.weights` differ"]);
    home.run(&format!("export {run} --out {shown} --set quantize.weights=3"))
        .exits_with(3)
        .says(&["trained with [quantize]"]);
}

#[test]
fn a_trained_network_is_rounded_or_trained_on() {
    let home = Home::with_shared_cache();
    let (out, file, next) = (home.path("run"), home.path("int4.onnx"), home.path("next"));
    home.run(&train(&out, "--set quantize.weights=0 --set quantize.after=0")).exits_with(0);
    let (run, shown) = (out.display(), file.display());
    let export = |set: &str| home.run(&format!("export {run} --out {shown} {set}"));
    export("--set quantize.weights=4 --set quantize.group=8 --set quantize.scales=mse")
        .exits_with(0);
    let (model, integers) =
        (accuracy(&home, &run.to_string()), accuracy(&home, &format!("{run} --exported {shown}")));
    assert!(model > 0.6 && integers > model - 0.1, "{model} {integers}");
    let written = std::fs::read(&file).unwrap();
    export("--set quantize.weights=4 --set quantize.activations=8")
        .exits_with(3)
        .says(&["train.start"]);
    export("--set quantize.weights=4 --set train.seed=3").exits_with(2).says(&["[quantize] only"]);
    export("--set quantize.weights=1").exits_with(3).says(&["bits are from 2 to 8"]);
    assert_eq!(std::fs::read(&file).unwrap(), written);

    let begin = format!("--set train.start={run} --set train.steps=1 --set quantize.after=0");
    home.run(&train(&next, &begin)).exits_with(0).says(&["weights of 4 bits"]);
    assert!(accuracy(&home, &next.display().to_string()) > model - 0.2);
    home.run(&train(&home.path("other"), &format!("{begin} --set model.hidden=[17]")))
        .exits_with(3)
        .says(&["its [model] is another"]);
    home.run(&train(&home.path("other"), "--set quantize.weights=9"))
        .exits_with(2)
        .says(&["quantize.weights = 9: bits are from 2 to 8"]);
}
