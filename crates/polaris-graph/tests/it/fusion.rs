//! What follows products and convolutions becomes part of them, wherever channels lie; the results are
//! those of the interpreter.

use polaris_graph::plan::Step;
use polaris_graph::{Mode, Options, Session};
use polaris_onnx::{
    ElementType::{self, F32},
    GraphBuilder, Model, Tensor, Type, Value, ValueId, interpret,
};
use polaris_ops::Format;
use polaris_runtime::{Runtime, RuntimeOptions};

fn builder() -> GraphBuilder {
    GraphBuilder::new("fused").opset(20)
}

/// A constant that differs from the others of its graph.
fn constant(graph: &mut GraphBuilder, shape: &[usize]) -> ValueId {
    let seed = graph.graph().values.len();
    graph.constant(numbers(shape, seed))
}

fn conv(graph: &mut GraphBuilder, x: ValueId, weight: &[usize], pad: i64, groups: i64) -> ValueId {
    let (w, b) = (constant(graph, weight), constant(graph, &weight[..1]));
    graph.call("Conv", [x, w, b]).attribute("pads", [pad; 4]).attribute("group", groups).output()
}

fn finish(mut graph: GraphBuilder, outputs: &[ValueId]) -> Model {
    outputs.iter().for_each(|&id| graph.output(id));
    graph.build().unwrap()
}

fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |at: usize| ((at * 7919 + seed * 131) % 1009) as f64 / 504.5 - 1.0;
    let values: Vec<f64> = (0..count).map(value).collect();
    Tensor::from_f64(ElementType::F32, shape, &values).unwrap()
}

fn session(runtime: &Runtime, model: &Model, mode: Mode) -> Session {
    Session::new(runtime, model.clone(), &Options { mode, ..Options::default() }).unwrap()
}

/// Runs a graph in every mode, compares with the interpreter, and returns the operations of the plan on
/// the CPU.
fn operations(model: &Model) -> Vec<String> {
    let graph = &model.graph;
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
        let session = session(&runtime, model, mode);
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
    let mut graph = builder();
    let x = graph.input("x", F32, [2, 8, 9, 10]);
    let a = conv(&mut graph, x, &[24, 8, 3, 3], 1, 1);
    let a = graph.node("Relu", [a]);
    let wide = conv(&mut graph, a, &[24, 1, 3, 3], 1, 24);
    let wide = graph.node("Relu", [wide]);
    let b = conv(&mut graph, wide, &[16, 24, 1, 1], 0, 1);
    // The other branch is computed later, but is needed by the addition.
    let other = conv(&mut graph, x, &[16, 8, 3, 3], 1, 1);
    let sum = graph.node("Add", [b, other]);
    let sum = graph.node("Relu", [sum]);
    let model = finish(graph, &[sum]);
    let names = operations(&model);
    let convolutions = names.iter().filter(|name| name.ends_with("panels")).count();
    assert_eq!(
        (names.len() - convolutions, convolutions),
        (1, 4),
        "{names:?}: only the output's copy"
    );
}

#[test]
fn a_linear_layer_is_its_product() {
    let mut graph = builder();
    let x = graph.input("x", F32, [2, 5, 12]);
    let (w, bias) = (constant(&mut graph, &[12, 20]), constant(&mut graph, &[20]));
    let y = graph.node("MatMul", [x, w]);
    let y = graph.node("Add", [bias, y]);
    let y = graph.node("Gelu", [y]);
    let w = constant(&mut graph, &[20, 12]);
    let z = graph.node("MatMul", [y, w]);
    let bias = constant(&mut graph, &[12]);
    let z = graph.node("Add", [z, bias]);
    let z = graph.node("Add", [x, z]);
    let model = finish(graph, &[z]);
    assert_eq!(operations(&model), ["matmul of panels", "matmul of panels"]);
}

/// A constant [8, 8, 1] is a batch of eight columns, not a matrix of 8 x 8.
#[test]
fn a_batch_of_columns_is_no_matrix() {
    let mut graph = builder();
    let x = graph.input("x", F32, [8, 6, 8]);
    let w = constant(&mut graph, &[8, 8, 1]);
    let y = graph.node("MatMul", [x, w]);
    let model = finish(graph, &[y]);
    assert_eq!(operations(&model), ["matmul"]);
}

/// A bias has the type of the accumulators: one of half precision is added by itself.
#[test]
fn half_precision_has_linear_layers_too() {
    let mut graph = builder();
    let x = graph.input("x", F32, [3, 6]);
    let (w, bias) = (constant(&mut graph, &[6, 5]), constant(&mut graph, &[5]));
    let [x, w, bias] =
        [x, w, bias].map(|id| graph.node_with("Cast", [id], [("to", ElementType::F16)]));
    let product = graph.node("MatMul", [x, w]);
    let sum = graph.node("Add", [product, bias]);
    let gemm = graph.node("Gemm", [x, w, bias]);
    let outputs = [sum, gemm].map(|id| graph.node_with("Cast", [id], [("to", F32)]));
    let model = finish(graph, &outputs);
    let x = numbers(&[3, 6], 1000);
    let expected = interpret(&model.graph, &[Some(x.clone().into())], &[]).unwrap();
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let found = session(&runtime, &model, Mode::Auto).run_tensors(vec![x]).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        let expected = expected.tensor().unwrap().to_f64().unwrap();
        for (a, b) in found.to_f64().unwrap().into_iter().zip(expected) {
            assert!((a - b).abs() <= 4e-3, "{a} instead of {b}");
        }
    }
}

/// The first rows of a product lie where the product does, and so do no rows at all.
#[test]
fn a_function_of_some_rows_stays_apart() {
    for rows in [0, 2, 5] {
        let mut graph = builder();
        let x = graph.input("x", F32, [5, 6]);
        let w = constant(&mut graph, &[6, 4]);
        let y = graph.node("MatMul", [x, w]);
        let [start, end] = [0, rows].map(|row| graph.integers(&[row]));
        let part = graph.node("Slice", [y, start, end]);
        let part = graph.node("Relu", [part]);
        let names = operations(&finish(graph, &[part]));
        assert_eq!(names.len(), if rows == 5 { 1 } else { 2 }, "{rows} rows: {names:?}");
    }
}

#[test]
fn what_others_read_too_is_kept() {
    let mut graph = builder();
    let x = graph.input("x", F32, [3, 6]);
    let w = constant(&mut graph, &[6, 6]);
    let y = graph.node("MatMul", [x, w]);
    let z = graph.node("Relu", [y]);
    // A product that is a result, one that is read twice, and a bias along the wrong axis.
    let twice = graph.node("MatMul", [z, w]);
    let sum = graph.node("Add", [twice, twice]);
    let column = constant(&mut graph, &[3, 1]);
    let third = graph.node("MatMul", [sum, w]);
    let third = graph.node("Add", [third, column]);
    let model = finish(graph, &[y, third]);
    let names = operations(&model);
    assert_eq!(names.iter().filter(|name| *name == "matmul of panels").count(), 3, "{names:?}");
    assert!(names.len() >= 6, "{names:?}");
}

#[test]
fn layouts_meet_and_part() {
    let mut graph = builder();
    let x = graph.input("x", F32, [1, 6, 8, 8]);
    let a = conv(&mut graph, x, &[10, 6, 3, 3], 1, 1);
    let a = graph.node("Clip", [a]);
    let pooled = graph.node_with("MaxPool", [a], [("kernel_shape", [2, 2]), ("strides", [2, 2])]);
    let scale = constant(&mut graph, &[10, 1, 1]);
    let scaled = graph.node("Mul", [pooled, scale]);
    let joined = graph.node_with("Concat", [scaled, pooled], [("axis", 1)]);
    let turned = graph.node_with("Transpose", [joined], [("perm", [0, 2, 3, 1])]);
    let w = constant(&mut graph, &[20, 4]);
    let product = graph.node("MatMul", [turned, w]);
    let mean = graph.node("GlobalAveragePool", [joined]);
    let model = finish(graph, &[product, mean, joined]);
    operations(&model);
}
