//! GPTQ of whole files: what is encoded, what is rounded instead, and what happens when it is stopped.

use std::cell::Cell;
use std::path::Path;

use bytes::Bytes;
use polaris_blocks::Block;
use polaris_gguf::{Gguf, TensorType};
use polaris_llm::{CacheType, Engine, EngineOptions, LoadOptions, Model, Precision, Source};
use polaris_optimize::{
    Error, GptqOptions, Override, Plan, PlanOptions, Prepared, Recipe, Result, Stage, WrittenTensor,
};
use polaris_runtime::DeviceRef;

use crate::drawn::device;
use crate::tiny::{Tiny, WORDS};

fn gguf(tiny: Tiny) -> Gguf {
    Gguf::from_bytes(Bytes::from(tiny.bytes())).unwrap()
}

fn engine(gguf: &Gguf, device: &DeviceRef) -> Engine {
    let source = Source::from_gguf(gguf).unwrap();
    let model = Model::load(&source, device, &LoadOptions::default(), |_| Ok(())).unwrap();
    let options = EngineOptions {
        context: 64,
        cache: CacheType::F32,
        precision: Precision::Full,
        ..EngineOptions::default()
    };
    Engine::new(&model, &options).unwrap()
}

fn tokens(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| (i * i * 31 + i * 7 + 5) % WORDS as u32).collect()
}

const OPTIONS: GptqOptions = GptqOptions {
    window: 32,
    windows: None,
    first: None,
    memory: 1 << 30,
    factor: polaris_optimize::hessian::FactorOptions {
        damping: 0.01,
        order: polaris_optimize::hessian::Order::Natural,
    },
    sweeps: 2,
};

struct Run<'a> {
    gguf: &'a Gguf,
    device: DeviceRef,
    plan: Plan<'a>,
    folder: &'a Path,
}

impl<'a> Run<'a> {
    /// Matrices with a part of their names become `block`, the others half precision: encoding all would take long.
    fn new(gguf: &'a Gguf, patterns: &[&str], block: Block, folder: &'a Path) -> Self {
        let ty = TensorType::Block(block);
        let wanted = patterns.iter().map(|&pattern| Override { pattern: pattern.to_owned(), ty });
        let overrides = wanted.collect();
        let options = PlanOptions { recipe: Recipe::F16, overrides, ..PlanOptions::default() };
        let plan = Plan::new(gguf, &options).unwrap();
        Self { gguf, device: device(), plan, folder }
    }

    fn prepare(
        &self,
        tokens: &[u32],
        options: &GptqOptions,
        progress: &mut dyn FnMut(Stage<'_>),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Prepared> {
        let mut engine = engine(self.gguf, &self.device);
        let work = self.folder.join("work");
        self.plan.gptq(&mut engine, tokens, options, &work, progress, cancelled)
    }

    fn write(&self, prepared: Prepared) -> (Vec<u8>, Vec<WrittenTensor>) {
        let path = self.folder.join("out.gguf");
        let cpu = self.device.as_cpu().unwrap();
        let written =
            self.plan.write_calibrated(&path, cpu, prepared, &mut |_| {}, &|| false).unwrap();
        assert!(!self.folder.join("work").exists(), "the work folder stays");
        (std::fs::read(path).unwrap(), written)
    }
}

#[test]
fn outputs_change_less_and_the_rest_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let gguf = gguf(Tiny::LLAMA);
    let run =
        Run::new(&gguf, &["output", "token_embd", "blk.2.ffn_up"], Block::Q3_K, folder.path());
    let prepared = run.prepare(&tokens(8 * 32 + 5), &OPTIONS, &mut |_| {}, &|| false).unwrap();
    let name = |number: usize| &*run.plan.tensors()[number].name;
    assert_eq!(prepared.tensors.len(), 5);
    for tensor in &prepared.tensors {
        let name = name(tensor.tensor);
        assert_eq!((tensor.rounded, tensor.matrices, tensor.fewest), (0, 1, 256), "{name}");
        assert!(tensor.costs.error < 0.8 * tensor.costs.nearest, "{name}: {:?}", tensor.costs);
        assert!(tensor.costs.nearest < 0.3 * tensor.costs.outputs, "{name}: {:?}", tensor.costs);
    }
    let others: Vec<_> = prepared.others.iter().map(|&(at, why)| (name(at), why)).collect();
    assert_eq!(others, [("token_embd.weight", "its rows are looked up")]);
    let expected: Vec<_> = prepared.tensors.iter().map(|tensor| tensor.tensor).collect();
    let (bytes, written) = run.write(prepared);
    let out = Gguf::from_bytes(bytes.into()).unwrap();
    for (number, (tensor, planned)) in out.tensors().zip(run.plan.tensors()).enumerate() {
        assert_eq!((tensor.name(), tensor.ty()), (&*planned.name, planned.to));
        let error = written[number].relative_error;
        if expected.contains(&number) {
            // Weights are farther from what they were than by rounding, but not by much.
            assert!((0.005..0.5).contains(&error.unwrap()), "{}: {error:?}", planned.name);
        }
    }
    engine(&out, &run.device);
}

/// The bytes of a file, where each run is cancelled after so many questions, and how many runs it took.
fn interrupted(
    gguf: &Gguf,
    tokens: &[u32],
    options: &GptqOptions,
    every: usize,
) -> (Vec<u8>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::new(gguf, &["blk.1.ffn_"], Block::Q8_0, folder.path());
    for runs in 1..200 {
        let asked = Cell::new(0);
        let cancelled = || {
            asked.set(asked.get() + 1);
            asked.get() > every * runs
        };
        match run.prepare(tokens, options, &mut |_| {}, &cancelled) {
            Ok(prepared) => return (run.write(prepared).0, runs),
            Err(error) => assert!(matches!(error, Error::Cancelled), "{error}"),
        }
    }
    panic!("it does not come to an end");
}

#[test]
fn runs_that_are_stopped_go_on_to_the_same_bytes() {
    let gguf = gguf(Tiny { experts: 4, ty: TensorType::F16, ..Tiny::LLAMA });
    let tokens = tokens(5 * 32);
    let (whole, runs) = interrupted(&gguf, &tokens, &OPTIONS, usize::MAX / 200);
    assert_eq!(runs, 1);
    let (parts, runs) = interrupted(&gguf, &tokens, &OPTIONS, 9);
    assert!(runs > 2 && whole == parts, "{runs} runs");
    // With room for three Hessians of 256 columns the text is computed again and again.
    let options = GptqOptions { memory: 3 * 4 * 256 * 256, ..OPTIONS };
    let (again, _) = interrupted(&gguf, &tokens, &options, usize::MAX / 200);
    assert!(whole == again);
}

#[test]
fn experts_without_inputs_are_rounded_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let gguf = gguf(Tiny { experts: 4, ..Tiny::LLAMA });
    let run = Run::new(&gguf, &["blk.1."], Block::Q8_0, folder.path());
    // One token again and again has two experts in each layer.
    let prepared = run.prepare(&[7; 64], &OPTIONS, &mut |_| {}, &|| false).unwrap();
    let of = |part: &str| {
        let name = format!("blk.1.{part}.weight");
        let at = run.plan.tensors().iter().position(|tensor| tensor.name == name).unwrap();
        prepared.tensors.iter().find(|tensor| tensor.tensor == at).unwrap()
    };
    for part in ["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"] {
        let tensor = of(part);
        assert!(tensor.matrices == 4 && tensor.rounded >= 1 && tensor.fewest == 0, "{tensor:?}");
    }
    assert_eq!(of("attn_q").rounded, 0);
    // Rounded experts have the bytes of rounding.
    let (bytes, _) = run.write(prepared);
    let plain = folder.path().join("plain.gguf");
    let cpu = run.device.as_cpu().unwrap();
    run.plan.write(&plain, cpu, &mut |_| {}, &|| false).unwrap();
    let plain = Gguf::from_bytes(std::fs::read(plain).unwrap().into()).unwrap();
    let found = Gguf::from_bytes(bytes.into()).unwrap();
    let name = "blk.1.ffn_up_exps.weight";
    let (plain, found) = (plain.tensor(name).unwrap(), found.tensor(name).unwrap());
    let experts = plain.data().len() / 4;
    let same = plain.data().chunks(experts).zip(found.data().chunks(experts));
    let same = same.filter(|(a, b)| a == b).count();
    assert!((1..4).contains(&same), "{same} experts are rounded");
}

#[test]
fn folders_of_other_work_and_bad_texts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let gguf = gguf(Tiny::LLAMA);
    let run = Run::new(&gguf, &["blk.1."], Block::Q8_0, folder.path());
    let refused = |tokens: &[u32], options: &GptqOptions| {
        run.prepare(tokens, options, &mut |_| {}, &|| true).unwrap_err()
    };
    let error = refused(&tokens(31), &OPTIONS);
    assert!(matches!(error, Error::ShortText { tokens: 31, window: 32 }), "{error}");
    let error = refused(&tokens(100), &GptqOptions { window: 65, ..OPTIONS });
    assert!(matches!(error, Error::Window { window: 65, context: 64 }), "{error}");
    // Work has begun, and is stopped; other options are other work.
    assert!(matches!(refused(&tokens(64), &OPTIONS), Error::Cancelled));
    let error = refused(&tokens(64), &GptqOptions { sweeps: 3, ..OPTIONS });
    assert!(error.to_string().contains("other options"), "{error}");
    assert!(matches!(refused(&tokens(65), &OPTIONS), Error::Cancelled), "the windows are the same");
    let error = refused(&tokens(96), &OPTIONS);
    assert!(matches!(error, Error::Work { .. }), "{error}");
    std::fs::remove_dir_all(folder.path().join("work")).unwrap();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    std::fs::write(folder.path().join("work/mine"), "text").unwrap();
    let error = refused(&tokens(64), &OPTIONS);
    assert!(error.to_string().contains("other files"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path().join("work")).unwrap().count(), 1);
    std::fs::remove_dir_all(folder.path().join("work")).unwrap();
    let options = GptqOptions { memory: 1000, ..OPTIONS };
    let error = run.prepare(&tokens(64), &options, &mut |_| {}, &|| false).unwrap_err();
    assert!(matches!(error, Error::Memory { columns: 256, limit: 1000, .. }), "{error}");
}

#[test]
fn damaged_work_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let gguf = gguf(Tiny::LLAMA);
    let run = Run::new(&gguf, &["blk.1."], Block::Q8_0, folder.path());
    let prepared = run.prepare(&tokens(64), &OPTIONS, &mut |_| {}, &|| false).unwrap();
    let part = std::fs::read_dir(folder.path().join("work")).unwrap().flatten();
    let part =
        part.map(|file| file.path()).find(|path| path.extension().is_some_and(|e| e == "part"));
    let part = part.unwrap();
    let mut bytes = std::fs::read(&part).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    let path = folder.path().join("out.gguf");
    let cpu = run.device.as_cpu().unwrap();
    let error =
        run.plan.write_calibrated(&path, cpu, prepared, &mut |_| {}, &|| false).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(!path.exists());
}
