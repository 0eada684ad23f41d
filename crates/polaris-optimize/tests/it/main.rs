//! GGUF files that are quantised.

mod blocks;
mod by_importance;
mod calibrated;
mod calibration;
mod drawn;
mod gptq;
mod hessian;
mod importance;
mod methods;
mod onnx;
mod speed;
#[path = "../../../polaris-llm/tests/it/tiny.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod tiny;

use std::path::Path;

use bytes::Bytes;
use polaris_blocks::Block;
use polaris_core::random::SplitMix64;
use polaris_gguf::{Gguf, TensorType, Writer, dequantize, quantize};
use polaris_optimize::{Error, Override, Plan, PlanOptions, Recipe, Result, WrittenTensor};
use polaris_runtime::{Runtime, RuntimeOptions};

/// Weights about as those of models are.
fn draw(random: &mut SplitMix64, count: usize) -> Vec<f32> {
    let mut normal = || (0..6).map(|_| random.unit() - 0.5).sum::<f64>();
    (0..count).map(|_| (normal() * 0.05) as f32).collect()
}

/// A model of two layers in a type, 256 wide; `odd` is the length of rows of one matrix.
fn model(ty: TensorType, odd: usize) -> Bytes {
    let mut random = SplitMix64::new(5);
    let mut writer = Writer::new();
    writer.set("general.architecture", "llama").unwrap();
    writer.set("general.name", "drawn").unwrap();
    writer.set("general.file_type", 0u32).unwrap();
    writer.set("split.count", 1u16).unwrap();
    writer.set("llama.block_count", 2u32).unwrap();
    let mut add = |name: &str, dims: &[usize], ty: TensorType| {
        let values = draw(&mut random, dims.iter().product());
        writer.tensor(name, dims, ty, quantize(ty, &values).unwrap()).unwrap();
    };
    add("token_embd.weight", &[40, 256], ty);
    add("output_norm.weight", &[256], TensorType::F32);
    for layer in 0..2 {
        let name = |what: &str| format!("blk.{layer}.{what}.weight");
        add(&name("attn_norm"), &[256], TensorType::F32);
        add(&name("attn_q"), &[256, 256], ty);
        add(&name("attn_v"), &[64, 256], ty);
        add(&name("ffn_gate_inp"), &[4, 256], TensorType::F32);
        add(&name("ffn_down"), &[48, 512], ty);
        add(
            &name("ffn_gate"),
            &[40, odd],
            if odd.is_multiple_of(32) { ty } else { TensorType::F32 },
        );
    }
    Bytes::from(writer.into_bytes().unwrap())
}

fn runtime() -> Runtime {
    Runtime::discover(&RuntimeOptions { opencl: false, ..RuntimeOptions::default() }).unwrap()
}

fn write(gguf: &Gguf, options: &PlanOptions, path: &Path) -> Result<Vec<WrittenTensor>> {
    let runtime = runtime();
    let cpu = runtime.cpu().as_cpu().unwrap();
    Plan::new(gguf, options)?.write(path, cpu, &mut |_| {}, &|| false)
}

fn open(path: &Path) -> Gguf {
    Gguf::open(path, |path| polaris_files::read(path, 1 << 30).map(Bytes::from)).unwrap()
}

#[test]
fn every_recipe_gives_a_file_that_comes_near() {
    let folder = tempfile::tempdir().unwrap();
    for from in [TensorType::F32, TensorType::F16, TensorType::BF16] {
        let gguf = Gguf::from_bytes(model(from, 96)).unwrap();
        for recipe in Recipe::ALL {
            let path = folder.path().join("out.gguf");
            let written =
                write(&gguf, &PlanOptions { recipe, ..PlanOptions::default() }, &path).unwrap();
            let result = open(&path);
            assert_eq!(result.tensor_count(), gguf.tensor_count());
            assert_eq!(result.metadata().require::<&str>("general.name").unwrap(), "drawn");
            assert!(result.metadata().value("split.count").is_none());
            assert_ne!(result.metadata().require::<u32>("general.file_type").unwrap(), 0);
            for ((old, new), told) in gguf.tensors().zip(result.tensors()).zip(&written) {
                assert_eq!((old.name(), old.shape()), (new.name(), new.shape()), "{recipe}");
                assert_eq!((old.name(), new.ty()), (&*told.name, told.to), "{recipe}");
                let (a, b) = (old.to_f32().unwrap(), new.to_f32().unwrap());
                let square: f64 = a.iter().map(|a| f64::from(*a).powi(2)).sum();
                let error: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
                let relative = (error / square).sqrt();
                assert!((relative - told.relative_error.unwrap_or(0.0)).abs() < 1e-4, "{recipe}");
                let most = match new.ty() {
                    TensorType::Block(block) => {
                        1.2 / 2f64.powf(block.bytes() as f64 * 8.0 / block.elements() as f64 - 1.0)
                    }
                    _ => 0.005,
                };
                assert!(relative <= most, "{recipe}, {}: {relative} of {most}", old.name());
            }
        }
    }
}

#[test]
fn tensors_get_the_type_of_the_recipe_or_say_why_not() {
    let gguf = Gguf::from_bytes(model(TensorType::F16, 96)).unwrap();
    let plan = Plan::new(&gguf, &PlanOptions::default()).unwrap();
    let of = |name: &str| plan.tensors().iter().find(|tensor| tensor.name == name).unwrap();
    // There is no output, so the embedding is one.
    assert_eq!(of("token_embd.weight").to, TensorType::Q6_K);
    assert_eq!(of("blk.1.attn_q.weight").to, TensorType::Q4_K);
    assert_eq!(of("blk.1.attn_norm.weight").to, TensorType::F32);
    let router = of("blk.1.ffn_gate_inp.weight");
    assert_eq!(router.to, TensorType::F32);
    assert!(router.reason.as_ref().unwrap().contains("stays"));
    let odd = of("blk.0.ffn_gate.weight");
    assert_eq!(odd.to, TensorType::Q5_0);
    assert!(odd.reason.as_ref().unwrap().contains("rows of 96"));
    assert_eq!(plan.bytes(), plan.tensors().iter().map(|tensor| tensor.bytes()).sum::<usize>());
    let odd = Gguf::from_bytes(model(TensorType::F32, 100)).unwrap();
    let plan = Plan::new(&odd, &PlanOptions::default()).unwrap();
    let odd = plan.tensors().iter().find(|tensor| tensor.name == "blk.0.ffn_gate.weight");
    assert_eq!(odd.unwrap().to, TensorType::F16);
}

#[test]
fn overrides_count_and_are_checked() {
    let gguf = Gguf::from_bytes(model(TensorType::F16, 96)).unwrap();
    let plan = |overrides: &[(&str, TensorType)]| {
        let each =
            overrides.iter().map(|&(pattern, ty)| Override { pattern: pattern.to_owned(), ty });
        Plan::new(&gguf, &PlanOptions { overrides: each.collect(), ..PlanOptions::default() })
    };
    let found = plan(&[("attn", TensorType::Q8_0), ("blk.1.attn_q", TensorType::Q2_K)]).unwrap();
    let of = |name: &str| found.tensors().iter().find(|tensor| tensor.name == name).unwrap().to;
    assert_eq!(of("blk.0.attn_q.weight"), TensorType::Q8_0);
    assert_eq!(of("blk.1.attn_q.weight"), TensorType::Q2_K);
    // A vector stays, whatever its name.
    assert_eq!(of("blk.0.attn_norm.weight"), TensorType::F32);
    let error = plan(&[("ffn_gate.", TensorType::Q4_K)]).unwrap_err().to_string();
    assert!(error.contains("rows of 96"), "{error}");
    let error = plan(&[("experts", TensorType::Q4_K)]).unwrap_err().to_string();
    assert!(error.contains("token_embd.weight"), "{error}");
}

#[test]
fn what_is_quantised_is_not_quantised_again_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.gguf");
    let gguf = Gguf::from_bytes(model(TensorType::Q8_0, 96)).unwrap();
    let mut options = PlanOptions { recipe: Recipe::Q4_0, ..PlanOptions::default() };
    let error = write(&gguf, &options, &path).unwrap_err();
    assert!(matches!(error, Error::Quantised { ty: TensorType::Q8_0, .. }), "{error}");
    assert!(!path.exists());
    options.requantize = true;
    write(&gguf, &options, &path).unwrap();
    assert_eq!(open(&path).tensor("blk.0.attn_q.weight").unwrap().ty(), TensorType::Q4_0);
    // What has the type already is copied.
    options = PlanOptions { recipe: Recipe::Q8_0, ..PlanOptions::default() };
    let written = write(&gguf, &options, &path).unwrap();
    assert!(written.iter().all(|tensor| tensor.relative_error.is_none()));
    let (old, new) = (gguf.tensor("blk.0.attn_q.weight").unwrap(), open(&path));
    assert_eq!(old.data(), new.tensor("blk.0.attn_q.weight").unwrap().data());
}

#[test]
fn a_failure_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.gguf");
    std::fs::write(&path, "old").unwrap();
    let gguf = Gguf::from_bytes(model(TensorType::F16, 96)).unwrap();
    let runtime = runtime();
    let plan = Plan::new(&gguf, &PlanOptions::default()).unwrap();
    let cpu = runtime.cpu().as_cpu().unwrap();
    let error = plan.write(&path, cpu, &mut |_| {}, &|| true).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    // A weight that is no number is named by its tensor.
    let mut writer = Writer::new();
    let mut values = vec![0.5f32; 512];
    values[300] = f32::NAN;
    let bytes = quantize(TensorType::F32, &values).unwrap();
    writer.tensor("blk.0.attn_q.weight", &[2, 256], TensorType::F32, bytes).unwrap();
    let gguf = Gguf::from_bytes(writer.into_bytes().unwrap().into()).unwrap();
    let error = write(&gguf, &PlanOptions::default(), &path).unwrap_err().to_string();
    assert!(error.contains("attn_q") && error.contains("NaN"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "unfinished files stay");
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let mut random = SplitMix64::new(11);
    let values = draw(&mut random, 5 * 65_536 + 768);
    let mut writer = Writer::new();
    let bytes = quantize(TensorType::F16, &values).unwrap();
    let dims = [values.len() / 256, 256];
    writer.tensor("output.weight", &dims, TensorType::F16, bytes).unwrap();
    let gguf = Gguf::from_bytes(writer.into_bytes().unwrap().into()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let files = [1, 3].map(|threads| {
        let options =
            RuntimeOptions { opencl: false, threads: Some(threads), ..Default::default() };
        let runtime = Runtime::discover(&options).unwrap();
        let path = folder.path().join(format!("{threads}.gguf"));
        let plan = Plan::new(&gguf, &PlanOptions::default()).unwrap();
        let cpu = runtime.cpu().as_cpu().unwrap();
        let mut last = 0;
        plan.write(&path, cpu, &mut |done| last = done.bytes, &|| false).unwrap();
        assert_eq!(last, 2 * values.len());
        std::fs::read(path).unwrap()
    });
    assert!(files[0] == files[1]);
    let blocks = Gguf::from_bytes(files[0].clone().into()).unwrap();
    let blocks = blocks.tensor("output.weight").unwrap();
    assert_eq!(blocks.ty(), TensorType::Block(Block::Q6_K));
    assert_eq!(dequantize(blocks.ty(), blocks.data()).unwrap().len(), values.len());
}
