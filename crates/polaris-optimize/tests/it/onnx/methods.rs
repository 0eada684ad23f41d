//! What may be done besides rounding, and what tells models apart.

use polaris_optimize::onnx::Magnitudes;

use super::*;

/// The signal-to-noise ratio of the results, in decibels.
fn ratio(
    runtime: &Runtime,
    float: &Float,
    correct: bool,
    model: &Model,
    batches: &[Vec<(String, Tensor)>],
) -> f64 {
    let settings = QuantizeOptions::default();
    let mut histograms = float.histograms(2048);
    let observer = Observer::new(runtime, float.model(), &float.observed(), &options()).unwrap();
    let mut shift = Shift::new(float, &settings, runtime, &options()).unwrap();
    for batch in batches {
        observer.count(batch, &mut histograms).unwrap();
        shift.add(batch).unwrap();
    }
    let shifts = shift.finish();
    let made = float.quantize(&histograms, &settings, correct.then_some(&shifts)).unwrap();
    let names = ["scores".to_owned()];
    let found = distortion(runtime, [model, &reread(&made.model)], &batches[0], &names);
    found.tensors["scores"].decibels()
}

/// Two convolutions between which channels are of very different widths, on images that are never negative.
fn uneven() -> Model {
    single(
        |d, x| {
            let mut weights =
                draw(&mut d.random, &[8, 3, 3, 3], 0.3).values::<f32>().unwrap().into_owned();
            // Each channel of the first is 2.5 times the one before, and undone by the second.
            let factor = |channel: usize| 2.5f32.powi(channel as i32 - 4);
            for (at, value) in weights.iter_mut().enumerate() {
                *value *= factor(at / 27);
            }
            let first = d.graph.constant(Tensor::new(&[8, 3, 3, 3], weights).unwrap());
            let bias = d.vector(8, 0.01);
            let y = d.graph.node("Conv", [x, first, bias]);
            let y = d.relu(y);
            let mut weights =
                draw(&mut d.random, &[5, 8, 3, 3], 0.3).values::<f32>().unwrap().into_owned();
            for (at, value) in weights.iter_mut().enumerate() {
                *value /= factor(at / 9 % 8);
            }
            let second = d.graph.constant(Tensor::new(&[5, 8, 3, 3], weights).unwrap());
            let bias = d.vector(5, 0.01);
            d.graph.node("Conv", [y, second, bias])
        },
        &["n", "3", "9", "9"],
    )
}

#[test]
fn equalised_channels_lose_less() {
    let runtime = runtime();
    let model = uneven();
    let batches = [given(1, &[8, 3, 9, 9]), given(2, &[8, 3, 9, 9])];
    let plain = Float::new(model.clone(), &[]).unwrap();
    let mut even = plain.clone();
    assert_eq!(even.equalize().unwrap(), 1);
    // Floats compute the same.
    let names = ["scores".to_owned()];
    let same = distortion(&runtime, [&model, even.model()], &batches[0], &names);
    assert!(same.tensors["scores"].decibels() > 100.0, "{same:?}");
    let [before, after] =
        [&plain, &even].map(|float| ratio(&runtime, float, false, &model, &batches));
    assert!(after > before + 6.0, "{before} dB, then {after} dB");
}

/// A normalisation some of whose channels are far larger than others, and two products that read it.
fn outliers(shared: bool) -> Model {
    single(
        |d, x| {
            let scale: Vec<f32> = (0..32).map(|at| if at % 11 == 3 { 40.0 } else { 0.7 }).collect();
            let scale = d.graph.constant(Tensor::new(&[32], scale).unwrap());
            let inputs = [x, scale, d.vector(32, 0.2)];
            let y = d.graph.node_with("LayerNormalization", inputs, [("axis", -1)]);
            let first = d.weight(&[32, 16]);
            let a = d.graph.node("MatMul", [y, first]);
            let inputs = [y, d.weight(&[16, 32]), d.vector(16, 0.1)];
            let b = d.graph.node_with("Gemm", inputs, [("transB", 1)]);
            let sum = d.graph.node("Add", [a, b]);
            if !shared {
                return sum;
            }
            let second = d.weight(&[16, 32]);
            let z = d.graph.node("MatMul", [sum, second]);
            d.graph.node("Add", [z, y])
        },
        &["n", "32"],
    )
}

#[test]
fn smoothed_channels_lose_less() {
    let runtime = runtime();
    let batches = [given(1, &[64, 32]), given(2, &[64, 32])];
    let model = outliers(false);
    let plain = Float::new(model.clone(), &[]).unwrap();
    let mut smooth = plain.clone();
    let mut magnitudes = Magnitudes::new(&smooth, &runtime, &options()).unwrap();
    assert_eq!(magnitudes.norms(), 1);
    batches.iter().for_each(|batch| magnitudes.add(batch).unwrap());
    assert!(smooth.smooth(&magnitudes, 1.5).is_err());
    assert_eq!(smooth.smooth(&magnitudes, 0.5).unwrap(), 1);
    let names = ["scores".to_owned()];
    let same = distortion(&runtime, [&model, smooth.model()], &batches[0], &names);
    assert!(same.tensors["scores"].decibels() > 100.0, "{same:?}");
    let [before, after] =
        [&plain, &smooth].map(|float| ratio(&runtime, float, false, &model, &batches));
    assert!(after > before + 1.0, "{before} dB, then {after} dB");
    // What others read too stays as it is.
    let read = Float::new(outliers(true), &[]).unwrap();
    assert_eq!(Magnitudes::new(&read, &runtime, &options()).unwrap().norms(), 0);
}

#[test]
fn only_layers_with_the_same_channels_are_equalised() {
    let pairs = |model: Model| Float::new(model, &[]).unwrap().equalize().unwrap();
    // Pools of rows are over their channels, and not over places of each.
    let rows = single(
        |d, x| {
            let first = d.weight(&[4, 6]);
            let y = d.graph.node("MatMul", [x, first]);
            let attributes = [("kernel_shape", Attribute::from([1])), ("strides", [1].into())];
            let y = d.graph.node_with("MaxPool", [y], attributes);
            let second = d.weight(&[6, 3]);
            d.graph.node("MatMul", [y, second])
        },
        &["2", "5", "4"],
    );
    assert_eq!(pairs(rows), 0);
    let images = |groups: i64, channels: usize| {
        single(
            |d, x| {
                let y = d.conv(x, &[4, 3, 3, 3], 1, 1);
                let attributes = [("kernel_shape", Attribute::from([2, 2]))];
                let y = d.graph.node_with("MaxPool", [y], attributes);
                d.conv(y, &[channels, 4 / groups as usize, 3, 3], 1, groups)
            },
            &["n", "3", "8", "8"],
        )
    };
    assert_eq!(pairs(images(1, 2)), 1);
    assert_eq!(pairs(images(4, 8)), 1);
    // No convolution has fewer channels than groups.
    let mut model = images(4, 8);
    let weight = model.graph.nodes[2].inputs[1].unwrap().index();
    let tensor = draw(&mut SplitMix64::new(1), &[2, 1, 3, 3], 1.0);
    model.graph.values[weight].ty = None;
    model.graph.values[weight].constant = Some(tensor.into());
    model.graph.nodes[2].inputs.truncate(2);
    assert_eq!(pairs(model), 0);
}

#[test]
fn histograms_are_of_one_model_and_its_tensors() {
    let of = |model: Model, exclude: &[String]| Float::new(model, exclude).unwrap().histograms(64);
    let padded = |pads: i64, name: &str| {
        single(
            |d, x| {
                let y = d.conv(x, &[4, 3, 3, 3], 1, 1);
                let inputs = [y, d.weight(&[2, 4, 3, 3])];
                let attributes = [("pads", Attribute::from([pads; 4]))];
                let call = d.graph.call("Conv", inputs).named(name);
                attributes
                    .into_iter()
                    .fold(call, |call, (name, value)| call.attribute(name, value))
                    .output()
            },
            &["n", "3", "8", "8"],
        )
    };
    let mut histograms = of(padded(1, "last"), &[]);
    histograms.merge(&of(padded(1, "last"), &[])).unwrap();
    for other in [of(padded(2, "last"), &[]), of(padded(1, "last"), &["last".to_owned()])] {
        let error = histograms.merge(&other).unwrap_err();
        assert!(matches!(error, Error::OtherHistograms { .. }), "{error}");
    }
}

#[test]
fn layers_of_one_name_have_biases_of_their_own() {
    let runtime = runtime();
    let model = single(
        |d, x| {
            let inputs = [x, d.weight(&[8, 6]), d.vector(6, 0.1)];
            let y = d.graph.call("Gemm", inputs).named("same").output();
            let inputs = [y, d.weight(&[6, 3]), d.vector(3, 0.1)];
            d.graph.call("Gemm", inputs).named("same").output()
        },
        &["n", "8"],
    );
    let float = Float::new(model, &[]).unwrap();
    let mut shift = Shift::new(&float, &QuantizeOptions::default(), &runtime, &options()).unwrap();
    shift.add(&given(1, &[16, 8])).unwrap();
    let shifts = shift.finish();
    let lengths: Vec<_> =
        float.layers().iter().map(|layer| shifts.of(&layer.result).map(<[f64]>::len)).collect();
    assert_eq!(lengths, [Some(6), Some(3)]);
}

#[test]
fn corrected_biases_lose_less() {
    let runtime = runtime();
    // What is rounded by large steps, since one weight of each row is large, moves sums of what is never negative.
    let model = single(
        |d, x| {
            let x = d.graph.node("Abs", [x]);
            let mut weights =
                draw(&mut d.random, &[6, 400], 0.02).values::<f32>().unwrap().into_owned();
            weights.iter_mut().step_by(400).for_each(|value| *value = 6.0);
            let weight = d.graph.constant(Tensor::new(&[6, 400], weights).unwrap());
            let bias = d.vector(6, 0.1);
            d.graph.node_with("Gemm", [x, weight, bias], [("transB", 1)])
        },
        &["n", "400"],
    );
    let batches = [given(1, &[64, 400]), given(2, &[64, 400])];
    let float = Float::new(model.clone(), &[]).unwrap();
    let [before, after] =
        [false, true].map(|correct| ratio(&runtime, &float, correct, &model, &batches));
    assert!(after > before + 1.0, "{before} dB, then {after} dB");
}
