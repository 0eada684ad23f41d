//! A model that is loaded, and its runs.

mod context;
mod execute;
mod flow;
mod hybrid;
mod in_flight;
mod inputs;
mod measure;
mod observe;
mod options;
mod plans;
mod profile;
mod runner;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use polaris_core::CancellationToken;
use polaris_onnx::{EnteredLimits, Graph, Limits, Model, Tensor, Type, Value, ValueId, operators};
use polaris_runtime::{DeviceRef, Mode, Runtime};

pub use options::{Options, RunOptions};
use polaris_ops::Array;
pub use profile::{Profile, ProfileRow};
use runner::Runner;
pub use value::SessionValue;

use crate::build::{Engine, Packs};
use crate::cost::Costs;
use crate::passes::{Change, optimise};
use crate::plan::{Plan, Side};
use crate::{Error, Result, UnsupportedOperator, open_model};

/// A model that is loaded. Several threads may run it at once.
#[derive(Debug)]
pub struct Session {
    model: Model,
    graph: Arc<Graph>,
    changes: Vec<Change>,
    state: RwLock<State>,
    /// The CPU, which takes over from a device that fails.
    cpu: DeviceRef,
    /// What instructions cost, for whoever asks.
    costs: Arc<Costs>,
    cancellation: Option<CancellationToken>,
}

/// Who runs the model. Runs under way keep the runner that they began with.
#[derive(Debug)]
struct State {
    runner: Arc<Runner>,
    fallback: Option<Fallback>,
}

/// Why the CPU took over from a device.
#[derive(Debug, Clone)]
pub struct Fallback {
    /// The device that is no longer used. What it held for the model was released.
    pub device: DeviceRef,
    /// What it failed with.
    pub reason: String,
}

impl Session {
    /// Reads a model from its file.
    ///
    /// # Errors
    /// If it cannot be read, or has operators that are not supported: all of them are named. If the mode and
    /// the device contradict each other.
    pub fn open(runtime: &Runtime, path: &Path, options: &Options) -> Result<Self> {
        let _limits = limits(runtime.cpu(), [options.cancellation.as_ref(), None]);
        let opened = open_model(path)?;
        let cache = runtime.paths().cache.as_deref();
        let packs = Packs::open(cache, Some(path), runtime.cpu().as_ref());
        Self::with_files(runtime, opened.model, opened.files, packs, options)
    }

    /// Takes a model that is in memory.
    ///
    /// # Errors
    /// If its graph contradicts itself, or has operators that are not supported. If the mode and the device
    /// contradict each other.
    pub fn new(runtime: &Runtime, model: Model, options: &Options) -> Result<Self> {
        let _limits = limits(runtime.cpu(), [options.cancellation.as_ref(), None]);
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
        model.graph.validate()?;
        let operators = unsupported(&model.graph);
        if !operators.is_empty() {
            return Err(Error::Unsupported { operators });
        }
        let cpu = runtime.cpu().clone();
        let gpu = options::choose_device(runtime, options)?;
        let side = if gpu.is_some() { Side::Gpu } else { Side::Cpu };
        let mut graph = std::mem::take(&mut model.graph);
        if model.ir_version < 4 && !options.passes.is_none() {
            // Files of that time had to list every constant among the inputs.
            let constant = |id: &ValueId| graph.values[id.index()].constant.is_some();
            graph.inputs.retain(|id| !constant(id));
        }
        let changes = optimise(&mut graph, &options.passes.clone().on(side));
        let graph = Arc::new(graph);
        let devices = [Some(cpu.clone()), gpu];
        let costs = Arc::new(Costs::new(runtime, devices.clone()));
        let hybrid =
            (options.mode == Mode::Hybrid && side == Side::Gpu).then(|| Arc::clone(&costs));
        let packs = Arc::new(packs);
        let precision = options.precision;
        let engine = Arc::new(Engine { packs, devices, side, files, precision, hybrid });
        let runner = Arc::new(Runner::new(engine, Arc::clone(&graph)));
        let state = RwLock::new(State { runner, fallback: None });
        let cancellation = options.cancellation.clone();
        Ok(Self { model, graph, changes, state, cpu, costs, cancellation })
    }

    /// What the model says of itself; its graph is [`Session::graph`].
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What it computes, after the passes.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What the passes did.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The side on which instructions are placed that both have.
    pub fn side(&self) -> Side {
        self.runner().engine.side
    }

    /// The device on which instructions are placed that both sides have. It is the CPU after a fallback.
    pub fn device(&self) -> DeviceRef {
        let runner = self.runner();
        runner.engine.device(runner.engine.side).clone()
    }

    /// Whether nodes are placed on both sides, by what they cost.
    pub fn is_hybrid(&self) -> bool {
        self.runner().engine.hybrid.is_some()
    }

    /// The device of a side, if the model may use it.
    pub fn device_on(&self, side: Side) -> Option<DeviceRef> {
        self.runner().engine.devices[side.index()].clone()
    }

    /// Why the CPU took over from a device; `None` if it did not.
    pub fn fallback(&self) -> Option<Fallback> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).fallback.clone()
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
    /// cannot work with what it is given. A device that fails or has no room is replaced by the CPU, with a
    /// warning; [`Session::fallback`] tells.
    pub fn run(&self, inputs: &[(&str, Value)]) -> Result<Vec<(String, Value)>> {
        self.run_with(inputs, &RunOptions::default())
    }

    /// The outputs for inputs by name, with options for this run.
    ///
    /// # Errors
    /// As for [`Session::run`]; if the run was cancelled ([`Error::is_cancelled`]), an output is not the
    /// model's, or the device failed and no fallback is allowed.
    pub fn run_with(
        &self,
        inputs: &[(&str, Value)],
        options: &RunOptions,
    ) -> Result<Vec<(String, Value)>> {
        let inputs: Vec<(&str, SessionValue)> =
            inputs.iter().map(|(name, value)| (*name, value.clone().into())).collect();
        let outputs = self.run_values(&inputs, false, options)?;
        outputs.into_iter().map(|(name, value)| Ok((name, value.into_host()?))).collect()
    }

    /// The outputs as arrays on [`Session::device`], for inputs that lie on the host or on any device. Inputs
    /// that lie on that device are read there, and outputs are not copied to the host and back.
    ///
    /// # Errors
    /// As for [`Session::run_with`]; if an output is no tensor of a type that devices have.
    pub fn run_on_device(
        &self,
        inputs: &[(&str, SessionValue)],
        options: &RunOptions,
    ) -> Result<Vec<(String, Array)>> {
        let outputs = self.run_values(inputs, true, options)?;
        let device = self.device();
        let there = |(name, value): (String, SessionValue)| Ok((name, value.into_device(&device)?));
        outputs.into_iter().map(there).collect()
    }

    fn run_values(
        &self,
        inputs: &[(&str, SessionValue)],
        keeps_outputs: bool,
        options: &RunOptions,
    ) -> Result<Vec<(String, SessionValue)>> {
        let given = self.check_inputs(inputs)?;
        let wanted = self.wanted_outputs(options.outputs.as_deref())?;
        let _limits = self.limits(options.cancellation.as_ref());
        polaris_onnx::check_cancelled()?;
        let runner = self.runner();
        let run = |runner: &Runner| {
            let given = runner.reachable(given.clone())?;
            runner.run(given, &wanted, keeps_outputs, &mut ())
        };
        let outputs = match run(&runner) {
            Err(error)
                if options.fallback
                    && runner.engine.side == Side::Gpu
                    && error.is_device_failure() =>
            {
                self.fall_back(runner, &error);
                run(&self.runner())?
            }
            result => result?,
        };
        let names = wanted.iter().map(|&id| self.graph.value(id).name.clone());
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

    /// Puts the CPU in the place of a device that failed, and gives back what the device held. Another run may
    /// have done so already.
    fn fall_back(&self, failed: Arc<Runner>, error: &Error) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&state.runner, &failed) {
            return;
        }
        let engine = &failed.engine;
        let device = engine.device(Side::Gpu).clone();
        log::warn!("{}: {error}; the model goes on on the CPU", device.id());
        let engine = Engine {
            packs: Arc::clone(&engine.packs),
            devices: [Some(self.cpu.clone()), None],
            side: Side::Cpu,
            files: engine.files.clone(),
            precision: engine.precision,
            hybrid: None,
        };
        state.runner = Arc::new(Runner::new(Arc::new(engine), Arc::clone(&self.graph)));
        state.fallback = Some(Fallback { device: device.clone(), reason: error.to_string() });
        drop(state);
        // Freed blocks would stay in the allocator's cache, for a device that is no longer used.
        drop(failed);
        device.allocator().trim();
    }

    fn runner(&self) -> Arc<Runner> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner).runner)
    }

    /// The plans for inputs of these types: one, and those of later stages that are known by now.
    ///
    /// # Errors
    /// If the types do not fit the model.
    pub fn plan(&self, inputs: &[(&str, Type)]) -> Result<Arc<Plan>> {
        let _limits = self.limits(None);
        let graph = self.graph();
        let mut given = Vec::new();
        for id in graph.required_inputs() {
            let name = &graph.value(id).name;
            let ty = inputs.iter().find(|(other, _)| other == name).map(|(_, ty)| ty.clone());
            let missing =
                || polaris_onnx::Error::input(format!("the type of `{name}` is not known"));
            given.push((id, ty.ok_or_else(missing)?));
        }
        self.runner().plan_for(given)
    }

    /// Puts the limits of the session, and of one run, in force.
    fn limits(&self, run: Option<&CancellationToken>) -> EnteredLimits {
        limits(&self.cpu, [self.cancellation.as_ref(), run])
    }
}

/// What is asked for by a few bytes of a file must not take all memory of the CPU.
fn limits(cpu: &DeviceRef, cancellation: [Option<&CancellationToken>; 2]) -> EnteredLimits {
    let largest_tensor = Some(cpu.allocator().memory_use().limit);
    let cancellation = cancellation.into_iter().flatten().cloned().collect();
    Limits { largest_tensor, cancellation }.enter()
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
