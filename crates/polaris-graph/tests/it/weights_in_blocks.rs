//! Weights of few bits: in blocks on every device where those have them exactly, dequantised elsewhere.

use polaris_core::random::SplitMix64;
use polaris_graph::plan::{Home, Plan};
use polaris_graph::{Mode, Options, Session};
use polaris_onnx::{ElementType, GraphBuilder, Model, Tensor, Value, interpret};
use polaris_ops::matmul::Precision;
use polaris_ops::{Block, Format};
use polaris_runtime::{Runtime, RuntimeOptions};

// More elements than plans fold.
const K: usize = 480;
const N: usize = 37;

/// How a weight is quantised.
#[derive(Debug, Clone, Copy)]
struct Case {
    element: ElementType,
    /// Elements that share a scale along the sum; none for one scale for each column.
    group: Option<usize>,
    /// Whether rows are columns: the second factor of a Gemm.
    turned: bool,
    /// Zero points; none are those of the type.
    zeros: Option<[i32; 2]>,
    /// Whether scales have eleven significant bits.
    half: bool,
    /// What it becomes.
    block: Option<Block>,
}

fn integers(element: ElementType, shape: &[usize], next: impl FnMut(usize) -> i32) -> Tensor {
    let values: Vec<i128> = (0..shape.iter().product()).map(next).map(i128::from).collect();
    Tensor::from_integers(element, shape, &values).unwrap()
}

fn model(case: &Case, random: &mut SplitMix64) -> Model {
    let (low, high) = match case.element {
        ElementType::I4 => (-8, 7),
        ElementType::U4 => (0, 15),
        ElementType::I8 => (-128, 127),
        _ => (0, 255),
    };
    let swap = |dims: [usize; 2]| if case.turned { [dims[1], dims[0]] } else { dims };
    let span = (high - low + 1) as f64;
    let shape = swap([K, N]);
    let levels = integers(case.element, &shape, |_| low + (random.unit() * span) as i32);
    let groups = case.group.map(|group| K.div_ceil(group));
    let of_scales = groups.map_or(vec![N], |groups| swap([groups, N]).to_vec());
    let scales: Vec<f32> = (0..of_scales.iter().product())
        .map(|_| (0.5 + random.unit()) as f32 / 128.0)
        // Scales of seven bits have offsets of eleven.
        .map(|scale| if case.half { (scale * 8192.0).round() / 8192.0 } else { scale })
        .collect();
    let mut graph = GraphBuilder::new("layer").opset(21);
    let x = graph.input("x", ElementType::F32, ["n", "480"]);
    let levels = graph.constant(levels);
    let scales = graph.constant(Tensor::new(&of_scales, scales).unwrap());
    let mut operands = vec![levels, scales];
    if let Some([least, most]) = case.zeros {
        let span = f64::from(most - least + 1);
        let zero = |_| least + (random.unit() * span) as i32;
        operands.push(graph.constant(integers(case.element, &of_scales, zero)));
    }
    let of_columns = i64::from(!case.turned);
    let weight = match case.group {
        Some(group) => {
            let attributes = [("axis", 1 - of_columns), ("block_size", group as i64)];
            graph.node_with("DequantizeLinear", operands, attributes)
        }
        None => graph.node_with("DequantizeLinear", operands, [("axis", of_columns)]),
    };
    let y = match case.turned {
        true => {
            let bias = graph.constant(Tensor::new(&[N], vec![0.25f32; N]).unwrap());
            graph.node_with("Gemm", [x, weight, bias], [("transB", 1)])
        }
        false => graph.node("MatMul", [x, weight]),
    };
    graph.output_as(y, "y");
    graph.build().unwrap()
}

fn formats(plan: &Plan) -> Vec<Format> {
    let constants = plan.slots.iter().filter_map(|slot| match &slot.home {
        Home::Constant(array) => Some(array.format()),
        _ => None,
    });
    constants.filter(|format| matches!(format, Format::Block(_))).collect()
}

fn check(case: &Case, runtime: &Runtime, modes: &[Mode]) {
    let mut random = SplitMix64::new(case.group.unwrap_or(7) as u64);
    let model = model(case, &mut random);
    for &mode in modes {
        let options = Options { mode, ..Options::default() };
        let session = Session::new(runtime, model.clone(), &options).unwrap();
        for rows in [1, 70] {
            let x: Vec<f32> = (0..rows * K).map(|_| (random.unit() - 0.5) as f32).collect();
            let x = Tensor::new(&[rows, K], x).unwrap();
            let expected = interpret(&model.graph, &[Some(x.clone().into())], &[]).unwrap();
            let expected = expected[0].tensor().unwrap().to_f64().unwrap();
            let largest = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
            let found = session.run_tensors(vec![x.clone()]).unwrap();
            for (a, b) in found[0].to_f64().unwrap().iter().zip(&expected) {
                assert!((a - b).abs() <= 1e-5 * largest, "{case:?} {mode:?}: {a}, not {b}");
            }
            let plan = session.plan(&[("x", Value::Tensor(x).ty())]).unwrap();
            assert!(plan.is_wholly_on(session.side()), "{case:?} {mode:?}");
            let wanted: Vec<Format> = case.block.map(Format::Block).into_iter().collect();
            assert_eq!(formats(&plan), wanted, "{case:?} {mode:?}");
        }
    }
}

fn modes(runtime: &Runtime) -> Vec<Mode> {
    let opencl = runtime.devices().iter().any(|device| device.as_opencl().is_some());
    [Mode::Cpu, Mode::Gpu].into_iter().filter(|&mode| opencl || mode == Mode::Cpu).collect()
}

#[test]
fn weights_of_few_bits_stay_packed_where_blocks_have_them_exactly() {
    use ElementType::{I4, I8, U4, U8};
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let modes = modes(&runtime);
    let case = |element, group, zeros, half, block| Case {
        element,
        group,
        turned: false,
        zeros,
        half,
        block,
    };
    let cases = [
        case(I4, Some(32), None, true, Some(Block::Q4_0)),
        case(I4, Some(64), None, true, Some(Block::Q4_0)),
        case(I4, None, None, true, Some(Block::Q4_0)),
        case(U4, Some(64), Some([8, 8]), true, Some(Block::Q4_0)),
        case(U4, Some(32), Some([3, 12]), true, Some(Block::Q4_1)),
        case(I4, Some(256), Some([-5, 4]), true, Some(Block::Q4_1)),
        case(I8, None, None, true, Some(Block::Q8_0)),
        case(U8, Some(96), Some([128, 128]), true, Some(Block::Q8_0)),
        // No block has these.
        case(I4, Some(64), None, false, None),
        case(I4, Some(16), None, true, None),
        case(U8, None, Some([100, 140]), true, None),
    ];
    for case in cases {
        check(&case, &runtime, &modes);
        check(&Case { turned: true, ..case }, &runtime, &modes);
    }
}

/// Activations that are rounded to 8 bits lose less than a hundredth, and on the CPU something.
#[test]
fn activations_may_be_rounded() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let case = Case {
        element: ElementType::I4,
        group: Some(32),
        turned: false,
        zeros: None,
        half: true,
        block: Some(Block::Q4_0),
    };
    let mut random = SplitMix64::new(1);
    let model = model(&case, &mut random);
    let x =
        Tensor::new(&[3, K], (0..3 * K).map(|_| random.unit() as f32 - 0.5).collect::<Vec<_>>());
    let x = x.unwrap();
    let run = |precision| {
        let options = Options { mode: Mode::Cpu, precision, ..Options::default() };
        let session = Session::new(&runtime, model.clone(), &options).unwrap();
        session.run_tensors(vec![x.clone()]).unwrap()[0].to_f64().unwrap()
    };
    let (full, rounded) = (run(Precision::Full), run(Precision::Int8));
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let off = square(&mut full.iter().zip(&rounded).map(|(a, b)| a - b));
    let relative = off / square(&mut full.iter().copied());
    assert!((1e-5..0.01).contains(&relative), "{relative}");
}

/// A weight that something else reads too, or nobody but the caller.
#[test]
fn weights_that_others_read_are_dequantised() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let mut graph = GraphBuilder::new("tied").opset(21);
    let x = graph.input("x", ElementType::F32, ["n", "64"]);
    let levels = graph.constant(integers(ElementType::I8, &[64, 64], |at| at as i32 % 200 - 100));
    let scale = graph.number(0.25);
    let tied = graph.node("DequantizeLinear", [levels, scale]);
    let y = graph.node("MatMul", [x, tied]);
    let turned = graph.node_with("Gemm", [y, tied], [("transB", 1)]);
    graph.output_as(turned, "y");
    graph.output_as(tied, "weight");
    let model = graph.build().unwrap();
    let x = Tensor::new(&[2, 64], vec![0.5f32; 128]).unwrap();
    let expected = interpret(&model.graph, &[Some(x.clone().into())], &[]).unwrap();
    for mode in modes(&runtime) {
        let options = Options { mode, ..Options::default() };
        let session = Session::new(&runtime, model.clone(), &options).unwrap();
        let found = session.run_tensors(vec![x.clone()]).unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            let (found, expected) =
                (found.to_f64().unwrap(), expected.tensor().unwrap().to_f64().unwrap());
            let largest = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
            let same = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * largest;
            assert!(found.iter().zip(&expected).all(same), "{mode:?}");
        }
        let plan = session.plan(&[("x", Value::Tensor(x.clone()).ty())]).unwrap();
        assert_eq!(formats(&plan), [], "{mode:?}");
    }
}
