//! Models of ONNX that are quantised, run by the engine's integer kernels.

mod methods;
mod weights;

use polaris_core::random::SplitMix64;
use polaris_graph::{Mode, Options, Session};
use polaris_onnx::ElementType::F32;
use polaris_onnx::{
    Attribute, Graph, GraphBuilder, Model, NoExternalData, Tensor, Value, ValueId, interpret,
};
use polaris_optimize::onnx::{
    Activations, Distortion, Float, Observer, QuantizeOptions, Quantized, Shift, Treatment,
};
use polaris_optimize::{Error, Result};
use polaris_runtime::Runtime;

use super::runtime;

pub fn options() -> Options {
    Options { mode: Mode::Cpu, ..Options::default() }
}

/// Numbers about as weights and activations are.
pub fn draw(random: &mut SplitMix64, shape: &[usize], scale: f64) -> Tensor {
    let mut normal = || (0..6).map(|_| random.unit() - 0.5).sum::<f64>() * 1.4;
    let values = (0..shape.iter().product()).map(|_| (normal() * scale) as f32).collect();
    Tensor::new::<f32>(shape, values).unwrap()
}

struct Draft {
    graph: GraphBuilder,
    random: SplitMix64,
}

impl Draft {
    fn new() -> Self {
        Self { graph: GraphBuilder::new("test"), random: SplitMix64::new(11) }
    }

    fn weight(&mut self, shape: &[usize]) -> ValueId {
        let fan: usize = shape[1..].iter().product();
        let tensor = draw(&mut self.random, shape, (2.0 / fan as f64).sqrt());
        self.graph.constant(tensor)
    }

    fn vector(&mut self, length: usize, scale: f64) -> ValueId {
        let tensor = draw(&mut self.random, &[length], scale);
        self.graph.constant(tensor)
    }

    fn conv(&mut self, x: ValueId, shape: &[usize], pads: i64, group: i64) -> ValueId {
        let inputs = [x, self.weight(shape), self.vector(shape[0], 0.1)];
        let pads: Attribute = [pads; 4].into();
        let attributes = [("pads", pads), ("group", group.into())];
        self.graph.node_with("Conv", inputs, attributes)
    }

    fn norm(&mut self, x: ValueId, channels: usize) -> ValueId {
        let positive: Vec<f32> = (0..channels).map(|at| 0.5 + (at % 5) as f32 * 0.3).collect();
        let variance = self.graph.constant(Tensor::new(&[channels], positive).unwrap());
        let inputs =
            [x, variance, self.vector(channels, 0.3), self.vector(channels, 0.2), variance];
        self.graph.node("BatchNormalization", inputs)
    }

    fn relu(&mut self, x: ValueId) -> ValueId {
        self.graph.node("Relu", [x])
    }
}

/// Convolutions with normalisations, a residual, a depthwise one, branches that are joined, pools and a product.
fn network() -> Model {
    let mut d = Draft::new();
    let x = d.graph.input("image", F32, ["n", "3", "12", "12"]);
    let a = d.conv(x, &[8, 3, 3, 3], 1, 1);
    let a = d.norm(a, 8);
    let a = d.relu(a);
    let b = d.conv(a, &[8, 8, 3, 3], 1, 1);
    let b = d.norm(b, 8);
    let sum = d.graph.node("Add", [b, a]);
    let sum = d.relu(sum);
    let pooled = d
        .graph
        .call("MaxPool", [sum])
        .attribute("kernel_shape", [2, 2])
        .attribute("strides", [2, 2]);
    let pooled = pooled.output();
    let c = d.conv(pooled, &[8, 1, 3, 3], 1, 8);
    let (low, high) = (d.graph.number(0.0), d.graph.number(6.0));
    let c = d.graph.node("Clip", [c, low, high]);
    let e = d.conv(pooled, &[5, 8, 1, 1], 0, 1);
    let e = d.graph.node("Clip", [e, low, high]);
    let joined = d.graph.node_with("Concat", [c, e], [("axis", 1)]);
    // What is negative is not joined with what a clip cuts off: bytes would not stand for the clip any more.
    let g = d.conv(pooled, &[3, 8, 1, 1], 0, 1);
    let joined = d.graph.node_with("Concat", [joined, g], [("axis", 1)]);
    let f = d.conv(joined, &[16, 16, 3, 3], 0, 1);
    let f = d.relu(f);
    let mean = d.graph.node("GlobalAveragePool", [f]);
    let flat = d.graph.node("Flatten", [mean]);
    let inputs = [flat, d.weight(&[7, 16]), d.vector(7, 0.1)];
    let y = d.graph.node_with("Gemm", inputs, [("transB", 1)]);
    d.graph.output_as(y, "scores");
    d.graph.build().unwrap()
}

fn images(seed: u64, count: usize) -> Vec<(String, Tensor)> {
    let mut random = SplitMix64::new(seed);
    vec![("image".to_owned(), draw(&mut random, &[count, 3, 12, 12], 1.0))]
}

fn quantize(
    float: &Float,
    runtime: &Runtime,
    batches: &[Vec<(String, Tensor)>],
    options: &QuantizeOptions,
) -> Result<Quantized> {
    let mut histograms = float.histograms(2048);
    let observer = Observer::new(runtime, float.model(), &float.observed(), &self::options())?;
    for batch in batches {
        observer.count(batch, &mut histograms)?;
    }
    float.quantize(&histograms, options, None)
}

/// A model that is written and read again.
fn reread(model: &Model) -> Model {
    Model::from_bytes(model.to_bytes().unwrap().into(), &NoExternalData).unwrap()
}

fn count(graph: &Graph, operator: &str) -> usize {
    graph.nodes.iter().filter(|node| node.operator == operator).count()
}

fn distortion(
    runtime: &Runtime,
    models: [&Model; 2],
    batch: &[(String, Tensor)],
    names: &[String],
) -> Distortion {
    let [a, b] = models.map(|model| {
        Observer::new(runtime, model, names, &options()).unwrap().tensors(batch).unwrap()
    });
    let mut distortion = Distortion::default();
    distortion.add(&a, &b).unwrap();
    distortion
}

#[test]
fn every_layer_of_a_network_computes_with_integers() {
    let runtime = runtime();
    let float = Float::new(network(), &[]).unwrap();
    assert!(
        float.layers().iter().all(|layer| layer.treatment == Treatment::Int8),
        "{:?}",
        float.layers()
    );
    for activations in [Activations::U8, Activations::I8] {
        let options = QuantizeOptions { activations, ..QuantizeOptions::default() };
        let made = quantize(&float, &runtime, &[images(1, 8), images(2, 8)], &options).unwrap();
        let model = reread(&made.model);
        assert_eq!(model.opsets[""], 17);
        let session = Session::new(&runtime, model.clone(), &self::options()).unwrap();
        let graph = session.graph();
        let linear = ["Conv", "Gemm", "MatMul", "Relu", "Clip", "Concat"]
            .map(|name| (name, count(graph, name)));
        // One concatenation is of bytes, and the rest is part of the six convolutions and the product.
        let own =
            [("Conv", 0), ("Gemm", 0), ("MatMul", 0), ("Relu", 1), ("Clip", 0), ("Concat", 2)];
        assert_eq!(linear, own, "{graph}");
        assert_eq!(count(graph, "QLinearConv"), 7, "{graph}");
        // Means are computed with floats, and so is the end; sums are of bytes, which says one node with floats around it.
        assert_eq!(count(graph, "GlobalAveragePool"), 1);
        let names: Vec<String> = made.layers.iter().map(|layer| layer.result.clone()).collect();
        let found = distortion(&runtime, [float.model(), &model], &images(3, 16), &names);
        for (name, noise) in &found.tensors {
            assert!(noise.decibels() > 27.0, "{activations:?} {name}: {} dB", noise.decibels());
        }
        // What the file says, node by node.
        let batch = images(4, 3);
        let said = interpret(&model.graph, &[Some(batch[0].1.clone().into())], &[]).unwrap();
        let ran = session.run(&[("image", Value::Tensor(batch[0].1.clone()))]).unwrap();
        let step = made.tensors.iter().find(|tensor| tensor.name == "scores").unwrap().scale;
        let pairs = [&said[0], &ran[0].1].map(|value| value.tensor().unwrap().to_f64().unwrap());
        for (a, b) in pairs[0].iter().zip(&pairs[1]) {
            assert!((a - b).abs() <= 1.01 * f64::from(step), "{a} {b}, steps of {step}");
        }
    }
}

/// A model of one operator, and rows for it.
fn single(build: impl FnOnce(&mut Draft, ValueId) -> ValueId, dims: &[&str]) -> Model {
    let mut d = Draft::new();
    let x = d.graph.input("image", F32, dims);
    let y = build(&mut d, x);
    d.graph.output_as(y, "scores");
    d.graph.build().unwrap()
}

fn given(seed: u64, shape: &[usize]) -> Vec<(String, Tensor)> {
    vec![("image".to_owned(), draw(&mut SplitMix64::new(seed), shape, 1.0))]
}

#[test]
fn every_form_of_a_layer_keeps_its_results() {
    let runtime = runtime();
    let product = |turned: bool| {
        move |d: &mut Draft, x: ValueId| {
            let shape: &[usize] = if turned { &[5, 9] } else { &[9, 5] };
            let inputs = [x, d.weight(shape), d.vector(5, 0.5)];
            let attributes =
                [("transB", i64::from(turned).into()), ("alpha", 0.7.into()), ("beta", 1.5.into())];
            d.graph.node_with::<Attribute>("Gemm", inputs, attributes)
        }
    };
    type Build = Box<dyn FnOnce(&mut Draft, ValueId) -> ValueId>;
    type Case<'c> = (&'c str, Build, &'c [&'c str], &'c [usize], Treatment);
    let cases: Vec<Case<'_>> = vec![
        ("Gemm", Box::new(product(false)), &["n", "9"], &[6, 9], Treatment::Int8),
        ("Gemm turned", Box::new(product(true)), &["n", "9"], &[6, 9], Treatment::Int8),
        (
            "MatMul of rows",
            Box::new(|d, x| {
                let inputs = [x, d.weight(&[9, 5])];
                let y = d.graph.node("MatMul", inputs);
                let bias = d.vector(5, 0.5);
                d.graph.node("Add", [bias, y])
            }),
            &["n", "9"],
            &[6, 9],
            Treatment::Int8,
        ),
        (
            "MatMul of three axes",
            Box::new(|d, x| {
                let inputs = [x, d.weight(&[9, 5])];
                d.graph.node("MatMul", inputs)
            }),
            &["n", "t", "9"],
            &[2, 3, 9],
            Treatment::Int8,
        ),
        (
            "Conv of one axis",
            Box::new(|d, x| {
                let inputs = [x, d.weight(&[4, 3, 3])];
                d.graph.node_with("Conv", inputs, [("strides", [2])])
            }),
            &["n", "3", "11"],
            &[2, 3, 11],
            Treatment::Int8,
        ),
        (
            "Conv with groups",
            Box::new(|d, x| d.conv(x, &[6, 2, 3, 3], 1, 2)),
            &["n", "4", "6", "6"],
            &[2, 4, 6, 6],
            Treatment::Int8,
        ),
        (
            "Conv of three axes",
            Box::new(|d, x| {
                let inputs = [x, d.weight(&[4, 3, 2, 2, 2])];
                d.graph.node("Conv", inputs)
            }),
            &["n", "3", "4", "4", "4"],
            &[2, 3, 4, 4, 4],
            Treatment::Weight("integers are for one or two spatial axes".to_owned()),
        ),
        (
            "ConvTranspose",
            Box::new(|d, x| {
                let inputs = [x, d.weight(&[4, 3, 3, 3]), d.vector(6, 0.1)];
                d.graph.node_with("ConvTranspose", inputs, [("group", 2)])
            }),
            &["n", "4", "5", "5"],
            &[2, 4, 5, 5],
            Treatment::Weight("no engine has transposed convolutions of integers".to_owned()),
        ),
    ];
    for (name, build, dims, shape, treatment) in cases {
        let model = single(build, dims);
        let float = Float::new(model.clone(), &[]).unwrap();
        assert_eq!(float.layers()[0].treatment, treatment, "{name}");
        let batches = [given(1, shape), given(2, shape)];
        let made = quantize(&float, &runtime, &batches, &QuantizeOptions::default()).unwrap();
        let written = reread(&made.model);
        let session = Session::new(&runtime, written.clone(), &options()).unwrap();
        let graph = session.graph();
        let integers = count(graph, "QLinearConv") + count(graph, "QLinearMatMul");
        assert_eq!(integers, usize::from(treatment == Treatment::Int8), "{name}: {graph}");
        let found = distortion(&runtime, [&model, &written], &batches[0], &["scores".to_owned()]);
        let ratio = found.tensors["scores"].decibels();
        assert!(ratio > 32.0, "{name}: {ratio} dB");
    }
}

#[test]
fn what_cannot_be_quantised_stays_and_says_why() {
    let runtime = runtime();
    let mut d = Draft::new();
    let x = d.graph.input("image", F32, ["n", "6"]);
    let shared = d.weight(&[6, 6]);
    let a = d.graph.node("MatMul", [x, shared]);
    let a = d.relu(a);
    let b = d.graph.call("MatMul", [a, shared]).named("second").output();
    let turned = d.graph.node("Transpose", [b]);
    let c = d.graph.call("MatMul", [b, turned]).named("computed").output();
    let left = d.weight(&[4, 6]);
    let e = d.graph.call("MatMul", [left, turned]).named("left").output();
    let kept = d.weight(&[6, 3]);
    let f = d.graph.call("MatMul", [b, kept]).named("kept.one").output();
    for (y, name) in [(c, "c"), (e, "e"), (f, "f"), (a, "a")] {
        d.graph.output_as(y, name);
    }
    let model = d.graph.build().unwrap();
    let float = Float::new(model.clone(), &["kept".to_owned()]).unwrap();
    let why = |name: &str| {
        let layer = float.layers().iter().find(|layer| layer.name == name).unwrap();
        match &layer.treatment {
            Treatment::Float(why) => why.clone(),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(why("computed"), "its weight is computed");
    assert_eq!(why("left"), "its constant is the left factor");
    assert_eq!(why("kept.one"), "it was excluded");
    assert_eq!(why("second"), "Int8");
    let batches = [given(1, &[5, 6])];
    let made = quantize(&float, &runtime, &batches, &QuantizeOptions::default()).unwrap();
    let written = reread(&made.model);
    // The weight of both layers is stored once.
    assert_eq!(
        count(&written.graph, "DequantizeLinear"),
        1 + made.tensors.len() + 1,
        "{}",
        written.graph
    );
    let names: Vec<String> = ["a", "c", "e", "f"].map(str::to_owned).to_vec();
    let found = distortion(&runtime, [&model, &written], &batches[0], &names);
    for (name, noise) in found.tensors {
        assert!(noise.decibels() > 30.0, "{name}: {} dB", noise.decibels());
    }
    let unknown = Float::new(model, &["nothing".to_owned()]).unwrap_err();
    assert!(matches!(&unknown, Error::NoSuchLayer { .. }), "{unknown}");
    let again = Float::new(written, &[]).unwrap_err();
    assert!(matches!(&again, Error::QuantisedModel { .. }), "{again}");
    let nothing = single(|d, x| d.relu(x), &["n", "6"]);
    assert!(matches!(Float::new(nothing, &[]), Err(Error::NoLayers { .. })));
}

#[test]
fn early_opsets_are_raised() {
    let runtime = runtime();
    let mut d = Draft { graph: GraphBuilder::new("early").opset(9), random: SplitMix64::new(2) };
    let x = d.graph.input("image", F32, ["2", "3", "6", "6"]);
    let x2 = d
        .graph
        .call("Pad", [x])
        .attribute("pads", [0, 0, 1, 1, 0, 0, 1, 1])
        .attribute("value", 0.0)
        .output();
    let y = d.conv(x2, &[4, 3, 3, 3], 0, 1);
    let y = d.norm(y, 4);
    let y = d.graph.call("Clip", [y]).attribute("min", 0.0).attribute("max", 6.0).output();
    let pool = d.graph.call("AveragePool", [y]).attribute("kernel_shape", [6, 6]).output();
    let flat = d.graph.call("Squeeze", [pool]).attribute("axes", [2, 3]).output();
    let inputs = [flat, d.weight(&[5, 4]), d.vector(5, 0.1)];
    let y = d.graph.node_with("Gemm", inputs, [("transB", 1)]);
    let y = d.graph.node("Softmax", [y]);
    d.graph.output_as(y, "scores");
    let model = d.graph.build().unwrap();
    let float = Float::new(model.clone(), &[]).unwrap();
    assert_eq!(float.model().opsets[""], 13);
    let batches = [given(1, &[2, 3, 6, 6]), given(2, &[2, 3, 6, 6])];
    let made = quantize(&float, &runtime, &batches, &QuantizeOptions::default()).unwrap();
    let written = reread(&made.model);
    let found = distortion(&runtime, [&model, &written], &batches[0], &["scores".to_owned()]);
    assert!(found.tensors["scores"].decibels() > 30.0, "{found:?}");
    // What has no counterpart is named.
    let mut d = Draft { graph: GraphBuilder::new("early").opset(9), random: SplitMix64::new(2) };
    let x = d.graph.input("image", F32, ["2", "3", "6", "6"]);
    let y = d.conv(x, &[4, 3, 3, 3], 0, 1);
    let y = d.graph.call("Softmax", [y]).named("over all").attribute("axis", 1).output();
    d.graph.output_as(y, "scores");
    let error = Float::new(d.graph.build().unwrap(), &[]).unwrap_err().to_string();
    assert!(error.contains("over all") && error.contains("13"), "{error}");
}

#[test]
fn channels_without_weights_and_huge_biases_keep_their_values() {
    let runtime = runtime();
    let model = single(
        |d, x| {
            let mut values =
                draw(&mut d.random, &[4, 8], 0.2).values::<f32>().unwrap().into_owned();
            values[..8].fill(0.0);
            values[8..16].iter_mut().for_each(|value| *value *= 1e-12);
            let weight = d.graph.constant(Tensor::new(&[4, 8], values).unwrap());
            let bias = d.graph.constant(Tensor::new(&[4], vec![0.75f32, -0.5, 0.25, 0.0]).unwrap());
            d.graph.node_with("Gemm", [x, weight, bias], [("transB", 1)])
        },
        &["n", "8"],
    );
    let float = Float::new(model.clone(), &[]).unwrap();
    let batches = [given(1, &[16, 8])];
    let made = quantize(&float, &runtime, &batches, &QuantizeOptions::default()).unwrap();
    let written = reread(&made.model);
    let names = ["scores".to_owned()];
    let tensors = Observer::new(&runtime, &written, &names, &options())
        .unwrap()
        .tensors(&batches[0])
        .unwrap();
    let step = f64::from(made.tensors.iter().find(|tensor| tensor.name == "scores").unwrap().scale);
    for row in tensors[0].1.to_f64().unwrap().chunks(4) {
        assert!(
            (row[0] - 0.75).abs() <= step && (row[1] + 0.5).abs() <= step,
            "{row:?}, steps of {step}"
        );
    }
    let found = distortion(&runtime, [&model, &written], &batches[0], &names);
    assert!(found.tensors["scores"].decibels() > 32.0, "{found:?}");
}

#[test]
fn bad_activations_are_named() {
    let runtime = runtime();
    let model = single(
        |d, x| {
            let y = d.graph.call("Relu", [x]).named("first").output();
            d.graph.rename(y, "after first");
            let inputs = [y, d.weight(&[4, 3])];
            d.graph.node("MatMul", inputs)
        },
        &["n", "4"],
    );
    let float = Float::new(model, &[]).unwrap();
    let run = |values: [f32; 4]| {
        let rows = vec![("image".to_owned(), Tensor::new(&[1, 4], values.to_vec()).unwrap())];
        quantize(&float, &runtime, &[rows], &QuantizeOptions::default()).map(|_| ())
    };
    run([0.5, 1.0, -1.0, 2.0]).unwrap();
    let flat = run([-0.5, -1.0, -1.0, -2.0]).unwrap_err();
    assert!(
        matches!(&flat, Error::ConstantActivation { tensor, .. } if tensor == "after first"),
        "{flat}"
    );
    let wrong = run([0.5, f32::INFINITY, 1.0, 1.0]).unwrap_err();
    assert!(
        matches!(&wrong, Error::NotFiniteActivation { tensor, .. } if tensor == "after first"),
        "{wrong}"
    );
    let none =
        float.quantize(&float.histograms(64), &QuantizeOptions::default(), None).unwrap_err();
    assert!(matches!(none, Error::EmptyActivation { .. }), "{none}");
}
