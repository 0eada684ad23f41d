//! Inputs and outputs that stay on a device.

use polaris_core::Shape;
use polaris_graph::{Mode, Options, RunOptions, Session, SessionValue};
use polaris_onnx::{ElementType, GraphBuilder, Model, Tensor, interpret};
use polaris_ops::Array;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use crate::models;

fn numbers(shape: &[usize]) -> Vec<f32> {
    let count: usize = shape.iter().product();
    (0..count).map(|index| (index * 31 % 17) as f32 / 8.0 - 1.0).collect()
}

/// The modes that this machine has.
fn modes(runtime: &Runtime) -> Vec<Mode> {
    let opencl = runtime.devices().iter().any(|device| device.as_opencl().is_some());
    if opencl { vec![Mode::Cpu, Mode::Gpu, Mode::Hybrid] } else { vec![Mode::Cpu] }
}

fn session(runtime: &Runtime, model: Model, mode: Mode) -> Session {
    Session::new(runtime, model, &Options { mode, ..Options::default() }).unwrap()
}

/// Nodes of one input and one output each, in a row or side by side; all results are outputs.
fn model(operators: &[(&str, usize)]) -> Model {
    let mut graph = GraphBuilder::new("test");
    let mut values = vec![graph.input("x", ElementType::F32, ["rows", "columns"])];
    for (at, &(operator, from)) in operators.iter().enumerate() {
        let made = graph.node(operator, [values[from]]);
        values.push(made);
        graph.output_as(made, &format!("y{at}"));
    }
    graph.build().unwrap()
}

/// The same input in every form in which it can be given.
fn forms(session: &Session, cpu: &DeviceRef, shape: &[usize]) -> Vec<SessionValue> {
    let values = numbers(shape);
    let device = session.device();
    let host = Tensor::new(shape, values.clone()).unwrap();
    let on = |device: &DeviceRef| Array::from_slice(device, shape, &values).unwrap();
    // Every second element of an array, and a part that does not begin with it.
    let mut wide = shape.to_vec();
    *wide.last_mut().unwrap() *= 2;
    let doubled: Vec<f32> = values.iter().flat_map(|&value| [value, 9.0]).collect();
    let wide = Array::from_slice(&device, &wide, &doubled).unwrap();
    let strided = wide.slice(shape.len() - 1, 0..2 * shape[shape.len() - 1], 2).unwrap();
    let behind: Vec<f32> = [9.0; 3].iter().chain(&values).copied().collect();
    let behind = Array::from_slice(&device, &[behind.len()], &behind).unwrap();
    let behind = behind.slice(0, 3..3 + values.len(), 1).unwrap();
    let layout = behind.layout().reshape(&Shape::new(shape).unwrap()).unwrap();
    let behind = behind.with_layout(layout).unwrap();
    let arrays = [on(cpu), on(&device), strided, behind];
    [SessionValue::Host(host.into())].into_iter().chain(arrays.map(SessionValue::Device)).collect()
}

#[test]
fn inputs_on_devices_give_what_those_on_the_host_give() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let cases: [(Vec<u8>, &[usize]); 6] = [
        (models::classifier(), &[3, 2, 8, 8]),
        (models::shapes(), &[5, 3, 2]),
        (models::branches(), &[5, 6]),
        (models::control(), &[2, 3]),
        (models::functions(), &[4]),
        (models::recurrent(), &[7, 3, 2]),
    ];
    for (file, shape) in cases {
        let model = models::read(file);
        let given = Tensor::new(shape, numbers(shape)).unwrap();
        let expected = interpret(&model.graph, &[Some(given.into())], &[]).unwrap();
        for mode in modes(&runtime) {
            let session = session(&runtime, model.clone(), mode);
            let name = session.inputs()[0].0.to_owned();
            for (form, input) in forms(&session, runtime.cpu(), shape).into_iter().enumerate() {
                let before = input.clone().into_host().unwrap();
                let run = || {
                    let inputs = [(name.as_str(), input.clone())];
                    session.run_on_device(&inputs, &RunOptions::default()).unwrap()
                };
                // The second run must not change what the first one gave.
                let (first, _second) = (run(), run());
                for ((_, array), expected) in first.into_iter().zip(&expected) {
                    assert_eq!(array.device().id(), session.device().id());
                    let found = SessionValue::Device(array).into_host().unwrap();
                    let (found, expected) = (found.tensor().unwrap(), expected.tensor().unwrap());
                    assert_eq!(found.shape(), expected.shape(), "{mode:?}, form {form}");
                    let pairs = found.to_f64().unwrap().into_iter().zip(expected.to_f64().unwrap());
                    for (a, b) in pairs {
                        let close = (a - b).abs() <= 1e-5 + 1e-5 * b.abs();
                        assert!(close, "{mode:?}, form {form}: {a} instead of {b}");
                    }
                }
                let after = input.into_host().unwrap();
                let bytes =
                    |value: &polaris_onnx::Value| value.tensor().unwrap().bytes().unwrap().to_vec();
                assert_eq!(bytes(&before), bytes(&after), "{mode:?}, form {form}: input changed");
            }
        }
    }
}

/// A chain of elementwise operators needs no memory but its output's.
#[test]
fn nothing_is_copied_on_the_device() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    for mode in modes(&runtime).into_iter().filter(|&mode| mode != Mode::Hybrid) {
        let session = session(&runtime, model(&[("Relu", 0)]), mode);
        let device = session.device();
        let shape = [512, 256];
        let bytes = (512 * 256 * 4) as u64;
        let x = Array::from_slice(&device, &shape, &numbers(&shape)).unwrap();
        let run = || {
            let inputs = [("x", SessionValue::from(x.clone()))];
            session.run_on_device(&inputs, &RunOptions::default()).unwrap().remove(0).1
        };
        let warm = run();
        let used = || device.allocator().memory_use().used;
        let before = used();
        let y = run();
        assert!(!y.buffer().shares_memory_with(x.buffer()));
        assert!(!y.buffer().shares_memory_with(warm.buffer()));
        assert_eq!(used(), before + bytes, "{mode:?}: one output is all that is new");
        drop((y, warm));
        assert_eq!(used(), before - bytes, "{mode:?}: the session keeps nothing of its caller's");
        let plan_bytes = before - 2 * bytes;
        drop(x);
        assert!(used() <= plan_bytes, "{mode:?}: neither is the input kept");
    }
}

/// Outputs belong to the caller, who may write into them: neither inputs nor other outputs lie there.
#[test]
fn outputs_share_no_memory() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    for mode in modes(&runtime) {
        let operators = [("Identity", 0), ("Relu", 0), ("Identity", 2), ("Flatten", 2)];
        let session = session(&runtime, model(&operators), mode);
        let x = Array::from_slice(&session.device(), &[3, 5], &numbers(&[3, 5])).unwrap();
        let inputs = [("x", SessionValue::from(x.clone()))];
        let outputs = session.run_on_device(&inputs, &RunOptions::default()).unwrap();
        let mut all = vec![x];
        for (name, array) in outputs {
            for other in &all {
                assert!(!array.buffer().shares_memory_with(other.buffer()), "{mode:?}: {name}");
            }
            all.push(array);
        }
        assert_eq!(all[0].to_vec::<f32>().unwrap(), all[1].to_vec::<f32>().unwrap());
        assert_eq!(all[2].to_vec::<f32>().unwrap(), all[4].to_vec::<f32>().unwrap());
    }
}

#[test]
fn another_type_or_shape_is_refused() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let session = session(&runtime, model(&[("Relu", 0)]), Mode::Cpu);
    let integers = Array::from_slice(runtime.cpu(), &[2, 2], &[1i32, 2, 3, 4]).unwrap();
    let flat = Array::from_slice(runtime.cpu(), &[4], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    for wrong in [integers, flat] {
        let inputs = [("x", SessionValue::from(wrong))];
        let error = session.run_on_device(&inputs, &RunOptions::default()).unwrap_err();
        assert!(error.to_string().contains("the input `x` should be"), "{error}");
    }
}
