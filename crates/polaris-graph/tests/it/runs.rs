//! Options of sessions and runs: limits, cancellation, chosen outputs, fallbacks, contradictions.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::models;
use polaris_core::CancellationToken;
use polaris_graph::{Error, Mode, Options, RunOptions, Session};
use polaris_onnx::ElementType::F32;
use polaris_onnx::{GraphBuilder, Model, Tensor, Value};
use polaris_runtime::machine::Paths;
use polaris_runtime::{DeviceRef, MemoryLimit, Runtime, RuntimeOptions};

fn runtime(limits: &[&str]) -> Runtime {
    let memory_limits: Vec<MemoryLimit> = limits.iter().map(|text| text.parse().unwrap()).collect();
    let paths = Paths { cache: None, data: None };
    Runtime::discover(&RuntimeOptions { memory_limits, paths, ..RuntimeOptions::default() })
        .unwrap()
}

fn session(runtime: &Runtime, model: Model, options: &Options) -> Session {
    Session::new(runtime, model, options).unwrap()
}

fn on(mode: Mode) -> Options {
    Options { mode, ..Options::default() }
}

fn opencl(runtime: &Runtime) -> Option<DeviceRef> {
    let device = runtime.devices().iter().find(|device| device.as_opencl().is_some()).cloned();
    if device.is_none() {
        assert!(!models::is_required("opencl"), "an OpenCL device is required");
        eprintln!("skipped: there is no OpenCL device");
    }
    device
}

/// An input for the graphs below.
fn input() -> [(&'static str, Value); 1] {
    [("x", Value::Tensor(Tensor::new(&[3, 4], vec![1.5f32; 12]).unwrap()))]
}

/// A tensor of so many int64 from a shape that is only known at run time, so that the host makes it.
fn expanded(elements: i64) -> Model {
    let mut graph = GraphBuilder::new("expanded");
    let x = graph.input("x", F32, [3, 4]);
    let factor = graph.integers(&[elements / 12]);
    let shape = graph.node("Shape", [x]);
    let twelve = graph.node("ReduceProd", [shape]);
    let count = graph.node("Mul", [twelve, factor]);
    let zeros = graph.node("ConstantOfShape", [count]);
    let y = graph.node_with("ReduceSum", [zeros], [("keepdims", 0)]);
    graph.output_as(y, "y");
    graph.build().unwrap()
}

#[test]
fn a_memory_limit_is_that_of_its_runtime_alone() {
    let (small, free) = (runtime(&["cpu=4MiB"]), runtime(&[]));
    let eight_mib = || expanded(12 << 18);
    let limited = session(&small, eight_mib(), &on(Mode::Cpu));
    let unlimited = session(&free, eight_mib(), &on(Mode::Cpu));
    for _ in 0..2 {
        let refused = limited.run(&input()).unwrap_err().to_string();
        assert!(refused.contains("4 MiB") || refused.contains("4194304"), "{refused}");
        unlimited.run(&input()).unwrap();
        let again = session(&free, eight_mib(), &on(Mode::Cpu));
        again.run(&input()).unwrap();
        // Nor do tensors outside of any session know of it.
        Tensor::new(&[2 << 20], vec![0.0f32; 2 << 20]).unwrap();
    }
}

/// A chain of so many products, none of which can be fused away.
fn chain(length: usize) -> Model {
    let mut graph = GraphBuilder::new("chain");
    let mut values = vec![graph.input("x", F32, [3, 4])];
    for index in 1..=length {
        values
            .push(graph.call("Softmax", [values[index - 1]]).named(&format!("v{index}")).output());
    }
    graph.output(values[length]);
    graph.output(values[length / 2]);
    graph.build().unwrap()
}

#[test]
fn a_run_is_cancelled_alone() {
    let runtime = runtime(&[]);
    for mode in [Mode::Cpu, Mode::Auto] {
        let session = session(&runtime, chain(20), &on(mode));
        let token = CancellationToken::new();
        let options = RunOptions { cancellation: Some(token.clone()), ..RunOptions::default() };
        session.run_with(&input(), &options).unwrap();
        token.cancel();
        let error = session.run_with(&input(), &options).unwrap_err();
        assert!(error.is_cancelled(), "{error}");
        session.run(&input()).unwrap();
    }
}

#[test]
fn a_session_is_cancelled_with_all_its_runs_and_no_other() {
    let runtime = runtime(&[]);
    let token = CancellationToken::new();
    let cancellable = Options { cancellation: Some(token.clone()), ..on(Mode::Cpu) };
    let [one, other] = [&cancellable, &on(Mode::Cpu)].map(|o| session(&runtime, chain(3), o));
    one.run(&input()).unwrap();
    token.cancel();
    assert!(one.run(&input()).unwrap_err().is_cancelled());
    other.run(&input()).unwrap();
}

#[test]
fn a_run_on_a_device_ends_between_its_instructions() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let runtime = runtime(&[]);
    if opencl(&runtime).is_none() {
        return;
    }
    let session = session(&runtime, chain(200), &on(Mode::Gpu));
    let expected = session.run(&input()).unwrap();
    let token = CancellationToken::when(|| ASKED.fetch_add(1, Ordering::Relaxed) >= 60);
    let options = RunOptions { cancellation: Some(token), ..RunOptions::default() };
    let error = session.run_with(&input(), &options).unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    // Nobody asked for the remaining 140 instructions.
    assert!(ASKED.load(Ordering::Relaxed) < 70);
    assert_eq!(session.run(&input()).unwrap(), expected);
}

#[test]
fn outputs_are_chosen_by_name() {
    let runtime = runtime(&[]);
    let session = session(&runtime, chain(10), &on(Mode::Auto));
    let all = session.run(&input()).unwrap();
    let chosen = |names: &[&str]| {
        let outputs = Some(names.iter().map(|name| (*name).to_owned()).collect());
        session.run_with(&input(), &RunOptions { outputs, ..RunOptions::default() })
    };
    assert_eq!(chosen(&["v5"]).unwrap(), all[1..]);
    assert_eq!(chosen(&["v5", "v10"]).unwrap(), [all[1].clone(), all[0].clone()]);
    assert_eq!(chosen(&[]).unwrap(), []);
    let error = chosen(&["v3"]).unwrap_err().to_string();
    assert_eq!(error, "the model has no output `v3`; it has `v10`, `v5`");
}

/// Weights that a small device has room for, and activations that it has not.
fn growing() -> Model {
    let mut graph = GraphBuilder::new("growing");
    let x = graph.input("x", F32, [3, 4]);
    let w = graph.constant(models::floats(&[4, 4]));
    let (repeats, axes) = (graph.integers(&[1000, 100]), graph.integers(&[0, 1]));
    let product = graph.node("MatMul", [x, w]);
    let tiled = graph.node("Tile", [product, repeats]);
    let soft = graph.node("Softmax", [tiled]);
    let y = graph.node_with("ReduceSum", [soft, axes], [("keepdims", 0)]);
    graph.output_as(y, "y");
    graph.build().unwrap()
}

#[test]
fn a_fallback_is_told_can_be_refused_and_gives_back_the_device() {
    let Some(device) = opencl(&runtime(&[])) else { return };
    let small = runtime(&[&format!("{}=1MiB", device.id())]);
    let device = small.device(device.id()).unwrap().clone();
    let options = Options { device: Some(device.clone()), ..on(Mode::Gpu) };
    let before = device.allocator().memory_use();
    let session = session(&small, growing(), &options);
    let refusing = RunOptions { fallback: false, ..RunOptions::default() };
    let error = session.run_with(&input(), &refusing).unwrap_err();
    assert!(error.is_device_failure(), "{error}");
    assert!(session.fallback().is_none());
    assert_eq!(session.device().id(), device.id());

    let outputs = session.run(&input()).unwrap();
    assert!((outputs[0].1.tensor().unwrap().to_f64().unwrap()[0] - 3000.0).abs() < 0.1);
    let fallback = session.fallback().unwrap();
    assert_eq!(fallback.device.id(), device.id());
    assert!(fallback.reason.contains("has no room"), "{}", fallback.reason);
    assert_eq!(session.device().id(), small.cpu().id());
    let after = device.allocator().memory_use();
    assert_eq!((after.used, after.cached), (before.used, 0));
    // From now on it is an ordinary session on the CPU.
    session.run_with(&input(), &refusing).unwrap();
}

#[test]
fn modes_and_devices_that_contradict_each_other_are_refused() {
    let runtime = runtime(&[]);
    let cpu = runtime.cpu().clone();
    let open = |mode, device: &DeviceRef| {
        Session::new(&runtime, chain(1), &Options { device: Some(device.clone()), ..on(mode) })
    };
    for mode in [Mode::Gpu, Mode::Hybrid] {
        let error = open(mode, &cpu).unwrap_err();
        assert!(matches!(error, Error::ModeWithoutDevice { .. }), "{error}");
    }
    for mode in [Mode::Cpu, Mode::Auto] {
        assert_eq!(open(mode, &cpu).unwrap().device().id(), cpu.id());
    }
    let Some(device) = opencl(&runtime) else { return };
    let error = open(Mode::Cpu, &device).unwrap_err().to_string();
    let id = device.id();
    assert_eq!(
        error,
        format!("mode cpu does not run on {id}; use the device cpu or none, or the mode gpu")
    );
    for mode in [Mode::Gpu, Mode::Auto] {
        assert_eq!(open(mode, &device).unwrap().device().id(), id);
    }
}
