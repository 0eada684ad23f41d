//! Quantised models: on the CPU they run on bytes, on other devices on numbers, and the interpreter says what
//! comes out.

use polaris_graph::plan::{Action, Step};
use polaris_graph::{Mode, Options, Session};
use polaris_onnx::{
    Attribute, Dim, ElementType, Graph, Model, Node, Tensor, Type, Value, ValueId, interpret,
};
use polaris_ops::Requantize;
use polaris_ops::conv::QuantizedConvolution;
use polaris_runtime::{Runtime, RuntimeOptions};

/// A graph in the making.
struct Draft {
    graph: Graph,
    /// The type of activations.
    bytes: ElementType,
}

impl Draft {
    fn constant(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("c{}", self.graph.values.len());
        self.graph.add_value(name, None, Some(tensor.into()))
    }

    fn node(
        &mut self,
        operator: &str,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let made = self.graph.add_value(format!("v{}", self.graph.values.len()), None, None);
        let mut node = Node {
            path: format!("{operator}_{}", self.graph.nodes.len()),
            domain: String::new(),
            operator: operator.to_owned(),
            version: 13,
            attributes: Default::default(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(made)],
        };
        attributes.iter().for_each(|(name, value)| node.attributes.set(name, value.clone()));
        self.graph.nodes.push(node);
        made
    }

    /// Numbers as bytes of this scale; `zero` counts from the lowest byte.
    fn quantized(&mut self, x: ValueId, scale: f32, zero: i32) -> [ValueId; 3] {
        let scale = self.constant(Tensor::scalar(scale));
        let zero = if self.bytes == ElementType::U8 { zero } else { zero - 128 };
        let zero = Tensor::from_f64(self.bytes, &[], &[f64::from(zero)]).unwrap();
        let zero = self.constant(zero);
        [self.node("QuantizeLinear", &[x, scale, zero], &[]), scale, zero]
    }

    /// Numbers as bytes and back.
    fn through_bytes(&mut self, x: ValueId, scale: f32, zero: i32) -> ValueId {
        let bytes = self.quantized(x, scale, zero);
        self.node("DequantizeLinear", &bytes, &[])
    }

    /// Weights of signed bytes with a scale for each output channel, and a bias in whole numbers.
    fn weight(&mut self, shape: &[usize], x_scale: f32) -> [ValueId; 2] {
        let count: usize = shape.iter().product();
        let values: Vec<i8> = (0..count).map(|at| (at * 7919 % 251) as u8 as i8).collect();
        let scales: Vec<f32> = (0..shape[0]).map(|at| 0.002 + at as f32 * 1e-4).collect();
        let bias: Vec<i32> = (0..shape[0] as i32).map(|at| at * 431 % 900 - 400).collect();
        let of_bias: Vec<f32> = scales.iter().map(|scale| scale * x_scale).collect();
        let axis = [("axis", Attribute::Int(0))];
        let weight = self.constant(Tensor::new(shape, values).unwrap());
        let scale = self.constant(Tensor::new(&shape[..1], scales).unwrap());
        let weight = self.node("DequantizeLinear", &[weight, scale], &axis);
        let bias = self.constant(Tensor::new(&shape[..1], bias).unwrap());
        let scale = self.constant(Tensor::new(&shape[..1], of_bias).unwrap());
        [weight, self.node("DequantizeLinear", &[bias, scale], &axis)]
    }

    fn conv(
        &mut self,
        x: ValueId,
        scale: f32,
        shape: &[usize],
        kernel: &[(&str, Attribute)],
    ) -> ValueId {
        let [weight, bias] = self.weight(shape, scale);
        self.node("Conv", &[x, weight, bias], kernel)
    }
}

/// A small residual network with everything that ONNX Runtime's tool leaves between conversions.
fn network(bytes: ElementType) -> Graph {
    let mut draft = Draft { graph: Graph::default(), bytes };
    let ty = [Dim::Named("n".to_owned()), Dim::Known(3), Dim::Known(16), Dim::Known(14)];
    let ty = Type::Tensor(ElementType::F32, Some(ty.to_vec()));
    let x = draft.graph.add_value("x".to_owned(), Some(ty), None);
    draft.graph.inputs.push(x);
    let pads = ("pads", Attribute::Ints(vec![1; 4]));
    let strides = ("strides", Attribute::Ints(vec![2, 2]));
    let x = draft.through_bytes(x, 0.01, 120);
    let y = draft.conv(x, 0.01, &[12, 3, 3, 3], std::slice::from_ref(&pads));
    let y = draft.node("Relu", &[y], &[]);
    let y = draft.through_bytes(y, 0.02, 0);
    let kernel = ("kernel_shape", Attribute::Ints(vec![3, 3]));
    let pooled = draft.node("MaxPool", &[y], &[kernel, pads.clone(), strides]);
    let pooled = draft.through_bytes(pooled, 0.02, 0);
    let y = draft.conv(pooled, 0.02, &[12, 12, 1, 1], &[]);
    let y = draft.through_bytes(y, 0.03, 110);
    let groups = ("group", Attribute::Int(12));
    let y = draft.conv(y, 0.03, &[12, 1, 3, 3], &[pads.clone(), groups]);
    let y = draft.through_bytes(y, 0.01, 128);
    let y = draft.node("Add", &[y, pooled], &[]);
    let y = draft.node("Relu", &[y], &[]);
    let y = draft.through_bytes(y, 0.025, 0);
    let y = draft.node("GlobalAveragePool", &[y], &[]);
    let y = draft.through_bytes(y, 0.015, 0);
    let y = draft.node("Flatten", &[y], &[]);
    let y = draft.through_bytes(y, 0.015, 0);
    let [weight, bias] = draft.weight(&[10, 12], 0.015);
    let turned = [("transB", Attribute::Int(1))];
    let y = draft.node("Gemm", &[y, weight, bias], &turned);
    let y = draft.through_bytes(y, 0.02, 100);
    draft.graph.outputs.push(y);
    draft.graph
}

fn model(graph: Graph) -> Model {
    let (producer, opsets) = (String::new(), [(String::new(), 13)].into());
    Model { graph, ir_version: 8, opsets, producer, metadata: Vec::new() }
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
        let expected = interpret(&network(bytes), &[Some(x.clone().into())], &[]).unwrap();
        let expected = expected[0].tensor().unwrap();
        let differ = expected.values::<f32>().unwrap();
        assert!(differ.iter().any(|&value| value != differ[0]), "the network is constant");
        for mode in [Mode::Cpu, Mode::Gpu].into_iter().filter(|&mode| opencl || mode == Mode::Cpu) {
            let options = Options { mode, ..Options::default() };
            let session = Session::new(&runtime, model(network(bytes)), &options).unwrap();
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
    let mut draft = Draft { graph: Graph::default(), bytes: ElementType::U8 };
    let ty = Type::Tensor(ElementType::U8, Some(vec![Dim::Known(2), Dim::Known(5), Dim::Known(8)]));
    let x = draft.graph.add_value("x".to_owned(), Some(ty), None);
    draft.graph.inputs.push(x);
    let scale = draft.constant(Tensor::scalar(0.02f32));
    let zero = draft.constant(Tensor::scalar(100u8));
    let weight: Vec<i8> = (0..48).map(|at| (at * 37 % 251) as u8 as i8).collect();
    let weight = draft.constant(Tensor::new(&[8, 6], weight).unwrap());
    let scales =
        draft.constant(Tensor::new(&[6], vec![0.01f32, 0.02, 0.03, 0.01, 0.02, 0.03]).unwrap());
    let zeros = draft.constant(Tensor::zeros(ElementType::I8, &[6]).unwrap());
    let of_y = draft.constant(Tensor::scalar(0.11f32));
    let inputs = [x, scale, zero, weight, scales, zeros, of_y, zero];
    let y = draft.node("QLinearMatMul", &inputs, &[]);
    draft.graph.outputs.push(y);
    let x: Vec<u8> = (0..80).map(|at| (at * 7919 % 251) as u8).collect();
    let x = Tensor::new(&[2, 5, 8], x).unwrap();
    let expected = interpret(&draft.graph, &[Some(x.clone().into())], &[]).unwrap();
    let expected = expected[0].tensor().unwrap().to_f64().unwrap();
    for mode in [Mode::Cpu, Mode::Gpu].into_iter().filter(|&mode| opencl || mode == Mode::Cpu) {
        let options = Options { mode, ..Options::default() };
        let session = Session::new(&runtime, model(draft.graph.clone()), &options).unwrap();
        let found = session.run_tensors(vec![x.clone()]).unwrap();
        for (a, b) in found[0].to_f64().unwrap().iter().zip(&expected) {
            assert!((a - b).abs() <= 1.0, "{mode:?}: {a} instead of {b}");
        }
        let plan = session.plan(&[("x", Value::Tensor(x.clone()).ty())]).unwrap();
        assert!(plan.is_wholly_on(session.side()), "{mode:?}: {}", session.graph());
    }
}
