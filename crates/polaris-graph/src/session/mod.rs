//! A model that is loaded, and its runs.

mod constants;
mod context;
mod execute;
mod flow;
mod hybrid;
mod measure;
mod observe;
mod packs;
mod plans;
mod profile;
mod runner;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use polaris_onnx::{Dim, Graph, Model, Tensor, Type, Value, ValueId, operators};
use polaris_runtime::{DeviceKind, DeviceRef, Runtime};

pub(crate) use constants::Constants;
use packs::Packs;
pub(crate) use plans::Plans;
pub use profile::{Profile, ProfileRow};
use runner::{Engine, Runner};

use crate::cost::Costs;
use crate::passes::{Change, Passes, optimise};
use crate::plan::{Plan, Side};
use crate::{Error, Result, UnsupportedOperator, open_model};

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// On the CPU.
    Cpu,
    /// On an OpenCL device, as far as it has the operations.
    Gpu,
    /// On both, each node where a cost model expects all to be done soonest. What it does not know is
    /// measured once. If one of them alone is about as fast, all runs there.
    Hybrid,
    /// On a GPU if there is one, otherwise on the CPU.
    #[default]
    Auto,
}

/// How a model is loaded.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where it runs.
    pub mode: Mode,
    /// The OpenCL device; the first GPU, or the first device of any kind, if none is named.
    pub device: Option<DeviceRef>,
    /// What is rewritten before anything is planned.
    pub passes: Passes,
}

/// A model that is loaded. Several threads may run it at once.
#[derive(Debug)]
pub struct Session {
    model: Model,
    changes: Vec<Change>,
    preferred: Runner,
    /// For a device that fails.
    fallback: OnceLock<Runner>,
    failed: AtomicBool,
    /// What instructions cost, for whoever asks.
    costs: Arc<Costs>,
}

impl Session {
    /// Reads a model from its file.
    ///
    /// # Errors
    /// If it cannot be read, or has operators that are not supported: all of them are named.
    pub fn open(runtime: &Runtime, path: &Path, options: &Options) -> Result<Self> {
        let opened = open_model(path)?;
        let cache = runtime.paths().cache.as_deref();
        let packs = Packs::open(cache, Some(path), runtime.cpu().as_ref());
        Self::with_files(runtime, opened.model, opened.files, packs, options)
    }

    /// Takes a model that is in memory.
    ///
    /// # Errors
    /// If it has operators that are not supported.
    pub fn new(runtime: &Runtime, model: Model, options: &Options) -> Result<Self> {
        let packs = Packs::open(None, None, runtime.cpu().as_ref());
        Self::with_files(runtime, model, Vec::new(), packs, options)
    }

    fn with_files(
        runtime: &Runtime,
        mut model: Model,
        files: Vec<polaris_runtime::MappedFile>,
        packs: Packs,
        options: &Options,
    ) -> Result<Self> {
        let operators = unsupported(&model.graph);
        if !operators.is_empty() {
            return Err(Error::Unsupported { operators });
        }
        let cpu = runtime.cpu().clone();
        // What is asked for by a few bytes of a file must not take all memory.
        polaris_onnx::set_largest_tensor(cpu.allocator().memory_use().limit);
        let gpu = choose_device(runtime, options)?;
        let side = if gpu.is_some() { Side::Gpu } else { Side::Cpu };
        let mut graph = std::mem::take(&mut model.graph);
        if model.ir_version < 4 && !options.passes.is_none() {
            // Files of that time had to list every constant among the inputs.
            let constant = |id: &ValueId| graph.values[id.index()].constant.is_some();
            graph.inputs.retain(|id| !constant(id));
        }
        let changes = optimise(&mut graph, &options.passes.clone().on(side));
        let graph = Arc::new(graph);
        let devices = [Some(cpu), gpu];
        let costs = Arc::new(Costs::new(runtime, devices.clone()));
        let hybrid =
            (options.mode == Mode::Hybrid && side == Side::Gpu).then(|| Arc::clone(&costs));
        let packs = Arc::new(packs);
        let engine = Arc::new(Engine { packs, devices, side, files, hybrid });
        let preferred = Runner::new(engine, graph);
        let (fallback, failed) = (OnceLock::new(), AtomicBool::new(false));
        Ok(Self { model, changes, preferred, fallback, failed, costs })
    }

    /// What the model says of itself; its graph is [`Session::graph`].
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What it computes, after the passes.
    pub fn graph(&self) -> &Graph {
        &self.preferred.graph
    }

    /// What the passes did.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The side on which instructions are placed that both have.
    pub fn side(&self) -> Side {
        self.preferred.engine.side
    }

    /// The device on which instructions are placed that both sides have.
    pub fn device(&self) -> &DeviceRef {
        self.preferred.engine.device(self.side())
    }

    /// Whether nodes are placed on both sides, by what they cost.
    pub fn is_hybrid(&self) -> bool {
        self.preferred.engine.hybrid.is_some()
    }

    /// The device of a side, if the model may use it.
    pub fn device_on(&self, side: Side) -> Option<&DeviceRef> {
        self.preferred.engine.devices[side.index()].as_ref()
    }

    /// Inputs that must be given, with their types.
    pub fn inputs(&self) -> Vec<(&str, Option<&Type>)> {
        let graph = self.graph();
        let of = |id: ValueId| (graph.value(id).name.as_str(), graph.value(id).ty.as_ref());
        graph.required_inputs().map(of).collect()
    }

    /// Outputs with their types, as far as the file declares them.
    pub fn outputs(&self) -> Vec<(&str, Option<&Type>)> {
        let graph = self.graph();
        let of = |id: &ValueId| (graph.value(*id).name.as_str(), graph.value(*id).ty.as_ref());
        graph.outputs.iter().map(of).collect()
    }

    /// The outputs for inputs by name.
    ///
    /// # Errors
    /// If inputs are missing, unknown or of another type or shape than declared, or if an operator
    /// cannot work with what it is given. A device that fails or has no room is replaced by the CPU,
    /// with a word.
    pub fn run(&self, inputs: &[(&str, Value)]) -> Result<Vec<(String, Value)>> {
        let given = self.check_inputs(inputs)?;
        let outputs = self.run_values(given)?;
        let graph = self.graph();
        let names = graph.outputs.iter().map(|&id| graph.value(id).name.clone());
        Ok(names.zip(outputs).collect())
    }

    /// The outputs for tensors, in the order of the inputs that must be given.
    ///
    /// # Errors
    /// As for [`Session::run`].
    pub fn run_tensors(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let names: Vec<String> =
            self.inputs().into_iter().map(|(name, _)| name.to_owned()).collect();
        let named: Vec<(&str, Value)> = (names.iter())
            .zip(inputs)
            .map(|(name, tensor)| (name.as_str(), Value::Tensor(tensor)))
            .collect();
        let outputs = self.run(&named)?;
        outputs.into_iter().map(|(_, value)| Ok(value.tensor()?.clone())).collect()
    }

    fn run_values(&self, given: Vec<(ValueId, Value)>) -> Result<Vec<Value>> {
        if self.side() == Side::Gpu && !self.failed.load(Ordering::Relaxed) {
            match self.preferred.run(given.clone()) {
                Err(error) if error.is_device_failure() => {
                    let device = self.device().id();
                    log::warn!("{device}: {error}; the model goes on on the CPU");
                    self.failed.store(true, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        if self.side() == Side::Cpu {
            return self.preferred.run(given);
        }
        self.fallback().run(given)
    }

    /// The CPU alone.
    fn fallback(&self) -> &Runner {
        self.fallback.get_or_init(|| {
            let engine = &self.preferred.engine;
            let cpu = engine.devices[Side::Cpu.index()].clone();
            let files = engine.files.clone();
            let packs = Arc::clone(&engine.packs);
            let (devices, side) = ([cpu, None], Side::Cpu);
            let engine = Engine { packs, devices, side, files, hybrid: None };
            Runner::new(Arc::new(engine), Arc::clone(&self.preferred.graph))
        })
    }

    /// Whether the device failed, so that the model runs on the CPU instead.
    pub fn fell_back(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The plans for inputs of these types: one, and those of later stages that are known by now.
    ///
    /// # Errors
    /// If the types do not fit the model.
    pub fn plan(&self, inputs: &[(&str, Type)]) -> Result<Arc<Plan>> {
        let graph = self.graph();
        let mut given = Vec::new();
        for id in graph.required_inputs() {
            let name = &graph.value(id).name;
            let ty = inputs.iter().find(|(other, _)| other == name).map(|(_, ty)| ty.clone());
            let missing =
                || polaris_onnx::Error::input(format!("the type of `{name}` is not known"));
            given.push((id, ty.ok_or_else(missing)?));
        }
        self.preferred.plan_for(&given)
    }

    /// Inputs by place, checked against what the model declares.
    fn check_inputs(&self, inputs: &[(&str, Value)]) -> Result<Vec<(ValueId, Value)>> {
        let graph = self.graph();
        let wrong = |why: String| polaris_onnx::Error::input(why);
        let mut given = Vec::new();
        let mut names: HashMap<&str, usize> = HashMap::new();
        for (name, value) in inputs {
            let id = graph.inputs.iter().copied().find(|&id| graph.value(id).name == *name);
            let id = id.ok_or_else(|| {
                wrong(format!("the model has no input `{name}`; it has {}", self.inputs_in_words()))
            })?;
            if given.iter().any(|(other, _)| *other == id) {
                return Err(wrong(format!("the input `{name}` is given twice")).into());
            }
            if let Some(declared) = &graph.value(id).ty {
                check_type(name, declared, value, &mut names)?;
            }
            given.push((id, value.clone()));
        }
        let missing: Vec<&str> = graph
            .required_inputs()
            .filter(|id| !given.iter().any(|(other, _)| other == id))
            .map(|id| graph.value(id).name.as_str())
            .collect();
        if !missing.is_empty() {
            let (missing, all) = (missing.join("`, `"), self.inputs_in_words());
            return Err(
                wrong(format!("the input `{missing}` is missing; the model takes {all}")).into()
            );
        }
        Ok(given)
    }

    /// The inputs with their types, for messages.
    pub fn inputs_in_words(&self) -> String {
        let one = |(name, ty): (&str, Option<&Type>)| {
            format!("`{name}`: {}", ty.map_or("any type".to_owned(), Type::to_string))
        };
        match self.inputs().into_iter().map(one).collect::<Vec<String>>().join(", ") {
            text if text.is_empty() => "none".to_owned(),
            text => text,
        }
    }
}

/// Whether a value is of a declared type. Names of lengths stand for the same number everywhere.
fn check_type<'a>(
    name: &str,
    declared: &'a Type,
    value: &Value,
    lengths: &mut HashMap<&'a str, usize>,
) -> Result<()> {
    let found = value.ty();
    let wrong = |why: &str| -> Error {
        let why = format!("the input `{name}` should be {declared}, not {found}{why}");
        polaris_onnx::Error::input(why).into()
    };
    let (Type::Tensor(element, dims), Value::Tensor(tensor)) = (declared, value) else {
        let same = matches!(
            (declared, value),
            (Type::Sequence(_), Value::Sequence(_)) | (Type::Optional(_), _) | (Type::Other(_), _)
        );
        return if same { Ok(()) } else { Err(wrong("")) };
    };
    if *element != tensor.element() {
        return Err(wrong(""));
    }
    let Some(dims) = dims else { return Ok(()) };
    if dims.len() != tensor.rank() {
        return Err(wrong(""));
    }
    for (dim, &length) in dims.iter().zip(tensor.shape()) {
        match dim {
            Dim::Known(expected) if *expected != length => return Err(wrong("")),
            Dim::Named(name) => {
                let known = *lengths.entry(name).or_insert(length);
                if known != length {
                    return Err(wrong(&format!(": `{name}` is {known} in another place")));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The OpenCL device to use, if one shall be used.
fn choose_device(runtime: &Runtime, options: &Options) -> Result<Option<DeviceRef>> {
    let opencl = || runtime.devices().iter().filter(|device| device.as_opencl().is_some());
    let gpu = || opencl().find(|device| device.info().kind == DeviceKind::Gpu);
    let named = options.device.as_ref();
    match options.mode {
        Mode::Cpu => Ok(None),
        _ if named.is_some() => Ok(named.filter(|device| device.as_opencl().is_some()).cloned()),
        Mode::Gpu => gpu().or_else(|| opencl().next()).cloned().map(Some).ok_or(Error::NoGpu),
        Mode::Hybrid => {
            let device = gpu().or_else(|| opencl().next()).cloned();
            if device.is_none() {
                log::warn!("there is no OpenCL device; the model runs on the CPU alone");
            }
            Ok(device)
        }
        Mode::Auto => Ok(gpu().cloned()),
    }
}

/// The operators of a graph, and of those inside it, that are not there.
pub(crate) fn unsupported(graph: &Graph) -> Vec<UnsupportedOperator> {
    fn collect(graph: &Graph, missing: &mut BTreeMap<String, Vec<String>>) {
        for node in &graph.nodes {
            if operators::find(&node.domain, &node.operator).is_none() {
                missing.entry(node.operator_name()).or_default().push(node.path.clone());
            }
            node.attributes.graphs().for_each(|inner| collect(inner, missing));
        }
    }
    let mut missing = BTreeMap::new();
    collect(graph, &mut missing);
    let list = missing.into_iter();
    list.map(|(operator, nodes)| UnsupportedOperator { operator, nodes }).collect()
}
