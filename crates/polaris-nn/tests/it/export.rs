//! Exported models, read again and evaluated by the interpreter, beside the models themselves.

use bytes::Bytes;
use polaris_core::DType;
use polaris_nn::export::{End, Length, Onnx, Value, Writer};
use polaris_nn::layers::{
    Activation, BatchNorm, Conv, Flatten, GroupNorm, LayerNorm, Linear, MultiheadAttention,
    Pooling, RmsNorm, Sequential, TransposedConv,
};
use polaris_nn::models::Ends;
use polaris_nn::train::{Config, ModelFile, Task};
use polaris_nn::{Error, Init, Layer, Module, Parts, Pass, Result, state};
use polaris_onnx::{Dim, ElementType, Model, NoExternalData, Type, interpret};
use polaris_ops::Convolution;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};
use polaris_tensor::Tensor;
use serde_json::{Value as Json, json};

fn cpu() -> DeviceRef {
    Runtime::discover(&RuntimeOptions::default()).unwrap().cpu().clone()
}

/// Gives everything random values, and variances positive ones: in a model as it begins, an exchange of two
/// parameters might not be seen.
fn scatter(model: &dyn Layer) {
    for (index, (name, tensor)) in state(model).into_iter().enumerate() {
        let (device, dims) = (tensor.device(), tensor.dims());
        let bounds = if name.ends_with("running_var") { (0.5, 2.0) } else { (-0.4, 0.4) };
        let numbers = Tensor::uniform(device, dims, DType::F32, bounds, index as u64).unwrap();
        tensor.copy_from(&numbers.to_dtype(tensor.dtype()).unwrap()).unwrap();
    }
}

/// What the exported model makes of an input.
fn run(onnx: &Onnx, x: &Tensor) -> (Vec<usize>, Vec<f64>) {
    let model = Model::from_bytes(Bytes::from(onnx.bytes.clone()), &NoExternalData).unwrap();
    let input = match x.dtype() {
        DType::I64 => polaris_onnx::Tensor::new(x.dims(), x.to_vec::<i64>().unwrap()),
        _ => polaris_onnx::Tensor::new(x.dims(), x.to_vec::<f32>().unwrap()),
    };
    let found = interpret(&model.graph, &[Some(input.unwrap().into())], &[]).unwrap();
    let found = found[0].tensor().unwrap();
    (found.shape().to_vec(), found.to_f64().unwrap())
}

fn compare(what: &str, model: &dyn Module, onnx: &Onnx, x: &Tensor) {
    let expected = model.forward(x, &Pass::evaluation()).unwrap();
    let (dims, found) = run(onnx, x);
    assert_eq!(dims, expected.dims(), "{what}");
    let expected = expected.to_f64().unwrap();
    let largest = expected.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    for (found, expected) in found.iter().zip(&expected) {
        let allowed = 1e-5 * largest;
        assert!((found - expected).abs() <= allowed, "{what}: {found} {expected} of {largest}");
    }
}

fn about(model: Json, source: &str, task: Task, input: &[usize], outputs: usize) -> ModelFile {
    let config = json!({ "model": model, "data": { "source": source } });
    let config: Config = serde_json::from_value(config).unwrap();
    let classes = if task == Task::Classes { outputs } else { 0 };
    let classes = (0..classes).map(|class| format!("class {class}")).collect();
    ModelFile { config, task, input: input.to_vec(), outputs, classes, tokenizer: None }
}

fn built(about: &ModelFile, device: &DeviceRef) -> Box<dyn Module> {
    let ends = Ends { input: about.input.clone(), outputs: about.outputs };
    let model = about.config.model.build(&ends, &mut Init::new(device, 3)).unwrap();
    scatter(&*model);
    model
}

#[test]
fn exported_networks_compute_the_same() {
    let device = cpu();
    let mut models = Vec::new();
    for activation in ["relu", "gelu", "gelu-tanh", "silu", "tanh", "sigmoid"] {
        let model =
            json!({ "kind": "mlp", "hidden": [16, 7], "activation": activation, "dropout": 0.2 });
        models.push((about(model, "digits", Task::Classes, &[1, 8, 8], 10), activation));
    }
    let flat = json!({ "kind": "mlp", "hidden": [] });
    models.push((about(flat, "csv", Task::Number, &[5], 1), "flat"));
    for (batch_norm, what) in [(true, "cnn with norm"), (false, "cnn without")] {
        let model = json!({
            "kind": "cnn", "channels": [4, 6], "batch_norm": batch_norm, "pool_after": [1, 2],
            "hidden": [12], "dropout": 0.3,
        });
        models.push((about(model, "digits", Task::Classes, &[2, 9, 8], 5), what));
    }
    for (about, what) in &models {
        let model = built(about, &device);
        let onnx = Onnx::of(about, &*model).unwrap();
        for batch in [1, 5] {
            let dims = [&[batch], &about.input[..]].concat();
            let x = Tensor::randn(&device, &dims, DType::F32, 9).unwrap();
            compare(what, &*model, &onnx, &x);
        }
    }
}

#[test]
fn an_exported_decoder_computes_the_same_for_any_number_of_tokens() {
    let device = cpu();
    let llama = json!({ "kind": "llama", "layers": 2, "width": 24, "heads": 6, "kv_heads": 2, "feed_forward": 20 });
    let mut untied = llama.clone();
    untied["tied"] = false.into();
    for model in [json!({ "kind": "gpt", "layers": 2, "width": 24, "heads": 3 }), llama, untied] {
        let about = about(model, "sample", Task::Tokens, &[12], 40);
        let model = built(&about, &device);
        let onnx = Onnx::of(&about, &*model).unwrap();
        for (batch, tokens) in [(1, 12), (3, 12), (2, 5), (1, 1)] {
            let values: Vec<i64> = (0..batch * tokens).map(|i| (i * 7 % 40) as i64).collect();
            let x = Tensor::from_slice(&device, &[batch, tokens], &values).unwrap();
            compare("a decoder", &*model, &onnx, &x);
        }
    }
}

#[test]
fn an_exported_model_says_what_it_is() {
    let device = cpu();
    let about = about(json!({ "kind": "mlp" }), "digits", Task::Classes, &[1, 8, 8], 3);
    let model = built(&about, &device);
    let onnx = Onnx::of(&about, &*model).unwrap();
    let shape = json!([onnx.input, onnx.output]);
    assert_eq!(
        shape,
        json!([
            { "name": "input", "type": "f32", "shape": ["batch", 1, 8, 8] },
            { "name": "output", "type": "f32", "shape": ["batch", 3] },
        ])
    );
    let read = Model::from_bytes(Bytes::from(onnx.bytes), &NoExternalData).unwrap();
    assert_eq!((read.ir_version, read.opsets[""]), (8, 17));
    assert_eq!(read.producer, format!("polaris {}", env!("CARGO_PKG_VERSION")));
    assert!(read.metadata.contains(&("task".to_owned(), "classes".to_owned())));
    let classes = read.metadata.iter().find(|(key, _)| key == "classes").unwrap();
    assert_eq!(classes.1, r#"["class 0","class 1","class 2"]"#);
    let input = read.graph.value(read.graph.inputs[0]);
    let dims = vec![Dim::Named("batch".to_owned()), Dim::Known(1), Dim::Known(8), Dim::Known(8)];
    assert_eq!(input.ty, Some(Type::Tensor(ElementType::F32, Some(dims))));
    for (name, tensor) in state(&*model) {
        let found = read.graph.values.iter().find(|value| value.name == name);
        let found = found.unwrap_or_else(|| panic!("{name}")).constant.as_ref().unwrap();
        assert_eq!(found.tensor().unwrap().to_f64().unwrap(), tensor.to_f64().unwrap(), "{name}");
    }
}

#[test]
fn exported_layers_that_no_model_has_compute_the_same() {
    let device = cpu();
    let init = &mut Init::new(&device, 4);
    let slanted = Convolution { stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 2 };
    let images = Sequential::new()
        .then(Conv::new([4, 6], &[3, 2], slanted, true, init).unwrap())
        .then(GroupNorm::new(3, 6, init).unwrap())
        .then(Activation::Silu)
        .then(TransposedConv::new([6, 4], &[3, 2], slanted, [1, 0], true, init).unwrap())
        .then(BatchNorm::new(4, init).unwrap())
        .then(Pooling::average(&[2, 3]).unwrap())
        .then(Pooling::global_average(2).unwrap())
        .then(Flatten)
        .then(RmsNorm::new(4, 1e-6, init).unwrap())
        .then(Linear::new(4, 3, false, init).unwrap());
    let along = Convolution::along_one_axis(2, 1, 2, 1);
    let rows = Sequential::new()
        .then(Conv::new([5, 6], &[3], along, false, init).unwrap())
        .then(TransposedConv::new([6, 5], &[3], along, [0, 1], false, init).unwrap())
        .then(Pooling::max(&[2]).unwrap())
        .then(LayerNorm::new(6, init).unwrap())
        .then(MultiheadAttention::new(6, 2, false, init).unwrap())
        .then(Linear::new(6, 2, true, init).unwrap());
    for (model, dims, after) in [(&images, &[4, 9, 8][..], 2), (&rows, &[5, 12], 3)] {
        scatter(model);
        let open = |name, rank| End::new(name, false, vec![Length::Open("any"); rank]);
        let ends = (open("input", dims.len() + 1), open("output", after));
        let onnx = Onnx::between(model, ends.0, ends.1, &[]).unwrap();
        for batch in [1, 3] {
            let dims = [&[batch], dims].concat();
            let x = Tensor::randn(&device, &dims, DType::F32, 9).unwrap();
            compare("layers", model, &onnx, &x);
        }
    }
}

struct Own;

impl Layer for Own {
    fn visit(&self, _parts: &mut Parts) {}
}

impl Module for Own {
    fn forward(&self, x: &Tensor, _pass: &Pass<'_>) -> Result<Tensor> {
        Ok(x.clone())
    }
}

/// Gives back what it gets, and uses its name twice before.
struct Named;

impl Layer for Named {
    fn visit(&self, _parts: &mut Parts) {}
}

impl Module for Named {
    fn forward(&self, x: &Tensor, _pass: &Pass<'_>) -> Result<Tensor> {
        Ok(x.clone())
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let first = graph.node("Neg", &[x.name()], &[]);
        assert_ne!(first, graph.node("Neg", &[&first], &[]));
        Ok(x.clone())
    }
}

#[test]
fn an_export_refuses_layers_that_do_not_say_how_and_keeps_names_apart() {
    let ends = || {
        let end = |name| End::new(name, false, vec![Length::Open("batch"), Length::Known(2)]);
        (end("input"), end("output"))
    };
    let model = Sequential::new().named("inner", Sequential::new().named("own", Own));
    let refused = Onnx::between(&model, ends().0, ends().1, &[]).unwrap_err();
    assert!(matches!(refused, Error::NoExport { .. }));
    assert!(refused.to_string().contains("`inner.own`"), "{refused}");

    let device = cpu();
    let x = Tensor::randn(&device, &[3, 2], DType::F32, 1).unwrap();
    let model = Sequential::new().then(Named).then(Named);
    let onnx = Onnx::between(&model, ends().0, ends().1, &[]).unwrap();
    compare("nothing", &model, &onnx, &x);
    let flat = End::new("output", false, vec![Length::Open("batch")]);
    assert!(Onnx::between(&model, ends().0, flat, &[]).is_err());
}
