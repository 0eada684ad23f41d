//! What passes make runs on devices, and what they must not touch stays as it is.

use polaris_graph::passes::ALL;
use polaris_graph::{Mode, Options, Passes, Session};
use polaris_onnx::{
    Attribute, ElementType, GraphBuilder, Model, Tensor, Value, ValueId, interpret,
};
use polaris_runtime::{Runtime, RuntimeOptions};

fn runtime() -> Runtime {
    Runtime::discover(&RuntimeOptions::default()).unwrap()
}

/// The modes that this machine has.
fn modes(runtime: &Runtime) -> Vec<Mode> {
    let opencl = runtime.devices().iter().any(|device| device.as_opencl().is_some());
    if opencl { vec![Mode::Cpu, Mode::Gpu] } else { vec![Mode::Cpu] }
}

fn tensor(element: ElementType, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |at: usize| match element {
        ElementType::Bool => f64::from(at % 3 != 1),
        _ => (at * 7919 % 1009) as f64 / 504.5 - 1.0,
    };
    Tensor::from_f64(element, shape, &(0..count).map(value).collect::<Vec<f64>>()).unwrap()
}

fn builder() -> GraphBuilder {
    GraphBuilder::new("test").opset(23)
}

/// A model of one node whose operands are given.
fn single(operator: &str, operands: &[Option<Tensor>], attributes: &[(&str, Attribute)]) -> Model {
    let mut graph = builder();
    let mut inputs: Vec<Option<ValueId>> = Vec::new();
    for (at, operand) in operands.iter().enumerate() {
        let ty = |tensor: &Tensor| Value::Tensor(tensor.clone()).ty();
        inputs.push(operand.as_ref().map(|x| graph.input_of(&format!("x{at}"), ty(x))));
    }
    let made = graph.node_with(operator, inputs, attributes.iter().cloned());
    graph.output_as(made, "y");
    graph.build().unwrap()
}

fn close(found: &Tensor, expected: &Tensor, tolerance: f64) {
    assert_eq!((found.element(), found.shape()), (expected.element(), expected.shape()));
    for (a, b) in found.to_f64().unwrap().into_iter().zip(expected.to_f64().unwrap()) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{a} instead of {b}");
    }
}

/// Runs a node on every device, compares with the interpreter, and says whether all of it ran there.
fn run_single(
    operator: &str,
    operands: &[Option<Tensor>],
    attributes: &[(&str, Attribute)],
    tolerance: f64,
) -> bool {
    let runtime = runtime();
    let model = single(operator, operands, attributes);
    let values: Vec<Tensor> = operands.iter().flatten().cloned().collect();
    let given: Vec<Option<Value>> = values.iter().map(|x| Some(x.clone().into())).collect();
    let expected = interpret(&model.graph, &given, &[]).unwrap();
    let mut wholly = true;
    for mode in modes(&runtime) {
        let options = Options { mode, ..Options::default() };
        let session = Session::new(&runtime, model.clone(), &options).unwrap();
        let found = session.run_tensors(values.clone()).unwrap();
        close(&found[0], expected[0].tensor().unwrap(), tolerance);
        let names: Vec<String> =
            session.inputs().iter().map(|(name, _)| (*name).to_owned()).collect();
        let types = names.iter().zip(&values);
        let types: Vec<_> =
            types.map(|(name, x)| (name.as_str(), Value::Tensor(x.clone()).ty())).collect();
        wholly &= session.plan(&types).unwrap().is_wholly_on(session.side());
    }
    wholly
}

#[test]
fn attention_runs_on_devices() {
    use ElementType::{BF16, Bool, F16, F32, F64};
    let heads = |q: i64, k: i64| {
        vec![("q_num_heads", Attribute::Int(q)), ("kv_num_heads", Attribute::Int(k))]
    };
    let causal = vec![("is_causal", Attribute::Int(1)), ("scale", Attribute::Float(0.3))];
    type Case<'a> = (
        ElementType,
        [&'a [usize]; 3],
        Option<(ElementType, &'a [usize])>,
        Vec<(&'a str, Attribute)>,
    );
    let apart: [&[usize]; 3] = [&[2, 6, 5, 8], &[2, 6, 7, 8], &[2, 6, 7, 4]];
    let shared: [&[usize]; 3] = [&[2, 6, 5, 8], &[2, 2, 7, 8], &[2, 2, 7, 4]];
    let packed: [&[usize]; 3] = [&[2, 5, 48], &[2, 7, 16], &[2, 7, 8]];
    let cases: Vec<Case<'_>> = vec![
        (F32, apart, None, vec![]),
        (F64, apart, Some((F64, &[5, 7])), vec![]),
        (F16, apart, Some((F16, &[2, 1, 5, 7])), causal.clone()),
        (BF16, apart, None, causal.clone()),
        // Neighbouring heads share keys.
        (F32, shared, Some((Bool, &[2, 1, 1, 7])), vec![]),
        (F32, shared, Some((F32, &[6, 5, 7])), causal),
        (F32, packed, None, heads(6, 2)),
        (F16, packed, Some((Bool, &[5, 7])), heads(6, 2)),
    ];
    for (element, shapes, mask, attributes) in cases {
        let mut operands: Vec<Option<Tensor>> =
            shapes.iter().map(|shape| Some(tensor(element, shape))).collect();
        operands.extend(mask.map(|(element, shape)| Some(tensor(element, shape))));
        let tolerance = match element {
            F16 => 2e-3,
            BF16 => 2e-2,
            _ => 1e-5,
        };
        let wholly = run_single("Attention", &operands, &attributes, tolerance);
        assert!(wholly, "{element} {shapes:?} {mask:?}");
    }
}

#[test]
fn what_devices_do_not_have_is_interpreted() {
    let part = |shape: &[usize]| Some(tensor(ElementType::F32, shape));
    let (q, kv, past) = ([2, 6, 5, 8], [2, 6, 7, 8], [2, 6, 3, 8]);
    let capped = [("softcap", Attribute::Float(2.0))];
    assert!(!run_single("Attention", &[part(&q), part(&kv), part(&kv)], &capped, 1e-5));
    let with_past = [part(&q), part(&kv), part(&kv), None, part(&past), part(&past)];
    assert!(!run_single("Attention", &with_past, &[], 1e-5));
    // Keys beyond the end of a mask are hidden.
    let short = [part(&q), part(&kv), part(&kv), part(&[5, 4])];
    assert!(!run_single("Attention", &short, &[], 1e-5));
}

#[test]
fn rotations_run_on_devices() {
    let f32 = ElementType::F32;
    let tables = [Some(tensor(f32, &[2, 5, 3])), Some(tensor(f32, &[2, 5, 3]))];
    let heads = ("num_heads", Attribute::Int(4));
    let some = ("rotary_embedding_dim", Attribute::Int(6));
    let between = ("interleaved", Attribute::Int(1));
    for (shape, attributes) in [
        (vec![2, 4, 5, 6], vec![]),
        (vec![2, 4, 5, 6], vec![between.clone()]),
        (vec![2, 4, 5, 9], vec![some.clone()]),
        (vec![2, 5, 36], vec![heads, some, between]),
    ] {
        let operands = [vec![Some(tensor(f32, &shape))], tables.to_vec()].concat();
        assert!(run_single("RotaryEmbedding", &operands, &attributes, 1e-5), "{shape:?}");
    }
}

/// `x * sqrt(w)`, where a constant stands for `w` unless it is given.
fn with_default(ir_version: i64) -> Model {
    let mut graph = builder();
    let x = graph.input("x0", ElementType::F32, [4]);
    let w = graph.input_with_default("w", Tensor::scalar(4f32));
    let root = graph.node("Sqrt", [w]);
    let y = graph.node("Mul", [x, root]);
    graph.output_as(y, "y");
    Model { ir_version, ..graph.build().unwrap() }
}

#[test]
fn constants_that_may_be_given_are_no_constants() {
    let (runtime, x) = (runtime(), tensor(ElementType::F32, &[4]));
    let options = Options { mode: Mode::Cpu, passes: Passes::all(), ..Options::default() };
    let session = Session::new(&runtime, with_default(8), &options).unwrap();
    for (w, factor) in [(None, 2.0), (Some(9f32), 3.0)] {
        let mut given = vec![("x0", Value::from(x.clone()))];
        given.extend(w.map(|w| ("w", Value::from(Tensor::scalar(w)))));
        let found = session.run(&given).unwrap();
        let expected: Vec<f64> = x.to_f64().unwrap().iter().map(|value| value * factor).collect();
        let expected = Tensor::from_f64(ElementType::F32, &[4], &expected).unwrap();
        close(found[0].1.tensor().unwrap(), &expected, 1e-6);
    }
    // Old files had to list every constant as an input.
    let session = Session::new(&runtime, with_default(3), &options).unwrap();
    assert_eq!(session.graph().nodes.len(), 1);
    assert_eq!(session.inputs().len(), 1);
}

/// A choice whose branches refer to a value outside that passes replace.
#[test]
fn what_graphs_inside_nodes_refer_to_stays_right() {
    let mut graph = builder();
    let x = graph.input("x0", ElementType::F32, [4]);
    let choice = graph.input_with_default("choice", Tensor::bools(&[], &[true]).unwrap());
    let (same, twin) = (graph.node("Identity", [x]), graph.node("Identity", [x]));
    let branch = |operator: &str| {
        let mut inner = graph.inner(operator);
        let (a, b) = (inner.capture("a", same), inner.capture("b", twin));
        let c = inner.node("Identity", [a]);
        let d = inner.node(operator, [c, b]);
        inner.output(d);
        inner.finish().unwrap()
    };
    let branches = [("then_branch", branch("Add")), ("else_branch", branch("Mul"))];
    let chosen = graph.node_with("If", [choice], branches);
    graph.output_as(chosen, "chosen");
    let model = graph.build().unwrap();
    let runtime = runtime();
    let options = Options { mode: Mode::Cpu, ..Options::default() };
    let session = Session::new(&runtime, model, &options).unwrap();
    assert_eq!(session.graph().nodes.len(), 1, "{}", session.graph());
    let x = tensor(ElementType::F32, &[4]);
    for (truth, operator) in [(true, "Add"), (false, "Mul")] {
        let choice = Value::from(Tensor::bools(&[], &[truth]).unwrap());
        let found = session.run(&[("x0", x.clone().into()), ("choice", choice)]).unwrap();
        let plain = single(operator, &[Some(x.clone()), Some(x.clone())], &[]);
        let given = [Some(x.clone().into()), Some(x.clone().into())];
        let expected = interpret(&plain.graph, &given, &[]).unwrap();
        close(found[0].1.tensor().unwrap(), expected[0].tensor().unwrap(), 1e-6);
    }
}

#[test]
fn every_pass_can_be_left_out() {
    let runtime = runtime();
    for pass in ALL {
        let passes = Passes::all().without(pass.name).unwrap();
        let options = Options { mode: Mode::Cpu, passes, ..Options::default() };
        let session = Session::new(&runtime, with_default(3), &options).unwrap();
        assert!(session.changes().iter().all(|change| change.pass != pass.name));
        assert!(session.run_tensors(vec![tensor(ElementType::F32, &[4])]).is_ok());
    }
}
