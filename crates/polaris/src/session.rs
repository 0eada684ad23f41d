//! ONNX models that take and give tensors.

use std::ops::Index;
use std::path::Path;

use polaris_core::CancellationToken;
use polaris_graph::{Mode, Options, Passes, RunOptions, SessionValue};
use polaris_onnx::{Model, Type, Value};
use polaris_runtime::DeviceRef;
use polaris_tensor::Tensor;

use crate::error::Cause;
use crate::{Device, Result, runtime};

/// A model that is loaded. Several threads may run it at once.
///
/// ```no_run
/// use polaris::{Session, Tensor};
///
/// let session = Session::open("model.onnx")?;
/// let image = Tensor::zeros(&session.device(), &[1, 3, 224, 224], polaris::DType::F32)?;
/// let outputs = session.run([("input", &image)])?;
/// println!("{}", outputs[0].argmax(-1, false)?);
/// # Ok::<(), polaris::Error>(())
/// ```
#[derive(Debug)]
pub struct Session(polaris_graph::Session);

impl Session {
    /// Reads an ONNX file, for [`Device::best`].
    ///
    /// # Errors
    /// If the file cannot be read or is no model, or has operators that are not supported: all of them are named.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(path)
    }

    /// Chooses a device, a mode and more, and then opens a model.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// The outputs for inputs by name. Inputs that lie on [`Session::device`] are read where they lie; outputs lie
    /// there too, in memory of their own. No gradients flow through a session.
    ///
    /// # Errors
    /// If an input is missing, unknown or of another type or shape than the model declares; if there is no room.
    pub fn run<'a>(
        &self,
        inputs: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    ) -> Result<Outputs> {
        self.run_with(inputs, &RunOptions::default())
    }

    /// The same, with a cancellation token, or for some of the outputs.
    ///
    /// # Errors
    /// As for [`Session::run`], and if it is cancelled (`ErrorKind::Cancelled`).
    pub fn run_with<'a>(
        &self,
        inputs: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
        options: &RunOptions,
    ) -> Result<Outputs> {
        let inputs: Vec<(&str, SessionValue)> = (inputs.into_iter())
            .map(|(name, tensor)| (name, SessionValue::Device(tensor.array().clone())))
            .collect();
        let outputs = self.0.run_on_device(&inputs, options)?;
        let tensors = outputs.into_iter().map(|(name, array)| (name, Tensor::new(array)));
        Ok(Outputs(tensors.collect()))
    }

    /// The outputs for inputs on the host: for strings, sequences and types that devices do not have.
    ///
    /// # Errors
    /// As for [`Session::run`].
    pub fn run_values(&self, inputs: &[(&str, Value)]) -> Result<Vec<(String, Value)>> {
        Ok(self.0.run(inputs)?)
    }

    /// The device on which the model is computed; the CPU after a device failed.
    pub fn device(&self) -> Device {
        self.0.device().into()
    }

    /// Names and types of the inputs.
    pub fn inputs(&self) -> Vec<(&str, Option<&Type>)> {
        self.0.inputs()
    }

    /// Names and types of the outputs, as far as the model declares them.
    pub fn outputs(&self) -> Vec<(&str, Option<&Type>)> {
        self.0.outputs()
    }

    /// The session below, which can plan and profile.
    pub fn graph_session(&self) -> &polaris_graph::Session {
        &self.0
    }
}

/// How a session is opened.
#[derive(Debug, Default)]
pub struct SessionBuilder(Options);

impl SessionBuilder {
    /// Computes on this device; without it on [`Device::best`].
    pub fn device(mut self, device: &DeviceRef) -> Self {
        self.0.device = Some(device.clone());
        self
    }

    /// Computes on the CPU, on a GPU, or on both.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.0.mode = mode;
        self
    }

    /// Rewrites the graph by these passes only.
    pub fn passes(mut self, passes: Passes) -> Self {
        self.0.passes = passes;
        self
    }

    /// Cancels everything that the session does.
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.0.cancellation = Some(token);
        self
    }

    /// Reads an ONNX file.
    ///
    /// # Errors
    /// As for [`Session::open`], and if mode and device contradict each other.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Session> {
        Ok(Session(polaris_graph::Session::open(&*runtime()?, path.as_ref(), &self.0)?))
    }

    /// Takes a model that is in memory: one that was built in code, or read by `Model::from_bytes`.
    ///
    /// # Errors
    /// As for [`SessionBuilder::open`].
    pub fn model(self, model: Model) -> Result<Session> {
        Ok(Session(polaris_graph::Session::new(&*runtime()?, model, &self.0)?))
    }
}

/// The outputs of a run: tensors by name or place.
#[derive(Debug, Clone)]
pub struct Outputs(Vec<(String, Tensor)>);

impl Outputs {
    /// The output of a name.
    ///
    /// # Errors
    /// If there is none; the error says which there are.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        let found = self.0.iter().find(|(other, _)| other == name).map(|(_, tensor)| tensor);
        found.ok_or_else(|| {
            let known: Vec<String> = self.0.iter().map(|(name, _)| format!("`{name}`")).collect();
            Cause::NoOutput { name: name.to_owned(), known: known.join(", ") }.into()
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the model has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in the model's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }
}

/// # Panics
/// If there are not so many, as slices do.
impl Index<usize> for Outputs {
    type Output = Tensor;

    fn index(&self, at: usize) -> &Tensor {
        &self.0[at].1
    }
}

/// # Panics
/// If there is none of the name, as maps do; [`Outputs::get`] gives an error.
impl Index<&str> for Outputs {
    type Output = Tensor;

    fn index(&self, name: &str) -> &Tensor {
        match self.get(name) {
            Ok(tensor) => tensor,
            Err(error) => panic!("{error}"),
        }
    }
}

impl IntoIterator for Outputs {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
