//! The test data of the ONNX standard, where they are.

use std::path::Path;

use polaris_graph::conformance::Planned;
use polaris_graph::{Mode, Options};
use polaris_onnx::conformance::{
    Engine, Interpreter, Outcome, Refusal, Run, Status, find_cases, run_case,
};
use polaris_onnx::{Model, NoExternalData, Value};
use polaris_runtime::{Runtime, RuntimeOptions};

use crate::models::{is_required, onnx_data};

/// Cases whose expected numbers are rounding errors of another Fourier transform: 1.9e-7 where the exact
/// result is 0, beyond the absolute tolerance of 1e-7.
const ROUNDING_OF_THE_REFERENCE: [&str; 2] = ["test_dft_inverse", "test_dft_inverse_opset19"];

fn run(folder: &Path, mode: Mode, wanted: impl Fn(&str) -> bool) -> Vec<Outcome> {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let mut engine = Planned { runtime: &runtime, options: Options { mode, ..Options::default() } };
    let cases = find_cases(folder).unwrap();
    let chosen = cases.iter().filter(|case| wanted(&case.name));
    chosen.map(|case| run_case(case, &mut engine)).collect()
}

/// No failure but the known ones, and at least so many passed.
fn judge(outcomes: &[Outcome], least: usize) {
    let failed: Vec<String> = (outcomes.iter())
        .filter(|outcome| outcome.status == Status::Failed)
        .filter(|outcome| !ROUNDING_OF_THE_REFERENCE.contains(&outcome.name.as_str()))
        .map(|outcome| format!("{}: {}", outcome.name, outcome.reason))
        .collect();
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    let passed = outcomes.iter().filter(|outcome| outcome.status == Status::Passed).count();
    assert!(passed >= least, "{passed} of {} passed, {least} were expected", outcomes.len());
}

#[test]
fn the_interpreter_passes_the_node_tests() {
    if let Some(data) = onnx_data() {
        let cases = find_cases(&data.join("node")).unwrap();
        let outcomes: Vec<Outcome> =
            cases.iter().map(|case| run_case(case, &mut Interpreter)).collect();
        judge(&outcomes, 1750);
    }
}

/// Interprets what is read from the file that a model was written to.
struct Written;

impl Engine for Written {
    fn run(&mut self, model: Model, inputs: Vec<Vec<Value>>) -> Result<Run, Refusal> {
        let bytes = model.to_bytes()?;
        let again = Model::from_bytes(bytes.clone().into(), &NoExternalData)?;
        let differs = |reason: &str| Refusal { unsupported: false, reason: reason.to_owned() };
        if again.graph.to_string() != model.graph.to_string() {
            return Err(differs("another graph was read than was written"));
        }
        if again.to_bytes()? != bytes {
            return Err(differs("the second file differs from the first"));
        }
        Interpreter.run(again, inputs)
    }
}

#[test]
fn models_that_are_written_pass_the_node_tests() {
    if let Some(data) = onnx_data() {
        let cases = find_cases(&data.join("node")).unwrap();
        let outcomes: Vec<Outcome> =
            cases.iter().map(|case| run_case(case, &mut Written)).collect();
        judge(&outcomes, 1750);
    }
}

#[test]
fn the_cpu_passes_the_node_tests() {
    if let Some(data) = onnx_data() {
        judge(&run(&data.join("node"), Mode::Cpu, |_| true), 1750);
    }
}

#[test]
fn the_cpu_passes_the_models_of_other_sets() {
    if let Some(data) = onnx_data() {
        judge(&run(&data.join("simple"), Mode::Cpu, |_| true), 21);
        judge(&run(&data.join("pytorch-operator"), Mode::Cpu, |_| true), 35);
        judge(&run(&data.join("pytorch-converted"), Mode::Cpu, |_| true), 82);
    }
}

#[test]
fn light_models_pass() {
    if let Some(data) = onnx_data() {
        let chosen = ["light_squeezenet", "light_shufflenet", "light_resnet50"];
        judge(&run(&data.join("light"), Mode::Cpu, |name| chosen.contains(&name)), chosen.len());
    }
}

/// A fixed part on an OpenCL device: families of operators that devices have.
#[test]
fn an_opencl_device_passes_a_part_of_the_node_tests() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    if !runtime.devices().iter().any(|device| device.as_opencl().is_some()) {
        assert!(!is_required("opencl"), "there is no OpenCL device");
        eprintln!("skipped: there is no OpenCL device");
        return;
    }
    let Some(data) = onnx_data() else { return };
    let families = [
        "test_conv",
        "test_matmul",
        "test_gather",
        "test_softmax_",
        "test_layer_normalization_2d",
        "test_lstm",
        "test_slice",
        "test_where",
        "test_batchnorm",
        "test_maxpool_2d",
    ];
    let part = |name: &str| families.iter().any(|family| name.starts_with(family));
    let outcomes = run(&data.join("node"), Mode::Gpu, part);
    judge(&outcomes, outcomes.len());
    let wholly = outcomes.iter().filter(|outcome| outcome.wholly_on_device).count();
    assert!(wholly * 2 > outcomes.len(), "{wholly} of {} ran wholly on the device", outcomes.len());
}
