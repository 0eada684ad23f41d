//! Models of ONNX that are quantised, run by the engine's integer kernels.

use polaris_core::random::SplitMix64;
use polaris_graph::{Mode, Options, Session};
use polaris_onnx::ElementType::F32;
use polaris_onnx::{
    Attribute, Graph, GraphBuilder, Model, NoExternalData, Tensor, Value, ValueId, interpret,
};
use polaris_optimize::calibration::Calibrator;
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
    let f = d.conv(joined, &[16, 13, 3, 3], 0, 1);
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
        // Concatenations are of bytes, and the rest is part of the five convolutions and the product.
        let own =
            [("Conv", 0), ("Gemm", 0), ("MatMul", 0), ("Relu", 1), ("Clip", 0), ("Concat", 1)];
        assert_eq!(linear, own, "{graph}");
        assert_eq!(count(graph, "QLinearConv"), 6, "{graph}");
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
