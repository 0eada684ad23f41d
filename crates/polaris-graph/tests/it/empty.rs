//! Tensors without elements: plans on every device give what the interpreter gives, with each axis of each
//! input of each operator 0 in turn.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use polaris_graph::{Mode, Options, Session};
use polaris_onnx::{Attribute, ElementType, GraphBuilder, Model, Tensor, Type, Value, interpret};
use polaris_runtime::machine::Paths;
use polaris_runtime::{Runtime, RuntimeOptions};

/// An operator with the shapes of its inputs, constants after them, and attributes.
struct Case {
    operator: &'static str,
    outputs: usize,
    shapes: Vec<Vec<usize>>,
    constants: Vec<Tensor>,
    attributes: Vec<(&'static str, Attribute)>,
}

fn case(operator: &'static str, shapes: &[&[usize]]) -> Case {
    let shapes = shapes.iter().map(|shape| shape.to_vec()).collect();
    Case { operator, outputs: 1, shapes, constants: Vec::new(), attributes: Vec::new() }
}

impl Case {
    /// A list of integers as the next operand.
    fn list(mut self, values: &[i64]) -> Self {
        self.constants.push(Tensor::new(&[values.len()], values.to_vec()).unwrap());
        self
    }

    fn constant(mut self, tensor: Tensor) -> Self {
        self.constants.push(tensor);
        self
    }

    fn int(mut self, name: &'static str, value: i64) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    fn ints(mut self, name: &'static str, values: &[i64]) -> Self {
        self.attributes.push((name, values.into()));
        self
    }

    fn text(mut self, name: &'static str, value: &str) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    fn outputs(mut self, outputs: usize) -> Self {
        self.outputs = outputs;
        self
    }

    fn model(&self) -> Model {
        let mut graph = GraphBuilder::new(self.operator).opset(23);
        let mut inputs = Vec::new();
        for at in 0..self.shapes.len() {
            let ty = Type::Tensor(ElementType::F32, None);
            inputs.push(graph.input_of(&format!("x{at}"), ty));
        }
        inputs.extend(self.constants.iter().map(|tensor| graph.constant(tensor.clone())));
        let node = graph.call(self.operator, inputs).attributes(self.attributes.iter().cloned());
        for (at, id) in node.output_list(self.outputs).into_iter().enumerate() {
            graph.output_as(id, &format!("y{at}"));
        }
        graph.build().unwrap()
    }

    /// The shapes with one axis, or all axes of one length, or of two, without elements.
    fn empty_shapes(&self) -> BTreeSet<Vec<Vec<usize>>> {
        let lengths: BTreeSet<usize> = self.shapes.iter().flatten().copied().collect();
        let mut choices = BTreeSet::new();
        for &first in &lengths {
            for &second in &lengths {
                let left = |&dim: &usize| if dim == first || dim == second { 0 } else { dim };
                choices.insert(
                    self.shapes.iter().map(|dims| dims.iter().map(left).collect()).collect(),
                );
            }
        }
        for (at, dims) in self.shapes.iter().enumerate() {
            for axis in 0..dims.len() {
                let mut choice = self.shapes.clone();
                choice[at][axis] = 0;
                choices.insert(choice);
            }
        }
        choices
    }
}

/// Lengths differ, so that each can be emptied apart.
fn cases() -> Vec<Case> {
    let x: &[&[usize]] = &[&[2, 3, 5]];
    let image: &[&[usize]] = &[&[2, 3, 5, 7]];
    let vector = |values: &[f32]| Tensor::new(&[values.len()], values.to_vec()).unwrap();
    let weight = |dims: &[usize]| {
        let count = dims.iter().product::<usize>();
        Tensor::new(dims, (0..count).map(|at| (at % 7) as f32 - 3.0).collect()).unwrap()
    };
    let matrix = |dims: &[usize], values: &[i64]| Tensor::new(dims, values.to_vec()).unwrap();
    let mut cases = vec![
        // Views.
        case("Identity", x),
        case("Shape", x),
        case("Size", x),
        case("Flatten", x).int("axis", 2),
        case("Reshape", x).list(&[0, 0, -1]),
        case("Reshape", x).list(&[0, 0, 0, 1]),
        case("Reshape", x).list(&[3, 0, 2]).int("allowzero", 1),
        case("Reshape", x).list(&[-1, 5]),
        case("Squeeze", &[&[1, 3, 1, 5]]).list(&[0, 2]),
        case("Unsqueeze", x).list(&[0, 3]),
        case("Transpose", x).ints("perm", &[2, 0, 1]),
        case("Expand", x).list(&[4, 1, 1, 1]),
        case("Expand", &[&[2, 1, 5]]).list(&[2, 0, 5]),
        case("Slice", x).list(&[1, 1]).list(&[3, 4]).list(&[0, 2]),
        case("Slice", x).list(&[4, 1]).list(&[0, 3]).list(&[2, 1]).list(&[-2, 1]),
        case("Split", x).list(&[1, 1]).outputs(2),
        case("Split", x).list(&[1, 2]).int("axis", 1).outputs(2),
        case("Split", x).list(&[2, 3]).int("axis", 2).outputs(2),
        case("Split", x).int("num_outputs", 2).int("axis", 2).outputs(2),
        case("DepthToSpace", &[&[2, 8, 3, 5]]).int("blocksize", 2),
        case("SpaceToDepth", &[&[2, 3, 4, 6]]).int("blocksize", 2),
        // Elements taken, repeated, put.
        case("Concat", &[&[2, 3, 5], &[2, 4, 5]]).int("axis", 1),
        case("Concat", &[&[2, 3], &[7, 3], &[2, 3]]).int("axis", 0),
        case("Tile", x).list(&[2, 3, 1]),
        case("Tile", x).list(&[0, 1, 2]),
        case("Pad", x).list(&[1, 0, 2, 0, 1, 1]),
        case("Pad", x).list(&[0, 0, 2, 0, 1, 1]).text("mode", "edge"),
        case("Pad", x).list(&[0, 0, 2, 0, 1, 1]).text("mode", "reflect"),
        case("CenterCropPad", x).list(&[3, 2]).ints("axes", &[1, 2]),
        case("Gather", x).list(&[0, 1]).int("axis", 0),
        case("Gather", x).list(&[2, -1, 0]).int("axis", 1),
        case("Gather", x).list(&[]).int("axis", 1),
        case("GatherElements", x).constant(matrix(&[2, 3, 0], &[])).int("axis", 1),
        case("GatherElements", x).constant(matrix(&[1, 1, 2], &[0, 1])).int("axis", 1),
        case("GatherND", x).constant(matrix(&[2, 2], &[0, 1, 1, 2])),
        case("GatherND", x).constant(matrix(&[0, 1], &[])),
        case("ScatterElements", x).constant(matrix(&[1, 1, 0], &[])).constant(weight(&[1, 1, 0])),
        case("ScatterND", x).constant(matrix(&[0, 1], &[])).constant(weight(&[0, 3, 5])),
        case("ScatterND", x).constant(matrix(&[1, 2], &[0, 1])).constant(weight(&[1, 5])),
        case("NonZero", x),
        case("TopK", x).list(&[0]).outputs(2),
        case("TopK", x).list(&[2]).int("axis", 1).outputs(2),
        case("Unique", x).outputs(4),
        case("Unique", x).int("axis", 1).outputs(4),
        case("ReverseSequence", &[&[3, 2]]).list(&[1, 2]).int("time_axis", 0).int("batch_axis", 1),
        case("Trilu", x),
        case("EyeLike", &[&[2, 3]]),
        case("CumSum", x).constant(Tensor::scalar(1i64)),
        // Single elements.
        case("Relu", x),
        case("Erf", x),
        case("Gelu", x),
        case("Clip", x).constant(Tensor::scalar(-1f32)).constant(Tensor::scalar(1f32)),
        case("Cast", x).int("to", 7),
        case("Add", &[&[2, 3, 5], &[3, 1]]),
        case("Mul", &[&[2, 1, 5], &[3, 1]]),
        case("Max", &[&[2, 3], &[3], &[1]]),
        case("PRelu", &[&[2, 3, 5], &[3, 1]]),
        case("Equal", &[&[2, 3], &[3]]),
        case("Dropout", x),
        case("QuantizeLinear", x).constant(Tensor::scalar(0.5f32)).constant(Tensor::scalar(3u8)),
        // Along axes.
        case("Softmax", x).int("axis", 1),
        case("LogSoftmax", x),
        case("Hardmax", x),
        case("ArgMax", x).int("axis", 1),
        case("ArgMin", x).int("axis", 2).int("keepdims", 0),
        case("LayerNormalization", x).constant(vector(&[1.0; 5])).constant(vector(&[0.5; 5])),
        case("LayerNormalization", &[&[2, 3, 5], &[5]]),
        case("RMSNormalization", &[&[2, 3, 5], &[5]]),
        case("InstanceNormalization", &[&[2, 3, 5], &[3], &[3]]),
        case("GroupNormalization", &[&[2, 4, 5], &[4], &[4]]).int("num_groups", 2),
        case("BatchNormalization", &[&[2, 3, 5], &[3], &[3], &[3], &[3]]),
        case("LRN", image).int("size", 3),
        case("LpNormalization", x),
        case("MeanVarianceNormalization", image),
        // Products.
        case("MatMul", &[&[2, 3, 5], &[5, 7]]),
        case("MatMul", x).constant(weight(&[5, 7])),
        case("MatMul", &[&[0, 5]]).constant(weight(&[5, 7])),
        case("MatMul", &[&[2, 3, 5], &[2, 5, 7]]),
        case("MatMul", &[&[5], &[5, 7]]),
        case("MatMul", x).constant(weight(&[5, 0])),
        case("Gemm", &[&[3, 5], &[5, 7], &[7]]),
        case("Gemm", &[&[3, 5]]).constant(weight(&[5, 7])).constant(weight(&[7])),
        case("Gemm", &[&[5, 3], &[7, 5]]).int("transA", 1).int("transB", 1),
        case("Einsum", &[&[2, 3, 5], &[2, 5, 7]]).text("equation", "bij,bjk->bik"),
        case("Einsum", x).text("equation", "bij->j"),
        case("Conv", image).constant(weight(&[4, 3, 3, 3])).ints("pads", &[2, 2, 2, 2]),
        case("Conv", image).constant(weight(&[4, 3, 1, 1])),
        case("Conv", image).constant(weight(&[4, 3, 1, 1])).text("auto_pad", "SAME_UPPER"),
        case("Conv", image).constant(weight(&[4, 3, 3, 2])).text("auto_pad", "SAME_LOWER"),
        case("Conv", image).constant(weight(&[3, 1, 2, 2])).int("group", 3),
        case("Conv", &[&[2, 3, 9], &[4, 3, 2]]),
        case("ConvTranspose", image).constant(weight(&[3, 4, 3, 3])).ints("strides", &[2, 2]),
        case("MaxPool", image).ints("kernel_shape", &[2, 2]),
        case("MaxPool", image).ints("kernel_shape", &[2, 2]).outputs(2),
        case("MaxPool", image).ints("kernel_shape", &[2, 2]).ints("pads", &[1, 1, 1, 1]),
        case("AveragePool", image).ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]),
        case("LpPool", image).ints("kernel_shape", &[2, 2]),
        case("GlobalAveragePool", image),
        case("GlobalMaxPool", image),
        case("Resize", image).constant(weight(&[0])).constant(vector(&[1.0, 1.0, 2.0, 2.0])),
        case("GridSample", &[&[2, 3, 5, 7], &[2, 4, 6, 2]]),
        case("Attention", &[&[2, 3, 5, 7], &[2, 3, 4, 7], &[2, 3, 4, 6]]),
        case("LSTM", &[&[4, 2, 3], &[1, 20, 3], &[1, 20, 5]]).int("hidden_size", 5).outputs(3),
        case("GRU", &[&[4, 2, 3], &[1, 15, 3], &[1, 15, 5]]).int("hidden_size", 5).outputs(2),
    ];
    for operator in [
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceSumSquare",
    ] {
        cases.push(case(operator, x).list(&[1]));
        cases.push(case(operator, x).list(&[0, 2]).int("keepdims", 0));
        cases.push(case(operator, x));
    }
    cases
}

fn runtime() -> Runtime {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("empty");
    let paths = Paths { cache: Some(folder.join("cache")), data: Some(folder.join("data")) };
    Runtime::discover(&RuntimeOptions { paths, ..RuntimeOptions::default() }).unwrap()
}

fn difference(found: &Value, expected: &Value) -> Option<String> {
    let (found, expected) = (found.tensor().ok()?, expected.tensor().ok()?);
    if (found.element(), found.shape()) != (expected.element(), expected.shape()) {
        let types = (found.element(), found.shape(), expected.element(), expected.shape());
        return Some(format!("{}{:?} instead of {}{:?}", types.0, types.1, types.2, types.3));
    }
    let (found, expected) = (found.to_f64().unwrap(), expected.to_f64().unwrap());
    let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-4;
    let differs = found.iter().zip(&expected).any(|(&a, &b)| !same(a, b));
    differs.then(|| format!("{found:?} instead of {expected:?}"))
}

#[test]
fn plans_of_empty_tensors_give_what_the_interpreter_gives() {
    let runtime = runtime();
    let opencl = runtime.devices().iter().any(|device| device.as_opencl().is_some());
    let modes = if opencl { vec![Mode::Cpu, Mode::Gpu] } else { vec![Mode::Cpu] };
    let (mut problems, mut computed) = (Vec::new(), 0);
    for case in cases() {
        let model = case.model();
        let sessions: Vec<Session> = (modes.iter())
            .map(|&mode| {
                let options = Options { mode, ..Options::default() };
                Session::new(&runtime, model.clone(), &options).unwrap()
            })
            .collect();
        for shapes in case.empty_shapes() {
            let tensors: Vec<Tensor> = (shapes.iter())
                .map(|dims| {
                    let count = dims.iter().product::<usize>();
                    Tensor::new(dims, (0..count).map(|at| (at % 5) as f32 - 1.5).collect()).unwrap()
                })
                .collect();
            let given: Vec<Option<Value>> =
                tensors.iter().map(|tensor| Some(tensor.clone().into())).collect();
            let about = format!("{} of {shapes:?} {:?}", case.operator, case.attributes);
            let expected = interpret(&model.graph, &given, &[]);
            computed += usize::from(expected.is_ok());
            for (session, mode) in sessions.iter().zip(&modes) {
                let run = || session.run_tensors(tensors.clone());
                let found = match catch_unwind(AssertUnwindSafe(run)) {
                    Ok(found) => found,
                    Err(_) => {
                        problems.push(format!("{mode:?}: {about}: panicked"));
                        continue;
                    }
                };
                match (found, &expected) {
                    (Ok(found), Ok(expected)) => {
                        for (found, expected) in found.iter().zip(expected) {
                            let found = Value::Tensor(found.clone());
                            if let Some(why) = difference(&found, expected) {
                                problems.push(format!("{mode:?}: {about}: {why}"));
                            }
                        }
                    }
                    (Err(_), Err(_)) => {}
                    (Err(error), Ok(_)) => problems.push(format!("{mode:?}: {about}: {error}")),
                    (Ok(found), Err(error)) => {
                        let shape = found[0].shape();
                        problems.push(format!("{mode:?}: {about}: gave {shape:?}, but {error}"));
                    }
                }
            }
        }
    }
    assert!(computed > 500, "only {computed} had a result");
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}
