//! Runs a model on data, and looks at tensors inside it.

use polaris_graph::{Options, Session};
use polaris_onnx::{Model, Tensor, Value};
use polaris_runtime::Runtime;

use crate::Result;
use crate::calibration::Histograms;

/// Samples for the inputs of a model, by their names.
pub type Batch = [(String, Tensor)];

/// A model whose results are tensors of one's choice.
#[derive(Debug)]
pub struct Observer {
    session: Session,
    names: Vec<String>,
}

impl Observer {
    /// Loads a model; `names` are the tensors that are looked at, and those that it does not have are left out.
    ///
    /// # Errors
    /// If it cannot be run.
    pub fn new<N: AsRef<str>>(
        runtime: &Runtime,
        model: &Model,
        names: &[N],
        options: &Options,
    ) -> Result<Self> {
        let mut model = model.clone();
        let graph = &mut model.graph;
        let mut observed = Vec::new();
        for name in names.iter().map(AsRef::as_ref) {
            if let Some(at) = graph.values.iter().position(|slot| slot.name == name) {
                let id = polaris_onnx::ValueId(at as u32);
                if !graph.outputs.contains(&id) {
                    graph.outputs.push(id);
                }
                observed.push(name.to_owned());
            }
        }
        let session = Session::new(runtime, model, options)?;
        Ok(Self { session, names: observed })
    }

    /// The model.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The tensors that are looked at, for some samples.
    ///
    /// # Errors
    /// If the samples do not fit the model, or it fails.
    pub fn tensors(&self, batch: &Batch) -> Result<Vec<(String, Tensor)>> {
        let given: Vec<(&str, Value)> =
            batch.iter().map(|(name, tensor)| (name.as_str(), tensor.clone().into())).collect();
        let options = polaris_graph::RunOptions {
            outputs: Some(self.names.clone()),
            ..polaris_graph::RunOptions::default()
        };
        let outputs = self.session.run_with(&given, &options)?;
        let tensor = |(name, value): (String, Value)| Ok((name, value.tensor()?.clone()));
        outputs.into_iter().map(tensor).collect()
    }

    /// Counts what the tensors hold.
    ///
    /// # Errors
    /// As [`tensors`](Self::tensors), and if a value is not finite; the error names the tensor.
    pub fn count(&self, batch: &Batch, histograms: &mut Histograms) -> Result<()> {
        for (name, tensor) in self.tensors(batch)? {
            histograms.observe(&name, tensor.shape(), &tensor.values::<f32>()?, None)?;
        }
        Ok(())
    }
}
