//! Layers against plain loops, and what training and evaluation change in them. (Losses of whole models are
//! compared with PyTorch's by bench/torch/parity.py.)

use polaris_core::DType;
use polaris_nn::layers::{BatchNorm, Dropout, GruCell, LstmCell, Sequential};
use polaris_nn::models::{Cnn, Ends, Gpt, Llama, Mlp, Model};
use polaris_nn::optim::{Adam, Group, Optimizer, Sgd, gradient_norm};
use polaris_nn::{
    Init, Layer, LossScale, Module, Observer, Parameter, Pass, Result, Transform, load_state,
    parameters, state,
};
use polaris_tensor::Tensor;
use polaris_testkit::devices_under_test;

fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance, "{found} {expected}");
    }
}

fn values(layer: &dyn Layer, name: &str) -> Vec<f64> {
    let all = state(layer);
    let (_, tensor) = all.iter().find(|(found, _)| found == name).unwrap();
    tensor.to_f64().unwrap()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `rows` sums of weights times x, plus biases.
fn linear(weight: &[f64], bias: &[f64], x: &[f64]) -> Vec<f64> {
    let row =
        |(row, bias): (&[f64], &f64)| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + bias;
    weight.chunks(x.len()).zip(bias).map(row).collect()
}

#[test]
fn recurrent_cells_are_their_definitions() {
    let (inputs, width) = (3, 4);
    for device in devices_under_test() {
        let mut init = Init::new(device, 5);
        let x = Tensor::randn(device, &[1, inputs], DType::F32, 1).unwrap();
        let h = Tensor::randn(device, &[1, width], DType::F32, 2).unwrap();
        let c = Tensor::randn(device, &[1, width], DType::F32, 3).unwrap();
        let [xs, hs, cs] = [&x, &h, &c].map(|t| t.to_f64().unwrap());
        let of = |layer: &dyn Layer, what: &str| {
            [
                linear(&values(layer, "weight_ih"), &values(layer, "bias_ih"), &xs),
                linear(&values(layer, "weight_hh"), &values(layer, "bias_hh"), &hs),
            ][usize::from(what == "state")]
            .clone()
        };

        let lstm = LstmCell::new(inputs, width, &mut init).unwrap();
        let (a, b) = (of(&lstm, "input"), of(&lstm, "state"));
        let gate = |k: usize, i: usize| a[k * width + i] + b[k * width + i];
        let cell: Vec<f64> = (0..width)
            .map(|i| sigmoid(gate(1, i)) * cs[i] + sigmoid(gate(0, i)) * gate(2, i).tanh())
            .collect();
        let hidden: Vec<f64> = (0..width).map(|i| sigmoid(gate(3, i)) * cell[i].tanh()).collect();
        let found = lstm.forward(&x, (&h, &c), &Pass::evaluation()).unwrap();
        close(&found.0.to_f64().unwrap(), &hidden, 1e-5);
        close(&found.1.to_f64().unwrap(), &cell, 1e-5);

        let gru = GruCell::new(inputs, width, &mut init).unwrap();
        let (a, b) = (of(&gru, "input"), of(&gru, "state"));
        let next: Vec<f64> = (0..width)
            .map(|i| {
                let (r, z) = (sigmoid(a[i] + b[i]), sigmoid(a[width + i] + b[width + i]));
                let new = (a[2 * width + i] + r * b[2 * width + i]).tanh();
                (1.0 - z) * new + z * hs[i]
            })
            .collect();
        let found = gru.forward(&x, &h, &Pass::evaluation()).unwrap();
        close(&found.to_f64().unwrap(), &next, 1e-5);
    }
}

#[test]
fn dropout_leaves_out_what_it_should_and_only_in_training() {
    for device in devices_under_test() {
        let x = Tensor::ones(device, &[100, 100], DType::F32).unwrap().requires_grad().unwrap();
        let dropout = Dropout::new(0.3).unwrap();
        let run = |seed| dropout.forward(&x, &Pass::training(seed)).unwrap();
        let found = run(1).to_f64().unwrap();
        let zeros = found.iter().filter(|&&value| value == 0.0).count();
        assert!((2800..3200).contains(&zeros), "{zeros} of 10000 are left out");
        assert!(found.iter().all(|&value| value == 0.0 || (value - 1.0 / 0.7).abs() < 1e-6));
        assert_eq!(run(1).to_f64().unwrap(), found);
        assert_ne!(run(2).to_f64().unwrap(), found);
        run(1).sum().unwrap().backward().unwrap();
        assert_eq!(x.grad().unwrap().to_f64().unwrap(), found);
        let kept = dropout.forward(&x, &Pass::evaluation()).unwrap();
        assert!(kept.to_f64().unwrap().iter().all(|&value| value == 1.0));
    }
    assert!(Dropout::new(1.0).is_err());
}

#[test]
fn batch_norm_follows_its_batches() {
    for device in devices_under_test() {
        let norm = BatchNorm::new(2, &mut Init::new(device, 1)).unwrap();
        let x = Tensor::from_slice(device, &[2, 2, 1], &[1.0f32, 10.0, 3.0, 30.0]).unwrap();
        let found = norm.forward(&x, &Pass::training(0)).unwrap();
        close(&found.to_f64().unwrap(), &[-1.0, -1.0, 1.0, 1.0], 1e-4);
        close(&values(&norm, "running_mean"), &[0.2, 2.0], 1e-5);
        // The sample's variances are 2 and 200.
        close(&values(&norm, "running_var"), &[0.9 + 0.2, 0.9 + 20.0], 1e-4);
        let tested = norm.forward(&x, &Pass::evaluation()).unwrap().to_f64().unwrap();
        assert!((tested[0] - 0.8 / (1.1f64 + 1e-5).sqrt()).abs() < 1e-4, "{tested:?}");
    }
}

fn models() -> [(Model, Ends); 4] {
    let images = Ends { input: vec![1, 8, 8], outputs: 4 };
    let cnn = Cnn { channels: vec![3, 4], hidden: vec![8], ..Cnn::default() };
    let gpt = Gpt { layers: 2, width: 16, heads: 2, dropout: 0.0 };
    let llama =
        Llama { layers: 2, width: 16, heads: 4, kv_heads: 2, feed_forward: 32, ..Llama::default() };
    [
        (Model::Mlp(Mlp { hidden: vec![8], ..Mlp::default() }), images.clone()),
        (Model::Cnn(cnn), images),
        (Model::Gpt(gpt), Ends { input: vec![6], outputs: 4 }),
        (Model::Llama(llama), Ends { input: vec![6], outputs: 4 }),
    ]
}

/// A batch that can be learned.
fn batch(ends: &Ends, device: &polaris_runtime::DeviceRef) -> (Tensor, Tensor) {
    if ends.input.len() == 1 {
        let tokens: Vec<i64> = (0..24).map(|i| i % 4).collect();
        let next: Vec<i64> = (1..25).map(|i| i % 4).collect();
        let tensor = |values: &[i64]| Tensor::from_slice(device, &[4, 6], values).unwrap();
        return (tensor(&tokens), tensor(&next).flatten().unwrap());
    }
    let y: Vec<i64> = (0..8).map(|i| i % 4).collect();
    (
        Tensor::randn(device, &[8, 1, 8, 8], DType::F32, 3).unwrap(),
        Tensor::from_slice(device, &[8], &y).unwrap(),
    )
}

fn losses(model: &Model, ends: &Ends, device: &polaris_runtime::DeviceRef, half: bool) -> Vec<f64> {
    let built = model.build(ends, &mut Init::new(device, 2)).unwrap();
    let groups = vec![Group::new(parameters(&*built), 0.01, 0.0)];
    let mut optimizer = Adam::new(groups, [0.9, 0.999], 1e-8, true).unwrap();
    let (x, y) = batch(ends, device);
    let mut scale = LossScale::default();
    let mut found = Vec::new();
    for step in 0..20 {
        let pass = Pass::training(step).in_type(half.then_some(DType::F16));
        let outputs = built.forward(&x, &pass).unwrap();
        if half {
            assert_eq!(outputs.dtype(), DType::F16);
        }
        let outputs = outputs.to_dtype(DType::F32).unwrap();
        let outputs = outputs.reshape(&[y.elements(), 4]).unwrap();
        let loss = outputs.cross_entropy_loss(&y, None, Default::default()).unwrap();
        found.push(loss.item().unwrap());
        let factor = if half { scale.value() } else { 1.0 };
        loss.mul_scalar(factor).unwrap().backward().unwrap();
        let finite = gradient_norm(optimizer.groups()).unwrap().is_finite();
        if scale.observe(finite) {
            optimizer.step_scaled(1.0 / factor).unwrap();
        } else {
            optimizer.zero_grad();
        }
    }
    found
}

#[test]
fn half_precision_learns_as_single_precision_does() {
    for device in devices_under_test() {
        for (model, ends) in models() {
            let (single, half) =
                (losses(&model, &ends, device, false), losses(&model, &ends, device, true));
            assert!(single[19] < 0.7 * single[0], "{model:?}: {single:?}");
            assert!((half[0] - single[0]).abs() < 0.01 * single[0], "{half:?} {single:?}");
            assert!(half[19] < 0.75 * half[0], "{model:?} on {}: {half:?}", device.id());
        }
    }
}

#[test]
fn states_are_loaded_whole_or_not_at_all() {
    let device = &devices_under_test()[0];
    let (model, ends) = &models()[1];
    let build = |seed| model.build(ends, &mut Init::new(device, seed)).unwrap();
    let (a, b) = (build(1), build(2));
    let mut new: std::collections::HashMap<String, Tensor> = state(&*b).into_iter().collect();
    load_state(&*a, &new).unwrap();
    for ((name, a), (_, b)) in state(&*a).iter().zip(state(&*b)) {
        assert_eq!(a.to_f64().unwrap(), b.to_f64().unwrap(), "{name}");
    }
    let before = values(&*a, "output.bias");
    new.remove("conv1.weight").unwrap();
    new.insert("output.bias".into(), Tensor::zeros(device, &[5], DType::F32).unwrap());
    new.insert("extra".into(), Tensor::zeros(device, &[1], DType::F32).unwrap());
    let message = load_state(&*a, &new).unwrap_err().to_string();
    for part in
        ["`conv1.weight` is missing", "`output.bias` has shape [5] instead of [4]", "no `extra`"]
    {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(values(&*a, "output.bias"), before);
}

/// Prunes: what it multiplies by zero gets no gradient.
struct Mask(Tensor);

impl Transform for Mask {
    fn apply(&self, parameter: &Tensor) -> Result<Tensor> {
        Ok(parameter.mul(&self.0)?)
    }
}

/// Remembers the paths it saw.
#[derive(Default)]
struct Paths(std::cell::RefCell<Vec<String>>);

impl Observer for Paths {
    fn output(&self, path: &str, _output: &Tensor) -> Result<()> {
        self.0.borrow_mut().push(path.to_owned());
        Ok(())
    }
}

#[test]
fn parameters_can_be_masked_and_frozen_and_layers_observed() {
    let device = &devices_under_test()[0];
    let layer = polaris_nn::layers::Linear::new(2, 1, true, &mut Init::new(device, 1)).unwrap();
    let all = parameters(&layer);
    let [(_, weight), (_, bias)]: &[(String, Parameter); 2] = all[..].try_into().unwrap();
    let mask = Tensor::from_slice(device, &[1, 2], &[1.0f32, 0.0]).unwrap();
    weight.set_transform(Some(std::sync::Arc::new(Mask(mask))));
    bias.set_frozen(true);
    let x = Tensor::ones(device, &[1, 2], DType::F32).unwrap();
    let model = Sequential::new().named("only", layer);
    let paths = Paths::default();
    let y = model.forward(&x, &Pass::training(0).observed(&paths)).unwrap();
    assert_eq!(paths.0.into_inner(), ["only"]);
    y.sum().unwrap().backward().unwrap();
    assert_eq!(weight.tensor().grad().unwrap().to_f64().unwrap(), [1.0, 0.0]);
    assert!(bias.tensor().grad().is_none());
    let before = weight.tensor().to_f64().unwrap();
    let mut sgd = Sgd::plain(all.clone(), 0.5).unwrap();
    sgd.step().unwrap();
    close(&weight.tensor().to_f64().unwrap(), &[before[0] - 0.5, before[1]], 1e-6);
    assert!(weight.tensor().grad().is_none(), "a step forgets the gradients it took");
}

#[test]
fn a_model_file_that_claims_too_much_is_refused_before_it_is_built() {
    use polaris_nn::train::ModelFile;
    let device = &devices_under_test()[0];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let data = serde_json::json!({ "source": "digits" });
    for (model, input) in [
        (serde_json::json!({ "kind": "gpt", "layers": 1_000_000_000_000u64 }), vec![8]),
        (serde_json::json!({ "kind": "llama", "layers": 1_000_000_000_000u64 }), vec![8]),
        (serde_json::json!({ "kind": "llama", "feed_forward": 1u64 << 40 }), vec![1 << 60]),
        (serde_json::json!({ "kind": "mlp", "hidden": [1u64 << 40, 1u64 << 40] }), vec![4]),
        (serde_json::json!({ "kind": "mlp", "hidden": [30_000, 30_000] }), vec![4]),
        (serde_json::json!({ "kind": "mlp" }), vec![1u64 << 40, 1 << 40]),
        (serde_json::json!({ "kind": "cnn", "kernel": 1u64 << 40 }), vec![1, 8, 8]),
    ] {
        let about = serde_json::json!({
            "config": { "model": model, "data": data }, "task": "classes", "input": input,
            "outputs": 2, "classes": ["a", "b"],
        });
        let metadata = [("polaris.model".to_owned(), about.to_string())].into();
        let tensors = [("x".to_owned(), Tensor::zeros(device, &[10], DType::F32).unwrap())];
        polaris_nn::tensors_file::write(&path, &tensors, &metadata).unwrap();
        let message =
            ModelFile::load(&path, device).err().expect("it should be refused").to_string();
        assert!(message.contains("model.safetensors: its tensors are not those"), "{message}");
    }
    // Every beginning of a file is refused, too.
    let whole = std::fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(ModelFile::load(&path, device).is_err(), "{length} bytes");
    }
}
