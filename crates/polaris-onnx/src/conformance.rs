//! The test data that comes with ONNX: models with inputs and the outputs they must give.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Serialize;

use crate::operators::RANDOM;
use crate::{Dim, Error, Model, NoExternalData, Node, Result, Tensor, Type, Value, read_value};

/// Differences that ONNX' own test runner allows.
const RELATIVE: f64 = 1e-3;
const ABSOLUTE: f64 = 1e-7;

/// A model with what it must give.
#[derive(Debug, Clone)]
pub struct Case {
    /// The folder's name, or the file's.
    pub name: String,
    model: PathBuf,
    data: Data,
}

#[derive(Debug, Clone)]
enum Data {
    /// Folders with `input_N.pb` and `output_N.pb`.
    Folders(Vec<PathBuf>),
    /// One file of output; the input counts up from 0 to 1.
    Counted(PathBuf),
}

/// How a case went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All outputs are right.
    Passed,
    /// A wrong result, a crash, or an error that is no word about something missing.
    Failed,
    /// It needs something that is not there.
    Unsupported,
}

/// A case and how it went.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The case.
    pub name: String,
    /// How it went.
    pub status: Status,
    /// Why it did not pass; empty otherwise.
    pub reason: String,
    /// Whether everything was computed on the device that was requested.
    pub wholly_on_device: bool,
}

/// Something that runs models.
pub trait Engine {
    /// The outputs for each list of inputs, and whether everything was computed on the device.
    ///
    /// # Errors
    /// What is missing or wrong.
    fn run(&mut self, model: Model, inputs: Vec<Vec<Value>>) -> std::result::Result<Run, Refusal>;
}

/// What an engine gives.
#[derive(Debug, Clone)]
pub struct Run {
    /// Outputs for each list of inputs.
    pub outputs: Vec<Vec<Value>>,
    /// Whether everything was computed on the device that was requested.
    pub wholly_on_device: bool,
}

/// Why an engine gives nothing.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Whether something is missing rather than wrong.
    pub unsupported: bool,
    /// In words.
    pub reason: String,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { unsupported: error.is_unsupported(), reason: error.to_string() }
    }
}

/// The interpreter of this crate.
#[derive(Debug, Clone, Copy)]
pub struct Interpreter;

impl Engine for Interpreter {
    fn run(&mut self, model: Model, inputs: Vec<Vec<Value>>) -> std::result::Result<Run, Refusal> {
        let mut outputs = Vec::new();
        for set in inputs {
            let mut given = set.into_iter();
            let list: Vec<Option<Value>> = (model.graph.inputs.iter())
                .map(|&id| match model.graph.value(id).constant {
                    Some(_) => None,
                    None => given.next(),
                })
                .collect();
            outputs.push(crate::interpret(&model.graph, &list, &[])?);
        }
        Ok(Run { outputs, wholly_on_device: false })
    }
}

/// The cases in a folder: it is one itself, or it holds some.
///
/// # Errors
/// If it cannot be read or holds none.
pub fn find_cases(folder: &Path) -> Result<Vec<Case>> {
    if let Some(case) = case_at(folder)? {
        return Ok(vec![case]);
    }
    let mut cases = Vec::new();
    for entry in entries(folder)? {
        cases.extend(case_at(&entry)?);
    }
    if cases.is_empty() {
        let folder = folder.display();
        let why = format!(
            "{folder}: no test is there (model.onnx with test_data_set_*, or light_*.onnx)"
        );
        return Err(Error::input(why));
    }
    Ok(cases)
}

fn case_at(path: &Path) -> Result<Option<Case>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if path.extension().is_some_and(|extension| extension == "onnx") {
        let stem = name.trim_end_matches(".onnx").to_owned();
        let output = path.with_file_name(format!("{stem}_output_0.pb"));
        let case = Case { name: stem, model: path.to_owned(), data: Data::Counted(output.clone()) };
        return Ok(output.is_file().then_some(case));
    }
    let model = path.join("model.onnx");
    if !model.is_file() {
        return Ok(None);
    }
    let is_data = |entry: &PathBuf| {
        entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with("test_data_set_"))
    };
    let sets: Vec<PathBuf> = entries(path)?.into_iter().filter(is_data).collect();
    Ok((!sets.is_empty()).then_some(Case { name, model, data: Data::Folders(sets) }))
}

/// What a folder holds, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| Error::input(format!("{}: {error}", folder.display()));
    let mut list = std::fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<PathBuf>>>()
        .map_err(failed)?;
    list.sort();
    Ok(list)
}

/// Runs a case. A panic is a failure.
pub fn run_case(case: &Case, engine: &mut dyn Engine) -> Outcome {
    let attempt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| try_case(case, engine)));
    let result = attempt.unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(Refusal { unsupported: false, reason: format!("panicked: {message}") })
    });
    let name = case.name.clone();
    match result {
        Ok(wholly_on_device) => {
            Outcome { name, status: Status::Passed, reason: String::new(), wholly_on_device }
        }
        Err(Refusal { unsupported, reason }) => {
            let status = if unsupported { Status::Unsupported } else { Status::Failed };
            Outcome { name, status, reason, wholly_on_device: false }
        }
    }
}

fn try_case(case: &Case, engine: &mut dyn Engine) -> std::result::Result<bool, Refusal> {
    let model = Model::from_bytes(read_file(&case.model)?, &NoExternalData)?;
    let types = |ids: &mut dyn Iterator<Item = crate::ValueId>| -> Vec<Option<Type>> {
        ids.map(|id| model.graph.value(id).ty.clone()).collect()
    };
    let input_types = types(&mut model.graph.required_inputs());
    let output_types = types(&mut model.graph.outputs.iter().copied());
    let draws = |node: &&Node| RANDOM.contains(&node.operator.as_str());
    let random = model.graph.nodes.iter().find(draws);
    if let Some(node) = random {
        let what = format!("the random numbers of NumPy, which {} would need", node.operator);
        return Err(Error::unsupported(what).into());
    }
    let (mut inputs, mut expected) = (Vec::new(), Vec::new());
    match &case.data {
        Data::Folders(folders) => {
            for folder in folders {
                inputs.push(read_numbered(folder, "input", &input_types)?);
                expected.push(read_numbered(folder, "output", &output_types)?);
            }
        }
        Data::Counted(output) => {
            inputs.push(input_types.iter().map(counted).collect::<Result<Vec<Value>>>()?);
            expected.push(vec![read_value(read_file(output)?, None)?]);
        }
    }
    let run = engine.run(model, inputs)?;
    for (outputs, expected) in run.outputs.iter().zip(&expected) {
        if outputs.len() < expected.len() {
            let (found, wanted) = (outputs.len(), expected.len());
            return Err(wrong(format!("{found} outputs instead of {wanted}")));
        }
        for (index, (output, expected)) in outputs.iter().zip(expected).enumerate() {
            compare(output, expected).map_err(|why| wrong(format!("output {index}: {why}")))?;
        }
    }
    Ok(run.wholly_on_device)
}

fn wrong(reason: String) -> Refusal {
    Refusal { unsupported: false, reason }
}

/// What a message of ONNX's format may have at most.
const MAX_BYTES: u64 = 2 << 30;

fn read_file(path: &Path) -> Result<Bytes> {
    let read = polaris_files::read(path, MAX_BYTES).map(Bytes::from);
    read.map_err(|error| Error::input(format!("{}: {error}", path.display())))
}

fn read_numbered(folder: &Path, what: &str, types: &[Option<Type>]) -> Result<Vec<Value>> {
    let mut values = Vec::new();
    for (index, ty) in types.iter().enumerate() {
        let path = folder.join(format!("{what}_{index}.pb"));
        if !path.is_file() {
            break;
        }
        values.push(read_value(read_file(&path)?, ty.as_ref())?);
    }
    Ok(values)
}

/// Numbers from 0 up to 1 in the shape of an input; symbolic dimensions are 1.
fn counted(ty: &Option<Type>) -> Result<Value> {
    let Some(Type::Tensor(crate::ElementType::F32, Some(dims))) = ty else {
        return Err(Error::unsupported("counted inputs of another type than f32"));
    };
    let shape: Vec<usize> = dims.iter().map(|dim: &Dim| dim.known().unwrap_or(1)).collect();
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|index| (index as f64 / count as f64) as f32).collect();
    Ok(Value::Tensor(Tensor::new(&shape, values)?))
}

/// Whether a value is what was expected, by the rule of ONNX' own test runner.
///
/// # Errors
/// A description of the first difference.
pub fn compare(found: &Value, expected: &Value) -> std::result::Result<(), String> {
    match (found, expected) {
        (Value::Tensor(found), Value::Tensor(expected)) => compare_tensors(found, expected),
        (Value::Sequence(found), Value::Sequence(expected)) => {
            if found.len() != expected.len() {
                let (a, b) = (found.len(), expected.len());
                return Err(format!("a sequence of {a} values instead of {b}"));
            }
            let mut pairs = found.iter().zip(expected.iter());
            pairs.try_for_each(|(found, expected)| compare(found, expected))
        }
        (Value::Optional(None), Value::Optional(None)) => Ok(()),
        (Value::Optional(Some(found)), Value::Optional(Some(expected))) => compare(found, expected),
        // The reference wraps no value in an optional that is a plain one.
        (Value::Optional(Some(found)), expected) => compare(found, expected),
        (found, Value::Optional(Some(expected))) => compare(found, expected),
        (found, expected) => Err(format!("{} instead of {}", found.kind(), expected.kind())),
    }
}

fn compare_tensors(found: &Tensor, expected: &Tensor) -> std::result::Result<(), String> {
    if found.element() != expected.element() {
        return Err(format!("{} instead of {}", found.element(), expected.element()));
    }
    if found.shape() != expected.shape() {
        return Err(format!("the shape {:?} instead of {:?}", found.shape(), expected.shape()));
    }
    let text = |error: Error| error.to_string();
    if found.element() == crate::ElementType::String {
        let (a, b) = (found.as_strings().map_err(text)?, expected.as_strings().map_err(text)?);
        return match a.iter().zip(b).position(|(a, b)| a != b) {
            Some(at) => Err(format!("{:?} instead of {:?} at {at}", a[at], b[at])),
            None => Ok(()),
        };
    }
    let (a, b) = (found.to_complex().map_err(text)?, expected.to_complex().map_err(text)?);
    let differ = |&(_, (a, b)): &(usize, (&[f64; 2], &[f64; 2]))| {
        a.iter().zip(b).any(|(&a, &b)| {
            let same = a == b || (a.is_nan() && b.is_nan());
            // A NaN that was not expected is not close to anything.
            let close = (a - b).abs() <= ABSOLUTE + RELATIVE * b.abs();
            !(same || close)
        })
    };
    let mut different = a.iter().zip(&b).enumerate().filter(differ);
    match different.next() {
        None => Ok(()),
        Some((at, (a, b))) => {
            let (count, all) = (1 + different.count(), expected.elements());
            Err(format!(
                "{count} of {all} elements differ, the first at {at}: {} instead of {}",
                a[0], b[0]
            ))
        }
    }
}
