//! Models as users run them: results, repeated runs, threads, fallbacks and mistakes.

use crate::models;
use polaris_graph::plan::{Choice, Instruction, Origin, Side, Step};
use polaris_graph::{Error, Mode, Options, Session};
use polaris_onnx::ElementType::F32;
use polaris_onnx::{GraphBuilder, Tensor, Value, interpret};
use polaris_runtime::machine::Paths;
use polaris_runtime::{MemoryLimit, Runtime, RuntimeOptions};

fn runtime() -> Runtime {
    Runtime::discover(&options()).unwrap()
}

/// What is measured is kept apart from the user's.
fn options() -> RuntimeOptions {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("session");
    let paths = Paths { cache: Some(folder.join("cache")), data: Some(folder.join("data")) };
    RuntimeOptions { paths, ..RuntimeOptions::default() }
}

fn on(mode: Mode) -> Options {
    Options { mode, ..Options::default() }
}

fn tensor(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::new(shape, (0..count).map(|index| (index * 31 % 17) as f32 / 8.0 - 1.0).collect())
        .unwrap()
}

fn close(a: &Tensor, b: &Tensor) {
    assert_eq!((a.element(), a.shape()), (b.element(), b.shape()));
    for (a, b) in a.to_f64().unwrap().into_iter().zip(b.to_f64().unwrap()) {
        assert!((a - b).abs() <= 1e-5 + 1e-5 * b.abs(), "{a} instead of {b}");
    }
}

/// The modes that this machine has.
fn modes(runtime: &Runtime) -> Vec<Mode> {
    let opencl = runtime.devices().iter().any(|device| device.as_opencl().is_some());
    if opencl { vec![Mode::Cpu, Mode::Gpu, Mode::Hybrid] } else { vec![Mode::Cpu] }
}

#[test]
fn plans_give_what_the_interpreter_gives() {
    let runtime = runtime();
    let cases: [(Vec<u8>, &[&[usize]]); 6] = [
        (models::classifier(), &[&[1, 2, 8, 8], &[3, 2, 8, 8]]),
        (models::shapes(), &[&[2, 3, 2], &[5, 3, 2]]),
        (models::branches(), &[&[5, 6], &[1, 6]]),
        (models::control(), &[&[2, 3]]),
        (models::functions(), &[&[4]]),
        (models::recurrent(), &[&[1, 2, 2], &[7, 3, 2]]),
    ];
    for mode in modes(&runtime) {
        for (file, shapes) in &cases {
            let model = models::read(file.clone());
            let graph = &model.graph;
            let session = Session::new(&runtime, model.clone(), &on(mode)).unwrap();
            // Twice the same, and shapes by turns.
            for shape in shapes.iter().chain(*shapes) {
                let x = tensor(shape);
                let expected = interpret(graph, &[Some(Value::Tensor(x.clone()))], &[]).unwrap();
                let found = session.run_tensors(vec![x]).unwrap();
                for (found, expected) in found.iter().zip(&expected) {
                    close(found, expected.tensor().unwrap());
                }
            }
        }
    }
}

/// A result may lie where an operand lies, but not where another view of it is still read.
#[test]
fn views_of_one_array_are_read_before_it_is_overwritten() {
    let mut graph = GraphBuilder::new("views");
    let x = graph.input("x", F32, [3, 3]);
    let y = graph.node("Neg", [x]);
    let t = graph.node_with("Transpose", [y], [("perm", [1, 0])]);
    let output = graph.node("Sub", [y, t]);
    graph.output_as(output, "output");
    let model = graph.build().unwrap();
    let runtime = runtime();
    for mode in modes(&runtime) {
        let session = Session::new(&runtime, model.clone(), &on(mode)).unwrap();
        let found = session.run_tensors(vec![tensor(&[3, 3])]).unwrap()[0].to_f64().unwrap();
        let x = tensor(&[3, 3]).to_f64().unwrap();
        for (at, found) in found.into_iter().enumerate() {
            assert_eq!(found, x[at % 3 * 3 + at / 3] - x[at], "{mode:?}");
        }
    }
}

/// The nearest element is picked, not multiplied: infinity times zero would reach its neighbours.
#[test]
fn infinities_stay_where_they_are_when_images_grow() {
    let mut graph = GraphBuilder::new("images");
    let x = graph.input("x", F32, [1, 1, 1, 2]);
    let sizes = graph.integers(&[1, 1, 2, 4]);
    let output = graph.node("Resize", [Some(x), None, None, Some(sizes)]);
    graph.output_as(output, "output");
    let model = graph.build().unwrap();
    let runtime = runtime();
    for mode in modes(&runtime) {
        let session = Session::new(&runtime, model.clone(), &on(mode)).unwrap();
        let x = Tensor::new(&[1, 1, 1, 2], vec![f32::INFINITY, 1.0]).unwrap();
        let found = session.run_tensors(vec![x]).unwrap()[0].to_f64().unwrap();
        let row = [f64::INFINITY, f64::INFINITY, 1.0, 1.0];
        assert_eq!(found, [row, row].concat(), "{mode:?}");
    }
}

#[test]
fn repeated_runs_allocate_nothing() {
    let runtime = runtime();
    for mode in modes(&runtime) {
        let session =
            Session::new(&runtime, models::read(models::classifier()), &on(mode)).unwrap();
        let x = tensor(&[2, 2, 8, 8]);
        let first = session.run_tensors(vec![x.clone()]).unwrap();
        session.run_tensors(vec![x.clone()]).unwrap();
        let device = session.device();
        let device = device.allocator();
        let (count, used) = (device.driver_allocations(), device.memory_use());
        for _ in 0..1000 {
            let again = session.run_tensors(vec![x.clone()]).unwrap();
            assert_eq!(again[0].bytes().unwrap(), first[0].bytes().unwrap());
        }
        assert_eq!(device.driver_allocations(), count, "{mode:?}");
        assert_eq!(device.memory_use(), used, "{mode:?}");
    }
}

/// An input goes to the device from where it was given, not by way of an arena.
#[test]
fn what_only_the_device_reads_is_copied_once() {
    let runtime = runtime();
    for mode in modes(&runtime).into_iter().filter(|mode| *mode != Mode::Hybrid) {
        let session =
            Session::new(&runtime, models::read(models::classifier()), &on(mode)).unwrap();
        let x = tensor(&[2, 2, 8, 8]);
        let types = [(session.inputs()[0].0, Value::Tensor(x.clone()).ty())];
        let plan = session.plan(&types).unwrap();
        let is_given =
            |one: &Instruction| matches!(one.step, Step::Transfer { input: Origin::Given(_), .. });
        let copies = plan.instructions.iter().filter(|one| is_given(one)).count();
        let on_device = session.side() == Side::Gpu;
        assert_eq!(copies, usize::from(on_device), "{mode:?}");
        assert_eq!(plan.inputs[0].operand.is_none(), on_device, "{mode:?}");
        assert_eq!(plan.arena_bytes(Side::Cpu) == 0, on_device, "{mode:?}");
        let expected = interpret(session.graph(), &[Some(Value::Tensor(x.clone()))], &[]).unwrap();
        close(&session.run_tensors(vec![x]).unwrap()[0], expected[0].tensor().unwrap());
    }
}

/// Batches of many sizes need the memory of the largest, not of all of them.
/// A device whose every kernel for a node is quarantined would send its arrays to the CPU and back, run by run.
#[test]
fn nodes_without_a_trusted_kernel_are_placed_on_the_cpu() {
    use polaris_ops::{Array, Operation, Softmax, usable_kernels};
    let mut graph = GraphBuilder::new("quarantined");
    let x = graph.input("x", F32, [3, 5]);
    let y = graph.node("Neg", [x]);
    let z = graph.node("Softmax", [y]);
    let output = graph.node("Abs", [z]);
    graph.output_as(output, "output");
    let model = graph.build().unwrap();
    // The quarantine is this test's alone.
    let runtime = runtime();
    let Some(device) = runtime.devices().iter().find(|device| device.as_opencl().is_some()) else {
        return;
    };
    let sides = || -> Vec<(&'static str, Side)> {
        let options = Options { device: Some(device.clone()), ..on(Mode::Gpu) };
        let session = Session::new(&runtime, model.clone(), &options).unwrap();
        let x = tensor(&[3, 5]);
        let plan = session.plan(&[("x", Value::Tensor(x.clone()).ty())]).unwrap();
        let expected = interpret(session.graph(), &[Some(Value::Tensor(x.clone()))], &[]).unwrap();
        close(&session.run_tensors(vec![x]).unwrap()[0], expected[0].tensor().unwrap());
        let device_steps = |one: &Instruction| match &one.step {
            Step::Device { action, .. } => Some((action.name(), one.side)),
            _ => None,
        };
        plan.instructions.iter().filter_map(device_steps).collect()
    };
    assert!(sides().contains(&("softmax", Side::Gpu)));
    let x = Array::from_slice(device, &[3, 5], &[0f32; 15]).unwrap();
    let op = Softmax { axis: 1, log: false };
    for kernel in usable_kernels(&op, &[&x], &x) {
        let name = op.kernel_name(kernel, &[&x], &x);
        device.as_opencl().unwrap().quarantine(&name);
    }
    let found = sides();
    assert!(found.contains(&("softmax", Side::Cpu)), "{found:?}");
    assert!(found.iter().any(|&(_, side)| side == Side::Gpu), "{found:?}");
}

#[test]
fn plans_take_turns_in_one_memory() {
    let runtime = runtime();
    // What is measured may choose another side each time.
    for mode in modes(&runtime).into_iter().filter(|mode| *mode != Mode::Hybrid) {
        let open =
            || Session::new(&runtime, models::read(models::classifier()), &on(mode)).unwrap();
        let session = open();
        let used = || session.device().allocator().memory_use().used;
        for largest in [4, 9] {
            session.run_tensors(vec![tensor(&[largest, 2, 8, 8])]).unwrap();
            let before = used();
            for batch in [1, largest, 3, 2, largest, 1] {
                let x = tensor(&[batch, 2, 8, 8]);
                let found = session.run_tensors(vec![x.clone()]).unwrap();
                let alone = open().run_tensors(vec![x]).unwrap();
                assert_eq!(found[0].bytes().unwrap(), alone[0].bytes().unwrap(), "{mode:?}");
            }
            assert_eq!(used(), before, "{mode:?}");
        }
    }
}

#[test]
fn threads_share_a_model() {
    let runtime = runtime();
    for mode in modes(&runtime) {
        let session =
            Session::new(&runtime, models::read(models::classifier()), &on(mode)).unwrap();
        let inputs: Vec<Tensor> = (1..=3).map(|batch| tensor(&[batch, 2, 8, 8])).collect();
        let alone: Vec<Vec<Tensor>> =
            inputs.iter().map(|x| session.run_tensors(vec![x.clone()]).unwrap()).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..30 {
                        let at = round % inputs.len();
                        let found = session.run_tensors(vec![inputs[at].clone()]).unwrap();
                        assert_eq!(found[0].bytes().unwrap(), alone[at][0].bytes().unwrap());
                    }
                });
            }
        });
    }
}

#[test]
fn a_device_without_room_is_replaced_by_the_cpu() {
    let found = runtime();
    let Some(device) = found.devices().iter().find(|device| device.as_opencl().is_some()) else {
        eprintln!("skipped: there is no OpenCL device");
        return;
    };
    let limit: MemoryLimit = format!("{}=4KiB", device.id()).parse().unwrap();
    let options = RuntimeOptions { memory_limits: vec![limit], ..RuntimeOptions::default() };
    let small = Runtime::discover(&options).unwrap();
    let device = small.device(device.id()).unwrap().clone();
    let options = Options { mode: Mode::Gpu, device: Some(device), ..Options::default() };
    let session = Session::new(&small, models::read(models::classifier()), &options).unwrap();
    let x = tensor(&[3, 2, 8, 8]);
    let expected = Session::new(&found, models::read(models::classifier()), &on(Mode::Cpu))
        .unwrap()
        .run_tensors(vec![x.clone()])
        .unwrap();
    let outputs = session.run_tensors(vec![x]).unwrap();
    assert!(session.fallback().is_some());
    close(&outputs[0], &expected[0]);
}

#[test]
fn mistakes_are_told() {
    let runtime = runtime();
    let session =
        Session::new(&runtime, models::read(models::classifier()), &on(Mode::Cpu)).unwrap();
    let words = |inputs: &[(&str, Value)]| session.run(inputs).unwrap_err().to_string();
    let right = || Value::Tensor(tensor(&[1, 2, 8, 8]));
    assert!(words(&[]).contains("`image`: f32[batch, 2, 8, 8]"), "{}", words(&[]));
    assert!(words(&[("picture", right())]).contains("no input `picture`; it has `image`"));
    assert!(words(&[("image", right()), ("image", right())]).contains("twice"));
    let wrong = words(&[("image", Value::Tensor(tensor(&[1, 3, 8, 8])))]);
    assert!(wrong.contains("should be f32[batch, 2, 8, 8], not f32[1, 3, 8, 8]"), "{wrong}");
    let integers = Value::Tensor(Tensor::new(&[1, 2, 8, 8], vec![0i64; 128]).unwrap());
    assert!(words(&[("image", integers)]).contains("not i64[1, 2, 8, 8]"));
}

#[test]
fn all_missing_operators_are_named_at_once() {
    let mut graph = GraphBuilder::new("missing");
    let mut x = graph.input("x", F32, [2]);
    for name in ["first", "second", "third"] {
        x = graph.call("Relu", [x]).named(name).output();
    }
    graph.output(x);
    let mut model = graph.build().unwrap();
    // No builder takes such operators, but files may have them.
    for (node, operator) in model.graph.nodes.iter_mut().zip(["Fly", "Swim", "Fly"]) {
        operator.clone_into(&mut node.operator);
    }
    match Session::new(&runtime(), model, &on(Mode::Cpu)) {
        Err(Error::Unsupported { operators }) => {
            let names: Vec<&str> = operators.iter().map(|one| one.operator.as_str()).collect();
            assert_eq!(names, ["Fly", "Swim"]);
            assert_eq!(operators[0].nodes, ["first", "third"]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nan_goes_through() {
    let runtime = runtime();
    for mode in modes(&runtime) {
        let session =
            Session::new(&runtime, models::read(models::classifier()), &on(mode)).unwrap();
        let mut values = vec![0.5f32; 128];
        values[5] = f32::NAN;
        let x = Tensor::new(&[1, 2, 8, 8], values).unwrap();
        let output = session.run_tensors(vec![x]).unwrap();
        assert!(output[0].to_f64().unwrap().iter().all(|x| x.is_nan()), "{mode:?}");
    }
}

#[test]
fn constants_outside_the_folder_are_refused() {
    use polaris_onnx::messages::Entry;
    use prost::Message;
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("model");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(folder.path().join("secret.bin"), [0u8; 64]).unwrap();
    std::fs::write(inside.join("weights.bin"), [0u8; 64]).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path().join("secret.bin"), inside.join("link.bin")).unwrap();
    let save = |location: &str, offset: &str, length: &str| {
        let entry = |key: &str, value: &str| Entry { key: key.to_owned(), value: value.to_owned() };
        let mut graph = GraphBuilder::new("external");
        let x = graph.input("x", F32, [4]);
        let w = graph.constant(tensor(&[4]));
        let output = graph.node("Add", [x, w]);
        graph.output_as(output, "output");
        let mut message = models::message(graph);
        let weights = &mut message.graph.as_mut().unwrap().initializer[0];
        weights.raw_data.clear();
        weights.data_location = 1;
        weights.external_data =
            vec![entry("location", location), entry("offset", offset), entry("length", length)];
        let path = inside.join("model.onnx");
        std::fs::write(&path, message.encode_to_vec()).unwrap();
        Session::open(&runtime(), &path, &on(Mode::Cpu))
    };
    let session = save("weights.bin", "16", "16").unwrap();
    close(&session.run_tensors(vec![tensor(&[4])]).unwrap()[0], &tensor(&[4]));
    let refused = |location: &str, offset: &str, length: &str, word: &str| {
        let error = save(location, offset, length).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    refused("../secret.bin", "0", "16", "not inside the model's folder");
    refused("/etc/hostname", "0", "16", "not inside the model's folder");
    #[cfg(unix)]
    refused("link.bin", "0", "16", "leads out of the model's folder");
    refused("missing.bin", "0", "16", "cannot be read");
    refused("weights.bin", "60", "16", "has 64 bytes");
    refused("weights.bin", "0", "8", "needs 16 bytes");
    refused("weights.bin", "-1", "16", "is not a number");
}

#[test]
fn a_profile_has_a_time_for_each_instruction_and_teaches_the_cost_model() {
    let folder = tempfile::tempdir().unwrap();
    let paths =
        Paths { cache: Some(folder.path().join("cache")), data: Some(folder.path().join("data")) };
    let options = RuntimeOptions { paths, ..RuntimeOptions::default() };
    let runtime = Runtime::discover(&options).unwrap();
    for mode in modes(&runtime) {
        let session =
            Session::new(&runtime, models::read(models::classifier()), &on(mode)).unwrap();
        let name = session.inputs()[0].0.to_owned();
        let given = [(name.as_str(), Value::Tensor(tensor(&[1, 2, 8, 8])))];
        let profile = session.profile(&given, 3).unwrap();
        let types = [(name.as_str(), given[0].1.ty())];
        let plan = session.plan(&types).unwrap();
        assert_eq!(profile.rows.len(), plan.instructions.len());
        assert_eq!(profile.runs, 3);
        for row in &profile.rows {
            assert!(row.seconds > 0.0 && row.predicted_seconds.is_some(), "{row:?}");
        }
        let total: f64 = profile.rows.iter().map(|row| row.seconds).sum();
        assert!((profile.seconds - total).abs() < 1e-9 && profile.run_seconds > 0.0);
        let convolution = profile.rows.iter().find(|row| row.instruction.ends_with("convolution"));
        let convolution = convolution.unwrap();
        assert!(convolution.flops > 0 && convolution.roofline_share.is_some());
        // What was measured is what is expected the next time, also of another session: on the CPU exactly,
        // since nobody waits there.
        let again = Session::new(&runtime, models::read(models::classifier()), &on(mode)).unwrap();
        let second = again.profile(&given, 1).unwrap();
        if mode == Mode::Cpu {
            assert!((second.predicted_seconds - profile.seconds).abs() < 1e-9);
        }
    }
}

#[test]
fn hybrid_plans_say_what_was_expected_and_take_the_best() {
    let runtime = runtime();
    if !modes(&runtime).contains(&Mode::Hybrid) {
        eprintln!("SKIPPED: no OpenCL device");
        return;
    }
    let session =
        Session::new(&runtime, models::read(models::classifier()), &on(Mode::Hybrid)).unwrap();
    let name = session.inputs()[0].0.to_owned();
    let plan = session.plan(&[(name.as_str(), Value::Tensor(tensor(&[1, 2, 8, 8])).ty())]).unwrap();
    let prediction = plan.prediction.as_ref().unwrap();
    assert_eq!(prediction.instructions.len(), plan.instructions.len());
    assert!(prediction.instructions.iter().all(|&seconds| seconds > 0.0));
    for seconds in [prediction.cpu, prediction.gpu, prediction.hybrid] {
        assert!(seconds > 0.0 && seconds.is_finite(), "{prediction:?}");
    }
    let single = prediction.cpu.min(prediction.gpu);
    if prediction.tried.is_none() {
        let chosen = match prediction.chosen {
            Choice::Cpu => prediction.cpu,
            Choice::Gpu => prediction.gpu,
            Choice::Hybrid => prediction.hybrid,
        };
        assert!(chosen <= single, "{prediction:?}");
    }
}
