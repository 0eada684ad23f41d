//! Random valid graphs: the plan of the CPU, with and without passes, and that of a device must agree with the
//! interpreter, and where there is a Python for it with ONNX Runtime.

mod build;
mod elementwise;
mod layers;
mod shapes;

use anyhow::Result;
use polaris_onnx::{ElementType, Tensor};
use prost::Message;
use serde_json::json;

use self::build::Builder;
use crate::formats;
use crate::judge::Kind;
use crate::trial::Trial;

pub fn run(trial: &mut Trial<'_>) -> Result<()> {
    let mut builder = Builder::new(trial.random.clone());
    trial.random.next();
    let nodes = trial.random.between(2, 12);
    // Most proposals fit; those that do not are answered by the interpreter and left out.
    for _ in 0..nodes * 6 {
        if builder.nodes() >= nodes {
            break;
        }
        match builder.random.below(10) {
            0..=3 => elementwise::propose(&mut builder),
            4..=6 => shapes::propose(&mut builder),
            _ => layers::propose(&mut builder),
        }
    }
    if let Some(panic) = builder.panic.take() {
        trial.write("model.onnx", builder.finish().0.encode_to_vec())?;
        trial.fault(Kind::Panic, format!("the interpreter: {panic}"), panic);
        return Ok(());
    }
    let tolerance = builder.tolerance();
    let inputs = builder.inputs();
    let (model, outputs) = builder.finish();
    trial.write("model.onnx", model.encode_to_vec())?;
    let mut given = String::new();
    for (name, tensor) in &inputs {
        trial.write(format!("{name}.npy"), npy(tensor)?)?;
        given.push_str(&format!(" --input {name}={name}.npy"));
    }
    let mut ways = vec![("plan", "--mode cpu")];
    if trial.random.once_in(2) {
        ways.push(("bare", "--mode cpu --no-pass all"));
    }
    let device = trial.settings.gpu && trial.random.once_in(6);
    if device {
        ways.push(("device", "--mode gpu"));
    }
    for &(way, options) in &ways {
        if way == "device" {
            trial.use_devices()?;
        }
        trial.make_folder(way)?;
        let arguments = format!("run model.onnx {options} --output-dir {way}{given}");
        let ended = trial.polaris(&arguments)?;
        if !ended.succeeded() {
            if ended.code() == Some(3) {
                let cause = format!("{way}: fails where the interpreter does not");
                let first = ended.stderr_text().lines().last().unwrap_or_default().to_owned();
                trial.fault(Kind::Result, format!("{cause}: {}", words(&first)), first);
            }
            continue;
        }
        for (name, wanted) in &outputs {
            if let Err(why) = compare(trial, way, name, wanted, tolerance) {
                let operators = operators(&model, name);
                let cause = format!("{way}: differs from the interpreter: {operators}");
                trial.fault(Kind::Result, cause, format!("{name}: {why}"));
            }
        }
    }
    if trial.faults.is_empty() && trial.settings.reference.is_some() {
        ask_reference(trial, &model, &inputs, &outputs, tolerance)?;
    }
    Ok(())
}

/// Letters only: what is left tells causes apart.
fn words(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ').take(120).collect()
}

/// The operator that makes a value, and those that make its operands.
fn operators(model: &polaris_onnx::messages::Model, name: &str) -> String {
    let nodes = model.graph.iter().flat_map(|graph| &graph.node);
    let maker = |name: &str| nodes.clone().find(|node| node.output.iter().any(|out| out == name));
    let Some(node) = maker(name) else { return "an input".to_owned() };
    let before: Vec<&str> = node
        .input
        .iter()
        .filter_map(|input| maker(input))
        .map(|node| node.op_type.as_str())
        .collect();
    match before.is_empty() {
        true => node.op_type.clone(),
        false => format!("{} of {}", node.op_type, before.join(", ")),
    }
}

fn ask_reference(
    trial: &mut Trial<'_>,
    model: &polaris_onnx::messages::Model,
    inputs: &[(String, Tensor)],
    outputs: &[(String, Tensor)],
    tolerance: f64,
) -> Result<()> {
    let Some(reference) = &trial.settings.reference else { return Ok(()) };
    let paths = |folder: &str, names: Vec<&String>| -> serde_json::Map<String, serde_json::Value> {
        let path = |name: &String| trial.path(folder).join(format!("{name}.npy"));
        names.into_iter().map(|name| (name.clone(), json!(path(name)))).collect()
    };
    let answer = reference.ask(&json!({
        "model": trial.path("model.onnx"),
        "inputs": paths("", inputs.iter().map(|(name, _)| name).collect()),
        "outputs": paths("plan", outputs.iter().map(|(name, _)| name).collect()),
        "tolerance": tolerance,
    }))?;
    if let Some(answer) = answer
        && let Some(name) = answer["differs"].as_str()
    {
        let cause = format!("differs from ONNX Runtime: {}", operators(model, name));
        trial.fault(Kind::Result, cause, answer["detail"].as_str().unwrap_or_default());
    }
    Ok(())
}

/// Compares an output that the binary wrote with the interpreter's.
fn compare(
    trial: &Trial<'_>,
    way: &str,
    name: &str,
    wanted: &Tensor,
    tolerance: f64,
) -> std::result::Result<(), String> {
    let path = trial.path(way).join(format!("{name}.npy"));
    let file = polaris_files::read(&path, 1 << 28).map_err(|error| error.to_string())?;
    let (code, shape, bytes) = formats::read_npy(&file).ok_or("it is not an NPY file")?;
    let wanted_shape: Vec<u64> = wanted.shape().iter().map(|&length| length as u64).collect();
    if shape != wanted_shape {
        return Err(format!("its shape is {shape:?} and not {wanted_shape:?}"));
    }
    if code != code_of(wanted.element()) {
        return Err(format!("its type is {code} and not {}", code_of(wanted.element())));
    }
    let found = Tensor::from_bytes(wanted.element(), wanted.shape(), bytes.to_vec().into())
        .and_then(|tensor| tensor.to_f64())
        .map_err(|error| error.to_string())?;
    let wanted_values = wanted.to_f64().map_err(|error| error.to_string())?;
    let largest =
        wanted_values.iter().filter(|x| x.is_finite()).fold(1.0, |a: f64, b| a.max(b.abs()));
    let allowed = if wanted.element().is_float() { tolerance * largest } else { 0.0 };
    for (place, (a, b)) in found.iter().zip(&wanted_values).enumerate() {
        let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= allowed;
        if !same {
            return Err(format!("element {place} is {a} and not {b}; {allowed:.2e} is allowed"));
        }
    }
    Ok(())
}

fn code_of(element: ElementType) -> &'static str {
    match element {
        ElementType::F16 => "<f2",
        ElementType::F64 => "<f8",
        ElementType::I8 => "|i1",
        ElementType::U8 => "|u1",
        ElementType::I32 => "<i4",
        ElementType::I64 => "<i8",
        ElementType::Bool => "|b1",
        _ => "<f4",
    }
}

fn npy(tensor: &Tensor) -> Result<Vec<u8>> {
    let shape: Vec<i64> = tensor.shape().iter().map(|&length| length as i64).collect();
    Ok(formats::npy(code_of(tensor.element()), &shape, tensor.bytes()?))
}
