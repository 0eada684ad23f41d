//! Runs the test data of the ONNX standard as a user's models are run.

use polaris_onnx::conformance::{Engine, Refusal, Run};
use polaris_onnx::{Model, Value};
use polaris_runtime::Runtime;

use crate::{Error, Options, Session};

/// Plans each model and runs it.
#[derive(Debug)]
pub struct Planned<'a> {
    /// The machine.
    pub runtime: &'a Runtime,
    /// Where to run.
    pub options: Options,
}

impl Engine for Planned<'_> {
    fn run(&mut self, model: Model, inputs: Vec<Vec<Value>>) -> Result<Run, Refusal> {
        let refuse = |error: Error| Refusal {
            unsupported: error.is_unsupported(),
            reason: error.to_string(),
        };
        let session = Session::new(self.runtime, model, &self.options).map_err(refuse)?;
        let names: Vec<&str> = session.inputs().into_iter().map(|(name, _)| name).collect();
        let mut outputs = Vec::new();
        let mut wholly_on_device = true;
        for set in inputs {
            let given: Vec<(&str, Value)> = names.iter().copied().zip(set).collect();
            let made = session.run(&given).map_err(refuse)?;
            outputs.push(made.into_iter().map(|(_, value)| value).collect());
            let types: Vec<_> = given.iter().map(|(name, value)| (*name, value.ty())).collect();
            let plan = session.plan(&types).map_err(refuse)?;
            wholly_on_device &= session.fallback().is_none() && plan.is_wholly_on(session.side());
        }
        Ok(Run { outputs, wholly_on_device })
    }
}
