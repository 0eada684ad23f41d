//! Weights of four bits and in groups, and levels by what they are multiplied with.

use polaris_optimize::integer::Clip;
use polaris_optimize::onnx::{SearchOptions, WeightLevels, WeightSearch, Weights};

use super::*;

/// Samples whose elements resemble their neighbours, as those of images do.
fn smooth(seed: u64, shape: &[usize]) -> Vec<(String, Tensor)> {
    let drawn = draw(&mut SplitMix64::new(seed), shape, 1.0);
    let mut last = 0.0;
    let mut values = drawn.values::<f32>().unwrap().into_owned();
    for value in &mut values {
        last = 0.8 * last + 0.6 * *value;
        *value = last;
    }
    vec![("image".to_owned(), Tensor::new(shape, values).unwrap())]
}

const IMAGES: [usize; 4] = [16, 3, 12, 12];

/// With levels of the weights by the samples.
fn searched(float: &Float, runtime: &Runtime, batches: &[Vec<(String, Tensor)>]) -> Float {
    let mut float = float.clone();
    // Small enough for several parts.
    for part in float.parts(100_000) {
        let mut search = WeightSearch::new(&float, &part, runtime, &options()).unwrap();
        for batch in batches {
            search.add(&float, batch).unwrap();
        }
        let mut done = Vec::new();
        let settings = SearchOptions::default();
        let mut tell = |at| done.push(at);
        let found = search.finish(&float, &settings, &mut tell, &|| false).unwrap();
        assert_eq!(done, part);
        float.choose(found);
    }
    float
}

/// The signal-to-noise ratio of the scores of a file.
fn decibels(runtime: &Runtime, float: &Float, made: &Quantized, batch: &[(String, Tensor)]) -> f64 {
    let model = reread(&made.model);
    let found = distortion(runtime, [float.model(), &model], batch, &["scores".to_owned()]);
    found.tensors["scores"].decibels()
}

#[test]
fn layers_with_weights_of_four_bits_compute_with_integers() {
    let runtime = runtime();
    let narrow = WeightLevels { bits: 4, group: None };
    let float = Float::with_weights(network(), &[], narrow).unwrap();
    assert!(float.layers().iter().all(|layer| layer.treatment == Treatment::Int8));
    let (batches, other) = ([smooth(1, &IMAGES), smooth(2, &IMAGES)], smooth(3, &IMAGES));
    let weights = Weights::Nearest(Clip::Search);
    let settings = QuantizeOptions { weights, ..QuantizeOptions::default() };
    let nearest = quantize(&float, &runtime, &batches, &settings).unwrap();
    let best = searched(&float, &runtime, &batches);
    assert!(best.parts(1).len() == 7 && best.parts(usize::MAX).len() == 1);
    let best = quantize(&best, &runtime, &batches, &settings).unwrap();
    let model = reread(&best.model);
    assert_eq!(model.opsets[""], 21);
    let session = Session::new(&runtime, model.clone(), &options()).unwrap();
    assert_eq!(count(session.graph(), "QLinearConv"), 7, "{}", session.graph());
    let said = interpret(&model.graph, &[Some(other[0].1.clone().into())], &[]).unwrap();
    let ran = session.run(&[("image", Value::Tensor(other[0].1.clone()))]).unwrap();
    let step = best.tensors.iter().find(|tensor| tensor.name == "scores").unwrap().scale;
    let pairs = [&said[0], &ran[0].1].map(|value| value.tensor().unwrap().to_f64().unwrap());
    for (a, b) in pairs[0].iter().zip(&pairs[1]) {
        assert!((a - b).abs() <= 1.01 * f64::from(step), "{a} {b}, steps of {step}");
    }
    let [nearest, best] = [nearest, best].map(|made| decibels(&runtime, &float, &made, &other));
    assert!(nearest > 12.0 && best > nearest + 3.0, "{nearest} {best}");
}

/// Two products of 96 inputs, of which one has its outputs first.
fn products() -> Model {
    single(
        |d, x| {
            let inputs = [x, d.weight(&[96, 96])];
            let y = d.graph.node("MatMul", inputs);
            let y = d.relu(y);
            let inputs = [y, d.weight(&[7, 96]), d.vector(7, 0.1)];
            d.graph.node_with("Gemm", inputs, [("transB", 1)])
        },
        &["n", "96"],
    )
}

#[test]
fn weights_in_groups_need_no_samples_and_gain_by_them() {
    let runtime = runtime();
    for (bits, group, least) in [(4, 32, 14.0), (4, 7, 15.0), (4, 200, 10.0), (8, 32, 38.0)] {
        let what = format!("{bits} bits, {group}");
        let levels = WeightLevels { bits, group: Some(group) };
        let float = Float::with_weights(products(), &[], levels).unwrap();
        assert!(float.observed().is_empty());
        let is_weight = |treatment: &Treatment| matches!(treatment, Treatment::Weight(_));
        assert!(float.layers().iter().all(|layer| is_weight(&layer.treatment)));
        let (batches, other) = ([smooth(1, &[256, 96])], smooth(3, &[64, 96]));
        let made = |float: &Float, weights| {
            let settings = QuantizeOptions { weights, ..QuantizeOptions::default() };
            float.quantize(&float.histograms(1), &settings, None).unwrap()
        };
        let nearest = made(&float, Weights::Nearest(Clip::Search));
        let hqq = made(&float, Weights::Hqq);
        let best = made(&searched(&float, &runtime, &batches), Weights::Hqq);
        let graph = &reread(&best.model).graph;
        let blocks = graph.nodes.iter().filter(|node| node.operator == "DequantizeLinear");
        let sizes: Vec<i64> =
            blocks.map(|node| node.attributes.int_or("block_size", 0).unwrap()).collect();
        assert_eq!(sizes, [group.min(96) as i64; 2], "{what}");
        let [nearest, hqq, best] =
            [nearest, hqq, best].map(|made| decibels(&runtime, &float, &made, &other));
        assert!(nearest > least && hqq > least, "{what}: {nearest} {hqq}");
        assert!(best > nearest + 1.5, "{what}: {nearest} {best}");
    }
}

#[test]
fn factors_of_products_and_tiny_weights_are_kept() {
    let runtime = runtime();
    let levels = WeightLevels { bits: 8, group: Some(32) };
    for (alpha, size) in [(2.0, 1.0), (0.25, 1.0), (1.0, 1e-5), (1.0, 1e-9)] {
        let model = single(
            |d, x| {
                let weight = draw(&mut d.random, &[64, 5], size);
                let inputs = [x, d.graph.constant(weight), d.vector(5, size)];
                d.graph.node_with("Gemm", inputs, [("alpha", alpha), ("beta", 0.5)])
            },
            &["n", "64"],
        );
        let float = Float::with_weights(model, &[], levels).unwrap();
        let made = float.quantize(&float.histograms(1), &Default::default(), None).unwrap();
        let ratio = decibels(&runtime, &float, &made, &smooth(3, &[16, 64]));
        assert!(ratio > 38.0, "{alpha} {size}: {ratio} dB");
    }
}

#[test]
fn shared_weights_are_chosen_by_all_their_inputs() {
    let runtime = runtime();
    let model = single(
        |d, x| {
            let weight = d.weight(&[48, 48]);
            let a = d.graph.node("MatMul", [x, weight]);
            let a = d.relu(a);
            d.graph.node("MatMul", [a, weight])
        },
        &["n", "48"],
    );
    let levels = WeightLevels { bits: 4, group: Some(16) };
    let float = Float::with_weights(model, &[], levels).unwrap();
    assert_eq!(float.parts(usize::MAX), [[0]]);
    let best = searched(&float, &runtime, &[smooth(1, &[512, 48])]);
    let [nearest, best] = [&float, &best].map(|float| {
        let made = float.quantize(&float.histograms(1), &Default::default(), None).unwrap();
        decibels(&runtime, float, &made, &smooth(3, &[64, 48]))
    });
    assert!(best > nearest + 1.0, "{nearest} {best}");
}

#[test]
fn what_cannot_be_searched_is_said() {
    let runtime = runtime();
    for levels in [WeightLevels { bits: 3, group: None }, WeightLevels { bits: 4, group: Some(0) }]
    {
        assert!(Float::with_weights(products(), &[], levels).is_err());
    }
    let levels = WeightLevels { bits: 4, group: Some(32) };
    let float = Float::with_weights(products(), &[], levels).unwrap();
    let mut search = WeightSearch::new(&float, &[0, 1], &runtime, &options()).unwrap();
    let mut values = vec![0.5f32; 96];
    values[3] = f32::NAN;
    let batch = [("image".to_owned(), Tensor::new(&[1, 96], values).unwrap())];
    let error = search.add(&float, &batch).unwrap_err().to_string();
    assert!(error.contains("image") && error.contains("NaN"), "{error}");
    search.add(&float, &smooth(1, &[4, 96])).unwrap();
    let found = search.finish(&float, &SearchOptions::default(), &mut |_| {}, &|| true);
    assert!(matches!(found, Err(Error::Cancelled)));
}
