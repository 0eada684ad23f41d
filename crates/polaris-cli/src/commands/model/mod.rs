//! Models of others: `run`, `info`, `plan`, `bench model` and `onnx-test`.

pub mod bench;
mod image;
pub mod info;
mod inputs;
pub mod onnx_test;
pub mod plan;
mod profile;
pub mod run;

use std::sync::Arc;

use polaris::DeviceRef;
use polaris::graph::plan::Plan;
use polaris::graph::{Mode, Options, Passes, Session as Model};
use polaris::onnx::{Dim, Type};

use crate::arguments::{ModeName, ModelChoice, PassChoice};
use crate::exit;
use crate::session::Session;

/// Loads the model that the user named.
fn load(session: &mut Session, choice: &ModelChoice) -> anyhow::Result<Model> {
    let options = options(session, choice.mode, &choice.passes)?;
    Ok(Model::open(&session.runtime, &choice.model, &options)?)
}

/// Where it runs, for people and programs.
fn device_name(model: &Model) -> String {
    let id = model.device().id();
    if model.is_hybrid() { format!("cpu+{id}") } else { id.to_string() }
}

/// Where and how the user wants it to run.
pub fn options(
    session: &mut Session,
    mode: ModeName,
    passes: &PassChoice,
) -> anyhow::Result<Options> {
    let passes = chosen_passes(passes)?;
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
    Ok(Options { mode, device, passes, cancellation: Some(crate::interrupt::token()) })
}

/// The device that the user named. The CPU may stand beside an OpenCL device: it is always there.
fn named_device(session: &Session) -> anyhow::Result<Option<DeviceRef>> {
    if session.global.device.is_empty() {
        return Ok(None);
    }
    let named = session.devices()?;
    let mut opencl = named.iter().filter(|device| device.as_opencl().is_some());
    let first = opencl.next();
    let other = opencl.find(|other| first.is_some_and(|first| first.id() != other.id()));
    if let (Some(first), Some(other)) = (first, other) {
        let (first, other) = (first.id(), other.id());
        let why = format!(
            "a model runs on one OpenCL device, and {first} and {other} were named; name one"
        );
        return Err(crate::exit::Usage(why).into());
    }
    Ok(first.or(named.first()).cloned())
}

/// The passes that run without a word, less those that the user does not want.
fn chosen_passes(choice: &PassChoice) -> anyhow::Result<Passes> {
    let mut passes = Passes::default();
    for name in &choice.no_pass {
        passes = if name == "all" { Passes::none() } else { passes.without(name)? };
    }
    Ok(passes)
}

/// A declared type with the lengths that the user gave for those it leaves open; others are 1.
fn closed(ty: &Type, choice: &ModelChoice) -> Type {
    match ty {
        Type::Tensor(element, Some(dims)) => {
            let close = |dim: &Dim| match dim {
                Dim::Known(length) => *length,
                Dim::Unknown => 1,
                Dim::Named(name) => choice
                    .dim
                    .iter()
                    .find(|given| given.name == *name)
                    .map_or(1, |given| given.value),
            };
            Type::Tensor(*element, Some(dims.iter().map(|dim| Dim::Known(close(dim))).collect()))
        }
        other => other.clone(),
    }
}

/// Refuses names of lengths that the model does not have.
fn check_dims(model: &Model, choice: &ModelChoice) -> anyhow::Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for (_, ty) in model.inputs() {
        if let Some(Type::Tensor(_, Some(dims))) = ty {
            names.extend(dims.iter().filter_map(|dim| match dim {
                Dim::Named(name) => Some(name.as_str()),
                _ => None,
            }));
        }
    }
    names.sort_unstable();
    names.dedup();
    for given in &choice.dim {
        if !names.contains(&given.name.as_str()) {
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let why = format!(
                "--dim {}: the model has no open length of this name; it has {known}",
                given.name
            );
            return Err(exit::Usage(why).into());
        }
    }
    Ok(())
}

/// The plan for inputs of these types.
fn plan_for(model: &Model, types: &[(String, Type)]) -> anyhow::Result<Arc<Plan>> {
    let types: Vec<(&str, Type)> =
        types.iter().map(|(name, ty)| (name.as_str(), ty.clone())).collect();
    Ok(model.plan(&types)?)
}

/// The types of all inputs, closed.
fn closed_inputs(model: &Model, choice: &ModelChoice) -> anyhow::Result<Vec<(String, Type)>> {
    check_dims(model, choice)?;
    model
        .inputs()
        .into_iter()
        .map(|(name, ty)| match ty {
            Some(ty @ Type::Tensor(_, Some(_))) => Ok((name.to_owned(), closed(ty, choice))),
            _ => anyhow::bail!("the model does not declare the shape of its input `{name}`"),
        })
        .collect()
}
