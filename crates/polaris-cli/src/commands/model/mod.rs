//! Imported models: `run`, `info`, `plan`, `bench model` and `onnx-test`.

pub mod bench;
pub mod info;
pub mod onnx_test;
pub mod plan;
mod profile;
pub mod run;

use std::sync::Arc;

use polaris::DeviceRef;
use polaris::graph::plan::Plan;
use polaris::graph::{Mode, Options, Passes, Session as Model};
use polaris::onnx::Type;
use polaris::ops::matmul::Precision;

use crate::arguments::{ModeName, ModelChoice, PassChoice, PrecisionName};
use crate::session::Session;

/// Loads the model that the user named.
fn load(session: &mut Session, choice: &ModelChoice) -> anyhow::Result<Model> {
    let options = options(session, choice.mode, &choice.passes)?;
    Ok(Model::open(&session.runtime, &choice.model, &options)?)
}

/// The session options that the user chose.
pub fn options(session: &mut Session, mode: ModeName, how: &PassChoice) -> anyhow::Result<Options> {
    let passes = chosen_passes(how)?;
    let mode = match mode {
        ModeName::Cpu => Mode::Cpu,
        ModeName::Gpu => Mode::Gpu,
        ModeName::Hybrid => Mode::Hybrid,
        ModeName::Auto => Mode::Auto,
    };
    if mode != Mode::Cpu {
        session.check_new_devices()?;
    }
    let device = named_device(session)?;
    let precision = match how.precision {
        PrecisionName::Full => Precision::Full,
        PrecisionName::Int8 => Precision::Int8,
    };
    Ok(Options { mode, device, passes, precision, cancellation: Some(crate::interrupt::token()) })
}

/// The device that the user named. The CPU may be named along with an OpenCL device, since it always takes part.
fn named_device(session: &Session) -> anyhow::Result<Option<DeviceRef>> {
    if session.chosen.is_empty() {
        return Ok(None);
    }
    let named = session.devices()?;
    let mut opencl = named.iter().filter(|device| device.as_opencl().is_some());
    let first = opencl.next();
    let other = opencl.find(|other| first.is_some_and(|first| first.id() != other.id()));
    if let (Some(first), Some(other)) = (first, other) {
        let (first, other) = (first.id(), other.id());
        let why = format!(
            "a model runs on one OpenCL device, but both {first} and {other} were named; name one"
        );
        return Err(crate::exit::Usage(why).into());
    }
    Ok(first.or(named.first()).cloned())
}

/// The default passes without those that the user skips.
fn chosen_passes(choice: &PassChoice) -> anyhow::Result<Passes> {
    let mut passes = Passes::default();
    for name in &choice.no_pass {
        passes = if name == "all" { Passes::none() } else { passes.without(name)? };
    }
    Ok(passes)
}

/// The plan for inputs of these types.
fn plan_for(model: &Model, types: &[(String, Type)]) -> anyhow::Result<Arc<Plan>> {
    let types: Vec<(&str, Type)> =
        types.iter().map(|(name, ty)| (name.as_str(), ty.clone())).collect();
    Ok(model.plan(&types)?)
}
