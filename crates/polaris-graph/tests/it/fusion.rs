//! What follows products and convolutions becomes part of them, wherever channels lie; the results are
//! those of the interpreter.

use polaris_graph::plan::Step;
use polaris_graph::{Mode, Options, Session};
use polaris_onnx::{
    Attribute, Dim, ElementType, Graph, Model, Node, Tensor, Type, Value, ValueId, interpret,
};
use polaris_ops::Format;
use polaris_runtime::{Runtime, RuntimeOptions};

/// A graph in the making: values by what makes them.
#[derive(Default)]
struct Maker {
    graph: Graph,
}

impl Maker {
    fn input(&mut self, shape: &[usize]) -> ValueId {
        let dims = shape.iter().map(|&length| Dim::Known(length)).collect();
        let ty = Type::Tensor(ElementType::F32, Some(dims));
        let name = format!("x{}", self.graph.values.len());
        let id = self.graph.add_value(name, Some(ty), None);
        self.graph.inputs.push(id);
        id
    }

    fn constant(&mut self, shape: &[usize]) -> ValueId {
        let seed = self.graph.values.len();
        let name = format!("c{seed}");
        self.graph.add_value(name, None, Some(numbers(shape, seed).into()))
    }

    fn node(
        &mut self,
        operator: &str,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let made = self.graph.add_value(format!("y{}", self.graph.values.len()), None, None);
        let mut node = Node {
            path: operator.to_owned(),
            domain: String::new(),
            operator: operator.to_owned(),
            version: 20,
            attributes: Default::default(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(made)],
        };
        attributes.iter().for_each(|(name, value)| node.attributes.set(name, value.clone()));
        self.graph.nodes.push(node);
        made
    }

    fn conv(&mut self, x: ValueId, weight: &[usize], pad: i64, groups: i64) -> ValueId {
        let (w, b) = (self.constant(weight), self.constant(&weight[..1]));
        let pads = Attribute::Ints(vec![pad; 4]);
        self.node("Conv", &[x, w, b], &[("pads", pads), ("group", Attribute::Int(groups))])
    }

    fn finish(mut self, outputs: &[ValueId]) -> Graph {
        self.graph.outputs = outputs.to_vec();
        self.graph
    }
}

fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |at: usize| ((at * 7919 + seed * 131) % 1009) as f64 / 504.5 - 1.0;
    let values: Vec<f64> = (0..count).map(value).collect();
    Tensor::from_f64(ElementType::F32, shape, &values).unwrap()
}

fn session(runtime: &Runtime, graph: &Graph, mode: Mode) -> Session {
    let model = Model {
        graph: graph.clone(),
        ir_version: 8,
        opsets: [(String::new(), 20)].into(),
        producer: String::new(),
        metadata: Vec::new(),
    };
    Session::new(runtime, model, &Options { mode, ..Options::default() }).unwrap()
}

/// Runs a graph in every mode, compares with the interpreter, and returns the operations of the plan on
/// the CPU.
fn operations(graph: &Graph) -> Vec<String> {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let opencl = runtime.devices().iter().any(|device| device.as_opencl().is_some());
    let modes = if opencl { &[Mode::Cpu, Mode::Gpu][..] } else { &[Mode::Cpu] };
    let inputs: Vec<Tensor> = (graph.inputs.iter().enumerate())
        .map(|(at, &id)| {
            let (_, shape) = graph.value(id).ty.as_ref().unwrap().known_tensor().unwrap();
            numbers(&shape, 1000 + at)
        })
        .collect();
    let given: Vec<Option<Value>> = inputs.iter().map(|x| Some(x.clone().into())).collect();
    let expected = interpret(graph, &given, &[]).unwrap();
    let mut names = Vec::new();
    for &mode in modes {
        let session = session(&runtime, graph, mode);
        let found = session.run_tensors(inputs.clone()).unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            let expected = expected.tensor().unwrap();
            assert_eq!(found.shape(), expected.shape());
            for (a, b) in found.to_f64().unwrap().into_iter().zip(expected.to_f64().unwrap()) {
                assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{mode:?}: {a} instead of {b}");
            }
        }
        if mode == Mode::Cpu {
            let types: Vec<(String, Type)> = (session.inputs().into_iter())
                .map(|(name, ty)| (name.to_owned(), ty.unwrap().clone()))
                .collect();
            let types: Vec<(&str, Type)> =
                types.iter().map(|(name, ty)| (name.as_str(), ty.clone())).collect();
            let plan = session.plan(&types).unwrap();
            let name = |step: &Step| match step {
                Step::Device { action, inputs, .. } => {
                    let packed =
                        inputs.iter().any(|input| matches!(input.format, Format::Panels(_)));
                    format!("{}{}", action.name(), if packed { " of panels" } else { "" })
                }
                _ => "other".to_owned(),
            };
            names = plan.instructions.iter().map(|instruction| name(&instruction.step)).collect();
        }
    }
    names
}

#[test]
fn a_residual_block_is_its_convolutions() {
    let mut maker = Maker::default();
    let x = maker.input(&[2, 8, 9, 10]);
    let a = maker.conv(x, &[24, 8, 3, 3], 1, 1);
    let a = maker.node("Relu", &[a], &[]);
    let wide = maker.conv(a, &[24, 1, 3, 3], 1, 24);
    let wide = maker.node("Relu", &[wide], &[]);
    let b = maker.conv(wide, &[16, 24, 1, 1], 0, 1);
    // The other branch is computed later, but is needed by the addition.
    let other = maker.conv(x, &[16, 8, 3, 3], 1, 1);
    let sum = maker.node("Add", &[b, other], &[]);
    let sum = maker.node("Relu", &[sum], &[]);
    let graph = maker.finish(&[sum]);
    let names = operations(&graph);
    let convolutions = names.iter().filter(|name| name.ends_with("panels")).count();
    assert_eq!(
        (names.len() - convolutions, convolutions),
        (1, 4),
        "{names:?}: only the output's copy"
    );
}

#[test]
fn a_linear_layer_is_its_product() {
    let mut maker = Maker::default();
    let x = maker.input(&[2, 5, 12]);
    let (w, bias) = (maker.constant(&[12, 20]), maker.constant(&[20]));
    let y = maker.node("MatMul", &[x, w], &[]);
    let y = maker.node("Add", &[bias, y], &[]);
    let y = maker.node("Gelu", &[y], &[]);
    let w = maker.constant(&[20, 12]);
    let z = maker.node("MatMul", &[y, w], &[]);
    let bias = maker.constant(&[12]);
    let z = maker.node("Add", &[z, bias], &[]);
    let z = maker.node("Add", &[x, z], &[]);
    let graph = maker.finish(&[z]);
    assert_eq!(operations(&graph), ["matmul of panels", "matmul of panels"]);
}

/// A constant [8, 8, 1] is a batch of eight columns, not a matrix of 8 x 8.
#[test]
fn a_batch_of_columns_is_no_matrix() {
    let mut maker = Maker::default();
    let x = maker.input(&[8, 6, 8]);
    let w = maker.constant(&[8, 8, 1]);
    let y = maker.node("MatMul", &[x, w], &[]);
    let graph = maker.finish(&[y]);
    assert_eq!(operations(&graph), ["matmul"]);
}

/// A bias has the type of the accumulators: one of half precision is added by itself.
#[test]
fn half_precision_has_linear_layers_too() {
    let mut maker = Maker::default();
    let x = maker.input(&[3, 6]);
    let (w, bias) = (maker.constant(&[6, 5]), maker.constant(&[5]));
    let half = [("to", Attribute::Int(10))];
    let [x, w, bias] = [x, w, bias].map(|id| maker.node("Cast", &[id], &half));
    let product = maker.node("MatMul", &[x, w], &[]);
    let sum = maker.node("Add", &[product, bias], &[]);
    let gemm = maker.node("Gemm", &[x, w, bias], &[]);
    let outputs = [sum, gemm].map(|id| maker.node("Cast", &[id], &[("to", Attribute::Int(1))]));
    let graph = maker.finish(&outputs);
    let x = numbers(&[3, 6], 1000);
    let expected = interpret(&graph, &[Some(x.clone().into())], &[]).unwrap();
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let found = session(&runtime, &graph, Mode::Auto).run_tensors(vec![x]).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        let expected = expected.tensor().unwrap().to_f64().unwrap();
        for (a, b) in found.to_f64().unwrap().into_iter().zip(expected) {
            assert!((a - b).abs() <= 4e-3, "{a} instead of {b}");
        }
    }
}

#[test]
fn what_others_read_too_is_kept() {
    let mut maker = Maker::default();
    let x = maker.input(&[3, 6]);
    let w = maker.constant(&[6, 6]);
    let y = maker.node("MatMul", &[x, w], &[]);
    let z = maker.node("Relu", &[y], &[]);
    // A product that is a result, one that is read twice, and a bias along the wrong axis.
    let twice = maker.node("MatMul", &[z, w], &[]);
    let sum = maker.node("Add", &[twice, twice], &[]);
    let column = maker.constant(&[3, 1]);
    let third = maker.node("MatMul", &[sum, w], &[]);
    let third = maker.node("Add", &[third, column], &[]);
    let graph = maker.finish(&[y, third]);
    let names = operations(&graph);
    assert_eq!(names.iter().filter(|name| *name == "matmul of panels").count(), 3, "{names:?}");
    assert!(names.len() >= 6, "{names:?}");
}

#[test]
fn layouts_meet_and_part() {
    let mut maker = Maker::default();
    let x = maker.input(&[1, 6, 8, 8]);
    let a = maker.conv(x, &[10, 6, 3, 3], 1, 1);
    let a = maker.node("Clip", &[a], &[]);
    let kernel = Attribute::Ints(vec![2, 2]);
    let strides = ("strides", Attribute::Ints(vec![2, 2]));
    let pooled = maker.node("MaxPool", &[a], &[("kernel_shape", kernel), strides]);
    let scale = maker.constant(&[10, 1, 1]);
    let scaled = maker.node("Mul", &[pooled, scale], &[]);
    let joined = maker.node("Concat", &[scaled, pooled], &[("axis", Attribute::Int(1))]);
    let turned = maker.node("Transpose", &[joined], &[("perm", Attribute::Ints(vec![0, 2, 3, 1]))]);
    let w = maker.constant(&[20, 4]);
    let product = maker.node("MatMul", &[turned, w], &[]);
    let mean = maker.node("GlobalAveragePool", &[joined], &[]);
    let graph = maker.finish(&[product, mean, joined]);
    operations(&graph);
}
