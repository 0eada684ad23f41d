//! Quantisation-aware training: what layers see, what trainings keep, and what exports write.

use bytes::Bytes;
use polaris_core::{DType, f16};
use polaris_nn::export::Onnx;
use polaris_nn::layers::{Activation, BatchNorm, Conv, Linear, Sequential};
use polaris_nn::models::Ends;
use polaris_nn::quantize::{Cause, Quantize, Quantizers, Scales, with_output};
use polaris_nn::train::{
    Checkpoint, Config, Ending, Event, ModelFile, RunFolder, Task, Trainer, evaluate, read_log,
};
use polaris_nn::{Error, Init, Layer, Module, Parameter, Parts, Pass, parameters, state};
use polaris_onnx::{ElementType, Graph, Model, NoExternalData, interpret};
use polaris_ops::Convolution;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};
use polaris_tensor::Tensor;
use polaris_testkit::devices_under_test;
use serde_json::{Value as Json, json};

fn cpu() -> DeviceRef {
    Runtime::discover(&RuntimeOptions::default()).unwrap().cpu().clone()
}

fn settings(values: Json) -> Quantize {
    serde_json::from_value(values).unwrap()
}

/// A configuration of digits with a small model.
fn config(model: Json, quantize: Json, steps: u64) -> Config {
    let config = json!({
        "model": model, "data": { "source": "digits" }, "quantize": quantize,
        "train": { "epochs": 0, "steps": steps, "batch": 32, "evaluate_every": 2 },
    });
    serde_json::from_value(config).unwrap()
}

fn mlp() -> Json {
    json!({ "kind": "mlp", "hidden": [12] })
}

fn weight_of(layer: &dyn Layer) -> Parameter {
    parameters(layer).into_iter().find(|(name, _)| name.ends_with("weight")).unwrap().1
}

/// The scale of a group's levels by its definition: the widest, or a part of it with the least squared error.
fn scale_of(group: &[f64], high: f64, method: Scales) -> f64 {
    let widest = group.iter().fold(0.0f64, |most, x| most.max(x.abs())) / high;
    let error = |scale: f64| -> f64 {
        let rounded = |x: f64| (x / scale).round_ties_even().clamp(-high, high) * scale;
        group.iter().map(|&x| (rounded(x) - x).powi(2)).sum()
    };
    let parts = (20..=50).rev().map(|part| widest * f64::from(part) / 50.0);
    match method {
        _ if widest == 0.0 => 1.0,
        Scales::Range => widest,
        _ => parts.min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap(),
    }
}

#[test]
fn layers_see_weights_at_levels_of_their_groups() {
    for device in devices_under_test() {
        let init = &mut Init::new(device, 5);
        let conv = Conv::new([3, 4], &[3, 3], Convolution::default(), true, init).unwrap();
        for (layer, columns) in
            [(&conv as &dyn Layer, 27), (&Linear::new(10, 6, true, init).unwrap(), 10)]
        {
            let weight = weight_of(layer);
            let exact = weight.tensor().to_f64().unwrap();
            for (bits, group, scales) in
                [(8, 0, "range"), (4, 9, "mse"), (3, 4, "learned"), (2, 32, "mse")]
            {
                let what =
                    format!("{bits} bits, {columns} by {group}, {scales} on {}", device.id());
                let settings =
                    settings(json!({ "weights": bits, "group": group, "scales": scales }));
                let quantizers = Quantizers::attach(layer, &settings).unwrap();
                assert_eq!(
                    weight.value(&Pass::evaluation()).unwrap().to_f64().unwrap(),
                    exact,
                    "{what}"
                );
                quantizers.set_bits(bits).unwrap();
                let found = weight.value(&Pass::evaluation()).unwrap().to_f64().unwrap();
                let integers = weight.integers().unwrap().unwrap();
                assert_eq!(integers.columns, columns);
                let high = f64::from((1 << (bits - 1)) - 1);
                let group = if group == 0 { columns } else { group.min(columns) };
                for (row, (exact, found)) in
                    exact.chunks(columns).zip(found.chunks(columns)).enumerate()
                {
                    for (at, (exact, found)) in
                        exact.chunks(group).zip(found.chunks(group)).enumerate()
                    {
                        let scale = scale_of(exact, high, settings.scales);
                        let own = f64::from(integers.scales[row * columns.div_ceil(group) + at]);
                        // Scales of groups are in half precision.
                        let is_half = f64::from(f16::from_f64(own)) == own;
                        assert!(is_half || columns == group, "{what}: {own}");
                        let near = if columns == group { 1e-5 } else { 1e-3 };
                        assert!((own - scale).abs() < near * scale, "{what}: {own} {scale}");
                        for (index, (exact, found)) in exact.iter().zip(found).enumerate() {
                            let level = integers.levels[row * columns + at * group + index];
                            let expected = (exact / own).round_ties_even().clamp(-high, high);
                            assert_eq!(f64::from(level), expected, "{what}");
                            assert!((found - expected * own).abs() < 1e-6 * own * high, "{what}");
                        }
                    }
                }
                weight.set_transform(None);
            }
        }
    }
}

#[test]
fn activations_follow_ranges_in_training_alone() {
    for device in devices_under_test() {
        for scales in ["range", "mse", "learned"] {
            let layer = Linear::new(4, 1, false, &mut Init::new(device, 1)).unwrap();
            let settings = settings(json!({ "activations": 8, "scales": scales }));
            Quantizers::attach(&layer, &settings).unwrap().set_bits(0).unwrap();
            let numbers = |name: &str| -> f64 {
                let state = state(&layer);
                state.iter().find(|(own, _)| own == name).unwrap().1.item().unwrap()
            };
            let x = |factor: f32| {
                let values = [-1.0f32, 0.25, 0.5, 3.0].map(|value| factor * value);
                Tensor::from_slice(device, &[1, 4], &values).unwrap()
            };
            layer.forward(&x(1.0), &Pass::training(0)).unwrap();
            let (low, high) = (numbers("input.low"), numbers("input.high"));
            // Four numbers are best with all of them in range, up to half a level.
            assert!((low + 1.0).abs() < 0.05 && (high - 3.0).abs() < 0.1, "{scales}: {low} {high}");
            layer.forward(&x(9.0), &Pass::evaluation()).unwrap();
            assert_eq!((numbers("input.low"), numbers("input.high")), (low, high));
            layer.forward(&x(2.0), &Pass::training(1)).unwrap();
            let moved = if scales == "learned" { high } else { 0.9 * high + 0.1 * 2.0 * high };
            assert!((numbers("input.high") - moved).abs() < 1e-5, "{scales}");
            let zero = numbers("input.zero");
            assert!((zero - 64.0).abs() <= 1.0 && zero == zero.round(), "{scales}: {zero}");
        }
    }
}

fn about(config: Config, task: Task, input: &[usize], outputs: usize) -> ModelFile {
    let classes = if task == Task::Classes { outputs } else { 0 };
    let classes = (0..classes).map(|class| format!("class {class}")).collect();
    ModelFile { config, task, input: input.to_vec(), outputs, classes, tokenizer: None }
}

/// A quantised model with random parameters and statistics, whose ranges one batch gave.
fn built(about: &ModelFile, x: &Tensor) -> Box<dyn Module> {
    let ends = Ends { input: about.input.clone(), outputs: about.outputs };
    let model = about.config.model.build(&ends, &mut Init::new(x.device(), 3)).unwrap();
    for (index, (name, tensor)) in state(&*model).into_iter().enumerate() {
        let bounds = if name.ends_with("running_var") { (0.5, 2.0) } else { (-0.4, 0.4) };
        let numbers = Tensor::uniform(x.device(), tensor.dims(), DType::F32, bounds, index as u64);
        tensor.copy_from(&numbers.unwrap()).unwrap();
    }
    let model = with_output(model, &about.config.quantize);
    let quantizers = Quantizers::attach(&*model, &about.config.quantize).unwrap();
    quantizers.set_bits(about.config.quantize.weights).unwrap();
    model.forward(x, &Pass::training(0)).unwrap();
    model
}

fn graph_of(onnx: &Onnx) -> Graph {
    Model::from_bytes(Bytes::from(onnx.bytes.clone()), &NoExternalData).unwrap().graph
}

fn count(graph: &Graph, operator: &str) -> usize {
    graph.nodes.iter().filter(|node| node.operator == operator).count()
}

/// Compares an exported model with the model itself.
fn compare(what: &str, about: &ModelFile, x: &Tensor) -> Graph {
    let model = built(about, x);
    let onnx = Onnx::of(about, &*model).unwrap();
    let graph = graph_of(&onnx);
    let input = match x.dtype() {
        DType::I64 => polaris_onnx::Tensor::new(x.dims(), x.to_vec::<i64>().unwrap()),
        _ => polaris_onnx::Tensor::new(x.dims(), x.to_vec::<f32>().unwrap()),
    };
    let found = interpret(&graph, &[Some(input.unwrap().into())], &[]).unwrap();
    let found = found[0].tensor().unwrap().to_f64().unwrap();
    let expected = model.forward(x, &Pass::evaluation()).unwrap().to_f64().unwrap();
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    let apart = |allowed: f64| {
        let pairs = found.iter().zip(&expected);
        pairs.filter(|(found, expected)| (*found - *expected).abs() > allowed * largest).count()
    };
    // A sum that lies between two levels may be rounded to either: few are, by one level.
    let is_exact = about.config.quantize.activations == 0;
    let (few, one_level) = if is_exact { (0, 1e-5) } else { (expected.len() / 4, 0.02) };
    assert!(apart(1e-4) <= few, "{what}: {} of {}", apart(1e-4), expected.len());
    assert_eq!(apart(one_level), 0, "{what}");
    graph
}

/// The number of constants of a type.
fn constants(graph: &Graph, element: ElementType) -> usize {
    let is_one = |value: &&polaris_onnx::ValueSlot| {
        let tensor = value.constant.as_ref().and_then(|value| value.tensor().ok());
        tensor.is_some_and(|tensor| tensor.element() == element && tensor.elements() > 1)
    };
    graph.values.iter().filter(is_one).count()
}

#[test]
fn exported_networks_of_integers_compute_the_same() {
    let device = cpu();
    let cnn = json!({ "kind": "cnn", "channels": [4, 6], "pool_after": [1, 2], "hidden": [12], "dropout": 0.3 });
    let plain = json!({ "kind": "cnn", "channels": [4], "batch_norm": false, "pool_after": [], "hidden": [] });
    let mlp = json!({ "kind": "mlp", "hidden": [20, 7], "activation": "silu" });
    let quantizers = [
        json!({ "weights": 8, "activations": 8, "output": 8 }),
        json!({ "weights": 8, "activations": 8, "scales": "range" }),
        json!({ "weights": 4, "activations": 8, "output": 8, "first": 8, "last": 8 }),
        json!({ "weights": 4, "group": 32, "scales": "mse" }),
        json!({ "weights": 3, "group": 5, "activations": 4, "scales": "range" }),
        json!({ "weights": 8, "group": 16, "scales": "range" }),
        json!({ "activations": 8 }),
    ];
    for (model, layers, norms) in [(&cnn, 4, 2), (&plain, 2, 0), (&mlp, 3, 0)] {
        for quantize in &quantizers {
            let what = format!("{model} {quantize}");
            let config = config(model.clone(), quantize.clone(), 1);
            let quantize = config.quantize.clone();
            let about = about(config, Task::Classes, &[2, 9, 8], 10);
            let x = Tensor::randn(&device, &[8, 2, 9, 8], DType::F32, 9).unwrap();
            let graph = compare(&what, &about, &x);
            let narrow = match quantize.weights {
                0 | 8 => 0,
                _ => layers - usize::from(quantize.first == 8) - usize::from(quantize.last == 8),
            };
            assert_eq!(constants(&graph, ElementType::I4), narrow, "{what}");
            let bytes = if quantize.weights == 0 { 0 } else { layers - narrow };
            assert_eq!(constants(&graph, ElementType::I8), bytes, "{what}");
            // Batch norms are in the scales of weights; biases of whole rows are integers.
            let left = if quantize.weights == 0 { norms } else { 0 };
            assert_eq!(count(&graph, "BatchNormalization"), left, "{what}");
            let are_units =
                quantize.activations == 8 && quantize.weights > 0 && quantize.group == 0;
            let biases = if are_units { layers } else { 0 };
            assert_eq!(constants(&graph, ElementType::I32), biases, "{what}");
            let rounded = count(&graph, "QuantizeLinear");
            assert_eq!(rounded > 0, quantize.activations > 0, "{what}");
        }
    }
}

#[test]
fn a_decoder_of_integers_computes_the_same_when_exported() {
    let device = cpu();
    let llama = json!({ "kind": "llama", "layers": 2, "width": 24, "heads": 6, "kv_heads": 2, "feed_forward": 20 });
    let gpt = json!({ "kind": "gpt", "layers": 1, "width": 24, "heads": 3 });
    for (model, matrices) in [(llama, 2 * 7 + 1), (gpt, 4 + 1)] {
        for quantize in
            [json!({ "weights": 4, "group": 8 }), json!({ "weights": 8, "activations": 8 })]
        {
            let what = format!("{model} {quantize}");
            let narrow = if quantize["weights"] == 4 { matrices } else { 0 };
            let about = about(config(model.clone(), quantize, 1), Task::Tokens, &[12], 40);
            let values: Vec<i64> = (0..24).map(|i| i * 7 % 40).collect();
            let x = Tensor::from_slice(&device, &[2, 12], &values).unwrap();
            let graph = compare(&what, &about, &x);
            assert_eq!(constants(&graph, ElementType::I4), narrow, "{what}");
        }
    }
}

#[test]
fn integers_are_kept_in_blocks_of_gguf() {
    use polaris_nn::export::{Gguf, TensorType};
    let device = cpu();
    let llama = json!({ "kind": "llama", "layers": 1, "width": 64, "heads": 4, "kv_heads": 2, "feed_forward": 96 });
    let tokens: Vec<i64> = (0..24).map(|i| i * 7 % 40).collect();
    let x = Tensor::from_slice(&device, &[2, 12], &tokens).unwrap();
    for (quantize, ty, allowed) in [
        (json!({ "weights": 4, "group": 32 }), TensorType::Q4_0, 1e-7),
        // The first and the last layer have bits of their own, and keep them.
        (json!({ "weights": 4, "group": 32, "first": 8, "last": 8 }), TensorType::Q4_0, 5e-4),
        // A group that is a whole row has one scale for an output, which is rounded here.
        (json!({ "weights": 3, "group": 64 }), TensorType::Q4_0, 5e-4),
        (json!({ "weights": 8 }), TensorType::Q8_0, 5e-4),
        // Blocks cannot keep groups of another length: they are rounded again.
        (json!({ "weights": 4, "group": 8 }), TensorType::Q4_0, 0.3),
    ] {
        let what = format!("{quantize} in {ty}");
        let about = about(config(llama.clone(), quantize, 1), Task::Tokens, &[12], 256);
        let wide = about.config.quantize.first == 8;
        let model = built(&about, &x);
        let gguf = Gguf::of(&about, &*model, "test", ty).unwrap();
        let file = polaris_gguf::Gguf::from_bytes(Bytes::from(gguf.bytes)).unwrap();
        for (own, name) in [
            ("blocks.0.feed_forward.down.weight", "blk.0.ffn_down.weight"),
            ("blocks.0.attention.key.weight", "blk.0.attn_k.weight"),
            ("token_embedding.weight", "token_embd.weight"),
        ] {
            let found = file.tensor(name).unwrap();
            let expected =
                if wide && own == "token_embedding.weight" { TensorType::Q8_0 } else { ty };
            assert_eq!(found.ty(), expected, "{what} {own}");
            let parameter =
                parameters(&*model).into_iter().find(|(name, _)| name == own).unwrap().1;
            let expected = parameter.value(&Pass::evaluation()).unwrap().to_f64().unwrap();
            let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            for (found, expected) in found.to_f32().unwrap().iter().zip(&expected) {
                let error = (f64::from(*found) - expected).abs();
                assert!(error <= allowed * largest, "{what} {own}: {found} {expected}");
            }
        }
    }
}

#[test]
fn negative_and_zero_factors_of_batch_norms_are_folded_too() {
    let device = cpu();
    let init = &mut Init::new(&device, 4);
    let conv =
        Conv::new([2, 3], &[3], Convolution::along_one_axis(1, 1, 1, 1), true, init).unwrap();
    let model = Sequential::new()
        .named("conv", conv)
        .named("norm", BatchNorm::new(3, init).unwrap())
        .then(Activation::Relu);
    for (name, parameter) in parameters(&model) {
        if name == "norm.weight" {
            let factors = Tensor::from_slice(&device, &[3], &[-0.7f32, 0.0, 1.3]).unwrap();
            parameter.tensor().copy_from(&factors).unwrap();
        }
    }
    Quantizers::attach(&model, &settings(json!({ "weights": 5 }))).unwrap().set_bits(5).unwrap();
    let x = Tensor::randn(&device, &[2, 2, 9], DType::F32, 3).unwrap();
    let expected = model.forward(&x, &Pass::evaluation()).unwrap().to_f64().unwrap();
    let end = |name, channels| {
        use polaris_nn::export::{End, Length};
        End::new(name, false, vec![Length::Known(2), Length::Known(channels), Length::Known(9)])
    };
    let graph = graph_of(&Onnx::between(&model, end("input", 2), end("output", 3), &[]).unwrap());
    assert_eq!(count(&graph, "BatchNormalization"), 0);
    let input = polaris_onnx::Tensor::new(x.dims(), x.to_vec::<f32>().unwrap()).unwrap();
    let found = interpret(&graph, &[Some(input.into())], &[]).unwrap();
    let found = found[0].tensor().unwrap().to_f64().unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

fn numbers(model: &dyn Module) -> Vec<(String, Vec<f64>)> {
    state(model).into_iter().map(|(name, tensor)| (name, tensor.to_f64().unwrap())).collect()
}

#[test]
fn a_resumed_training_ends_with_the_same_bits_and_its_file_with_the_same_model() {
    let device = cpu();
    for scales in ["learned", "mse"] {
        let quantize = json!({
            "weights": 4, "activations": 8, "output": 8, "group": 16, "scales": scales, "start": 3, "raise_patience": 1,
        });
        let config = config(mlp(), quantize, 8);
        let folder = tempfile::tempdir().unwrap();
        let run_folder = RunFolder::open(&folder.path().join("whole")).unwrap();
        let mut whole = Trainer::from_config(&config, &device).unwrap();
        assert_eq!(whole.run(&run_folder, &mut |_: &Event| {}).unwrap(), Ending::Finished);

        let mut first = Trainer::from_config(&config, &device).unwrap();
        let part = RunFolder::open(&folder.path().join("part")).unwrap();
        let token = polaris_core::CancellationToken::new();
        first.set_cancellation(token.clone());
        let stop = |event: &Event| {
            if matches!(event, Event::Step { step: 3, .. }) {
                token.cancel();
            }
        };
        let Ending::Stopped(path) = first.run(&part, &mut { stop }).unwrap() else { panic!() };
        let mut second = Trainer::from_config(&config, &device).unwrap();
        second.resume(&path).unwrap();
        second.run(&part, &mut |_: &Event| {}).unwrap();
        assert_eq!(numbers(second.model()), numbers(whole.model()), "{scales}");
        assert_eq!(second.progress().quantize, whole.progress().quantize);

        let newest = Checkpoint::newest(&part.checkpoints()).unwrap().unwrap().0;
        let (about, model) = ModelFile::load(&newest, &device).unwrap();
        let data = whole.validation_data().unwrap();
        let found = evaluate(&*model, data, whole.loss(), &device, None).unwrap();
        assert_eq!(Some(found), whole.evaluate().unwrap(), "{scales}");

        // Another section would be another training.
        let mut other = config.clone();
        other.quantize.weights = 5;
        let refused = Trainer::from_config(&other, &device).unwrap().resume(&path).unwrap_err();
        assert!(
            matches!(&refused, Error::OtherTraining { differ, .. } if differ == &["quantize.weights"])
        );
        other.quantize = Quantize::default();
        let refused = Trainer::from_config(&other, &device).unwrap().resume(&path).unwrap_err();
        assert!(refused.to_string().contains("`quantize.weights`"), "{refused}");
        assert_eq!(about.config, config);
    }
}

#[test]
fn bits_rise_and_the_log_says_so() {
    let device = cpu();
    let quantize = json!({ "weights": 4, "start": 2, "raise_every": 1, "after": 1, "last": 8 });
    let mut config = config(mlp(), quantize, 0);
    (config.train.epochs, config.train.batch, config.train.evaluate_every) = (4, 512, 0);
    let folder = tempfile::tempdir().unwrap();
    let run_folder = RunFolder::open(folder.path()).unwrap();
    let mut trainer = Trainer::from_config(&config, &device).unwrap();
    let mut bits = Vec::new();
    trainer
        .run(&run_folder, &mut |event: &Event| {
            if let Event::Precision { epoch, bits: new, cause, .. } = event {
                bits.push((*epoch, *new, *cause));
            }
        })
        .unwrap();
    let expected = [(1, 2, Cause::Begin), (2, 3, Cause::Schedule), (3, 4, Cause::Schedule)];
    assert_eq!(bits, expected);
    let log = read_log(&folder.path().join("log.jsonl")).unwrap();
    assert_eq!(log.iter().filter(|event| event["event"] == "precision").count(), 3);
    // The best model is one of the last precision, in which the last layer has bits of its own.
    let (_, model) = ModelFile::load(&folder.path().join("model.safetensors"), &device).unwrap();
    let integers = |parameter: &Parameter| parameter.integers().unwrap();
    let found: Vec<u32> =
        parameters(&*model).iter().filter_map(|(_, p)| Some(integers(p)?.bits)).collect();
    assert_eq!(found, [4, 8]);

    // A training may begin with this model, also without its scales.
    config.train.start = Some(folder.path().to_owned());
    config.quantize = Quantize::default();
    let next = Trainer::from_config(&config, &device).unwrap();
    let names = ["linear0.weight", "output.bias"];
    for name in names {
        let of =
            |model: &dyn Module| numbers(model).into_iter().find(|(own, _)| own == name).unwrap();
        assert_eq!(of(next.model()), of(&*model));
    }
    config.model = serde_json::from_value(json!({ "kind": "mlp", "hidden": [13] })).unwrap();
    let refused = Trainer::from_config(&config, &device).err().unwrap().to_string();
    assert!(refused.contains("its [model] is another"), "{refused}");
}

#[test]
fn half_precision_and_other_devices_learn_scales_too() {
    for device in devices_under_test() {
        let mut config = config(mlp(), json!({ "weights": 4, "activations": 8, "group": 8 }), 3);
        config.train.precision = polaris_nn::train::Precision::F16;
        let mut trainer = Trainer::from_config(&config, device).unwrap();
        let data = trainer.training_data();
        let batches: Vec<_> = data.epoch(0, 0).take(3).map(Result::unwrap).collect();
        let scales = |trainer: &Trainer| -> Vec<(String, Vec<f64>)> {
            let mut scales = numbers(trainer.model());
            scales.retain(|(name, _)| name.ends_with("log_scale"));
            scales
        };
        trainer.step(&batches[0]).unwrap();
        let before = scales(&trainer);
        assert_eq!(before.len(), 4);
        for batch in &batches[1..] {
            assert!(trainer.step(batch).unwrap().is_finite());
        }
        for ((name, before), (_, after)) in before.iter().zip(scales(&trainer)) {
            assert!(*before != after, "{name} on {}", device.id());
        }
    }
}

struct Nothing;

impl Layer for Nothing {
    fn visit(&self, _parts: &mut Parts) {}
}

#[test]
fn what_cannot_be_quantised_is_refused() {
    let refused = |values: Json| settings(values).check().unwrap_err().to_string();
    assert!(
        refused(json!({ "weights": 9 })).contains("quantize.weights = 9: bits are from 2 to 8")
    );
    assert!(
        refused(json!({ "weights": 4, "activations": 1 })).contains("quantize.activations = 1")
    );
    assert!(refused(json!({ "group": 32 })).contains("nothing is quantised"));
    assert!(refused(json!({ "activations": 8, "group": 32 })).contains("set quantize.weights too"));
    assert!(refused(json!({ "weights": 4, "output": 8 })).contains("quantize.activations too"));
    assert!(refused(json!({ "weights": 4, "start": 6, "raise_every": 1 })).contains("more than"));
    assert!(refused(json!({ "weights": 4, "start": 2 })).contains("a rule"));
    assert!(refused(json!({ "weights": 4, "raise_patience": 2 })).contains("quantize.start"));
    let nothing = Quantizers::attach(&Nothing, &settings(json!({ "weights": 4 })));
    assert!(nothing.err().unwrap().to_string().contains("no linear layer or convolution"));
    let mut config = config(mlp(), json!({ "weights": 4, "start": 2, "raise_patience": 2 }), 3);
    config.data.validation = 0.0;
    let refused = Trainer::from_config(&config, &cpu()).err().unwrap().to_string();
    assert!(refused.contains("data.validation"), "{refused}");
    let text = "[model]\nkind = \"mlp\"\n[data]\nsource = \"digits\"\n[quantize]\nweight = 4\n";
    let refused = Config::from_toml(text).unwrap_err().to_string();
    assert!(
        refused.starts_with("line 6") && refused.contains("did you mean `weights`"),
        "{refused}"
    );
}
