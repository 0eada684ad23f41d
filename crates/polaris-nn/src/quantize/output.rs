//! Results of a whole model, rounded to integer levels.

use polaris_tensor::Tensor;

use super::{InputPoint, Quantize};
use crate::export::{Value, Writer};
use crate::{Layer, Module, Parts, Pass, Result};

/// A model, whose result is rounded if the settings say so. The names of its parameters stay.
pub fn with_output(model: Box<dyn Module>, settings: &Quantize) -> Box<dyn Module> {
    match settings.output {
        0 => model,
        _ => Box::new(WithOutput { model, output: InputPoint::default() }),
    }
}

struct WithOutput {
    model: Box<dyn Module>,
    output: InputPoint,
}

impl Layer for WithOutput {
    fn visit(&self, parts: &mut Parts) {
        self.model.visit(parts);
        parts.result("result", &self.output);
    }
}

impl Module for WithOutput {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        self.output.value(&self.model.forward(x, pass)?, pass)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let result = self.model.export(x, graph)?;
        graph.input(&self.output, &result)
    }
}
