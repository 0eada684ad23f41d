//! Quantised models: on the CPU they run on bytes, on other devices on numbers, and the interpreter says what
//! comes out.

use polaris_graph::plan::{Action, Step};
use polaris_graph::{Mode, Options, Session};
use polaris_onnx::{
    Attribute, ElementType, GraphBuilder, Model, Tensor, Value, ValueId, interpret,
};
use polaris_ops::Requantize;
use polaris_ops::conv::QuantizedConvolution;
use polaris_runtime::{Runtime, RuntimeOptions};

/// A graph of numbers that pass through bytes.
struct Quantized {
    graph: GraphBuilder,
    /// The type of activations.
    bytes: ElementType,
}

impl Quantized {
    /// Numbers as bytes of this scale; `zero` counts from the lowest byte.
    fn quantized(&mut self, x: ValueId, scale: f32, zero: i32) -> [ValueId; 3] {
        let scale = self.graph.number(scale);
        let zero = if self.bytes == ElementType::U8 { zero } else { zero - 128 };
        let zero = Tensor::from_f64(self.bytes, &[], &[f64::from(zero)]).unwrap();
        let zero = self.graph.constant(zero);
        [self.graph.node("QuantizeLinear", [x, scale, zero]), scale, zero]
    }

    /// Numbers as bytes and back.
    fn through_bytes(&mut self, x: ValueId, scale: f32, zero: i32) -> ValueId {
        let bytes = self.quantized(x, scale, zero);
        self.graph.node("DequantizeLinear", bytes)
    }

    /// Weights of signed bytes with a scale for each output channel, and a bias in whole numbers.
    fn weight(&mut self, shape: &[usize], x_scale: f32) -> [ValueId; 2] {
        let count: usize = shape.iter().product();
        let values: Vec<i8> = (0..count).map(|at| (at * 7919 % 251) as u8 as i8).collect();
        let scales: Vec<f32> = (0..shape[0]).map(|at| 0.002 + at as f32 * 1e-4).collect();
        let bias: Vec<i32> = (0..shape[0] as i32).map(|at| at * 431 % 900 - 400).collect();
        let of_bias: Vec<f32> = scales.iter().map(|scale| scale * x_scale).collect();
        let axis = [("axis", 0)];
        let weight = self.graph.constant(Tensor::new(shape, values).unwrap());
        let scale = self.graph.constant(Tensor::new(&shape[..1], scales).unwrap());
        let weight = self.graph.node_with("DequantizeLinear", [weight, scale], axis);
        let bias = self.graph.constant(Tensor::new(&shape[..1], bias).unwrap());
        let scale = self.graph.constant(Tensor::new(&shape[..1], of_bias).unwrap());
        [weight, self.graph.node_with("DequantizeLinear", [bias, scale], axis)]
    }

    fn conv(
        &mut self,
        x: ValueId,
        scale: f32,
        shape: &[usize],
        kernel: &[(&'static str, Attribute)],
    ) -> ValueId {
        let [weight, bias] = self.weight(shape, scale);
        self.graph.node_with("Conv", [x, weight, bias], kernel.iter().cloned())
    }
}

/// A small residual network with everything that ONNX Runtime's tool leaves between conversions.
fn network(bytes: ElementType) -> Model {
    let mut draft = Quantized { graph: GraphBuilder::new("network").opset(13), bytes };
    let x = draft.graph.input("x", ElementType::F32, ["n", "3", "16", "14"]);
    let pads = ("pads", Attribute::from([1; 4]));
    let x = draft.through_bytes(x, 0.01, 120);
    let y = draft.conv(x, 0.01, &[12, 3, 3, 3], std::slice::from_ref(&pads));
    let y = draft.graph.node("Relu", [y]);
    let y = draft.through_bytes(y, 0.02, 0);
    let pooled = draft.graph.call("MaxPool", [y]).attribute("kernel_shape", [3, 3]);
    let pooled = pooled.attribute("pads", [1; 4]).attribute("strides", [2, 2]).output();
    let pooled = draft.through_bytes(pooled, 0.02, 0);
    let y = draft.conv(pooled, 0.02, &[12, 12, 1, 1], &[]);
    let y = draft.through_bytes(y, 0.03, 110);
    let groups = ("group", 12.into());
    let y = draft.conv(y, 0.03, &[12, 1, 3, 3], &[pads, groups]);
    let y = draft.through_bytes(y, 0.01, 128);
    let y = draft.graph.node("Add", [y, pooled]);
    let y = draft.graph.node("Relu", [y]);
    let y = draft.through_bytes(y, 0.025, 0);
    let y = draft.graph.node("GlobalAveragePool", [y]);
    let y = draft.through_bytes(y, 0.015, 0);
    let y = draft.graph.node("Flatten", [y]);
    let y = draft.through_bytes(y, 0.015, 0);
    let [weight, bias] = draft.weight(&[10, 12], 0.015);
    let y = draft.graph.node_with("Gemm", [y, weight, bias], [("transB", 1)]);
    let y = draft.through_bytes(y, 0.02, 100);
    draft.graph.output(y);
    draft.graph.build().unwrap()
}

fn images(count: usize) -> Tensor {
    let elements = count * 3 * 16 * 14;
    let value = |at: usize| (at * 7919 % 1009) as f32 / 504.5 - 1.0;
    Tensor::new(&[count, 3, 16, 14], (0..elements).map(value).collect::<Vec<f32>>()).unwrap()
}

/// The largest difference, in steps of the last quantisation.
fn steps_between(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.shape(), expected.shape());
    let pairs = found.to_f64().unwrap().into_iter().zip(expected.to_f64().unwrap());
    pairs.map(|(a, b)| (a - b).abs() / 0.02).fold(0.0, f64::max)
}

#[test]
fn quantised_networks_run_on_bytes_and_give_what_the_interpreter_gives() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let opencl = runtime.devices().iter().any(|device| device.as_opencl().is_some());
    for bytes in [ElementType::U8, ElementType::I8] {
        let x = images(3);
        let expected = interpret(&network(bytes).graph, &[Some(x.clone().into())], &[]).unwrap();
        let expected = expected[0].tensor().unwrap();
        let differ = expected.values::<f32>().unwrap();
        assert!(differ.iter().any(|&value| value != differ[0]), "the network is constant");
        for mode in [Mode::Cpu, Mode::Gpu].into_iter().filter(|&mode| opencl || mode == Mode::Cpu) {
            let options = Options { mode, ..Options::default() };
            let session = Session::new(&runtime, network(bytes), &options).unwrap();
            let found = session.run_tensors(vec![x.clone()]).unwrap();
            let off = steps_between(&found[0], expected);
            assert!(off <= 1.5, "{bytes} {mode:?}: {off} steps");
            let plan = session.plan(&[("x", Value::Tensor(x.clone()).ty())]).unwrap();
            assert!(plan.is_wholly_on(session.side()), "{bytes} {mode:?}: {}", session.graph());
            let count = |wanted: fn(&Action) -> bool| {
                let steps = plan.instructions.iter().map(|one| &one.step);
                steps
                    .filter(|step| matches!(step, Step::Device { action, .. } if wanted(action)))
                    .count()
            };
            let convolutions = count(|action| action.downcast::<QuantizedConvolution>().is_some());
            let conversions = count(|action| action.downcast::<Requantize>().is_some());
            // Into and out of bytes at both ends and around the mean, and one sum; where convolutions are left to
            // floating point, around each of them.
            let wanted = if mode == Mode::Cpu { (4, 5) } else { (0, 17) };
            assert_eq!(
                (convolutions, conversions),
                wanted,
                "{bytes} {mode:?}: {}",
                session.graph()
            );
        }
    }
}

#[test]
fn operators_of_integers_run_on_every_device() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let opencl = runtime.devices().iter().any(|device| device.as_opencl().is_some());
    let mut graph = GraphBuilder::new("product").opset(13);
    let x = graph.input("x", ElementType::U8, [2, 5, 8]);
    let (scale, zero) = (graph.number(0.02), graph.scalar(100u8));
    let weight: Vec<i8> = (0..48).map(|at| (at * 37 % 251) as u8 as i8).collect();
    let weight = graph.constant(Tensor::new(&[8, 6], weight).unwrap());
    let scales =
        graph.constant(Tensor::new(&[6], vec![0.01f32, 0.02, 0.03, 0.01, 0.02, 0.03]).unwrap());
    let zeros = graph.constant(Tensor::zeros(ElementType::I8, &[6]).unwrap());
    let of_y = graph.number(0.11);
    let inputs = [x, scale, zero, weight, scales, zeros, of_y, zero];
    let y = graph.node("QLinearMatMul", inputs);
    graph.output(y);
    let model = graph.build().unwrap();
    let x: Vec<u8> = (0..80).map(|at| (at * 7919 % 251) as u8).collect();
    let x = Tensor::new(&[2, 5, 8], x).unwrap();
    let expected = interpret(&model.graph, &[Some(x.clone().into())], &[]).unwrap();
    let expected = expected[0].tensor().unwrap().to_f64().unwrap();
    for mode in [Mode::Cpu, Mode::Gpu].into_iter().filter(|&mode| opencl || mode == Mode::Cpu) {
        let options = Options { mode, ..Options::default() };
        let session = Session::new(&runtime, model.clone(), &options).unwrap();
        let found = session.run_tensors(vec![x.clone()]).unwrap();
        for (a, b) in found[0].to_f64().unwrap().iter().zip(&expected) {
            assert!((a - b).abs() <= 1.0, "{mode:?}: {a} instead of {b}");
        }
        let plan = session.plan(&[("x", Value::Tensor(x.clone()).ty())]).unwrap();
        assert!(plan.is_wholly_on(session.side()), "{mode:?}: {}", session.graph());
    }
}
